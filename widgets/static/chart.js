// What charts are made of: round ticks, straight scales, words, hatching, legends. Knows no widget.

import { node, svg } from "./dom.js";

// 1, 2 or 5 times a power of ten, the least that parts `span` into at most about `wanted`.
function roundStep(span, wanted) {
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
}

function multiples(step, first, last) {
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

// Round steps from 0 past `top`, at most about `wanted`.
export function ticks(top, wanted = 4) {
  if (!(top > 0)) return [0, 1];
  const step = roundStep(top, wanted);
  return multiples(step, 0, Math.ceil(top / step - 1e-9));
}

// Round numbers from `low` to `high`, at most about `wanted`.
export function ticksWithin(low, high, wanted) {
  const step = roundStep(high - low, wanted);
  return multiples(step, Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9));
}

// value in [0, top] -> pixels in [from, to]
export function scale(value, top, from, to) {
  return top > 0 ? from + (value / top) * (to - from) : from;
}

export function chartText(x, y, anchor, words, className = "sn-axis") {
  return svg("text", { x, y, class: className, "text-anchor": anchor }, words);
}

// The middle of something `width` wide, as near to `x` as keeps it between `from` and `to`.
export function middleWithin(x, width, from, to) {
  return Math.max(from + width / 2, Math.min(x, to - width / 2));
}

// A pattern of slanting lines, `thickness` of every 6 pixels: fill: url(#id).
export function hatch(id, className, thickness = 2.4) {
  const line = svg("line", { x1: 0, y1: 0, x2: 0, y2: 6, "stroke-width": thickness, class: className });
  const square = { width: 6, height: 6, patternUnits: "userSpaceOnUse" };
  return svg("pattern", { id, ...square, patternTransform: "rotate(45)" }, line);
}

// A picture with its description; what it is made of follows, null left out.
export function drawing(width, height, label, more, ...parts) {
  return svg("svg", { width, height, role: "img", "aria-label": label, ...more }, ...parts);
}

// What explains a picture: lines of words, or of what the functions below make; null is left out.
export function legendOf(...lines) {
  return node("ul", { class: "sn-legend" }, ...lines.map((line) => (typeof line === "string" ? node("li", {}, line) : line)));
}

// A line of a legend: shapes in a box of `width` by 14, and what they mean.
export function legendKey(words, width, ...shapes) {
  return node("li", {}, svg("svg", { width, height: 14, "aria-hidden": "true" }, ...shapes), words);
}

export function boxKey(className, words, width = 14, more = {}) {
  return legendKey(words, width, svg("rect", { x: 1, y: 1, width: width - 2, height: 12, rx: 3, class: className, ...more }));
}

// A box of a state of the picture, with the pattern that it has there, if any.
export function hatchedKey(words, className, pattern) {
  const box = { x: 0.5, y: 0.5, width: 21, height: 13, rx: 3 };
  const shapes = [svg("rect", { ...box, class: className })];
  if (pattern) shapes.push(svg("rect", { ...box, fill: `url(#${pattern})` }));
  return legendKey(words, 22, ...shapes);
}

// A box of a widget's own style instead of a drawn one.
export function styledKey(className, words) {
  return node("li", {}, node("i", { class: className }), words);
}
