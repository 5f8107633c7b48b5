// The scrolling picture of one or two traces, its cursor, and what lies ahead shaded.

import { createColumnPicture } from "./column_picture.js";
import { freshId, svg } from "./dom.js";
import { mostTokens, pixelsPerUnit } from "./timeline_layout.js";
import { HEAD, blockHeight, drawBlock, drawLabels, labelsWidth } from "./timeline_rows.js";

const TAIL = 16;

// Where the sides first differ: a bracket around the column of each, with a flag above it.
function drawDifference(side, column) {
  const [top, tall] = [side.top + 3, blockHeight(side.trace) - 4];
  const middle = column.x + column.width / 2;
  return [
    svg("rect", { x: column.x - 1, y: top, width: column.width + 2, height: tall, rx: 6, class: "sn-tl-first" }),
    svg("path", { d: `M${middle - 5} ${top - 2}h10l-5 7Z`, class: "sn-tl-flag" }),
  ];
}

// The scrolling picture: redrawn when its width or axis changes, its cursor moved at every step.
// `differs` is the index of the first step that differs, or null.
export function createPicture(sides, alphabet, label, differs) {
  const patterns = { waiting: freshId("waiting"), idle: freshId("idle") };
  const most = Math.max(...sides.map((side) => mostTokens(side.trace)));
  const columnPicture = createColumnPicture("Timeline, scrolls sideways");

  function drawSide(side, columns, total) {
    const tall = blockHeight(side.trace);
    const column = differs === null ? null : columns[differs];
    return {
      group: drawBlock(side, columns, alphabet, patterns, total, most),
      shade: { y: side.top + HEAD, height: tall - HEAD },
      over: column ? drawDifference(side, column) : [],
      cursor: { y: side.top + 3, height: tall - 4 },
    };
  }

  function draw(width, axis, press) {
    const narrow = width < 560;
    const room = width - labelsWidth(narrow) - 14;
    columnPicture.draw({
      sides, room, axis, label, press, drawSide, tail: TAIL, labels: drawLabels(sides, narrow),
      unit: pixelsPerUnit(sides.map((side) => side.trace), axis, room - TAIL),
      patterns: [[patterns.waiting, "sn-tl-hatch-waiting"], [patterns.idle, "sn-tl-hatch-idle", 3]],
    });
  }

  return { stage: columnPicture.stage, draw, point: columnPicture.point, patterns };
}
