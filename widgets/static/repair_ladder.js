// Climbs the repair ladder: one more variant with every step, at a load to choose.

import { chartText, scale } from "./chart.js";
import { mount, node, svg, titleRow } from "./dom.js";
import { createPlayer, textButton } from "./player.js";
import { intervalWords, ladderPlaces, percent, rowWords, TIERS, wasteMark, wrapped } from "./repair_ladder_layout.js";
import { number } from "./words.js";

function drawGrid(places, x, height) {
  const group = svg("g", {});
  for (const mark of [0, 25, 50, 75, 100]) {
    group.append(svg("path", { d: `M${x(mark)} ${places.top - 8}V${height}`, class: "sn-rl-grid" }));
    group.append(chartText(x(mark), 12, mark ? "middle" : "start", `${mark}${mark === 100 ? " %" : ""}`));
  }
  if (places.wide) group.append(chartText(places.waste, 12, "start", "thrown away"));
  return group;
}

// A bar with its value and, where there is one, its interval as a whisker.
function drawBar([mean, low, high], tier, x, y, places) {
  const group = svg("g", {});
  const middle = y + places.bar / 2;
  group.append(svg("rect", { x: x(0), y, width: Math.max(0.5, x(mean) - x(0)), height: places.bar, rx: 2, class: `sn-rl-${tier}` }));
  if (low !== null) {
    group.append(svg("path", { d: `M${x(low)} ${middle}H${x(high)}M${x(low)} ${middle - 4}v8M${x(high)} ${middle - 4}v8`, class: "sn-rl-whisker" }));
  }
  group.append(chartText(places.right + 34, middle + 4, "end", percent(mean), "sn-rl-value"));
  return group;
}

function drawWaste(cell, y, places) {
  const group = svg("g", {});
  const words = cell.preemptions ? percent(100 * cell.wasted_share) : "–";
  if (!places.wide) {
    group.append(chartText(places.left, y + 2 * places.bar + 18, "start", wasteMark(cell)));
    return group;
  }
  const room = 64;
  group.append(
    svg("rect", { x: places.waste, y: y + 8, width: room, height: 17, rx: 3, class: "sn-rl-all" }),
    svg("rect", { x: places.waste, y: y + 8, width: room * cell.wasted_share, height: 17, rx: 3, class: "sn-rl-wasted" }),
    chartText(places.waste + room + 8, y + 21, "start", words, "sn-rl-value"),
  );
  return group;
}

function drawRow(row, load, at, step, places, x, width) {
  const group = svg("g", {});
  const top = places.top + at * places.step;
  const y = top + places.above;
  const reached = at <= step;
  if (at === step) group.append(svg("rect", { x: 0, y: top - 5, width, height: places.step - 6, rx: 6, class: "sn-rl-here" }));
  const name = `sn-rl-name${reached ? "" : " sn-rl-ahead"}`;
  const lines = wrapped(row.variant, places.letters);
  const first = places.wide ? y + 20 - 8 * (lines.length - 1) : top + 10;
  lines.forEach((words, line) => group.append(chartText(places.wide ? 8 : places.left, first + 16 * line, "start", words, name)));
  if (!reached) return group;
  TIERS.forEach((tier, line) => group.append(drawBar(row.loads[load][tier], tier, x, y + line * (places.bar + 3), places)));
  group.append(drawWaste(row.loads[load], y, places));
  return group;
}

function drawLadder(rows, load, step, width) {
  const places = ladderPlaces(width, rows.map((row) => row.variant));
  const x = (value) => scale(value, 100, places.left, places.right - 8);
  const height = places.top + rows.length * places.step;
  const told = rows.slice(0, step + 1).map((row) =>
    `${row.variant}: ${TIERS.map((tier) => `${tier} ${intervalWords(row.loads[load][tier])}`).join(", ")}`);
  const picture = svg("svg", { width, height, role: "img", "aria-label": `In time, at ${number(load)} requests/s. ${told.join("; ")}` });
  picture.append(drawGrid(places, x, height - 10), ...rows.map((row, at) => drawRow(row, load, at, step, places, x, width)));
  return picture;
}

function legend() {
  const swatch = (className, words) => node("li", {}, svg("svg", { width: 22, height: 14, "aria-hidden": "true" },
    svg("rect", { x: 1, y: 2, width: 20, height: 10, rx: 2, class: className })), words);
  return node(
    "ul", { class: "sn-legend" },
    swatch("sn-rl-urgent", "urgent requests in time"),
    swatch("sn-rl-generous", "generous requests in time"),
    node("li", {}, svg("svg", { width: 22, height: 14, "aria-hidden": "true" },
      svg("path", { d: "M2 7H20M2 3v8M20 3v8", class: "sn-rl-whisker" })), "confidence interval"),
    swatch("sn-rl-wasted", "computing time thrown away"),
  );
}

function build(root, model) {
  const rows = model.get("rows");
  const stage = node("div", {});
  let load = model.get("load");
  let width = 0;
  const draw = (step) => {
    if (width) stage.replaceChildren(drawLadder(rows, load, step, width));
  };
  const loads = Object.keys(rows[0].loads).sort((one, other) => Number(one) - Number(other));
  const buttons = loads.map((each) => textButton(`${each}/s`, () => {
    load = each;
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(loads[at] === load)));
    player.go(player.step());
  }, String(each === load)));
  for (const [at, button] of buttons.entries()) button.setAttribute("aria-label", `${loads[at]} requests per second`);
  const player = createPlayer({
    root, count: rows.length, label: "Rungs of the ladder", extras: loads.length > 1 ? buttons : [],
    name: (step) => `rung ${step + 1} of ${rows.length}`,
    delay: () => 1800,
    onStep: (step) => {
      draw(step);
      return rowWords(rows, step, load);
    },
  });
  root.append(titleRow(model));
  root.append(player.toolbar, player.keys, player.live, stage, legend());
  player.live.classList.add("sn-rl-live");
  player.open(model);
  return player.sized((room) => {
    width = room;
    draw(player.step());
  });
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "repair-ladder", label: "The repair ladder", inputs: ["rows", "title", "load"],
    build: (root) => build(root, model),
  }),
};
