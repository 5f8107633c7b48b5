// KV tokens against the budget, step by step, and another run's below. Nothing here decides what runs.

import { factChips, node } from "./dom.js";
import { createKVPicture } from "./kv_budget_picture.js";
import { kvLegend } from "./kv_budget_rows.js";
import { kvStepWords, totalsWords } from "./kv_budget_words.js";
import { steppedPicture } from "./stepped.js";
import { timeAxis } from "./time_axis.js";
import { firstPreemption } from "./timeline_layout.js";
import { traceWords } from "./timeline_words.js";
import { aloneNote, sideWords, stopNote } from "./whose.js";
import { capital, clockWords, number } from "./words.js";

// What the run came to up to the step shown.
function totals({ trace, name }, index) {
  const who = name ? node("strong", {}, `${capital(name)}: `) : "";
  const past = { ...trace, steps: trace.steps.slice(0, index + 1) };
  const when = past.steps.length < trace.steps.length ? "So far: " : "";
  return node("p", { class: "sn-total" }, who, `${when}${totalsWords(past)}.`);
}

function build({ trace, other, names, group }, moves) {
  const sides = [trace, other].filter(Boolean).map((each, at) => ({ trace: each, name: other ? names[at] : "" }));
  const longest = sides.reduce((most, side) => (side.trace.steps.length > most.steps.length ? side.trace : most), sides[0].trace);
  const length = Math.max(1, longest.steps.length);
  const label = sides.map((side) => `${side.name ? `${side.name}: ` : ""}${traceWords(side.trace)}`).join(". ");
  const sums = node("div", {});
  const picture = createKVPicture(sides, `KV tokens. ${label}.`);
  const axis = timeAxis(longest, moves, "steps");
  const budget = sides[0].trace.max_kv_tokens;
  return {
    count: length, label: "KV steps", extras: [axis.button], group,
    lines: sides.length > 1 ? 4 : null,
    name: (step) => `step ${longest.steps[step]?.step ?? 0} of ${longest.steps[length - 1]?.step ?? 0}`,
    delay: axis.delay,
    layOut: (width) => picture.draw(width, axis.name(), moves.go),
    draw: (step) => {
      picture.point(step);
      sums.replaceChildren(...sides.map((side) => totals(side, step)));
    },
    says: (step) => sides.map((side) => sideWords(side, step, () => kvStepWords(side.trace, step))).join("\n"),
    facts: [factChips([clockWords(sides[0].trace.clock), budget === null ? "no KV budget" : `KV budget ${number(budget)}`])],
    below: [
      aloneNote(names), picture.stage, ...sides.filter((side) => side.trace.error).map(stopNote), sums, kvLegend(picture.patterns),
    ],
    opening: firstPreemption(sides.map((side) => side.trace)),
  };
}

export default steppedPicture({
  name: "kv-budget", label: "KV tokens against their budget", build,
  inputs: ["trace", "other", "names", "group"],
});
