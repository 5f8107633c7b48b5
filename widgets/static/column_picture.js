// Pictures of one or two runs whose steps are columns: labels, a picture that scrolls, a cursor.

import { createAhead } from "./ahead.js";
import { chartText, hatch } from "./chart.js";
import { makeReachable, node, pointIn, svg } from "./dom.js";
import { columnsOf, scrollFor, timeTicks, widthOf } from "./timeline_layout.js";
import { number } from "./words.js";

const HUES = 8;
const DIGIT = 6.4;
export const EDGE = 3;
const TIME_FOOT = 22;

// A request's colour, by its place among the arrivals: the same in every picture of a trace.
export function requestHue(trace, id) {
  const place = trace.requests.findIndex((request) => request.id === id);
  return `sn-hue-${place % HUES}`;
}

// A column without the gap between it and the next.
export function insideColumn({ x, width }) {
  const inset = width > 12 ? 1.5 : 0.4;
  return { x: x + inset, width: Math.max(1, width - 2 * inset) };
}

// The steps' numbers above their columns, each where the one before it leaves room.
export function stepNumbers(trace, columns, y) {
  const group = svg("g", {});
  let free = 0;
  columns.forEach((column, index) => {
    const label = String(trace.steps[index].step);
    const middle = column.x + column.width / 2;
    const half = (label.length * DIGIT + 8) / 2;
    if (middle - half < free) return;
    free = middle + half;
    group.append(chartText(middle, y, "middle", label, "sn-axis sn-step"));
  });
  return group;
}

// The name of a side; on a narrow screen it may not run into the first column.
export function sideName(name, y, narrow) {
  const short = narrow ? name.replace(/^the /, "") : name;
  const squeezed = narrow && short.length > 8 ? { textLength: 60, lengthAdjust: "spacingAndGlyphs" } : {};
  return svg("text", { x: 0, y, class: "sn-side", ...squeezed }, short);
}

// A request's key and name before its row, whose middle is `y`.
export function requestLabel(trace, id, y, words) {
  return [
    svg("rect", { x: 0, y: y - 7, width: 5, height: 14, rx: 2.5, class: `sn-key ${requestHue(trace, id)}` }),
    chartText(12, y + 4, "start", words, "sn-label"),
  ];
}

// Behind the last column of a request that is done, at the middle of its row.
export function doneTick(x, y) {
  return svg("path", { d: `M${x} ${y}l3 3.5l6 -7`, class: "sn-done" });
}

function drawTimeAxis(unit, width, top) {
  const group = svg("g", {}, svg("path", { d: `M${EDGE} ${top + 1.5}h${width}`, class: "sn-line" }));
  for (const { x, ms } of timeTicks(width, unit)) {
    const first = x < 12;
    group.append(
      svg("path", { d: `M${x + EDGE} ${top - 2}v7`, class: "sn-line" }),
      chartText(x + (first ? 0 : EDGE), top + 17, first ? "start" : "middle", `${number(ms)} ms`),
    );
  }
  return group;
}

// Calls `press(index)` for a click into a column; `tops` are where the sides begin, one or two.
function pressColumns(picture, tops, columns, press) {
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

// Sides one above the other, each { trace, top }, drawn again when the width, the axis or the sides
// change. `draw` takes { sides, labels, room, unit, axis, tail, label, press, patterns, drawSide }:
// an SVG of labels and the width beside it, pixels per step or microsecond, the room behind the last
// column, { id: class and thickness } of hatches, and `drawSide(side, columns, total)`, which returns
// { group, shade, cursor, over }: the last three the { y, height } of what is shaded and outlined, and
// what lies above the shade. `point(step)` moves the cursors and scrolls there.
export function createColumnPicture(scrollsLabel) {
  const scroller = createScroller();
  const stage = node("div", { class: "sn-columns" });
  let drawn = { columns: [], cursors: [], aheads: [], total: 0 };

  function draw({ sides, labels, room, unit, axis, tail, label, press, patterns, drawSide }) {
    const columns = sides.map(({ trace }) => columnsOf(trace, axis, unit).map((column) => ({ ...column, x: column.x + EDGE })));
    const total = Math.max(room, widthOf(columns) + tail);
    const foot = Number(labels.getAttribute("height"));
    const height = axis === "time" ? foot + TIME_FOOT : foot;
    const picture = svg("svg", { width: total, height, role: "img", "aria-label": label, class: "sn-picture" });
    picture.append(svg("defs", {}, ...patterns.map((pattern) => hatch(...pattern))));
    const [aheads, cursors] = [[], []];
    sides.forEach((side, at) => {
      const { group, shade, cursor, over = [] } = drawSide(side, columns[at], total);
      aheads.push(createAhead(group, shade));
      cursors.push(svg("rect", { ...cursor, rx: 6, class: "sn-cursor" }));
      picture.append(group, aheads[at].element, ...over, cursors[at]);
    });
    if (axis === "time") picture.append(drawTimeAxis(unit, total - 2 * EDGE - 14, foot));
    pressColumns(picture, sides.map((side) => side.top), columns, press);
    scroller.place(picture, room, scrollsLabel);
    stage.replaceChildren(labels, scroller.element);
    drawn = { columns, cursors, aheads, total };
  }

  // What lies ahead is shaded: all of a side that has come to its end.
  function point(index) {
    drawn.columns.forEach((side, at) => {
      const column = side[index];
      drawn.cursors[at].setAttribute("visibility", column ? "visible" : "hidden");
      const edge = column ? column.x + column.width : widthOf([side]);
      drawn.aheads[at].move(edge, drawn.total - edge);
      if (!column) return;
      drawn.cursors[at].setAttribute("x", column.x - 1);
      drawn.cursors[at].setAttribute("width", column.width + 2);
    });
    const column = drawn.columns.map((side) => side[index]).find(Boolean);
    if (column) scroller.reveal(column);
  }

  return { stage, draw, point };
}
