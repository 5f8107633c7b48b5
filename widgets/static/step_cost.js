// Draws measured steps, the fitted line and a cursor over the number of tokens.

import { chartText, scale, ticks } from "./chart.js";
import { mount, node, pointIn, svg, titleRow } from "./dom.js";
import { createPlayer, textButton } from "./player.js";
import { corners, costAt, costWords, seriesWords, topUs } from "./step_cost_layout.js";
import { count, number } from "./words.js";

const HEIGHT = 300;
const LEFT = 46;
const RIGHT = 14;
const TOP = 30;
const BOTTOM = 44;

function frameOf(series, maxTokens, width) {
  const msTicks = ticks(topUs(series, maxTokens) / 1000);
  const topMs = msTicks[msTicks.length - 1];
  return {
    msTicks,
    x: (tokens) => scale(tokens, maxTokens, LEFT, width - RIGHT),
    y: (us) => scale(us / 1000, topMs, HEIGHT - BOTTOM, TOP),
    base: HEIGHT - BOTTOM,
  };
}

function drawAxes(frame, maxTokens, width) {
  const group = svg("g", {});
  for (const ms of frame.msTicks) {
    const y = frame.y(ms * 1000);
    group.append(svg("path", { d: `M${LEFT} ${y}H${width - RIGHT}`, class: "sn-sc-grid" }));
    group.append(chartText(LEFT - 8, y + 4, "end", number(ms)));
  }
  for (const tokens of ticks(maxTokens, width < 500 ? 4 : 8).filter((each) => each <= maxTokens)) {
    group.append(chartText(frame.x(tokens), frame.base + 18, "middle", number(tokens)));
  }
  group.append(chartText((LEFT + width - RIGHT) / 2, HEIGHT - 6, "middle", "tokens in the step"));
  group.append(chartText(4, 12, "start", "ms per step"));
  return group;
}

function drawSeries(series, frame, maxTokens) {
  const group = svg("g", {});
  const fixedY = frame.y(series.fixed_us);
  const start = frame.x(0);
  const end = frame.x(maxTokens);
  group.append(svg("rect", { x: start, y: fixedY, width: end - start, height: frame.base - fixedY, class: "sn-sc-fixed" }));
  group.append(svg("path", { d: `M${start} ${fixedY}H${end}`, class: "sn-sc-fixedline" }));
  for (const point of series.points) {
    group.append(svg("circle", { cx: frame.x(point.tokens), cy: frame.y(point.us), r: 3.6, class: "sn-sc-point" }));
  }
  const path = corners(series, maxTokens).map((corner) => `${frame.x(corner.tokens)} ${frame.y(corner.us)}`);
  group.append(svg("path", { d: `M${path.join("L")}`, class: "sn-sc-line" }));
  return group;
}

function createCursor() {
  const work = svg("rect", { width: 10, rx: 2, class: "sn-sc-work" });
  const fixed = svg("rect", { width: 10, rx: 2, class: "sn-sc-part" });
  const dot = svg("circle", { r: 6, class: "sn-sc-dot" });
  const group = svg("g", {}, fixed, work, dot);
  const point = (series, frame, tokens) => {
    const cost = costAt(series, tokens);
    const x = frame.x(tokens);
    const fixedY = frame.y(cost.fixed);
    const totalY = frame.y(cost.total);
    fixed.setAttribute("x", x - 5);
    fixed.setAttribute("y", fixedY);
    fixed.setAttribute("height", frame.base - fixedY);
    work.setAttribute("x", x - 5);
    work.setAttribute("y", totalY);
    work.setAttribute("height", Math.max(0, fixedY - totalY));
    dot.setAttribute("cx", x);
    dot.setAttribute("cy", totalY);
  };
  return { group, point };
}

function legend(series) {
  const box = (className) => svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, svg("rect", { x: 1, y: 1, width: 12, height: 12, rx: 3, class: className }));
  const dot = svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, svg("circle", { cx: 7, cy: 7, r: 3.6, class: "sn-sc-point" }));
  const points = node("li", {}, dot, `measured steps (${series.points.length})`);
  return [
    ...(series.points.length ? [points] : []),
    node("li", {}, box("sn-sc-part"), "fixed: paid by every step"),
    node("li", {}, box("sn-sc-work"), series.floor_us > 0 ? "tokens, at least one read of the weights" : "tokens: paid by each of them"),
  ];
}

function build(root, model) {
  const all = model.get("series");
  const maxTokens = model.get("max_tokens");
  const cursor = createCursor();
  const stage = node("div", { class: "sn-sc-stage" });
  const chip = node("span", { class: "sn-chip sn-chip-strong" });
  const key = node("ul", { class: "sn-legend" });
  let series = all[0];
  let frame = null;
  let width = 0;

  const draw = () => {
    chip.textContent = seriesWords(series);
    key.replaceChildren(...legend(series));
    if (!width) return;
    frame = frameOf(series, maxTokens, width);
    const label = `Step cost against tokens, ${seriesWords(series)}, up to ${count(maxTokens, "token")}`;
    const picture = svg("svg", { width, height: HEIGHT, role: "img", "aria-label": label, class: "sn-sc-picture" });
    picture.append(drawAxes(frame, maxTokens, width), drawSeries(series, frame, maxTokens), cursor.group);
    picture.addEventListener("click", (event) => {
      const across = pointIn(picture, event)[0] - LEFT;
      player.go(Math.round((across / (width - LEFT - RIGHT)) * maxTokens) - 1);
    });
    stage.replaceChildren(picture);
    cursor.point(series, frame, player.step() + 1);
  };
  const choose = (next) => {
    series = next;
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(all[at] === next)));
    draw();
    player.go(player.step());
  };
  const buttons = all.map((each) => textButton(each.name, () => choose(each), String(each === series)));
  const player = createPlayer({
    root, count: maxTokens, label: "Tokens in the step", extras: all.length > 1 ? buttons : [],
    name: (step) => count(step + 1, "token"),
    delay: () => Math.max(30, 4000 / maxTokens),
    onStep: (step) => {
      if (frame) cursor.point(series, frame, step + 1);
      return costWords(series, step + 1);
    },
  });
  root.append(
    titleRow(model, chip),
    player.toolbar, player.keys, player.live, stage, key,
  );
  draw();
  player.open(model, Math.min(maxTokens, 16) - 1);
  return player.sized((room) => {
    width = room;
    draw();
  });
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "step-cost", label: "What a step costs", inputs: ["series", "title", "max_tokens"],
    build: (root) => build(root, model),
  }),
};
