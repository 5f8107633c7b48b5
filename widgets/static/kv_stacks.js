// K/V on top of each other, step by step: the boxes of a column, the budget, what preemption took.

import { chartText, scale } from "./chart.js";
import { insideColumn } from "./column_picture.js";
import { svg } from "./dom.js";

export const CHART = 150;
export const BARS = 30;
const NUMBERS = 13;
const DROP_CHARACTER = 7.2;

// Pixels per step: narrower than the timeline's, so that a sawtooth is seen as a whole.
export function stepWidth(traces, available) {
  const longest = Math.max(1, ...traces.map((trace) => trace.steps.length));
  return Math.max(9, Math.min(58, available / longest));
}

export function sumOf(amounts) {
  return amounts.reduce((total, each) => total + each.amount, 0);
}

// The boxes of one step from the bottom: held, released because done, released by preemption, which
// is what did not fit any more. Each is { kind, id, from, amount, again }.
export function boxesOf({ stack, finished, dropped }) {
  const boxes = [];
  let from = 0;
  for (const [kind, amounts] of Object.entries({ held: stack, finished, dropped })) {
    for (const { id, amount, again = 0 } of amounts.filter((each) => each.amount)) {
      boxes.push({ kind, id, from, amount, again });
      from += amount;
    }
  }
  return boxes;
}

export function drawLine(y, width, className) {
  return svg("path", { d: `M0 ${y}H${width}`, class: className });
}

// Above a column with a preemption, an arrow down to `tipOf(step)`, and the longest of
// `wordsOf(step)` that has room.
export function drawDrops(steps, columns, tipOf, wordsOf) {
  const group = svg("g", {});
  let free = 0;
  steps.forEach((step, index) => {
    if (!step.dropped.length) return;
    const middle = columns[index].x + columns[index].width / 2;
    const tip = tipOf(step);
    group.append(svg("path", { d: `M${middle - 4.5} ${tip - 7}h9l-4.5 7Z`, class: "sn-kv-mark" }));
    const last = columns[columns.length - 1];
    for (const words of wordsOf(step)) {
      const half = (words.length * DROP_CHARACTER) / 2;
      const x = Math.max(half, Math.min(middle, last.x + last.width - half));
      if (x - half < free) continue;
      group.append(chartText(x, tip - 11, "middle", words, "sn-kv-drop"));
      free = x + half + 8;
      break;
    }
  });
  return group;
}

// A bar below each column, the highest for `most`, and its words where `wordsOf(value, width)` has any.
export function drawBars(values, most, columns, top, attributes, wordsOf) {
  const base = top + BARS - NUMBERS;
  const group = svg("g", {});
  values.forEach((value, index) => {
    const column = columns[index];
    const height = scale(value, most, 0, BARS - NUMBERS);
    group.append(svg("rect", { ...insideColumn(column), y: base - height, height, ...attributes }));
    const words = wordsOf(value, column.width);
    if (words) group.append(chartText(column.x + column.width / 2, base + 12, "middle", words));
  });
  return group;
}
