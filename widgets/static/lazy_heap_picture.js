// The tree and the array of a heap with lazy deletion: every entry glides, stale ones struck out.

import { makeReachable, node, svg } from "./dom.js";
import { keyMark, levelOf, mostEntries, parentOf, sizesFor, treePlace } from "./heap_stepper_layout.js";
import { arrayWords } from "./lazy_heap_layout.js";

const BOX = 46;
const LEVEL = 72;
const TOP = 12;
const CAPTION = 34;
const INDEX = 22;
const STATES = ["live", "stale", "revived", "lost"];

function entryMark(shape, hue, width) {
  const x = -width / 2;
  return svg(
    "g", { class: `sn-he-entry sn-lh-entry sn-he-absent sn-hue-${hue}` },
    svg("rect", { x: x + 1, y: -BOX / 2 + 1, width: width - 2, height: BOX - 2, rx: 8, class: "sn-he-box" }),
    svg("path", { d: `M${x + 5} ${BOX / 2 - 6}L${-x - 5} ${6 - BOX / 2}`, class: "sn-lh-strike" }),
    svg("text", { x: 0, y: -3, class: "sn-he-key", "text-anchor": "middle" }, keyMark(shape.key)),
    svg("text", { x: 0, y: 14, class: "sn-he-label", "text-anchor": "middle" }, shape.label),
    svg("circle", { cx: -x - 4, cy: 4 - BOX / 2, r: 8.5, class: "sn-lh-badge" }),
    svg("text", { x: -x - 4, y: 8.5 - BOX / 2, class: "sn-lh-alarm", "text-anchor": "middle" }, "!"),
  );
}

function heapPlaces(sizes, most) {
  const arrayTop = TOP + levelOf(most - 1) * LEVEL + BOX + CAPTION;
  const left = (sizes.width - most * sizes.cell) / 2;
  return {
    arrayTop, left, height: arrayTop + BOX + INDEX,
    tree: (index) => {
      const { x, level } = treePlace(index);
      return { x: (sizes.width - sizes.tree) / 2 + x * sizes.tree, y: TOP + BOX / 2 + level * LEVEL };
    },
    cell: (index) => ({ x: left + (index + 0.5) * sizes.cell, y: arrayTop + BOX / 2 }),
  };
}

function drawHeapFrame(picture, places, sizes, most) {
  const edges = [];
  for (let index = 1; index < most; index += 1) {
    const [from, to] = [places.tree(parentOf(index)), places.tree(index)];
    edges[index] = svg("line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: "sn-he-edge" });
    picture.append(edges[index]);
  }
  picture.append(svg("text", { x: places.left, y: places.arrayTop - 11, class: "sn-he-index" }, "the same entries in the array"));
  for (let index = 0; index < most; index += 1) {
    const x = places.left + index * sizes.cell;
    picture.append(
      svg("rect", { x: x + 1, y: places.arrayTop + 1, width: sizes.cell - 2, height: BOX - 2, rx: 8, class: "sn-he-free" }),
      svg("text", { x: x + sizes.cell / 2, y: places.arrayTop + BOX + 15, class: "sn-he-index", "text-anchor": "middle" }, String(index)),
    );
  }
  return edges;
}

function placeEntry(group, at, state) {
  group.classList.toggle("sn-he-absent", at === null);
  for (const each of STATES) group.classList.toggle(`sn-lh-${each}`, each === state);
  if (at) group.style.transform = `translate(${at.x}px, ${at.y}px)`;
}

// The scrolling picture: drawn again when its width changes, its entries moved at every step.
export function createLazyPicture(frames, shapes, hues) {
  const most = mostEntries(frames);
  const scroller = node("div", { class: "sn-scroll" });
  let drawn = null;

  function draw(available) {
    const sizes = sizesFor(shapes.size ? shapes : new Map([["", { key: [0], label: "" }]]), most, available);
    // Array cells carry the label as well: they are never narrower than a tree node.
    const cell = Math.max(sizes.node, sizes.cell);
    const wide = { ...sizes, cell, width: Math.max(sizes.width, most * cell) };
    const places = heapPlaces(wide, most);
    const picture = svg("svg", { width: wide.width, height: places.height, role: "img", "aria-label": "A heap" });
    const edges = drawHeapFrame(picture, places, wide, most);
    const marks = [...shapes].map(([name, shape]) => {
      const mark = { name, node: entryMark(shape, hues.get(shape.id), sizes.node), cell: entryMark(shape, hues.get(shape.id), cell) };
      picture.append(mark.cell, mark.node);
      // A new entry comes in from the first place, and not from outside the picture.
      placeEntry(mark.node, places.tree(0), null);
      placeEntry(mark.cell, places.cell(0), null);
      return mark;
    });
    scroller.replaceChildren(picture);
    makeReachable(scroller, wide.width > available + 1, "Heap, scrolls sideways");
    drawn = { picture, places, edges, marks };
  }

  function point(frame) {
    if (!drawn) return;
    const { picture, places, edges, marks } = drawn;
    for (const mark of marks) {
      const index = frame.order.indexOf(mark.name);
      const state = frame.states[index] ?? null;
      placeEntry(mark.node, index < 0 ? null : places.tree(index), state);
      placeEntry(mark.cell, index < 0 ? null : places.cell(index), state);
    }
    edges.forEach((edge, index) => edge.classList.toggle("sn-he-absent", index >= frame.order.length));
    picture.setAttribute("aria-label", arrayWords(frame, shapes));
  }

  return { scroller, draw, point };
}
