// Steps through real storage: cells of bytes with the views into them, or the slots of a ring.

import { legendKey } from "./chart.js";
import { freshId, node, svg } from "./dom.js";
import { steppedPicture } from "./stepped.js";
import { createBytesPicture } from "./storage_strip_bytes.js";
import { createRingPicture } from "./storage_strip_ring.js";
import { bytesWords, cellBytes, isRing, slotsWords, stripOpening } from "./storage_strip_layout.js";
import { count } from "./words.js";

function box(className, more = {}) {
  return svg("rect", { x: 1, y: 1, width: 16, height: 12, rx: 2, class: className, ...more });
}

function bytesLegend(cell, pattern) {
  return node(
    "ul", { class: "sn-legend" },
    node("li", {}, `one cell: ${count(cell, "byte")}`),
    legendKey("a view shows it", 18, box("sn-ss-seen sn-hue-0")),
    legendKey("alive, but no view shows it", 18, box("sn-ss-unseen", { fill: `url(#${pattern})` })),
    legendKey("freed", 18, box("sn-ss-freed")),
  );
}

function ringLegend(sinks) {
  return node(
    "ul", { class: "sn-legend" },
    legendKey("written in this step", 18, box("sn-ss-slot-new")),
    legendKey("in the window", 18, box("sn-ss-slot-kept")),
    sinks ? legendKey("sink", 18, box("sn-ss-slot-sink sn-hue-4")) : null,
    legendKey("empty", 18, box("sn-ss-slot-empty")),
  );
}

function build(model) {
  const steps = model.get("steps");
  const ring = isRing(steps);
  const pattern = freshId("unseen");
  const cell = ring ? null : cellBytes(steps);
  const picture = ring ? createRingPicture(steps) : createBytesPicture(steps, cell, pattern);
  return {
    count: steps.length, label: "Steps of the storage", name: (step) => `step ${step} of ${steps.length - 1}`, delay: () => 1600,
    draw: (step, width) => picture.draw(width, step),
    says: (step) => (ring ? slotsWords(steps, step) : bytesWords(steps[step])),
    below: [picture.stage, ring ? ringLegend(steps[0].sinks) : bytesLegend(cell, pattern)],
    opening: stripOpening(steps),
  };
}

export default steppedPicture({
  name: "storage-strip", label: "A strip of storage", build,
  inputs: ["steps"],
});
