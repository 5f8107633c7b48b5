// Steps through real storage: cells of bytes with the views into them, or the slots of a ring.

import { freshId, mount, node, svg, titleRow } from "./dom.js";
import { createPlayer } from "./player.js";
import { createBytesPicture } from "./storage_strip_bytes.js";
import { createRingPicture } from "./storage_strip_ring.js";
import { bytesWords, cellBytes, isRing, slotsWords, stripOpening } from "./storage_strip_layout.js";
import { count } from "./words.js";

function swatch(shape, words) {
  return node("li", {}, svg("svg", { width: 18, height: 14, "aria-hidden": "true" }, shape), words);
}

function box(className, more = {}) {
  return svg("rect", { x: 1, y: 1, width: 16, height: 12, rx: 2, class: className, ...more });
}

function bytesLegend(cell, pattern) {
  return node(
    "ul", { class: "sn-legend" },
    node("li", {}, `one cell: ${count(cell, "byte")}`),
    swatch(box("sn-ss-seen sn-hue-0"), "a view shows it"),
    swatch(box("sn-ss-unseen", { fill: `url(#${pattern})` }), "alive, but no view shows it"),
    swatch(box("sn-ss-freed"), "freed"),
  );
}

function ringLegend(sinks) {
  return node(
    "ul", { class: "sn-legend" },
    swatch(box("sn-ss-slot-new"), "written in this step"),
    swatch(box("sn-ss-slot-kept"), "in the window"),
    sinks ? swatch(box("sn-ss-slot-sink sn-hue-4"), "sink") : null,
    swatch(box("sn-ss-slot-empty"), "empty"),
  );
}

function build(root, model) {
  const steps = model.get("steps");
  const ring = isRing(steps);
  const pattern = freshId("unseen");
  const cell = ring ? null : cellBytes(steps);
  const picture = ring ? createRingPicture(steps) : createBytesPicture(steps, cell, pattern);
  let width = 0;
  const player = createPlayer({
    root, count: steps.length, label: "Steps of the storage",
    name: (step) => `step ${step} of ${steps.length - 1}`,
    delay: () => 1600,
    onStep: (step) => {
      if (width) picture.draw(width, step);
      return ring ? slotsWords(steps, step) : bytesWords(steps[step]);
    },
  });
  root.append(titleRow(model));
  root.append(
    player.toolbar, player.keys, player.live, picture.stage,
    ring ? ringLegend(steps[0].sinks) : bytesLegend(cell, pattern),
  );
  player.open(model, stripOpening(steps));
  return player.sized((room) => {
    width = room;
    picture.draw(width, player.step());
  });
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "storage-strip", label: "A strip of storage",
    inputs: ["steps", "title"],
    build: (root) => build(root, model),
  }),
};
