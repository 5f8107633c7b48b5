// Draws work per generated token, one panel per series, one more bar at every step.

import { chartText, scale, ticks } from "./chart.js";
import { mount, node, svg, titleRow } from "./dom.js";
import { createPlayer } from "./player.js";
import { barsOf, mostTokens, numSteps, stepWords, totalAt } from "./work_bars_layout.js";
import { number } from "./words.js";

const PANEL = 140;
const LEFT = 42;
const TOP = 8;
const BOTTOM = 22;

function drawPanel(each, at, steps, top, width) {
  const height = PANEL - TOP - BOTTOM;
  const highest = top * 1.06;
  const marks = ticks(top, 3).filter((mark) => mark <= highest);
  const label = `${each.name}: ${number(totalAt(each.tokens, each.tokens.length))} tokens in ${each.tokens.length} steps`;
  const picture = svg("svg", { width, height: PANEL, role: "img", "aria-label": label });
  for (const mark of marks) {
    const y = TOP + scale(mark, highest, height, 0);
    picture.append(svg("path", { d: `M${LEFT} ${y}H${width}`, class: "sn-wb-grid" }));
    picture.append(chartText(LEFT - 8, y + 4, "end", number(mark)));
  }
  const bars = barsOf(each.tokens, steps, highest, width - LEFT, height).map((bar) => {
    const box = { x: LEFT + bar.x, y: TOP + bar.y, width: bar.width, height: bar.height };
    const rect = svg("rect", { ...box, rx: Math.min(2, bar.width / 3), class: `sn-wb-bar sn-hue-${at}` });
    picture.append(rect);
    return rect;
  });
  const every = Math.ceil(34 / ((width - LEFT) / steps));
  for (let step = 0; step < steps; step += every) {
    const x = Math.min(LEFT + ((step + 0.5) * (width - LEFT)) / steps, width - 12); // room for a label
    picture.append(chartText(x, PANEL - 5, "middle", String(step + 1)));
  }
  return { picture, bars };
}

function createPanel(each, at) {
  const total = node("strong", { class: "sn-wb-total" });
  const head = node("p", { class: "sn-wb-head" }, node("i", { class: `sn-wb-dot sn-hue-${at}` }), node("span", {}, each.name), total, node("span", { class: "sn-wb-unit" }, "tokens so far"));
  const holder = node("div", { class: "sn-wb-holder" });
  const element = node("div", { class: "sn-wb-panel" }, head, holder);
  let bars = [];
  const point = (step) => {
    total.textContent = number(totalAt(each.tokens, step));
    bars.forEach((bar, index) => {
      bar.classList.toggle("sn-wb-later", index > step);
      bar.classList.toggle("sn-wb-now", index === step);
    });
  };
  const draw = (steps, top, width, step) => {
    const drawn = drawPanel(each, at, steps, top, width);
    holder.replaceChildren(drawn.picture);
    bars = drawn.bars;
    point(step);
  };
  return { element, draw, point };
}

function build(root, model) {
  const series = model.get("series");
  const steps = numSteps(series);
  const panels = series.map(createPanel);
  const player = createPlayer({
    root, count: steps, label: "Generated tokens",
    name: (step) => `token ${step + 1} of ${steps}`,
    delay: () => Math.max(120, Math.min(700, 12000 / steps)),
    onStep: (step) => {
      panels.forEach((panel) => panel.point(step));
      return stepWords(series, step);
    },
  });
  const stage = node("div", {}, ...panels.map((panel) => panel.element));
  root.append(titleRow(model));
  root.append(player.toolbar, player.keys, player.live, stage);
  player.open(model);
  return player.sized((room) => panels.forEach((panel) =>
    panel.draw(steps, mostTokens(series), room, player.step())));
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "work-bars", label: "Work per generated token", inputs: ["series", "title"],
    build: (root) => build(root, model),
  }),
};
