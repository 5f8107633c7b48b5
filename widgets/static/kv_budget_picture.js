// The scrolling picture of one or two traces' KV tokens, its cursor, and what lies ahead shaded.

import { createAhead } from "./ahead.js";
import { hatch } from "./chart.js";
import { createScroller, pointAtColumn, pressColumns } from "./column_picture.js";
import { freshId, node, svg } from "./dom.js";
import { deepestQueue, mostHeld, stepWidth } from "./kv_budget_layout.js";
import { EDGE, HEAD, drawLabels, drawSide, drawTimes, sideHeight, sideTops } from "./kv_budget_rows.js";
import { columnsOf, pixelsPerUnit, widthOf } from "./timeline_layout.js";

const TIME_FOOT = 22;
const TAIL = 22;

// The scrolling picture: drawn again when its width or axis changes, its cursor moved at each step.
export function createKVPicture(sides, label) {
  const traces = sides.map((side) => side.trace);
  const tops = sideTops(traces);
  const patterns = { waiting: freshId("waiting"), preempted: freshId("preempted"), recomputing: freshId("again") };
  const shared = { patterns, most: Math.max(...traces.map(mostHeld)), deepest: Math.max(...traces.map(deepestQueue)) };
  const scroller = createScroller();
  const stage = node("div", { class: "sn-kv-stage" });
  let drawn = { columns: [], cursors: [], aheads: [], total: 0 };

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
    picture.append(svg("defs", {}, ...Object.entries(patterns).map(([state, id]) => hatch(id, `sn-kv-hatch-${state}`, 2.6))));
    const aheads = [];
    const cursors = [];
    traces.forEach((trace, at) => {
      const box = { y: tops[at] + 3, height: sideHeight(trace) - 4 };
      const side = drawSide(trace, tops[at], columns[at], shared, total);
      aheads.push(createAhead(side, { y: tops[at] + HEAD, height: sideHeight(trace) - HEAD }));
      cursors.push(svg("rect", { ...box, rx: 6, class: "sn-kv-cursor" }));
      picture.append(side, aheads[at].element, cursors[at]);
    });
    if (axis === "time") picture.append(drawTimes(unit, total - 2 * EDGE - 14, foot));
    pressColumns(picture, tops, columns, press);
    scroller.place(picture, room, "KV tokens, scrolls sideways");
    stage.replaceChildren(labels, scroller.element);
    drawn = { columns, cursors, aheads, total };
  }

  const point = (index) => pointAtColumn(drawn, scroller, index);

  return { stage, draw, point, patterns };
}
