// The tree and the array of a heap: drawn once, then every entry glides to its new place.

import { chartText } from "./chart.js";
import { makeReachable, node, svg } from "./dom.js";
import { levelOf, mostEntries, parentOf, sizesFor, treePlace } from "./heap_stepper_layout.js";

const CAPTION = 34;

// Where tree nodes and array cells lie, for a heap of up to `most` entries.
function placesFor(sizes, most, { box, level, top, foot }) {
  const arrayTop = top + levelOf(most - 1) * level + box + CAPTION;
  const left = (sizes.width - most * sizes.cell) / 2;
  return {
    arrayTop, left, height: arrayTop + box + foot,
    tree: (index) => {
      const { x, level: depth } = treePlace(index);
      return { x: (sizes.width - sizes.tree) / 2 + x * sizes.tree, y: top + box / 2 + depth * level };
    },
    cell: (index) => ({ x: left + (index + 0.5) * sizes.cell, y: arrayTop + box / 2 }),
  };
}

// The edges of the tree, by the index of their child, and the free cells of the array.
function drawFree(picture, places, sizes, most, box) {
  const edges = [];
  for (let index = 1; index < most; index += 1) {
    const [from, to] = [places.tree(parentOf(index)), places.tree(index)];
    edges[index] = svg("line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: "sn-he-edge" });
    picture.append(edges[index]);
  }
  picture.append(chartText(places.left, places.arrayTop - 9, "start", "the same entries in the array"));
  for (let index = 0; index < most; index += 1) {
    const x = places.left + index * sizes.cell;
    picture.append(
      svg("rect", { x: x + 1, y: places.arrayTop + 1, width: sizes.cell - 2, height: box - 2, rx: 8, class: "sn-he-free" }),
      chartText(x + sizes.cell / 2, places.arrayTop + box + 15, "middle", String(index)),
    );
  }
  return edges;
}

// The scrolling picture: drawn again when its width changes, its entries moved at every step.
// `shapes` is a Map of every entry that is ever drawn, `dimensions` has the height of a box, of a
// level, above the tree and below the array; `drawEntry(shape, place, width, labelled)` draws the
// `place`-th around 0, 0; `marks` are classes that entries may get, `markOf(frame, name)` one or null;
// with `wideCells` array cells are as wide as tree nodes; `words(frame)` says the array.
export function createHeapPicture({ frames, shapes, dimensions, drawEntry, marks, markOf, words, wideCells = false }) {
  const most = mostEntries(frames);
  const scroller = node("div", { class: "sn-scroll" });
  let drawn = null;

  const place = (group, at, marked) => {
    group.classList.toggle("sn-he-absent", at === null);
    for (const mark of marks) group.classList.toggle(mark, mark === marked);
    if (at) group.style.transform = `translate(${at.x}px, ${at.y}px)`;
  };

  function draw(available) {
    const sizes = sizesFor(shapes, most, available, wideCells);
    const places = placesFor(sizes, most, dimensions);
    const picture = svg("svg", { width: sizes.width, height: places.height, role: "img", "aria-label": "A heap" });
    const edges = drawFree(picture, places, sizes, most, dimensions.box);
    const entries = [...shapes].map(([name, shape], at) => {
      const [cell, treeNode] = [drawEntry(shape, at, sizes.cell, sizes.cellLabels), drawEntry(shape, at, sizes.node, true)];
      picture.append(cell, treeNode);
      // What is not in the heap waits at the first place: it comes in from there.
      for (const [group, first] of [[cell, places.cell(0)], [treeNode, places.tree(0)]]) {
        place(group, first, null);
        group.classList.add("sn-he-absent");
      }
      return { name, cell, treeNode };
    });
    scroller.replaceChildren(picture);
    makeReachable(scroller, sizes.width > available + 1, "Heap, scrolls sideways");
    drawn = { picture, places, edges, entries };
  }

  function point(frame) {
    if (!drawn) return;
    const { picture, places, edges, entries } = drawn;
    for (const { name, cell, treeNode } of entries) {
      const index = frame.order.indexOf(name);
      const mark = markOf(frame, name);
      place(treeNode, index < 0 ? null : places.tree(index), mark);
      place(cell, index < 0 ? null : places.cell(index), mark);
    }
    const swapped = frame.kind === "swap" ? Math.max(frame.move.from, frame.move.to) : null;
    edges.forEach((edge, index) => {
      edge.classList.toggle("sn-he-absent", index >= frame.order.length);
      edge.classList.toggle("sn-he-crossed", index === swapped);
    });
    picture.setAttribute("aria-label", words(frame));
  }

  return { scroller, draw, point };
}
