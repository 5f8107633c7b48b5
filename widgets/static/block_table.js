// Steps through a pool of physical blocks and the tables that name them.

import { poolOpening, poolTotals, poolWords } from "./block_table_layout.js";
import { drawPool } from "./block_table_picture.js";
import { mount, node, svg } from "./dom.js";
import { createPlayer } from "./player.js";
import { count } from "./words.js";

function swatch(className, words, stroke = false) {
  const box = svg("rect", { x: 1, y: 1, width: 12, height: 12, rx: 2, class: className });
  const line = stroke ? svg("path", { d: "M3 11L11 3", class: "sn-bt-stroke" }) : "";
  return node("li", {}, svg("svg", { width: 14, height: 14, "aria-hidden": "true", class: "sn-hue-0" }, box, line), words);
}

function legend() {
  return node(
    "ul", { class: "sn-legend" },
    swatch("sn-bt-seen", "an entry that queries see"),
    swatch("sn-bt-outside", "behind the window, still stored", true),
    swatch("sn-bt-empty", "empty"),
    swatch("sn-bt-gone", "given back"),
    node("li", {}, "thick outline: changed in this step"),
  );
}

function build(root, model) {
  const steps = model.get("steps");
  const stage = node("div", { class: "sn-bt-stage" });
  const chip = node("span", { class: "sn-chip sn-chip-strong" });
  let width = 0;
  const draw = (step) => {
    chip.textContent = `${count(poolTotals(steps[step]).free, "free block")}`;
    if (width) stage.replaceChildren(drawPool(steps, step, width));
  };
  const player = createPlayer({
    root, count: steps.length, label: "Steps of the block pool",
    name: (step) => `step ${step} of ${steps.length - 1}`,
    delay: () => 1800,
    onStep: (step) => {
      draw(step);
      return `${steps[step].words}\n${poolWords(steps[step])}`;
    },
  });
  const title = model.get("title");
  root.append(
    node("div", { class: "sn-head" }, title ? node("p", { class: "sn-title" }, title) : "", chip),
    player.toolbar, player.keys, player.live, stage, legend(),
  );
  player.live.classList.add("sn-bt-live");
  player.open(model, poolOpening(steps));
  return player.sized((room) => {
    width = room;
    draw(player.step());
  });
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "block-table", label: "Block tables", inputs: ["steps", "title"],
    build: (root) => build(root, model),
  }),
};
