// Draws the rows, the budget and the labels of one trace. Decides no step and no size of the page.

import { requestHue, sideName, stepNumbers } from "./column_picture.js";
import { node, svg } from "./dom.js";
import { CHARACTER_PX, bandsOf, budgetBars, cellsOf, chunkLines, timeTicks, widthOf } from "./timeline_layout.js";
import { tokensMark } from "./timeline_words.js";
import { number } from "./words.js";

export const ROW = 36;
const CELL = 30;
export const HEAD = 26;
const BUDGET = 74;
const BAR = 46;
export const BLOCK_GAP = 14;
export const TIME_AXIS = 22;
export const EDGE = 3;
const TOKEN_PX = 8.4; // of the larger type that tokens are set in

const LEGEND = [
  ["prefill", "prefill: prompt tokens computed"],
  ["decode", "decode: one new token"],
  ["waiting", "waiting to start"],
  ["idle", "started, got nothing"],
  ["over", "over the token budget"],
];

export function blockHeight(trace) {
  return HEAD + trace.requests.length * ROW + BUDGET;
}

// ---- one block: the rows of one trace -----------------------------------------------------------

function centred(x, y, className, text) {
  return svg("text", { x, y, class: className, "text-anchor": "middle" }, text);
}

function prefillLabel(cell, width, middle, top) {
  const lines = chunkLines(cell, width);
  // On the axis of time a step may be too short for any words: the live line says them.
  if (Math.max(...lines.map((line) => line.length)) * CHARACTER_PX > width) return [];
  const first = lines.length === 1 ? top + CELL / 2 + 4 : top + 14;
  return lines.map((line, at) => centred(middle, first + 11 * at, "sn-tl-range", line));
}

function cellText(cell, x, width, top, alphabet) {
  const middle = x + width / 2;
  if (cell.state === "prefill") return prefillLabel(cell, width, middle, top);
  if (cell.state !== "decode" || cell.tokens.length === 0) return [];
  const marks = tokensMark(cell.tokens, alphabet);
  // Where a verifying pass brought more than there is room for, how many they are.
  const fits = marks.length * TOKEN_PX <= width - 2;
  const mark = fits || cell.tokens.length === 1 ? marks : `×${cell.tokens.length}`;
  if (mark.length * CHARACTER_PX > width - 1) return [];
  const special = mark.length > 1 && !(fits && cell.tokens.length > 1) ? " sn-tl-special" : "";
  return [centred(middle, top + CELL / 2 + 4.5, `sn-tl-token${special}`, mark)];
}

function drawCell(band, columns, top, hue, alphabet, patterns) {
  const { cell } = band;
  if (cell.state === "before" || cell.state === "done") return [];
  const first = columns[band.from];
  const last = columns[band.to - 1];
  const inset = first.width > 12 ? 1.5 : 0.4;
  const x = first.x + inset;
  const width = Math.max(1, last.x + last.width - first.x - 2 * inset);
  const box = { x, y: top, width, height: CELL, rx: Math.min(5, width / 3) };
  const shapes = [svg("rect", { ...box, class: `sn-tl-cell sn-tl-${cell.state} ${hue}` })];
  if (cell.state === "waiting" || cell.state === "idle") {
    shapes.push(svg("rect", { ...box, class: "sn-tl-hatch", fill: `url(#${patterns[cell.state]})` }));
  }
  if (cell.state === "prefill" && cell.sampled !== null && width > 8) {
    shapes.push(svg("circle", { cx: x + width - 4, cy: top + 4, r: 2, class: "sn-tl-sampled" }));
  }
  shapes.push(...cellText(cell, x, width, top, alphabet));
  return shapes;
}

function drawRow(trace, request, row, columns, top, alphabet, patterns) {
  const hue = requestHue(trace, request.id);
  const y = top + HEAD + row * ROW + (ROW - CELL) / 2;
  const group = svg("g", {});
  const bands = bandsOf(cellsOf(trace, request));
  const last = bands.filter((band) => band.cell.state !== "done").pop();
  for (const band of bands) group.append(...drawCell(band, columns, y, hue, alphabet, patterns));
  if (last && trace.steps[last.to - 1].finished.includes(request.id)) {
    const end = columns[last.to - 1];
    const x = end.x + end.width + 5;
    const middle = y + CELL / 2;
    const tick = `M${x} ${middle}l3 3.5l6 -7`;
    group.append(svg("path", { d: tick, class: "sn-tl-done" }));
  }
  return group;
}

function drawBudget(trace, columns, top, most) {
  const bars = budgetBars(trace, most);
  const base = top + BUDGET - 20;
  const full = BAR;
  const group = svg("g", {});
  bars.forEach((bar, index) => {
    const column = columns[index];
    const inset = column.width > 12 ? 1.5 : 0.4;
    const x = column.x + inset;
    const width = Math.max(1, column.width - 2 * inset);
    const within = bar.within * full;
    const over = bar.over * full;
    const limit = base - bar.limit * full;
    group.append(svg("rect", { x, y: limit, width, height: base - limit, class: "sn-tl-room" }));
    group.append(svg("rect", { x, y: base - within, width, height: within, class: "sn-tl-used" }));
    if (over > 0) {
      group.append(svg("rect", { x, y: limit - over, width, height: over, class: "sn-tl-over" }));
    }
    group.append(svg("path", { d: `M${column.x} ${limit}h${column.width}`, class: "sn-tl-limit" }));
    const words = `${bar.used}`;
    if (words.length * CHARACTER_PX <= width - 1) {
      const className = over > 0 ? "sn-tl-amount sn-tl-amount-over" : "sn-tl-amount";
      group.append(centred(x + width / 2, base + 14, className, words));
    }
  });
  return group;
}

export function drawTimeAxis(scale, width, top) {
  const group = svg("g", {});
  group.append(svg("path", { d: `M${EDGE} ${top + 1.5}h${width}`, class: "sn-tl-axis" }));
  for (const { x, ms } of timeTicks(width, scale)) {
    group.append(svg("path", { d: `M${x + EDGE} ${top - 2}v7`, class: "sn-tl-axis" }));
    const anchor = x < 12 ? "start" : "middle";
    const attributes = { x: x + (x < 12 ? 0 : EDGE), y: top + 17, class: "sn-tl-step", "text-anchor": anchor };
    group.append(svg("text", attributes, `${number(ms)} ms`));
  }
  return group;
}

export function drawBlock({ trace, top }, columns, alphabet, patterns, width, most) {
  const group = svg("g", {});
  group.append(stepNumbers(trace, columns, top + HEAD - 9, "sn-tl-step"));
  trace.requests.forEach((request, row) => {
    const y = top + HEAD + row * ROW + ROW;
    group.append(svg("path", { d: `M0 ${y}H${width}`, class: "sn-tl-rule" }));
    group.append(drawRow(trace, request, row, columns, top, alphabet, patterns));
  });
  group.append(drawBudget(trace, columns, top + HEAD + trace.requests.length * ROW, most));
  if (trace.error) {
    const x = widthOf([columns]) + 5;
    const path = `M${x} ${top + HEAD}V${top + blockHeight(trace) - 6}`;
    group.append(svg("path", { d: path, class: "sn-tl-stop" }));
  }
  return group;
}

// ---- the label column ---------------------------------------------------------------------------

// As wide as its longest words: "the reference", in bold.
export const labelsWidth = (narrow) => (narrow ? 68 : 106);

export function drawLabels(sides, narrow) {
  const width = labelsWidth(narrow);
  const height = sides.reduce((sum, side) => sum + blockHeight(side.trace) + BLOCK_GAP, -BLOCK_GAP);
  const labels = svg("svg", { width, height, class: "sn-tl-labels", "aria-hidden": "true" });
  for (const { trace, top, name } of sides) {
    if (name) labels.append(sideName(name, top + HEAD - 9, "sn-tl-side", narrow));
    trace.requests.forEach((request, row) => {
      const y = top + HEAD + row * ROW + ROW / 2;
      const hue = requestHue(trace, request.id);
      const text = narrow ? `${request.id}` : `request ${request.id}`;
      labels.append(svg("rect", { x: 0, y: y - 7, width: 5, height: 14, rx: 2.5, class: `sn-tl-key ${hue}` }));
      labels.append(svg("text", { x: 12, y: y + 4, class: "sn-tl-label" }, text));
    });
    const y = top + HEAD + trace.requests.length * ROW + BUDGET / 2;
    labels.append(svg("text", { x: 0, y, class: "sn-tl-small" }, "tokens"));
    labels.append(svg("text", { x: 0, y: y + 13, class: "sn-tl-small" }, `of ${trace.token_budget}`));
  }
  return labels;
}

function legendSwatch(state, patterns) {
  const box = { x: 0.5, y: 0.5, width: 21, height: 13, rx: 3 };
  const swatch = svg("svg", { width: 22, height: 14, "aria-hidden": "true" });
  const className = state === "over" ? "sn-tl-over" : `sn-tl-cell sn-tl-${state} sn-hue-0`;
  swatch.append(svg("rect", { ...box, class: className }));
  if (patterns[state]) swatch.append(svg("rect", { ...box, fill: `url(#${patterns[state]})` }));
  return swatch;
}

export function timelineLegend(patterns, trace, differs) {
  const drafts = trace.steps.some((step) => step.work.some((work) => work.drafted?.length));
  const meaning = (state, words) => (
    drafts && state === "decode" ? "decode: its new tokens, or × how many" : words
  );
  return node("ul", { class: "sn-legend" }, ...LEGEND.map(([state, words]) =>
    node("li", {}, legendSwatch(state, patterns), meaning(state, words))),
    node("li", {}, "dot: its first token is sampled"),
    differs ? node("li", {}, svg("svg", { width: 22, height: 14, "aria-hidden": "true" },
      svg("rect", { x: 2, y: 1, width: 18, height: 12, rx: 3, class: "sn-tl-first" })), "the first step that differs") : null);
}
