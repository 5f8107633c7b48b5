// Draws one trace's lifecycles, stacked KV tokens and queue, and the labels. Moves no cursor.

import { scale } from "./chart.js";
import { requestHue, sideName, stepNumbers } from "./column_picture.js";
import { node, svg } from "./dom.js";
import { boxesOf, kvSteps, lifeOf, runsOf } from "./kv_budget_layout.js";
import { STATE_WORDS } from "./kv_budget_words.js";
import { timeTicks } from "./timeline_layout.js";
import { number } from "./words.js";

export const HEAD = 26;
const LIFE = 26;
const LIFE_BAR = 20;
const GAP = 26;
const CHART = 150;
const QUEUE_GAP = 12;
const QUEUE = 30;
const BETWEEN = 22;
export const EDGE = 3;
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
  ["dropped", "released by preemption"],
  ["finished", "released because done"],
];

// ---- sizes ----------------------------------------------------------------------------------

export function sideHeight(trace) {
  return HEAD + trace.requests.length * LIFE + GAP + CHART + QUEUE_GAP + QUEUE;
}

export function sideTops(traces) {
  return traces.map((_, at) => traces.slice(0, at).reduce((sum, each) => sum + sideHeight(each) + BETWEEN, 0));
}

function chartTop(trace) {
  return HEAD + trace.requests.length * LIFE + GAP;
}

function text(x, y, className, words, anchor = "middle") {
  return svg("text", { x, y, class: className, "text-anchor": anchor }, words);
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
      group.append(svg("path", { d: `M${x + 4} ${y + 10}l3 3.5l6 -7`, class: "sn-kv-done" }));
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
    group.append(text(box.x + box.width / 2, y + 14, `sn-kv-state sn-kv-state-${run.state}`, words));
  }
  const states = lifeOf(trace, request);
  if (trace.steps[states.length - 1]?.finished.includes(request.id) && states[states.length - 1] !== "done") {
    const last = columns[columns.length - 1];
    group.append(svg("path", { d: `M${last.x + last.width + 4} ${y + 10}l3 3.5l6 -7`, class: "sn-kv-done" }));
  }
  return group;
}

function drawBox(trace, box, column, base, unit, patterns) {
  const hue = requestHue(trace, box.id);
  const inset = column.width > 12 ? 1.5 : 0.4;
  const place = { x: column.x + inset, width: Math.max(1, column.width - 2 * inset) };
  const height = box.tokens * unit;
  const y = base - (box.from + box.tokens) * unit;
  const group = svg("g", { class: hue });
  group.append(svg("rect", { ...place, y, height, class: `sn-kv-box-${box.kind}` }));
  if (box.again) {
    const part = { ...place, y: base - (box.from + box.again) * unit, height: box.again * unit };
    group.append(svg("rect", { ...part, fill: `url(#${patterns.recomputing})` }));
  }
  const words = String(box.tokens);
  // What was dropped is said by the mark above.
  if (box.kind !== "dropped" && column.width >= NUMBERS_PX && height >= 14 && fits(words, place.width)) {
    const middle = y + height / 2 + 4;
    if (box.again) {
      const plate = Math.min(place.width, words.length * BOLD + 6);
      group.append(svg("rect", { x: place.x + (place.width - plate) / 2, y: middle - 11, width: plate, height: 14, rx: 3, class: "sn-kv-plate-recomputing" }));
    }
    group.append(text(place.x + place.width / 2, middle, `sn-kv-amount sn-kv-amount-${box.kind}`, words));
  }
  return group;
}

// The marks above the columns with a preemption: an arrow down, and which request lost what.
function drawDrops(steps, columns, top, base, unit) {
  const group = svg("g", {});
  let free = 0;
  steps.forEach((step, index) => {
    const tokens = step.dropped.reduce((sum, each) => sum + each.tokens, 0);
    if (!step.dropped.length) return;
    const middle = columns[index].x + columns[index].width / 2;
    const boxes = boxesOf(step);
    const last = boxes[boxes.length - 1];
    const tip = Math.min(base - (last ? last.from + last.tokens : 0) * unit - 2, top - 2);
    group.append(svg("path", { d: `M${middle - 4.5} ${tip - 7}h9l-4.5 7Z`, class: "sn-kv-mark" }));
    const who = step.dropped.map((each) => each.id).join(", ");
    const long = `request ${who}: −${tokens}`;
    const short = `−${tokens}`;
    const room = columns[columns.length - 1].x + columns[columns.length - 1].width;
    for (const words of [long, short]) {
      const half = (words.length * BOLD) / 2;
      const x = Math.max(half, Math.min(middle, room - half));
      if (x - half < free) continue;
      group.append(text(x, tip - 11, "sn-kv-drop", words));
      free = x + half + 8;
      break;
    }
  });
  return group;
}

function drawChart(trace, steps, columns, top, most, patterns, width) {
  const base = top + CHART;
  const unit = CHART / most;
  const group = svg("g", {});
  group.append(svg("path", { d: `M0 ${base + 0.5}H${width}`, class: "sn-kv-rule" }));
  steps.forEach((step, index) => {
    for (const box of boxesOf(step)) group.append(drawBox(trace, box, columns[index], base, unit, patterns));
  });
  if (trace.max_kv_tokens !== null) {
    const y = base - trace.max_kv_tokens * unit;
    group.append(svg("path", { d: `M0 ${y}H${width}`, class: "sn-kv-limit" }));
  }
  group.append(drawDrops(steps, columns, top, base, unit));
  return group;
}

function drawQueue(steps, columns, top, deepest) {
  const base = top + QUEUE - 13;
  const group = svg("g", {});
  steps.forEach((step, index) => {
    const column = columns[index];
    const inset = column.width > 12 ? 1.5 : 0.4;
    const height = scale(step.queue, deepest, 0, QUEUE - 13);
    const box = { x: column.x + inset, width: Math.max(1, column.width - 2 * inset) };
    group.append(svg("rect", { ...box, y: base - height, height, class: "sn-kv-queue" }));
    const words = String(step.queue);
    if (column.width >= NUMBERS_PX) group.append(text(column.x + column.width / 2, base + 12, "sn-kv-small", words));
  });
  return group;
}

export function drawSide(trace, top, columns, shared, width) {
  const steps = kvSteps(trace);
  const group = svg("g", {});
  group.append(stepNumbers(trace, columns, top + HEAD - 9, "sn-kv-small"));
  trace.requests.forEach((request, row) => {
    const y = top + HEAD + row * LIFE;
    group.append(drawLife(trace, request, columns, y + (LIFE - LIFE_BAR) / 2, shared.patterns));
  });
  const from = top + chartTop(trace);
  group.append(drawChart(trace, steps, columns, from, shared.most, shared.patterns, width));
  group.append(drawQueue(steps, columns, from + CHART + QUEUE_GAP, shared.deepest));
  return group;
}

// ---- labels ---------------------------------------------------------------------------------

export function drawLabels(sides, tops, { most, deepest }, narrow) {
  const width = narrow ? 64 : 106;
  const height = tops[tops.length - 1] + sideHeight(sides[sides.length - 1].trace);
  const labels = svg("svg", { width, height, class: "sn-kv-labels", "aria-hidden": "true" });
  sides.forEach(({ trace, name }, at) => {
    const top = tops[at];
    if (name) labels.append(sideName(name, top + HEAD - 9, "sn-kv-side", narrow));
    const ranked = new Set(trace.requests.map((request) => request.priority)).size > 1;
    trace.requests.forEach((request, row) => {
      const y = top + HEAD + row * LIFE + LIFE / 2;
      const rank = ranked ? `, p${request.priority}` : "";
      labels.append(svg("rect", { x: 0, y: y - 7, width: 5, height: 14, rx: 2.5, class: `sn-kv-key ${requestHue(trace, request.id)}` }));
      labels.append(text(12, y + 4, "sn-kv-label", `${narrow ? "" : "request "}${request.id}${rank}`, "start"));
    });
    const from = top + chartTop(trace);
    const budget = trace.max_kv_tokens;
    labels.append(text(width - 4, from + CHART + 4, "sn-kv-small", "0", "end"));
    labels.append(text(0, from + CHART - 14, "sn-kv-small", narrow ? "KV" : "KV tokens", "start"));
    if (budget !== null) {
      const y = from + CHART - (budget / most) * CHART;
      labels.append(text(width - 4, y + 4, "sn-kv-budget", `${narrow ? "" : "KV budget "}${number(budget)}`, "end"));
    }
    const queue = from + CHART + QUEUE_GAP + 10;
    labels.append(text(0, queue, "sn-kv-small", narrow ? "waiting" : "waiting queue", "start"));
    labels.append(text(0, queue + 14, "sn-kv-small", `at most ${deepest}`, "start"));
  });
  return labels;
}

function legendSwatch(state, patterns) {
  const box = { x: 0.5, y: 0.5, width: 21, height: 13, rx: 3 };
  const swatch = svg("svg", { width: 22, height: 14, "aria-hidden": "true", class: "sn-hue-0" });
  const released = state === "dropped" || state === "finished";
  swatch.append(svg("rect", { ...box, class: released ? `sn-kv-box-${state}` : `sn-kv-${state}` }));
  if (patterns[state]) swatch.append(svg("rect", { ...box, fill: `url(#${patterns[state]})` }));
  return swatch;
}

export function kvLegend(patterns) {
  return node("ul", { class: "sn-legend" }, ...LEGEND.map(([state, words]) =>
    node("li", {}, legendSwatch(state, patterns), words)));
}

// ---- the time axis ---------------------------------------------------------------------------

export function drawTimes(unit, width, top) {
  const group = svg("g", {});
  group.append(svg("path", { d: `M${EDGE} ${top + 1.5}h${width}`, class: "sn-kv-axis" }));
  for (const { x, ms } of timeTicks(width, unit)) {
    group.append(svg("path", { d: `M${x + EDGE} ${top - 2}v7`, class: "sn-kv-axis" }));
    group.append(text(x + (x < 12 ? 0 : EDGE), top + 17, "sn-kv-small", `${number(ms)} ms`, x < 12 ? "start" : "middle"));
  }
  return group;
}
