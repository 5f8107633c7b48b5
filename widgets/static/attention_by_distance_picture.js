// Draws one head's attention by distance with the window's cut, and the map of all heads below.

import { chartText, scale, ticks } from "./chart.js";
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

function drawScale(top, width) {
  const group = svg("g", {});
  const marks = ticks(top, 3);
  const y = (weight) => scale(weight, marks[marks.length - 1], HEIGHT - BOTTOM, TOP);
  for (const mark of marks) {
    group.append(svg("path", { d: `M${LEFT} ${y(mark)}H${width - RIGHT}`, class: "sn-ad-grid" }));
    group.append(chartText(LEFT - 6, y(mark) + 4, "end", number(mark)));
  }
  group.append(chartText(0, 12, "start", "mean attention weight"));
  return { group, y };
}

function drawBars(head, places, y, window, keepSinks) {
  const group = svg("g", {});
  const inset = places.bar > 5 ? 1 : places.bar > 2 ? 0.4 : 0;
  const bar = (x, weight, className) => group.append(svg("rect", {
    x: x + inset, y: y(weight), width: Math.max(0.8, places.bar - 2 * inset), height: Math.max(0, HEIGHT - BOTTOM - y(weight)), class: className,
  }));
  head.weights.forEach((weight, d) => bar(places.distance(d), weight, d > window ? "sn-ad-cut" : "sn-ad-kept"));
  head.sinks.forEach((weight, s) => bar(places.sink(s), weight, keepSinks ? "sn-ad-sink sn-hue-4" : "sn-ad-cut"));
  return group;
}

function drawDistances(head, places, width) {
  const group = svg("g", {});
  const base = HEIGHT - BOTTOM;
  group.append(svg("path", { d: `M${LEFT} ${base + 0.5}H${width - RIGHT}`, class: "sn-ad-axis" }));
  for (const d of ticks(head.weights.length - 1, width < 500 ? 4 : 8)) {
    if (d >= head.weights.length) continue;
    group.append(chartText(places.distance(d) + places.bar / 2, base + 16, d === 0 ? "end" : "middle", number(d)));
  }
  group.append(chartText((LEFT + width) / 2, HEIGHT - 6, "middle", "positions back from the query"));
  if (head.sinks.length) group.append(chartText(LEFT, base + 16, "start", head.sinks.length * places.bar > 34 ? "sinks" : "s"));
  return group;
}

// The window's edge: a line, and at its foot what lies on its left.
function drawCut(places, window, farthest) {
  const x = places.cut(window);
  const group = svg("g", {});
  group.append(svg("path", { d: `M${x} ${TOP - 10}V${HEIGHT - BOTTOM}`, class: "sn-ad-limit" }));
  const words = window >= farthest ? `window ${window}` : `← cut · window ${window}`;
  const half = words.length * 3.3;
  group.append(chartText(Math.max(x, LEFT + half) > places.distance(0) - half ? places.distance(0) + places.bar : Math.max(x, LEFT + half),
    TOP - 14, Math.max(x, LEFT + half) > places.distance(0) - half ? "end" : "middle", words, "sn-ad-name"));
  return group;
}

export function drawAttention(data, { layer, head, keepSinks }, window, width, top, label, press) {
  const found = headOf(data, layer, head);
  const places = barPlaces(found, width);
  const picture = svg("svg", { width, height: HEIGHT, role: "img", "aria-label": label, class: "sn-ad-picture" });
  const { group, y } = drawScale(top, width);
  picture.append(group, drawBars(found, places, y, window, keepSinks), drawDistances(found, places, width), drawCut(places, window, found.weights.length - 1));
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
  const picture = svg("svg", { width, height, role: "img", "aria-label": `Percent of attention cut, head by head. ${words}`, class: "sn-ad-picture" });
  picture.append(svg("text", { x: 0, y: 12, class: "sn-ad-name" }, "percent cut off, in every head"));
  for (let at = 0; at < heads; at += 1) {
    picture.append(chartText(MAP_LABEL + (at + 0.5) * cell, 30, "middle", cell > 48 ? `head ${at}` : String(at)));
  }
  map.forEach((row, atLayer) => {
    const y = MAP_HEAD + atLayer * MAP_CELL;
    picture.append(chartText(0, y + 20, "start", `layer ${atLayer}`));
    row.forEach((share, atHead) => {
      const box = { x: MAP_LABEL + atHead * cell + 1.5, y: y + 1.5, height: MAP_CELL - 3, rx: 4 };
      const room = cell - 3;
      const chosen = atLayer === layer && (head === null || head === atHead);
      picture.append(
        svg("rect", { ...box, width: room, class: "sn-ad-cell" }),
        svg("rect", { ...box, width: Math.max(0, room * share), class: "sn-ad-share" }),
        chartText(MAP_LABEL + (atHead + 0.5) * cell, y + 20, "middle", String(Math.round(share * 100)), "sn-ad-percent"),
      );
      if (chosen) picture.append(svg("rect", { ...box, width: room, class: "sn-ad-chosen" }));
    });
  });
  picture.addEventListener("click", (event) => {
    const [x, y] = pointIn(picture, event);
    const atLayer = Math.floor((y - MAP_HEAD) / MAP_CELL);
    const atHead = Math.floor((x - MAP_LABEL) / cell);
    if (map[atLayer]?.[atHead] !== undefined) press(atLayer, atHead);
  });
  return picture;
}
