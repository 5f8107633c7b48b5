// What pictures of steps as columns have in common: colours, numbers, pressing one, the cursor.

import { pointIn, svg } from "./dom.js";
import { scrollFor, widthOf } from "./timeline_layout.js";

const HUES = 8;
const DIGIT = 6.4;

// A request's colour: its own, where requests come and go, or by its place among the arrivals, so
// the same in every picture of a trace.
export function requestHue(trace, id) {
  const place = trace.requests.findIndex((request) => request.id === id);
  return `sn-hue-${(trace.requests[place]?.hue ?? place) % HUES}`;
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

// A picture that scrolls must be reachable by keyboard; one that fits must not be a Tab stop.
export function makeReachable(scroller, scrolls, label) {
  for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", label]]) {
    if (scrolls) scroller.setAttribute(name, value);
    else scroller.removeAttribute(name);
  }
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
  if (column) scroller.scrollLeft = scrollFor(column, scroller.clientWidth, scroller.scrollLeft);
}
