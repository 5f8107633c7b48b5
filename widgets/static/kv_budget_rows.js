// Draws one trace's lifecycles, stacked KV tokens and queue, and the labels. Moves no cursor.

import { chartText, hatchedKey, legendOf } from "./chart.js";
import { doneTick, insideColumn, requestHue, requestLabel, sideName, stepNumbers } from "./column_picture.js";
import { svg } from "./dom.js";
import { kvSteps, lifeOf, runsOf } from "./kv_budget_layout.js";
import { STATE_WORDS } from "./kv_budget_words.js";
import { BARS, CHART, boxesOf, drawBars, drawDrops, drawLine, sumOf } from "./kv_stacks.js";
import { number } from "./words.js";

export const HEAD = 26;
const LIFE = 26;
const LIFE_BAR = 20;
const GAP = 26;
const QUEUE_GAP = 12;
const BETWEEN = 22;
const CHARACTER = 6.3;
const BOLD = 7.2;
// Narrower columns carry no numbers: only the one-digit ones would fit, and mislead.
const NUMBERS_PX = 17;

const LEGEND = [
  ["prefilling", "prefilling"],
  ["recomputing", "tokens computed again"],
  ["active", "active: one new token per step"],
  ["waiting", "waiting"],
  ["preempted", "preempted, waiting to come back"],
  ["box-dropped", "released by preemption"],
  ["box-finished", "released because done"],
];

// ---- sizes ----------------------------------------------------------------------------------

export function sideHeight(trace) {
  return HEAD + trace.requests.length * LIFE + GAP + CHART + QUEUE_GAP + BARS;
}

export function sideTops(traces) {
  return traces.map((_, at) => traces.slice(0, at).reduce((sum, each) => sum + sideHeight(each) + BETWEEN, 0));
}

function chartTop(trace) {
  return HEAD + trace.requests.length * LIFE + GAP;
}

function fits(words, width) {
  return words.length * CHARACTER <= width;
}

// ---- one trace ------------------------------------------------------------------------------

function drawLife(trace, request, columns, y, patterns) {
  const group = svg("g", { class: requestHue(trace, request.id) });
  for (const run of runsOf(lifeOf(trace, request))) {
    if (run.state === "before") continue;
    const x = columns[run.from].x;
    const end = columns[run.to - 1].x + columns[run.to - 1].width;
    if (run.state === "done") {
      group.append(doneTick(x + 4, y + LIFE_BAR / 2));
      continue;
    }
    const inset = end - x > 8 ? 1 : 0.3;
    const box = { x: x + inset, y, width: Math.max(1, end - x - 2 * inset), height: LIFE_BAR, rx: 4 };
    group.append(svg("rect", { ...box, class: `sn-kv-${run.state}` }));
    if (patterns[run.state]) group.append(svg("rect", { ...box, fill: `url(#${patterns[run.state]})` }));
    const words = STATE_WORDS[run.state];
    if (!fits(words, box.width - 6)) continue;
    if (patterns[run.state]) {
      const plate = words.length * CHARACTER + 8;
      group.append(svg("rect", { x: box.x + (box.width - plate) / 2, y: y + 3, width: plate, height: LIFE_BAR - 6, rx: 3, class: `sn-kv-plate-${run.state}` }));
    }
    group.append(chartText(box.x + box.width / 2, y + 14, "middle", words, `sn-kv-state sn-kv-state-${run.state}`));
  }
  const states = lifeOf(trace, request);
  if (trace.steps[states.length - 1]?.finished.includes(request.id) && states[states.length - 1] !== "done") {
    const last = columns[columns.length - 1];
    group.append(doneTick(last.x + last.width + 4, y + LIFE_BAR / 2));
  }
  return group;
}

function drawBox(trace, box, column, base, unit, patterns) {
  const place = insideColumn(column);
  const height = box.amount * unit;
  const y = base - (box.from + box.amount) * unit;
  const group = svg("g", { class: requestHue(trace, box.id) });
  group.append(svg("rect", { ...place, y, height, class: `sn-kv-box-${box.kind}` }));
  if (box.again) {
    const part = { ...place, y: base - (box.from + box.again) * unit, height: box.again * unit };
    group.append(svg("rect", { ...part, fill: `url(#${patterns.recomputing})` }));
  }
  const words = String(box.amount);
  // What was dropped is said by the mark above.
  if (box.kind === "dropped" || column.width < NUMBERS_PX || height < 14 || !fits(words, place.width)) return group;
  const middle = y + height / 2 + 4;
  if (box.again) {
    const plate = Math.min(place.width, words.length * BOLD + 6);
    group.append(svg("rect", { x: place.x + (place.width - plate) / 2, y: middle - 11, width: plate, height: 14, rx: 3, class: "sn-kv-plate-recomputing" }));
  }
  group.append(chartText(place.x + place.width / 2, middle, "middle", words, `sn-kv-amount sn-kv-amount-${box.kind}`));
  return group;
}

// Which request lost how many tokens, or only how many.
function dropWords({ dropped }) {
  const lost = `−${sumOf(dropped)}`;
  return [`request ${dropped.map((each) => each.id).join(", ")}: ${lost}`, lost];
}

function drawChart(trace, steps, columns, top, most, patterns, width) {
  const base = top + CHART;
  const unit = CHART / most;
  const group = svg("g", {}, drawLine(base + 0.5, width, "sn-line"));
  steps.forEach((step, index) => {
    for (const box of boxesOf(step)) group.append(drawBox(trace, box, columns[index], base, unit, patterns));
  });
  if (trace.max_kv_tokens !== null) group.append(drawLine(base - trace.max_kv_tokens * unit, width, "sn-kv-limit"));
  group.append(drawDrops(steps, columns, () => top - 2, dropWords));
  return group;
}

export function drawSide(trace, top, columns, shared, width) {
  const steps = kvSteps(trace);
  const group = svg("g", {});
  group.append(stepNumbers(trace, columns, top + HEAD - 9));
  trace.requests.forEach((request, row) => {
    const y = top + HEAD + row * LIFE;
    group.append(drawLife(trace, request, columns, y + (LIFE - LIFE_BAR) / 2, shared.patterns));
  });
  const from = top + chartTop(trace);
  group.append(drawChart(trace, steps, columns, from, shared.most, shared.patterns, width));
  const depths = steps.map((step) => step.queue);
  group.append(drawBars(depths, shared.deepest, columns, from + CHART + QUEUE_GAP, { class: "sn-kv-queue" },
    (depth, room) => (room >= NUMBERS_PX ? String(depth) : "")));
  return group;
}

// ---- labels ---------------------------------------------------------------------------------

export function drawLabels(sides, tops, { most, deepest }, narrow) {
  const width = narrow ? 64 : 106;
  const height = tops[tops.length - 1] + sideHeight(sides[sides.length - 1].trace);
  const labels = svg("svg", { width, height, "aria-hidden": "true" });
  sides.forEach(({ trace, name }, at) => {
    const top = tops[at];
    if (name) labels.append(sideName(name, top + HEAD - 9, narrow));
    const ranked = new Set(trace.requests.map((request) => request.priority)).size > 1;
    trace.requests.forEach(({ id, priority }, row) => {
      const words = `${narrow ? "" : "request "}${id}${ranked ? `, p${priority}` : ""}`;
      labels.append(...requestLabel(trace, id, top + HEAD + row * LIFE + LIFE / 2, words));
    });
    const base = top + chartTop(trace) + CHART;
    const budget = trace.max_kv_tokens;
    labels.append(
      chartText(width - 4, base + 4, "end", "0"), chartText(0, base - 14, "start", narrow ? "KV" : "KV tokens"),
      chartText(0, base + QUEUE_GAP + 10, "start", narrow ? "waiting" : "waiting queue"),
      chartText(0, base + QUEUE_GAP + 24, "start", `at most ${deepest}`),
    );
    if (budget === null) return;
    const words = `${narrow ? "" : "KV budget "}${number(budget)}`;
    labels.append(chartText(width - 4, base - (budget / most) * CHART + 4, "end", words, "sn-kv-budget"));
  });
  return labels;
}

export function kvLegend(patterns) {
  return legendOf(...LEGEND.map(([state, words]) => hatchedKey(words, `sn-kv-${state} sn-hue-0`, patterns[state])));
}
