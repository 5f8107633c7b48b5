// The scrolling picture of one or two traces, its cursor, and what lies ahead shaded.

import { createAhead } from "./ahead.js";
import { hatch } from "./chart.js";
import { createScroller, pointAtColumn, pressColumns } from "./column_picture.js";
import { freshId, node, svg } from "./dom.js";
import { columnsOf, mostTokens, pixelsPerUnit, widthOf } from "./timeline_layout.js";
import {
  EDGE, HEAD, TIME_AXIS, blockHeight, drawBlock, drawLabels, drawTimeAxis, labelsWidth,
} from "./timeline_rows.js";

// Where the sides first differ: a bracket around the column of each, with a flag above it.
function drawDifference(side, column) {
  if (!column) return svg("g", {});
  const [top, tall] = [side.top + 3, blockHeight(side.trace) - 4];
  const middle = column.x + column.width / 2;
  return svg(
    "g", {},
    svg("rect", { x: column.x - 1, y: top, width: column.width + 2, height: tall, rx: 6, class: "sn-tl-first" }),
    svg("path", { d: `M${middle - 5} ${top - 2}h10l-5 7Z`, class: "sn-tl-flag" }),
  );
}

// The scrolling picture: redrawn when its width or axis changes, its cursor moved at every step.
// `differs` is the index of the first step that differs, or null.
export function createPicture(sides, alphabet, label, differs) {
  const patterns = { waiting: freshId("waiting"), idle: freshId("idle") };
  const scroller = createScroller();
  const stage = node("div", { class: "sn-tl-stage" });
  let drawn = { columns: [], cursors: [], aheads: [] };

  function draw(width, axis, press) {
    const narrow = width < 560;
    const labels = drawLabels(sides, narrow);
    const room = width - labelsWidth(narrow) - 14;
    const scale = pixelsPerUnit(sides.map((side) => side.trace), axis, room - 16);
    const columns = sides.map((side) => columnsOf(side.trace, axis, scale)
      .map(({ x, width: wide }) => ({ x: x + EDGE, width: wide })));
    const total = Math.max(room, widthOf(columns) + 16);
    const foot = Number(labels.getAttribute("height"));
    const height = axis === "time" ? foot + TIME_AXIS : foot;
    const picture = svg("svg", { width: total, height, role: "img", "aria-label": label, class: "sn-tl-picture" });
    picture.append(svg("defs", {}, hatch(patterns.waiting, "sn-tl-hatch-waiting"), hatch(patterns.idle, "sn-tl-hatch-idle", 3)));
    const aheads = [];
    const most = Math.max(...sides.map((side) => mostTokens(side.trace)));
    const cursors = [];
    sides.forEach((side, at) => {
      const block = drawBlock(side, columns[at], alphabet, patterns, total, most);
      aheads.push(createAhead(block, { y: side.top + HEAD, height: blockHeight(side.trace) - HEAD }));
      cursors.push(svg("rect", { y: side.top + 3, height: blockHeight(side.trace) - 4, rx: 6, class: "sn-tl-cursor" }));
      picture.append(block, aheads[at].element);
      if (differs !== null) picture.append(drawDifference(side, columns[at][differs]));
      picture.append(cursors[at]);
    });
    if (axis === "time") picture.append(drawTimeAxis(scale, total - 2 * EDGE - 14, foot));
    pressColumns(picture, sides.map((side) => side.top), columns, press);
    scroller.place(picture, room, "Timeline, scrolls sideways");
    stage.replaceChildren(labels, scroller.element);
    drawn = { columns, cursors, aheads, total };
  }

  const point = (index) => pointAtColumn(drawn, scroller, index);

  return { stage, draw, point, patterns };
}
