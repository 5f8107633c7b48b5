// Steps through recorded heap operations: the tree, the array, the admission test.

import { chartText, hatch, legendOf } from "./chart.js";
import { freshId, node, svg } from "./dom.js";
import { createHeapPicture } from "./heap_picture.js";
import { admissionBar, entriesOf, frameWords, framesOf, heapOpening, keyMark, orderWords } from "./heap_stepper_layout.js";
import { steppedPicture } from "./stepped.js";
import { number } from "./words.js";

const BAR_TOP = 18;
const BAR_HEIGHT = 22;
const BAR_ROOM = 44;
const BOX = 44;

function drawEntry(entry, place, width, labelled) {
  return svg(
    "g", { class: `sn-he-entry sn-hue-${place % 8}` },
    svg("rect", { x: 1 - width / 2, y: 1 - BOX / 2, width: width - 2, height: BOX - 2, rx: 8, class: "sn-he-box" }),
    chartText(0, labelled ? -2 : 5, "middle", keyMark(entry.key), "sn-he-key"),
    labelled ? chartText(0, 14, "middle", entry.label, "sn-he-label") : null,
  );
}

// The admission test as a bar: KV tokens held, what the candidate needs, the budget's end.
function drawTest(admission, width, patternId) {
  const picture = svg("svg", { width, height: BAR_ROOM, "aria-hidden": "true" });
  if (!admission || admission.budget === null) return picture;
  const bar = admissionBar(admission);
  const room = width - 2;
  const [held, candidate, budget] = [bar.held, bar.candidate, bar.budget].map((part) => part * room);
  picture.append(svg("defs", {}, hatch(patternId, bar.over ? "sn-he-hatch-over" : "sn-he-hatch")));
  const box = { y: BAR_TOP, height: BAR_HEIGHT, rx: 4 };
  picture.append(
    svg("rect", { ...box, x: 0, width: budget, class: "sn-he-room" }),
    svg("rect", { ...box, x: 0, width: held, class: "sn-he-held" }),
    svg("rect", { ...box, x: held, width: candidate, fill: `url(#${patternId})` }),
    svg("rect", { ...box, x: held, width: candidate, class: bar.over ? "sn-he-adds sn-he-over" : "sn-he-adds" }),
    svg("path", { d: `M${budget} ${BAR_TOP - 5}v${BAR_HEIGHT + 10}`, class: "sn-he-limit" }),
    chartText(Math.min(budget, room), 11, "end", `KV budget ${number(admission.budget)}`, "sn-he-amount"),
    chartText(0, 11, "start", `${number(admission.held)} held + ${number(admission.candidate)} needed`, "sn-he-amount"),
  );
  return picture;
}

function takenList(frame, hues, entries) {
  if (!frame.taken.length) return [node("span", {}, "Taken out so far: none")];
  return [node("span", {}, "Taken out so far:"), ...frame.taken.map((id) =>
    node("span", { class: "sn-he-taken" }, node("i", { class: `sn-dot sn-hue-${hues.get(id)}` }), entries.get(id).label))];
}

function build({ operations }) {
  const frames = framesOf(operations);
  const entries = entriesOf(operations);
  const hues = new Map([...entries.keys()].map((id, index) => [id, index % 8]));
  const picture = createHeapPicture({
    frames, shapes: entries, drawEntry, dimensions: { box: BOX, level: 76, top: 6, foot: 20 },
    marks: ["sn-he-lit"], markOf: (frame, id) => (frame.lit.includes(id) ? "sn-he-lit" : null),
    words: (frame) => orderWords(frame.order, entries),
  });
  const patternId = freshId("candidate");
  const tests = operations.some(({ admission }) => admission && admission.budget !== null);
  const test = tests ? node("div", { class: "sn-he-test" }) : null;
  const taken = node("p", { class: "sn-he-out" });
  return {
    count: frames.length, label: "Moves of the heap", name: (step) => `move ${step} of ${frames.length - 1}`, delay: () => 1400,
    layOut: (width) => picture.draw(width),
    draw: (step, width) => {
      const frame = frames[step];
      picture.point(frame);
      taken.replaceChildren(...takenList(frame, hues, entries));
      test?.replaceChildren(drawTest(frame.kind === "test" ? frame.operation.admission : null, width, patternId));
    },
    says: (step) => frameWords(frames[step], operations),
    below: [
      picture.scroller, taken, test,
      legendOf("thick outline: what this move is about", "the parent of array cell i is cell (i − 1) // 2"),
    ],
    opening: heapOpening(frames),
  };
}

export default steppedPicture({ name: "heap-stepper", label: "A heap, move by move", inputs: ["operations"], build });
