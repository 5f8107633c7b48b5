// What charts are made of: round ticks, straight scales, words and hatching. Knows no widget.

import { node, svg } from "./dom.js";

// At most about `wanted` round steps from 0 past `top`: 1, 2 or 5 times a power of ten.
export function ticks(top, wanted = 4) {
  if (!(top > 0)) return [0, 1];
  const rough = top / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const last = Math.ceil(top / step - 1e-9);
  return Array.from({ length: last + 1 }, (_, index) => Number((index * step).toPrecision(12)));
}

// value in [0, top] -> pixels in [from, to]
export function scale(value, top, from, to) {
  return top > 0 ? from + (value / top) * (to - from) : from;
}

export function chartText(x, y, anchor, words, className = "sn-axis") {
  return svg("text", { x, y, class: className, "text-anchor": anchor }, words);
}

// A pattern of slanting lines, `thickness` of every 6 pixels: fill: url(#id).
export function hatch(id, className, thickness = 2.4) {
  const line = svg("line", { x1: 0, y1: 0, x2: 0, y2: 6, "stroke-width": thickness, class: className });
  const square = { width: 6, height: 6, patternUnits: "userSpaceOnUse" };
  return svg("pattern", { id, ...square, patternTransform: "rotate(45)" }, line);
}

// A line of a legend: shapes in a box of `width` by 14, and what they mean.
export function legendKey(words, width, ...shapes) {
  return node("li", {}, svg("svg", { width, height: 14, "aria-hidden": "true" }, ...shapes), words);
}

export function boxKey(className, words, width = 14) {
  return legendKey(words, width, svg("rect", { x: 1, y: 1, width: width - 2, height: 12, rx: 3, class: className }));
}
