// Draws the rows, the budget and the labels of one trace. Decides no step and no size of the page.

import { chartText, hatchedKey, legendKey, legendOf } from "./chart.js";
import { doneTick, insideColumn, requestHue, requestLabel, sideName, stepNumbers } from "./column_picture.js";
import { svg } from "./dom.js";
import { CHARACTER_PX, bandsOf, budgetBars, cellsOf, chunkLines, widthOf } from "./timeline_layout.js";
import { tokensMark } from "./timeline_words.js";

const ROW = 36;
const CELL = 30;
export const HEAD = 26;
const BUDGET = 74;
const BAR = 46;
export const BLOCK_GAP = 14;
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

function prefillLabel(cell, width, middle, top) {
  const lines = chunkLines(cell, width);
  // On the axis of time a step may be too short for any words: the live line says them.
  if (Math.max(...lines.map((line) => line.length)) * CHARACTER_PX > width) return [];
  const first = lines.length === 1 ? top + CELL / 2 + 4 : top + 14;
  return lines.map((line, at) => chartText(middle, first + 11 * at, "middle", line, "sn-tl-range"));
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
  return [chartText(middle, top + CELL / 2 + 4.5, "middle", mark, `sn-tl-token${special}`)];
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
  const shapes = [svg("rect", { ...box, class: `sn-tl-${cell.state} ${hue}` })];
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
  const bands = bandsOf(cellsOf(trace, request));
  const last = bands.filter((band) => band.cell.state !== "done").pop();
  const done = last && trace.steps[last.to - 1].finished.includes(request.id) ? columns[last.to - 1] : null;
  return svg(
    "g", {}, ...bands.flatMap((band) => drawCell(band, columns, y, hue, alphabet, patterns)),
    done && doneTick(done.x + done.width + 5, y + CELL / 2),
  );
}

function drawBudget(trace, columns, top, most) {
  const base = top + BUDGET - 20;
  return budgetBars(trace, most).flatMap((bar, index) => {
    const { x, width } = insideColumn(columns[index]);
    const [within, over, limit] = [bar.within * BAR, bar.over * BAR, base - bar.limit * BAR];
    const words = `${bar.used}`;
    const className = over > 0 ? "sn-tl-amount sn-tl-amount-over" : "sn-tl-amount";
    return [
      svg("rect", { x, y: limit, width, height: base - limit, class: "sn-tl-room" }),
      svg("rect", { x, y: base - within, width, height: within, class: "sn-tl-used" }),
      over > 0 ? svg("rect", { x, y: limit - over, width, height: over, class: "sn-tl-over" }) : null,
      svg("path", { d: `M${columns[index].x} ${limit}h${columns[index].width}`, class: "sn-tl-limit" }),
      words.length * CHARACTER_PX <= width - 1 ? chartText(x + width / 2, base + 14, "middle", words, className) : null,
    ];
  });
}

export function drawBlock({ trace, top }, columns, alphabet, patterns, width, most) {
  const rows = trace.requests.flatMap((request, row) => [
    svg("path", { d: `M0 ${top + HEAD + row * ROW + ROW}H${width}`, class: "sn-tl-rule" }),
    drawRow(trace, request, row, columns, top, alphabet, patterns),
  ]);
  const end = { d: `M${widthOf([columns]) + 5} ${top + HEAD}V${top + blockHeight(trace) - 6}`, class: "sn-tl-stop" };
  return svg(
    "g", {}, stepNumbers(trace, columns, top + HEAD - 9), ...rows,
    ...drawBudget(trace, columns, top + HEAD + trace.requests.length * ROW, most),
    trace.error ? svg("path", end) : null,
  );
}

// ---- the label column ---------------------------------------------------------------------------

// As wide as its longest words: "the reference", in bold.
export const labelsWidth = (narrow) => (narrow ? 68 : 106);

export function drawLabels(sides, narrow) {
  const width = labelsWidth(narrow);
  const height = sides.reduce((sum, side) => sum + blockHeight(side.trace) + BLOCK_GAP, -BLOCK_GAP);
  const labels = svg("svg", { width, height, "aria-hidden": "true" });
  for (const { trace, top, name } of sides) {
    if (name) labels.append(sideName(name, top + HEAD - 9, narrow));
    trace.requests.forEach(({ id }, row) =>
      labels.append(...requestLabel(trace, id, top + HEAD + row * ROW + ROW / 2, narrow ? `${id}` : `request ${id}`)));
    const y = top + HEAD + trace.requests.length * ROW + BUDGET / 2;
    labels.append(chartText(0, y, "start", "tokens"), chartText(0, y + 13, "start", `of ${trace.token_budget}`));
  }
  return labels;
}

export function timelineLegend(patterns, trace, differs) {
  const drafts = trace.steps.some((step) => step.work.some((work) => work.drafted?.length));
  const meaning = (state, words) => (
    drafts && state === "decode" ? "decode: its new tokens, or × how many" : words
  );
  return legendOf(
    ...LEGEND.map(([state, words]) => hatchedKey(meaning(state, words), `sn-tl-${state} sn-hue-0`, patterns[state])),
    "dot: its first token is sampled",
    differs ? legendKey("the first step that differs", 22, svg("rect", { x: 2, y: 1, width: 18, height: 12, rx: 3, class: "sn-tl-first" })) : null,
  );
}
