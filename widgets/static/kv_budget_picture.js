// The scrolling picture of one or two traces' KV tokens, its cursor, and what lies ahead shaded.

import { EDGE, createColumnPicture } from "./column_picture.js";
import { freshId } from "./dom.js";
import { deepestQueue, mostHeld } from "./kv_budget_layout.js";
import { HEAD, drawLabels, drawSide, sideHeight, sideTops } from "./kv_budget_rows.js";
import { stepWidth } from "./kv_stacks.js";
import { pixelsPerUnit } from "./timeline_layout.js";

const TAIL = 22;

// The scrolling picture: drawn again when its width or axis changes, its cursor moved at each step.
export function createKVPicture(sides, label) {
  const traces = sides.map((side) => side.trace);
  const tops = sideTops(traces);
  const patterns = { waiting: freshId("waiting"), preempted: freshId("preempted"), recomputing: freshId("again") };
  const shared = { patterns, most: Math.max(...traces.map(mostHeld)), deepest: Math.max(...traces.map(deepestQueue)) };
  const columnPicture = createColumnPicture("KV tokens, scrolls sideways");

  function draw(width, axis, press) {
    const labels = drawLabels(sides, tops, shared, width < 560);
    const room = width - Number(labels.getAttribute("width")) - 6;
    const ofSteps = room - TAIL - EDGE;
    columnPicture.draw({
      sides: sides.map((side, at) => ({ ...side, top: tops[at] })), labels, room, axis, label, press, tail: TAIL,
      unit: axis === "steps" ? stepWidth(traces, ofSteps) : pixelsPerUnit(traces, "time", ofSteps),
      patterns: Object.entries(patterns).map(([state, id]) => [id, `sn-kv-hatch-${state}`, 2.6]),
      drawSide: ({ trace, top }, columns, total) => ({
        group: drawSide(trace, top, columns, shared, total),
        shade: { y: top + HEAD, height: sideHeight(trace) - HEAD },
        cursor: { y: top + 3, height: sideHeight(trace) - 4 },
      }),
    });
  }

  return { stage: columnPicture.stage, draw, point: columnPicture.point, patterns };
}
