// The tree and the array of a heap: drawn once, then every entry moves to its new place.

import { node, svg } from "./dom.js";
import { keyMark, mostEntries, orderWords, parentOf, sizesFor, treePlace, levelOf } from "./heap_stepper_layout.js";

const BOX = 44;
const LEVEL = 76;
const TOP = 6;
const CAPTION = 34;
const INDEX = 20;
const ENTRY_COLOURS = 8;

function entryShape(entry, hue, width, withLabel) {
  const x = -width / 2;
  const group = svg("g", { class: `sn-he-entry sn-hue-${hue % ENTRY_COLOURS}` });
  group.append(
    svg("rect", { x: x + 1, y: -BOX / 2 + 1, width: width - 2, height: BOX - 2, rx: 8, class: "sn-he-box" }),
    svg("text", { x: 0, y: withLabel ? -2 : 5, class: "sn-he-key", "text-anchor": "middle" }, keyMark(entry.key)),
  );
  if (withLabel) group.append(svg("text", { x: 0, y: 14, class: "sn-he-label", "text-anchor": "middle" }, entry.label));
  return group;
}

function place(group, at, lit) {
  group.classList.toggle("sn-he-absent", at === null);
  group.classList.toggle("sn-he-lit", lit);
  if (at) group.style.transform = `translate(${at.x}px, ${at.y}px)`;
}

// Where tree nodes and array cells lie, for a heap of up to `most` entries.
function placesFor(sizes, most) {
  const arrayTop = TOP + (levelOf(most - 1) + 1) * LEVEL - (LEVEL - BOX) + CAPTION;
  const left = (sizes.width - most * sizes.cell) / 2;
  return {
    arrayTop, left,
    height: arrayTop + BOX + INDEX,
    tree: (index) => {
      const { x, level } = treePlace(index);
      return { x: (sizes.width - sizes.tree) / 2 + x * sizes.tree, y: TOP + BOX / 2 + level * LEVEL };
    },
    cell: (index) => ({ x: left + (index + 0.5) * sizes.cell, y: arrayTop + BOX / 2 }),
  };
}

function drawFrame(picture, places, sizes, most) {
  const edges = [];
  for (let index = 1; index < most; index += 1) {
    const [from, to] = [places.tree(parentOf(index)), places.tree(index)];
    const edge = svg("line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: "sn-he-edge" });
    edges[index] = edge;
    picture.append(edge);
  }
  const caption = { x: places.left, y: places.arrayTop - 9, class: "sn-he-index" };
  picture.append(svg("text", caption, "the same entries in the array"));
  for (let index = 0; index < most; index += 1) {
    const x = places.left + index * sizes.cell;
    picture.append(svg("rect", { x: x + 1, y: places.arrayTop + 1, width: sizes.cell - 2, height: BOX - 2, rx: 8, class: "sn-he-free" }));
    picture.append(svg("text", { x: x + sizes.cell / 2, y: places.arrayTop + BOX + 15, class: "sn-he-index", "text-anchor": "middle" }, String(index)));
  }
  return edges;
}

// The scrolling picture: drawn again when its width changes, its entries moved at every step.
export function createHeapPicture(frames, entries) {
  const most = mostEntries(frames);
  const scroller = node("div", { class: "sn-scroll" });
  let drawn = null;

  function draw(available) {
    const sizes = sizesFor(entries, most, available);
    const places = placesFor(sizes, most);
    const picture = svg("svg", { width: sizes.width, height: places.height, role: "img", "aria-label": "A heap" });
    const edges = drawFrame(picture, places, sizes, most);
    const shapes = [...entries.values()].map((entry, index) => {
      const shape = { id: entry.id, node: entryShape(entry, index, sizes.node, true), cell: entryShape(entry, index, sizes.cell, sizes.cellLabels) };
      picture.append(shape.cell, shape.node);
      // What is not in the heap waits at the first place: it comes in from there.
      place(shape.node, places.tree(0), false);
      place(shape.cell, places.cell(0), false);
      return shape;
    });
    scroller.replaceChildren(picture);
    // A picture that scrolls must be reachable by keyboard; one that fits must not be a Tab stop.
    const scrolls = sizes.width > available + 1;
    for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", "Heap, scrolls sideways"]]) {
      if (scrolls) scroller.setAttribute(name, value);
      else scroller.removeAttribute(name);
    }
    drawn = { picture, places, edges, shapes };
  }

  function point(frame) {
    if (!drawn) return;
    const { picture, places, edges, shapes } = drawn;
    for (const shape of shapes) {
      const index = frame.order.indexOf(shape.id);
      const lit = frame.lit.includes(shape.id);
      place(shape.node, index < 0 ? null : places.tree(index), lit);
      place(shape.cell, index < 0 ? null : places.cell(index), lit);
    }
    const pair = frame.kind === "swap" ? Math.max(frame.move.from, frame.move.to) : null;
    edges.forEach((edge, index) => {
      edge.classList.toggle("sn-he-absent", index >= frame.order.length);
      edge.classList.toggle("sn-he-crossed", index === pair);
    });
    picture.setAttribute("aria-label", orderWords(frame.order, entries));
  }

  return { scroller, draw, point };
}
