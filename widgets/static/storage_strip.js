// Steps through real storage: cells of bytes with the views into them, or the slots of a ring.

import { boxKey, legendOf } from "./chart.js";
import { freshId } from "./dom.js";
import { steppedPicture } from "./stepped.js";
import { createBytesPicture } from "./storage_strip_bytes.js";
import { createRingPicture } from "./storage_strip_ring.js";
import { bytesWords, cellBytes, isRing, slotsWords, stripOpening } from "./storage_strip_layout.js";
import { count } from "./words.js";

function box(className, words, more = {}) {
  return boxKey(className, words, 18, { rx: 2, ...more });
}

function bytesLegend(cell, pattern) {
  return legendOf(
    `one cell: ${count(cell, "byte")}`,
    box("sn-ss-seen sn-hue-0", "a view shows it"),
    box("sn-ss-unseen", "alive, but no view shows it", { fill: `url(#${pattern})` }),
    box("sn-ss-freed", "freed"),
  );
}

function ringLegend(sinks) {
  return legendOf(
    box("sn-ss-slot-new", "written in this step"),
    box("sn-ss-slot-kept", "in the window"),
    sinks ? box("sn-ss-slot-sink sn-hue-4", "sink") : null,
    box("sn-ss-slot-empty", "empty"),
  );
}

function build({ steps }) {
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

export default steppedPicture({ name: "storage-strip", label: "A strip of storage", inputs: ["steps"], build });
