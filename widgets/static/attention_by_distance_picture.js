// Draws one head's attention by distance with the window's cut, and the map of all heads below.

import { chartText, drawing, scale, ticks } from "./chart.js";
import { pointIn, svg } from "./dom.js";
import { cutMap, headOf } from "./attention_by_distance_layout.js";
import { number } from "./words.js";

const HEIGHT = 250;
const LEFT = 44;
const RIGHT = 6;
const TOP = 34;
const BOTTOM = 40;
const SINK_ROOM = 18;
const MAP_LABEL = 62;
const MAP_HEAD = 36;
const MAP_CELL = 30;
const MAP_WIDEST = 84;

// Where the bars lie: the query at the right end, the past to its left, sinks at the far left.
export function barPlaces(head, width) {
  const sinks = head.sinks.length;
  const room = width - LEFT - RIGHT - (sinks ? SINK_ROOM : 0);
  const bar = room / (head.weights.length + sinks);
  const end = width - RIGHT;
  return {
    bar,
    distance: (d) => end - (d + 1) * bar,
    sink: (s) => LEFT + s * bar,
    cut: (window) => end - (window + 1) * bar,
  };
}

// The distance whose bar lies at x, or null.
export function distanceAt(places, head, x) {
  const d = Math.floor((places.distance(0) + places.bar - x) / places.bar);
  return d >= 0 && d < head.weights.length ? d : null;
}

function drawScale(marks, y, width) {
  return svg(
    "g", {},
    ...marks.flatMap((mark) => [
      svg("path", { d: `M${LEFT} ${y(mark)}H${width - RIGHT}`, class: "sn-grid" }),
      chartText(LEFT - 6, y(mark) + 4, "end", number(mark)),
    ]),
    chartText(0, 12, "start", "mean attention weight"),
  );
}

function drawBars(head, places, y, window, keepSinks) {
  const inset = places.bar > 5 ? 1 : places.bar > 2 ? 0.4 : 0;
  const bar = (x, weight, className) => svg("rect", {
    x: x + inset, y: y(weight), width: Math.max(0.8, places.bar - 2 * inset), height: Math.max(0, HEIGHT - BOTTOM - y(weight)), class: className,
  });
  return svg(
    "g", {},
    ...head.weights.map((weight, d) => bar(places.distance(d), weight, d > window ? "sn-ad-cut" : "sn-ad-kept")),
    ...head.sinks.map((weight, s) => bar(places.sink(s), weight, keepSinks ? "sn-ad-sink sn-hue-4" : "sn-ad-cut")),
  );
}

function drawDistances(head, places, width) {
  const base = HEIGHT - BOTTOM;
  const marks = ticks(head.weights.length - 1, width < 500 ? 4 : 8).filter((d) => d < head.weights.length);
  return svg(
    "g", {},
    svg("path", { d: `M${LEFT} ${base + 0.5}H${width - RIGHT}`, class: "sn-line" }),
    ...marks.map((d) => chartText(places.distance(d) + places.bar / 2, base + 16, d === 0 ? "end" : "middle", number(d))),
    chartText((LEFT + width) / 2, HEIGHT - 6, "middle", "positions back from the query"),
    head.sinks.length ? chartText(LEFT, base + 16, "start", head.sinks.length * places.bar > 34 ? "sinks" : "s") : null,
  );
}

// The window's edge: a line, and at its foot what lies on its left.
function drawCut(places, window, farthest) {
  const x = places.cut(window);
  const words = window >= farthest ? `window ${window}` : `← cut · window ${window}`;
  const [half, last] = [words.length * 3.3, places.distance(0)];
  const middle = Math.max(x, LEFT + half);
  return svg(
    "g", {},
    svg("path", { d: `M${x} ${TOP - 10}V${HEIGHT - BOTTOM}`, class: "sn-ad-limit" }),
    middle > last - half ? chartText(last + places.bar, TOP - 14, "end", words, "sn-ad-name") : chartText(middle, TOP - 14, "middle", words, "sn-ad-name"),
  );
}

export function drawAttention(data, { layer, head, keepSinks }, window, width, top, label, press) {
  const found = headOf(data, layer, head);
  const places = barPlaces(found, width);
  const marks = ticks(top, 3);
  const y = (weight) => scale(weight, marks[marks.length - 1], HEIGHT - BOTTOM, TOP);
  const picture = drawing(
    width, HEIGHT, label, { class: "sn-picture" },
    drawScale(marks, y, width), drawBars(found, places, y, window, keepSinks), drawDistances(found, places, width),
    drawCut(places, window, found.weights.length - 1),
  );
  picture.addEventListener("click", (event) => {
    const d = distanceAt(places, found, pointIn(picture, event)[0]);
    if (d !== null) press(d);
  });
  return picture;
}

// Every head's share beyond the cut: a bar in each cell, and the number.
export function drawMap(data, { layer, head, keepSinks }, window, width, press) {
  const map = cutMap(data, window, keepSinks);
  const heads = map[0].length;
  const cell = Math.min(MAP_WIDEST, (width - MAP_LABEL) / heads);
  const height = MAP_HEAD + map.length * MAP_CELL + 2;
  const words = map.map((row, at) => `layer ${at}: ${row.map((share) => Math.round(share * 100)).join(", ")}`).join("; ");
  const picture = drawing(
    width, height, `Percent of attention cut, head by head. ${words}`, { class: "sn-picture" },
    chartText(0, 12, "start", "percent cut off, in every head", "sn-ad-name"),
    ...map[0].map((_, at) => chartText(MAP_LABEL + (at + 0.5) * cell, 30, "middle", cell > 48 ? `head ${at}` : String(at))),
    ...map.flatMap((row, atLayer) => {
      const y = MAP_HEAD + atLayer * MAP_CELL;
      return [chartText(0, y + 20, "start", `layer ${atLayer}`), ...row.flatMap((share, atHead) => {
        const box = { x: MAP_LABEL + atHead * cell + 1.5, y: y + 1.5, height: MAP_CELL - 3, rx: 4, width: cell - 3 };
        return [
          svg("rect", { ...box, class: "sn-ad-cell" }),
          svg("rect", { ...box, width: Math.max(0, box.width * share), class: "sn-ad-share" }),
          chartText(MAP_LABEL + (atHead + 0.5) * cell, y + 20, "middle", String(Math.round(share * 100)), "sn-ad-percent"),
          atLayer === layer && (head === null || head === atHead) ? svg("rect", { ...box, class: "sn-ad-chosen" }) : null,
        ];
      })];
    }),
  );
  picture.addEventListener("click", (event) => {
    const [x, y] = pointIn(picture, event);
    const atLayer = Math.floor((y - MAP_HEAD) / MAP_CELL);
    const atHead = Math.floor((x - MAP_LABEL) / cell);
    if (map[atLayer]?.[atHead] !== undefined) press(atLayer, atHead);
  });
  return picture;
}
