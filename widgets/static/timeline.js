// A trace, and a reference below it, with one step cursor. Nothing here decides what runs.

import { factChips, node } from "./dom.js";
import { steppedPicture } from "./stepped.js";
import { timeAxis } from "./time_axis.js";
import { timelineOpening } from "./timeline_layout.js";
import { createPicture } from "./timeline_picture.js";
import { BLOCK_GAP, blockHeight, timelineLegend } from "./timeline_rows.js";
import { textTable } from "./timeline_texts.js";
import { differenceWords, firstDifference, stepWords, traceWords } from "./timeline_words.js";
import { aloneNote, differenceButton, sideWords, stopNote } from "./whose.js";
import { clockWords, number } from "./words.js";

function sidesOf(trace, reference, names) {
  const named = reference ? names : [""];
  let top = 0;
  return [trace, reference].filter(Boolean).map((each, index) => {
    const side = { trace: each, name: named[index], top };
    top += blockHeight(each) + BLOCK_GAP;
    return side;
  });
}

function build({ trace, reference, alphabet, axis: firstAxis, names, group }, moves) {
  const sides = sidesOf(trace, reference, names);
  const length = Math.max(1, ...sides.map((side) => side.trace.steps.length));
  const label = sides.map((side) => `${side.name ? `${side.name}: ` : ""}${traceWords(side.trace)}`).join("; ");
  const difference = reference ? firstDifference(trace, reference) : null;
  const picture = createPicture(sides, alphabet, `Timeline. ${label}.`, difference?.index ?? null);
  const texts = textTable(sides, alphabet);
  const axis = timeAxis(trace, moves, firstAxis);
  const agrees = difference === null && names[0] === "yours";
  const facts = [clockWords(trace.clock), `token budget ${number(trace.token_budget)}`, trace.executor && `${trace.executor} executor`];
  return {
    count: length, label: "Timeline steps", group, lines: 3,
    extras: reference ? [axis.button, differenceButton(difference?.index ?? null, moves)] : [axis.button],
    name: (step) => `step ${trace.steps[step]?.step ?? reference?.steps[step]?.step ?? 0} of ${length - 1}`,
    delay: axis.delay,
    layOut: (width) => picture.draw(width, axis.name(), moves.go),
    draw: (step) => {
      texts.update(step);
      picture.point(step);
    },
    says: (step) => sides.map((side) => sideWords(side, step, () => stepWords(side.trace, step, alphabet))).join("\n"),
    facts: [factChips(facts.filter(Boolean))],
    below: [
      reference ? node("p", { class: `sn-note${agrees ? " sn-note-good" : ""}` }, differenceWords(trace, reference, difference, alphabet, names)) : aloneNote(names),
      picture.stage,
      ...sides.filter((side) => side.trace.error).map(stopNote),
      timelineLegend(picture.patterns, trace, difference !== null),
      node("div", { class: "sn-tl-tablebox" }, texts.table),
    ],
    opening: difference?.index ?? timelineOpening(sides.map((side) => side.trace)),
  };
}

export default steppedPicture({
  name: "timeline", label: "Timeline of a run", build,
  inputs: ["trace", "reference", "alphabet", "axis", "names", "group"],
});
