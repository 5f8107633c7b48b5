// Draws the stacks, the budget and the padding of one or two runs, one above the other.

import { createAhead } from "./ahead.js";
import { hatch, scale } from "./chart.js";
import { createScroller, pointAtColumn, pressColumns, requestHue, stepNumbers } from "./column_picture.js";
import { freshId, node, svg } from "./dom.js";
import { stepWidth } from "./kv_budget_layout.js";
import { growthBoxes, growthSteps, mostOf, mostPadding, topOf } from "./kv_growth_layout.js";
import { columnsOf, widthOf } from "./timeline_layout.js";
import { number } from "./words.js";

const HEAD = 56;
const NUMBERS_Y = 29;
const CHART = 150;
const PAD_GAP = 12;
const PAD = 30;
const BETWEEN = 18;
const SIDE = HEAD + CHART + PAD_GAP + PAD;
const EDGE = 3;
const TAIL = 8;
const CHARACTER = 6.3;
// Narrower columns carry no numbers: only the one-digit ones would fit, and mislead.
const NUMBERS_PX = 19;

function text(x, y, className, words, anchor = "middle") {
  return svg("text", { x, y, class: className, "text-anchor": anchor }, words);
}

function inner(column) {
  const inset = column.width > 12 ? 1.5 : 0.4;
  return { x: column.x + inset, width: Math.max(1, column.width - 2 * inset) };
}

function drawColumn(trace, step, column, base, perPixel) {
  const place = inner(column);
  const group = svg("g", {});
  const amounts = svg("g", {});
  for (const box of growthBoxes(step)) {
    const height = box.amount * perPixel;
    const y = base - (box.from + box.amount) * perPixel;
    group.append(svg("rect", { ...place, y, height, class: `sn-kg-${box.kind} ${requestHue(trace, box.id)}` }));
    const words = number(box.amount);
    if (box.kind === "dropped" || place.width < NUMBERS_PX || height < 14 || words.length * CHARACTER > place.width) continue;
    amounts.append(text(place.x + place.width / 2, y + height / 2 + 4, `sn-kg-amount sn-kg-amount-${box.kind}`, words));
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

// Above a column with a preemption: an arrow down, and which request where there is room.
function drawDrops(steps, columns, base, perPixel, chartTop) {
  const group = svg("g", {});
  let free = 0;
  steps.forEach((step, index) => {
    if (!step.dropped.length) return;
    const middle = columns[index].x + columns[index].width / 2;
    const height = topOf(step) + step.dropped.reduce((all, each) => all + each.amount, 0);
    const tip = Math.max(chartTop - 6, base - height * perPixel - 2);
    group.append(svg("path", { d: `M${middle - 4.5} ${tip - 7}h9l-4.5 7Z`, class: "sn-kg-mark" }));
    const words = step.dropped.map((each) => each.id).join(", ");
    const half = (words.length * CHARACTER) / 2 + 3;
    if (middle - half < free) return;
    group.append(text(middle, tip - 10, "sn-kg-drop", words));
    free = middle + half;
  });
  return group;
}

function drawPadding(steps, columns, top, shared, width) {
  const base = top + PAD - 13;
  const group = svg("g", {});
  steps.forEach((step, index) => {
    const waste = step.computed - step.useful;
    const height = scale(waste, shared.padding, 0, PAD - 13);
    group.append(svg("rect", { ...inner(columns[index]), y: base - height, height, fill: `url(#${shared.stripes})`, class: "sn-kg-padding" }));
    const words = number(waste);
    if (!waste || columns[index].width < Math.max(NUMBERS_PX, words.length * CHARACTER)) return;
    group.append(text(columns[index].x + columns[index].width / 2, base + 12, "sn-kg-small", words));
  });
  group.append(svg("path", { d: `M0 ${base + 0.5}H${width}`, class: "sn-kg-rule" }));
  return group;
}

function drawSide(run, unit, top, columns, shared, width) {
  const steps = growthSteps(run.trace, unit);
  const chartTop = top + HEAD;
  const base = chartTop + CHART;
  const perPixel = CHART / shared.most;
  const group = svg("g", {}, stepNumbers(run.trace, columns, top + NUMBERS_Y, "sn-kg-small"));
  group.append(svg("path", { d: `M0 ${base + 0.5}H${width}`, class: "sn-kg-rule" }));
  steps.forEach((step, index) => group.append(drawColumn(run.trace, step, columns[index], base, perPixel)));
  if (run.trace.max_kv_tokens !== null) {
    const y = base - unit.times(run.trace.max_kv_tokens) * perPixel;
    group.append(svg("path", { d: `M0 ${y}H${width}`, class: "sn-kg-limit" }));
  }
  group.append(drawDrops(steps, columns, base, perPixel, chartTop));
  group.append(drawPadding(steps, columns, base + PAD_GAP, shared, width));
  return group;
}

function drawLabels(sides, tops, unit, shared, narrow) {
  const bytes = unit.noun === "byte";
  const width = narrow ? 62 : 112;
  const labels = svg("svg", { width, height: tops[tops.length - 1] + SIDE, class: "sn-kg-labels", "aria-hidden": "true" });
  sides.forEach(({ label, trace }, at) => {
    const base = tops[at] + HEAD + CHART;
    labels.append(text(0, tops[at] + 13, "sn-kg-side", label, "start"));
    labels.append(text(width - 4, base + 4, "sn-kg-small", "0", "end"));
    labels.append(text(0, base - 14, "sn-kg-small", bytes ? "bytes" : narrow ? "KV" : "KV tokens", "start"));
    if (trace.max_kv_tokens !== null) {
      const budget = unit.times(trace.max_kv_tokens);
      const y = base - (budget / shared.most) * CHART;
      if (!narrow) labels.append(text(0, y + 4, "sn-kg-budget", "budget", "start"));
      labels.append(text(width - 4, y + 4, "sn-kg-budget", number(budget), "end"));
    }
    labels.append(text(0, base + PAD_GAP + 10, "sn-kg-small", "padding", "start"));
    labels.append(text(0, base + PAD_GAP + 24, "sn-kg-small", `at most ${number(shared.padding)}`, "start"));
  });
  return labels;
}

// The scrolling picture: drawn again for another width, unit or window, its cursor moved per step.
export function createGrowthPicture(runs) {
  const stripes = freshId("padding");
  const scroller = createScroller();
  const stage = node("div", { class: "sn-kg-stage" });
  let drawn = { columns: [], cursors: [], aheads: [], total: 0 };

  function draw(sides, unit, width, label, press) {
    const shared = { stripes, most: mostOf(runs, unit), padding: mostPadding(runs, unit) };
    const tops = sides.map((_, at) => at * (SIDE + BETWEEN));
    const labels = drawLabels(sides, tops, unit, shared, width < 560);
    const room = width - Number(labels.getAttribute("width")) - 6;
    const step = stepWidth(runs.map((run) => run.trace), room - TAIL - EDGE);
    const columns = sides.map(({ trace }) => columnsOf(trace, "steps", step)
      .map((column) => ({ x: column.x + EDGE, width: column.width })));
    const total = Math.max(room, widthOf(columns) + TAIL);
    const height = Number(labels.getAttribute("height"));
    const picture = svg("svg", { width: total, height, role: "img", "aria-label": label, class: "sn-kg-picture" });
    picture.append(svg("defs", {}, hatch(stripes, "sn-kg-hatch")));
    const aheads = [];
    const cursors = [];
    sides.forEach((run, at) => {
      const side = drawSide(run, unit, tops[at], columns[at], shared, total);
      aheads.push(createAhead(side, { y: tops[at] + HEAD - 22, height: SIDE - HEAD + 22 }));
      cursors.push(svg("rect", { y: tops[at] + NUMBERS_Y - 13, height: SIDE - NUMBERS_Y + 12, rx: 6, class: "sn-kg-cursor" }));
      picture.append(side, aheads[at].element, cursors[at]);
    });
    pressColumns(picture, tops, columns, press);
    scroller.place(picture, room, "KV growth, scrolls sideways");
    stage.replaceChildren(labels, scroller.element);
    drawn = { columns, cursors, aheads, total };
  }

  const point = (index) => pointAtColumn(drawn, scroller, index);

  return { stage, draw, point, stripes };
}
