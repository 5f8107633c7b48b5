// The scrolling picture of one or two traces, its cursor, and what lies ahead shaded.

import { freshId, node, svg } from "./dom.js";
import { columnsOf, mostTokens, pixelsPerUnit, scrollFor, widthOf } from "./timeline_layout.js";
import {
  EDGE, HEAD, TIME_AXIS, blockHeight, drawBlock, drawLabels, drawTimeAxis, hatch,
} from "./timeline_rows.js";

// The scrolling picture: redrawn when its width or axis changes, its cursor moved at every step.
export function createPicture(sides, alphabet, label) {
  const patterns = { waiting: freshId("waiting"), idle: freshId("idle") };
  const scroller = node("div", { class: "sn-scroll" });
  const stage = node("div", { class: "sn-tl-stage" });
  let drawn = { columns: [], cursors: [], shades: [] };

  function draw(width, axis, press) {
    const narrow = width < 560;
    const labels = drawLabels(sides, narrow);
    const room = width - (narrow ? 68 : 96) - 14;
    const scale = pixelsPerUnit(sides.map((side) => side.trace), axis, room - 16);
    const columns = sides.map((side) => columnsOf(side.trace, axis, scale)
      .map(({ x, width: wide }) => ({ x: x + EDGE, width: wide })));
    const total = Math.max(room, widthOf(columns) + 16);
    const foot = Number(labels.getAttribute("height"));
    const height = axis === "time" ? foot + TIME_AXIS : foot;
    const picture = svg("svg", { width: total, height, role: "img", "aria-label": label, class: "sn-tl-picture" });
    picture.append(svg("defs", {}, hatch(patterns.waiting, "sn-tl-hatch-waiting", 2.4), hatch(patterns.idle, "sn-tl-hatch-idle", 3)));
    const shades = [];
    const most = Math.max(...sides.map((side) => mostTokens(side.trace)));
    const cursors = [];
    sides.forEach((side, at) => {
      picture.append(drawBlock(side, columns[at], alphabet, patterns, total, most));
      shades.push(svg("rect", { y: side.top + HEAD, height: blockHeight(side.trace) - HEAD, class: "sn-tl-shade" }));
      cursors.push(svg("rect", { y: side.top + 3, height: blockHeight(side.trace) - 4, rx: 6, class: "sn-tl-cursor" }));
      picture.append(shades[at], cursors[at]);
    });
    if (axis === "time") picture.append(drawTimeAxis(scale, total - 2 * EDGE - 14, foot));
    picture.addEventListener("click", (event) => {
      const y = event.clientY - picture.getBoundingClientRect().top;
      const x = event.clientX - picture.getBoundingClientRect().left;
      const at = sides.length > 1 && y >= sides[1].top ? 1 : 0;
      const index = columns[at].findIndex((column) => x >= column.x && x < column.x + column.width);
      if (index >= 0) press(index);
    });
    scroller.replaceChildren(picture);
    // A picture that scrolls must be reachable by keyboard; one that fits must not be a Tab stop.
    const scrolls = total > room + 1;
    for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", "Timeline, scrolls sideways"]]) {
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
