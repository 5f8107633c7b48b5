// Steps through a heap with lazy deletion: tree, array, and the counter that tells what is stale.

import { chartText, legendOf, styledKey } from "./chart.js";
import { node, svg } from "./dom.js";
import { createHeapPicture } from "./heap_picture.js";
import { keyMark } from "./heap_stepper_layout.js";
import { arrayWords, counterWords, counters, lazyFrames, lazyOpening, lazyWords, requestsOf, shapesOf } from "./lazy_heap_layout.js";
import { steppedPicture } from "./stepped.js";

const HUE_COUNT = 8;
const BOX = 46;

function drawEntry(shape, hue, width) {
  const [left, top] = [-width / 2, -BOX / 2];
  return svg(
    "g", { class: `sn-he-entry sn-hue-${hue}` },
    svg("rect", { x: left + 1, y: top + 1, width: width - 2, height: BOX - 2, rx: 8, class: "sn-he-box" }),
    svg("path", { d: `M${left + 5} ${-top - 6}L${-left - 5} ${top + 6}`, class: "sn-lh-strike" }),
    chartText(0, -3, "middle", keyMark(shape.key), "sn-he-key"),
    chartText(0, 14, "middle", shape.label, "sn-he-label"),
    svg("circle", { cx: -left - 4, cy: top + 4, r: 8.5, class: "sn-lh-badge" }),
    chartText(-left - 4, top + 8.5, "middle", "!", "sn-lh-alarm"),
  );
}

function counterList(frames, index, requests, hues) {
  const found = counters(frames, index, requests);
  if (!found.length) return [node("li", { class: "sn-lh-none" }, "no request yet")];
  return found.map((counter) => node(
    "li", { class: `sn-lh-counter${counter.changed ? " sn-lh-changed" : ""}${counter.forgotten ? " sn-lh-forgotten" : ""}` },
    node("i", { class: `sn-dot sn-hue-${hues.get(counter.id)}` }), `request ${counter.id} `,
    node("strong", {}, counterWords(counter)),
  ));
}

function poppedList(frame) {
  if (!frame.popped.length) return ["Popped so far: nothing"];
  return ["Popped so far:", ...frame.popped.map(({ id, right }) =>
    node("span", { class: right ? "sn-lh-popped" : "sn-lh-popped sn-lh-wrong" }, right ? `#${id}` : `! #${id}, which did not wait`))];
}

function legend() {
  return legendOf(
    styledKey("sn-lh-key sn-lh-key-live", "live: its generation is the counter's"),
    styledKey("sn-lh-key sn-lh-key-stale", "stale, struck out: dropped when a pop meets it"),
    styledKey("sn-lh-key sn-lh-key-revived", "!: counts, and should not (revived), or should, and does not (lost)"),
  );
}

function build({ story: { steps, error } }) {
  const frames = lazyFrames(steps);
  const shapes = shapesOf(steps, frames);
  const requests = requestsOf(steps);
  const hues = new Map(requests.map((id, index) => [id, index % HUE_COUNT]));
  const picture = createHeapPicture({
    frames, shapes, wideCells: true, dimensions: { box: BOX, level: 72, top: 12, foot: 22 },
    drawEntry: (shape, _, width) => drawEntry(shape, hues.get(shape.id), width),
    marks: ["live", "stale", "revived", "lost"].map((state) => `sn-lh-${state}`),
    markOf: (frame, name) => {
      const index = frame.order.indexOf(name);
      return index < 0 ? null : `sn-lh-${frame.states[index]}`;
    },
    words: (frame) => arrayWords(frame, shapes),
  });
  const list = node("ul", { class: "sn-lh-counters", "aria-label": "The generation of each request" });
  const popped = node("p", { class: "sn-he-out" });
  return {
    count: frames.length, label: "Events of the heap", name: (step) => `event ${step} of ${frames.length - 1}`, delay: () => 1600, lines: 3,
    layOut: (width) => picture.draw(width),
    draw: (step) => {
      picture.point(frames[step]);
      list.replaceChildren(...counterList(frames, step, requests, hues));
      popped.replaceChildren(...poppedList(frames[step]));
    },
    says: (step) => lazyWords(frames, step),
    below: [
      picture.scroller,
      node("div", { class: "sn-lh-side" }, node("span", { class: "sn-lh-name" }, "generations"), list), popped,
      error ? node("p", { class: "sn-note sn-note-bad" }, node("strong", {}, "It stopped here: "), error) : null,
      legend(),
    ],
    opening: lazyOpening(frames),
  };
}

export default steppedPicture({ name: "lazy-heap", label: "A heap with lazy deletion", inputs: ["story"], build });
