// What pictures of steps as columns have in common: colours, numbers, pressing one, the cursor.

import { makeReachable, node, pointIn, svg } from "./dom.js";
import { scrollFor, widthOf } from "./timeline_layout.js";

const HUES = 8;
const DIGIT = 6.4;

// A request's colour, by its place among the arrivals: the same in every picture of a trace.
export function requestHue(trace, id) {
  const place = trace.requests.findIndex((request) => request.id === id);
  return `sn-hue-${place % HUES}`;
}

// The steps' numbers above their columns, each where the one before it leaves room.
export function stepNumbers(trace, columns, y, className) {
  const group = svg("g", {});
  let free = 0;
  columns.forEach((column, index) => {
    const label = String(trace.steps[index].step);
    const middle = column.x + column.width / 2;
    const half = (label.length * DIGIT + 8) / 2;
    if (middle - half < free) return;
    free = middle + half;
    group.append(svg("text", { x: middle, y, class: className, "text-anchor": "middle" }, label));
  });
  return group;
}

// The name of a side; on a narrow screen it may not run into the first column.
export function sideName(name, y, className, narrow) {
  const short = narrow ? name.replace(/^the /, "") : name;
  const squeezed = narrow && short.length > 8 ? { textLength: 60, lengthAdjust: "spacingAndGlyphs" } : {};
  return svg("text", { x: 0, y, class: className, ...squeezed }, short);
}

// Calls `press(index)` for a click into a column; `tops` are where the sides begin, one or two.
export function pressColumns(picture, tops, columns, press) {
  picture.addEventListener("click", (event) => {
    const [x, y] = pointIn(picture, event);
    const at = tops.length > 1 && y >= tops[1] ? 1 : 0;
    const index = columns[at].findIndex((column) => x >= column.x && x < column.x + column.width);
    if (index >= 0) press(index);
  });
}

// The element that a picture of columns scrolls in: `place` puts in a picture that may be wider than
// the room for it, `reveal` scrolls to a column. To read or set where an element stands makes the
// browser lay out the page at once, so that is noted here, and set only where it has to change.
export function createScroller() {
  const element = node("div", { class: "sn-scroll" });
  let offset = 0;
  let most = 0;
  let room = 0;
  let moved = false;
  element.addEventListener("scroll", () => {
    offset = element.scrollLeft;
  });

  function place(picture, width, label) {
    room = width;
    most = Math.max(0, Number(picture.getAttribute("width")) - room);
    moved = offset > 0; // what is put in anew may begin at its start again
    element.replaceChildren(picture);
    makeReachable(element, most > 1, label);
  }

  function reveal(column) {
    const wanted = Math.min(scrollFor(column, room, Math.min(offset, most)), most);
    if (wanted === offset && !moved) return;
    element.scrollLeft = wanted;
    offset = wanted;
    moved = false;
  }

  return { element, place, reveal };
}

// Moves the cursors to a column, shades what lies ahead of it, and scrolls it into view.
export function pointAtColumn({ columns, cursors, aheads, total }, scroller, index) {
  columns.forEach((side, at) => {
    const column = side[index];
    cursors[at].setAttribute("visibility", column ? "visible" : "hidden");
    const edge = column ? column.x + column.width : widthOf([side]);
    aheads[at].move(edge, total - edge);
    if (!column) return;
    cursors[at].setAttribute("x", column.x - 1);
    cursors[at].setAttribute("width", column.width + 2);
  });
  const column = columns.map((side) => side[index]).find(Boolean);
  if (column) scroller.reveal(column);
}
