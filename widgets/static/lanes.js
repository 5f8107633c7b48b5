// Lanes over time, or over layers: where a moment lies, what is shown of a stretch, the grid, names.

import { chartText, middleWithin, ticksWithin } from "./chart.js";
import { svg } from "./dom.js";

const TICK_DIGIT = 7.2;

// What lies between `from` and `to` laid from `left` to `right` in pixels: `x(at)`; `shows(at)`;
// `cut(start, end, least)`, the part of a stretch that is shown as { x, width }, or null outside.
export function laneScale({ from, to }, left, right) {
  const x = (at) => left + ((at - from) / (to - from)) * (right - left);
  const cut = (start, end, least = 1.5) => {
    const [first, last] = [Math.max(start, from), Math.min(end, to)];
    return last < first ? null : { x: x(first), width: Math.max(least, x(last) - x(first)) };
  };
  return { from, to, left, right, x, cut, shows: (at) => at >= from && at <= to };
}

// A line at about `wanted` round times, in milliseconds, and below it what `words(ms)` says of it,
// kept between 0 and `end`.
export function drawTimeGrid(scale, { top, base, wanted, end, words }) {
  return svg("g", {}, ...ticksWithin(scale.from / 1000, scale.to / 1000, wanted).flatMap((ms) => {
    const x = scale.x(ms * 1000);
    const said = words(ms);
    return [
      svg("path", { d: `M${x} ${top}V${base}`, class: "sn-grid" }),
      chartText(middleWithin(x, said.length * TICK_DIGIT, 0, end), base + 15, "middle", said),
    ];
  }));
}

// The line that a lane stands on.
export function drawTrack(scale, y) {
  return svg("path", { d: `M${scale.left} ${y}H${scale.right}`, class: "sn-track" });
}

// The name of a lane at its left, or above it.
export function laneName(y, words) {
  return chartText(0, y, "start", words, "sn-name");
}

// The moment that is shown, through all lanes.
export function drawMoment(x, top, base) {
  return svg("path", { d: `M${x} ${top}V${base}`, class: "sn-moment" });
}
