// Draws the slots of ring storage with the position in each, the sinks apart, the new ones marked.

import { chartText, drawing } from "./chart.js";
import { node, svg } from "./dom.js";
import { overwritten, slotState } from "./storage_strip_layout.js";

const RING_HEAD = 20;
const SLOT = 40;
const INDEX = 20;
const SINK_GAP = 14;
const NARROWEST = 26;
const WIDEST = 54;

// Slots per line, so that a long ring goes on in a second line instead of shrinking away.
export function ringColumns(slots, width) {
  return Math.max(1, Math.min(slots, Math.floor((width - SINK_GAP) / NARROWEST)));
}

function drawSlot(step, index, x, y, size, before) {
  const state = slotState(step, index);
  const { position } = step.slots[index];
  const middle = x + size / 2;
  return svg(
    "g", { class: state === "sink" ? "sn-hue-4" : "" },
    svg("rect", { x: x + 1.5, y, width: size - 3, height: SLOT, rx: 6, class: `sn-ss-slot-${state}` }),
    position === null ? null : chartText(middle, y + (before === null ? 25 : 20), "middle", String(position), `sn-ss-position sn-ss-position-${state}`),
    before === null ? null : chartText(middle, y + 34, "middle", `was ${before}`, `sn-ss-before sn-ss-position-${state}`),
    chartText(middle, y + SLOT + 14, "middle", String(index)),
  );
}

export function createRingPicture(steps) {
  const stage = node("div", { class: "sn-ss-stage" });
  const { sinks } = steps[0];
  const count = steps[0].slots.length;

  function draw(width, index) {
    const step = steps[index];
    const columns = ringColumns(count, width);
    const size = Math.min(WIDEST, (width - SINK_GAP) / columns);
    const lines = Math.ceil(count / columns);
    const line = SLOT + INDEX + 8;
    const gone = overwritten(steps, index);
    const label = `Slots in order: ${step.slots.map(({ position }) => position ?? "empty").join(", ")}`;
    const gap = sinks ? SINK_GAP : 0;
    const windowAt = sinks && sinks < columns ? sinks * size + gap + 1 : 1;
    stage.replaceChildren(drawing(
      width, RING_HEAD + lines * line, label, {},
      sinks ? chartText(1, 13, "start", sinks * size > 40 ? "sinks" : "", "sn-ss-caption") : null,
      chartText(windowAt, 13, "start", sinks && sinks >= columns ? "" : "window", "sn-ss-caption"),
      ...step.slots.map((_, slot) => {
        const x = (slot % columns) * size + (slot >= sinks && slot < columns ? gap : 0);
        const was = index > 0 ? steps[index - 1].slots[slot]?.position ?? null : null;
        const before = gone.includes(was) && size >= 40 ? was : null;
        return drawSlot(step, slot, x, RING_HEAD + Math.floor(slot / columns) * line, size, before);
      }),
    ));
  }

  return { stage, draw };
}
