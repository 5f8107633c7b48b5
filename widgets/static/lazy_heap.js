// Steps through a heap with lazy deletion: tree, array, and the counter that tells what is stale.

import { node } from "./dom.js";
import { counterWords, counters, lazyFrames, lazyOpening, lazyWords, requestsOf, shapesOf } from "./lazy_heap_layout.js";
import { createLazyPicture } from "./lazy_heap_picture.js";
import { steppedPicture } from "./stepped.js";

const HUE_COUNT = 8;

function counterList(frames, index, requests, hues) {
  const found = counters(frames, index, requests);
  if (!found.length) return [node("li", { class: "sn-lh-none" }, "no request yet")];
  return found.map((counter) => node(
    "li", { class: `sn-lh-counter${counter.changed ? " sn-lh-changed" : ""}${counter.forgotten ? " sn-lh-forgotten" : ""}` },
    node("i", { class: `sn-he-dot sn-hue-${hues.get(counter.id)}` }), `request ${counter.id} `,
    node("strong", {}, counterWords(counter)),
  ));
}

function poppedList(frame) {
  if (!frame.popped.length) return ["Popped so far: nothing"];
  return ["Popped so far:", ...frame.popped.map(({ id, right }) =>
    node("span", { class: right ? "sn-lh-popped" : "sn-lh-popped sn-lh-wrong" }, right ? `#${id}` : `! #${id}, which did not wait`))];
}

function legend() {
  const key = (className, words) => node("li", {}, node("i", { class: `sn-lh-key ${className}` }), words);
  return node(
    "ul", { class: "sn-legend" },
    key("sn-lh-key-live", "live: its generation is the counter's"),
    key("sn-lh-key-stale", "stale, struck out: dropped when a pop meets it"),
    key("sn-lh-key-revived", "!: counts, and should not (revived), or should, and does not (lost)"),
  );
}

function build(model) {
  const { steps, error } = model.get("story");
  const frames = lazyFrames(steps);
  const shapes = shapesOf(steps, frames);
  const requests = requestsOf(steps);
  const hues = new Map(requests.map((id, index) => [id, index % HUE_COUNT]));
  const picture = createLazyPicture(frames, shapes, hues);
  const list = node("ul", { class: "sn-lh-counters", "aria-label": "The generation of each request" });
  const popped = node("p", { class: "sn-he-out" });
  return {
    count: frames.length, label: "Events of the heap", name: (step) => `event ${step} of ${frames.length - 1}`, delay: () => 1600,
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

export default steppedPicture({
  name: "lazy-heap", label: "A heap with lazy deletion", build,
  inputs: ["story"],
});
