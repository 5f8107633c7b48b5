// How far back each head of a trained model looks, stepped over the window.

import { boxKey, legendOf } from "./chart.js";
import { drawAttention, drawMap } from "./attention_by_distance_picture.js";
import { attentionWords, headOf } from "./attention_by_distance_layout.js";
import { node } from "./dom.js";
import { choiceButtons, toggleButton } from "./player.js";
import { steppedPicture } from "./stepped.js";
import { number } from "./words.js";

function legend(data) {
  return legendOf(
    boxKey("sn-ad-kept", "in the window"),
    data.sinks ? boxKey("sn-ad-sink sn-hue-4", "sinks: the first tokens, kept") : null,
    boxKey("sn-ad-cut", "cut off"),
    "press a bar to cut there, a cell to look at its head",
  );
}

// The highest bar of any head of the layer, so that heads can be compared.
function highest(data, layer) {
  return Math.max(...data.weights[layer].flatMap((_, head) => {
    const found = headOf(data, layer, head);
    return [...found.weights, ...found.sinks];
  }));
}

function build({ weights, sink_weights: sinks, window }, moves) {
  const data = { weights, sinks };
  const farthest = data.weights[0][0].length - 1;
  const chosen = { layer: 0, head: 0, keepSinks: true };
  const stage = node("div", { class: "sn-ad-stage" });
  const heads = [...data.weights[0].keys(), null];
  const choose = (change) => {
    Object.assign(chosen, change);
    layers.mark(chosen.layer);
    ofLayer.mark(heads.indexOf(chosen.head));
    moves.again();
  };
  const layers = choiceButtons(data.weights.map((_, layer) => `layer ${layer}`), 0, (layer) => choose({ layer }));
  const ofLayer = choiceButtons(heads.map((head) => (head === null ? "mean" : `head ${head}`)), 0, (at) => choose({ head: heads[at] }));
  const sinksButton = data.sinks === null ? null : toggleButton("Keep the sinks", (keepSinks) => choose({ keepSinks }), true);
  return {
    count: Math.max(1, farthest), label: "The window", name: (step) => `window ${number(step + 1)}`,
    delay: () => Math.max(60, 6000 / Math.max(1, farthest)),
    extras: [...layers.buttons, ...ofLayer.buttons, sinksButton].filter(Boolean),
    draw: (step, width) => {
      const label = attentionWords(data, chosen, step + 1);
      stage.replaceChildren(
        drawAttention(data, chosen, step + 1, width, highest(data, chosen.layer), label, (d) => moves.go(Math.max(1, d) - 1)),
        drawMap(data, chosen, step + 1, width, (layer, head) => choose({ layer, head })),
      );
    },
    says: (step) => attentionWords(data, chosen, step + 1),
    below: [stage, legend(data)],
    opening: window - 1,
  };
}

export default steppedPicture({
  name: "attention-by-distance", label: "Attention by distance", build,
  inputs: ["weights", "sink_weights", "window"],
});
