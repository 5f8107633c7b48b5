// Draws the stacks, the budget and the padding of one or two runs, one above the other.

import { chartText } from "./chart.js";
import { EDGE, createColumnPicture, insideColumn, requestHue, stepNumbers } from "./column_picture.js";
import { freshId, svg } from "./dom.js";
import { growthSteps, mostOf, mostPadding, topOf } from "./kv_growth_layout.js";
import { BARS, CHART, boxesOf, drawBars, drawDrops, drawLine, stepWidth, sumOf } from "./kv_stacks.js";
import { number } from "./words.js";

const HEAD = 56;
const NUMBERS_Y = 29;
const PAD_GAP = 12;
const BETWEEN = 18;
const SIDE = HEAD + CHART + PAD_GAP + BARS;
const TAIL = 8;
const CHARACTER = 6.3;
// Narrower columns carry no numbers: only the one-digit ones would fit, and mislead.
const NUMBERS_PX = 19;

function drawColumn(trace, step, column, base, perPixel) {
  const place = insideColumn(column);
  const group = svg("g", {});
  const amounts = svg("g", {});
  for (const box of boxesOf(step)) {
    const height = box.amount * perPixel;
    const y = base - (box.from + box.amount) * perPixel;
    group.append(svg("rect", { ...place, y, height, class: `sn-kv-box-${box.kind} ${requestHue(trace, box.id)}` }));
    const words = number(box.amount);
    if (box.kind === "dropped" || place.width < NUMBERS_PX || height < 14 || words.length * CHARACTER > place.width) continue;
    amounts.append(chartText(place.x + place.width / 2, y + height / 2 + 4, "middle", words, `sn-kv-amount sn-kv-amount-${box.kind}`));
  }
  const top = topOf(step);
  if (step.peak !== null && step.peak > top) {
    group.append(svg("rect", { ...place, y: base - step.peak * perPixel, height: (step.peak - top) * perPixel, class: "sn-kg-peak" }));
  }
  if (step.counted !== step.held) {
    const y = base - step.counted * perPixel;
    group.append(svg("path", { d: `M${column.x} ${y}h${column.width}`, class: "sn-kg-counted" }));
  }
  group.append(amounts);
  return group;
}

function wasteWords(waste, room) {
  const words = number(waste);
  return waste && room >= Math.max(NUMBERS_PX, words.length * CHARACTER) ? words : "";
}

function drawSide({ trace, top }, unit, columns, shared, width) {
  const steps = growthSteps(trace, unit);
  const base = top + HEAD + CHART;
  const perPixel = CHART / shared.most;
  const group = svg("g", {}, stepNumbers(trace, columns, top + NUMBERS_Y), drawLine(base + 0.5, width, "sn-line"));
  steps.forEach((step, index) => group.append(drawColumn(trace, step, columns[index], base, perPixel)));
  if (trace.max_kv_tokens !== null) group.append(drawLine(base - unit.times(trace.max_kv_tokens) * perPixel, width, "sn-kv-limit"));
  const tipOf = (step) => Math.max(top + HEAD - 6, base - (topOf(step) + sumOf(step.dropped)) * perPixel - 2);
  group.append(
    drawDrops(steps, columns, tipOf, (step) => [step.dropped.map((each) => each.id).join(", ")]),
    drawBars(steps.map((step) => step.computed - step.useful), shared.padding, columns, base + PAD_GAP,
      { fill: `url(#${shared.stripes})`, class: "sn-kg-padding" }, wasteWords),
    drawLine(base + PAD_GAP + 17.5, width, "sn-line"),
  );
  return group;
}

function drawLabels(sides, unit, shared, narrow) {
  const bytes = unit.noun === "byte";
  const width = narrow ? 62 : 112;
  const labels = svg("svg", { width, height: sides[sides.length - 1].top + SIDE, "aria-hidden": "true" });
  for (const { label, trace, top } of sides) {
    const base = top + HEAD + CHART;
    labels.append(
      chartText(0, top + 13, "start", label, "sn-side"), chartText(width - 4, base + 4, "end", "0"),
      chartText(0, base - 14, "start", bytes ? "bytes" : narrow ? "KV" : "KV tokens"),
      chartText(0, base + PAD_GAP + 10, "start", "padding"),
      chartText(0, base + PAD_GAP + 24, "start", `at most ${number(shared.padding)}`),
    );
    if (trace.max_kv_tokens === null) continue;
    const budget = unit.times(trace.max_kv_tokens);
    const y = base - (budget / shared.most) * CHART + 4;
    if (!narrow) labels.append(chartText(0, y, "start", "budget", "sn-kv-budget"));
    labels.append(chartText(width - 4, y, "end", number(budget), "sn-kv-budget"));
  }
  return labels;
}

// The scrolling picture: drawn again for another width, unit or window, its cursor moved per step.
export function createGrowthPicture(runs) {
  const stripes = freshId("padding");
  const columnPicture = createColumnPicture("KV growth, scrolls sideways");

  function draw(shown, unit, width, label, press) {
    const shared = { stripes, most: mostOf(runs, unit), padding: mostPadding(runs, unit) };
    const sides = shown.map((run, at) => ({ ...run, top: at * (SIDE + BETWEEN) }));
    const labels = drawLabels(sides, unit, shared, width < 560);
    const room = width - Number(labels.getAttribute("width")) - 6;
    columnPicture.draw({
      sides, labels, room, label, press, axis: "steps", tail: TAIL, patterns: [[stripes, "sn-kg-hatch"]],
      unit: stepWidth(runs.map((run) => run.trace), room - TAIL - EDGE),
      drawSide: (side, columns, total) => ({
        group: drawSide(side, unit, columns, shared, total),
        shade: { y: side.top + HEAD - 22, height: SIDE - HEAD + 22 },
        cursor: { y: side.top + NUMBERS_Y - 13, height: SIDE - NUMBERS_Y + 12 },
      }),
    });
  }

  return { stage: columnPicture.stage, draw, point: columnPicture.point, stripes };
}
