// How far back each head of a trained model looks, stepped over the window.

import { drawAttention, drawMap } from "./attention_by_distance_picture.js";
import { attentionWords, headOf } from "./attention_by_distance_layout.js";
import { mount, node, svg, titleRow } from "./dom.js";
import { createPlayer, textButton } from "./player.js";
import { number } from "./words.js";

function swatch(className, words) {
  const box = svg("rect", { x: 1, y: 1, width: 12, height: 12, rx: 2, class: className });
  return node("li", {}, svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, box), words);
}

function legend(data) {
  return node(
    "ul", { class: "sn-legend" },
    swatch("sn-ad-kept", "in the window"),
    data.sinks ? swatch("sn-ad-sink sn-hue-4", "sinks: the first tokens, kept") : null,
    swatch("sn-ad-cut", "cut off"),
    node("li", {}, "press a bar to cut there, a cell to look at its head"),
  );
}

// The highest bar of any head of the layer, so that heads can be compared.
function highest(data, layer) {
  return Math.max(...data.weights[layer].flatMap((_, head) => {
    const found = headOf(data, layer, head);
    return [...found.weights, ...found.sinks];
  }));
}

function build(root, model) {
  const data = { weights: model.get("weights"), sinks: model.get("sink_weights") };
  const farthest = data.weights[0][0].length - 1;
  const chosen = { layer: 0, head: 0, keepSinks: true };
  const stage = node("div", { class: "sn-ad-stage" });
  let width = 0;

  const draw = (window) => {
    if (!width) return;
    const label = attentionWords(data, chosen, window);
    stage.replaceChildren(
      drawAttention(data, chosen, window, width, highest(data, chosen.layer), label, (d) => player.go(Math.max(1, d) - 1)),
      drawMap(data, chosen, window, width, (layer, head) => choose({ layer, head })),
    );
  };
  const choose = (change) => {
    Object.assign(chosen, change);
    const mark = (buttons, at) => buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === at)));
    mark(layerButtons, chosen.layer);
    mark(headButtons, chosen.head ?? headButtons.length - 1);
    sinksButton?.setAttribute("aria-pressed", String(chosen.keepSinks));
    player.go(player.step());
  };
  const heads = data.weights[0].map((_, head) => head);
  const layerButtons = data.weights.map((_, layer) => textButton(`layer ${layer}`, () => choose({ layer }), String(layer === 0)));
  const headButtons = [...heads, null].map((head) =>
    textButton(head === null ? "mean" : `head ${head}`, () => choose({ head }), String(head === 0)));
  const sinksButton = data.sinks === null ? null
    : textButton("Keep the sinks", () => choose({ keepSinks: !chosen.keepSinks }), "true");
  const player = createPlayer({
    root, count: Math.max(1, farthest), label: "The window", name: (step) => `window ${number(step + 1)}`,
    delay: () => Math.max(60, 6000 / Math.max(1, farthest)),
    extras: [...layerButtons, ...headButtons, sinksButton].filter(Boolean),
    onStep: (step) => {
      draw(step + 1);
      return attentionWords(data, chosen, step + 1);
    },
  });
  root.append(titleRow(model));
  root.append(player.toolbar, player.keys, player.live, stage, legend(data));
  player.open(model, model.get("window") - 1);
  return player.sized((room) => {
    width = room;
    draw(player.step() + 1);
  });
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "attention-by-distance", label: "Attention by distance",
    inputs: ["weights", "sink_weights", "window", "title"],
    build: (root) => build(root, model),
  }),
};
