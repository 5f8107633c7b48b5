// The scrolling picture of one or two traces' KV tokens, its cursor, and what lies ahead shaded.

import { freshId, node, svg } from "./dom.js";
import { deepestQueue, mostHeld, stepWidth } from "./kv_budget_layout.js";
import { EDGE, HEAD, drawLabels, drawSide, drawTimes, sideHeight, sideTops, stripes } from "./kv_budget_rows.js";
import { columnsOf, pixelsPerUnit, scrollFor, widthOf } from "./timeline_layout.js";

const TIME_FOOT = 22;
const TAIL = 22;

// The scrolling picture: drawn again when its width or axis changes, its cursor moved at each step.
export function createKVPicture(sides, label) {
  const traces = sides.map((side) => side.trace);
  const tops = sideTops(traces);
  const patterns = { waiting: freshId("waiting"), preempted: freshId("preempted"), recomputing: freshId("again") };
  const shared = { patterns, most: Math.max(...traces.map(mostHeld)), deepest: Math.max(...traces.map(deepestQueue)) };
  const scroller = node("div", { class: "sn-scroll" });
  const stage = node("div", { class: "sn-kv-stage" });
  let drawn = { columns: [], cursors: [], shades: [], total: 0 };

  function draw(width, axis, press) {
    const narrow = width < 560;
    const labels = drawLabels(sides, tops, shared, narrow);
    const room = width - Number(labels.getAttribute("width")) - 6;
    const unit = axis === "steps" ? stepWidth(traces, room - TAIL - EDGE) : pixelsPerUnit(traces, "time", room - TAIL - EDGE);
    const columns = traces.map((trace) => columnsOf(trace, axis, unit)
      .map((column) => ({ x: column.x + EDGE, width: column.width })));
    const total = Math.max(room, widthOf(columns) + TAIL);
    const foot = Number(labels.getAttribute("height"));
    const picture = svg("svg", { width: total, height: axis === "time" ? foot + TIME_FOOT : foot, role: "img", "aria-label": label, class: "sn-kv-picture" });
    picture.append(svg("defs", {}, ...Object.entries(patterns).map(([state, id]) => stripes(id, `sn-kv-hatch-${state}`))));
    const shades = [];
    const cursors = [];
    traces.forEach((trace, at) => {
      const box = { y: tops[at] + 3, height: sideHeight(trace) - 4 };
      shades.push(svg("rect", { ...box, y: tops[at] + HEAD, height: sideHeight(trace) - HEAD, class: "sn-kv-shade" }));
      cursors.push(svg("rect", { ...box, rx: 6, class: "sn-kv-cursor" }));
      picture.append(drawSide(trace, tops[at], columns[at], shared, total), shades[at], cursors[at]);
    });
    if (axis === "time") picture.append(drawTimes(unit, total - 2 * EDGE - 14, foot));
    picture.addEventListener("click", (event) => {
      const corner = picture.getBoundingClientRect();
      const at = sides.length > 1 && event.clientY - corner.top >= tops[1] ? 1 : 0;
      const x = event.clientX - corner.left;
      const index = columns[at].findIndex((column) => x >= column.x && x < column.x + column.width);
      if (index >= 0) press(index);
    });
    scroller.replaceChildren(picture);
    // A picture that scrolls must be reachable by keyboard; one that fits must not be a Tab stop.
    const scrolls = total > room + 1;
    for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", "KV tokens, scrolls sideways"]]) {
      if (scrolls) scroller.setAttribute(name, value);
      else scroller.removeAttribute(name);
    }
    stage.replaceChildren(labels, scroller);
    drawn = { columns, cursors, shades, total };
  }

  function point(index) {
    drawn.columns.forEach((columns, at) => {
      const column = columns[index];
      const cursor = drawn.cursors[at];
      cursor.setAttribute("visibility", column ? "visible" : "hidden");
      const edge = column ? column.x + column.width : widthOf([columns]);
      drawn.shades[at].setAttribute("x", edge);
      drawn.shades[at].setAttribute("width", Math.max(0, drawn.total - edge));
      if (!column) return;
      cursor.setAttribute("x", column.x - 1);
      cursor.setAttribute("width", column.width + 2);
    });
    const column = drawn.columns.map((columns) => columns[index]).find(Boolean);
    if (column) scroller.scrollLeft = scrollFor(column, scroller.clientWidth, scroller.scrollLeft);
  }

  return { stage, draw, point, patterns };
}
