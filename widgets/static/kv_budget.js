// KV tokens against the budget, step by step, and another run's below. Nothing here decides what runs.

import { mount, node, titleRow } from "./dom.js";
import { createPlayer, textButton } from "./player.js";
import { createKVPicture } from "./kv_budget_picture.js";
import { kvLegend } from "./kv_budget_rows.js";
import { kvStepWords, totalsWords } from "./kv_budget_words.js";
import { firstPreemption } from "./timeline_layout.js";
import { traceWords } from "./timeline_words.js";
import { aloneNote } from "./whose.js";
import { capital, clockWords, number } from "./words.js";

function chips(trace) {
  const budget = trace.max_kv_tokens;
  const facts = [clockWords(trace.clock), budget === null ? "no KV budget" : `KV budget ${number(budget)}`];
  return node("ul", { class: "sn-chips" }, ...facts.map((fact, index) =>
    node("li", { class: index === 0 ? "sn-chip sn-chip-strong" : "sn-chip" }, fact)));
}

function sideWords({ trace, name }, index) {
  const last = trace.steps.length - 1;
  const who = capital(name || "the run");
  if (last < 0) return `${name ? `${who}: no` : "No"} step was run.`;
  if (index > last) return `${who} ${trace.error ? "has stopped" : "is already done"}.`;
  const words = kvStepWords(trace, index);
  const stop = trace.error && index === last ? ` Here it stopped: ${trace.error}` : "";
  return `${name ? `${who}, ${words[0].toLowerCase()}${words.slice(1)}` : words}${stop}`;
}

// What the run came to up to the step shown.
function totals({ trace, name }, index) {
  const who = name ? node("strong", {}, `${capital(name)}: `) : "";
  const past = { ...trace, steps: trace.steps.slice(0, index + 1) };
  const when = past.steps.length < trace.steps.length ? "So far: " : "";
  return node("p", { class: "sn-kv-total" }, who, `${when}${totalsWords(past)}.`);
}

function stopNote({ trace, name }) {
  const last = trace.steps[trace.steps.length - 1];
  const when = last ? `after step ${last.step}` : "before its first step";
  const who = capital(name || "the run");
  return node("p", { class: "sn-note sn-note-bad" }, node("strong", {}, `${who} stopped ${when}: `), trace.error);
}

function build(root, model) {
  const names = model.get("names");
  const other = model.get("other");
  const sides = [model.get("trace"), other].filter(Boolean)
    .map((trace, at) => ({ trace, name: other ? names[at] : "" }));
  const longest = sides.reduce((most, side) => (side.trace.steps.length > most.steps.length ? side.trace : most), sides[0].trace);
  const length = Math.max(1, longest.steps.length);
  const label = sides.map((side) => `${side.name ? `${side.name}: ` : ""}${traceWords(side.trace)}`).join(". ");
  const sums = node("div", {});
  const picture = createKVPicture(sides, `KV tokens. ${label}.`);
  const slowest = Math.max(1, ...longest.steps.map((step) => step.end_us - step.start_us));
  let axis = "steps";
  let width = 0;

  const redraw = () => {
    if (!width) return;
    picture.draw(width, axis, (index) => player.go(index));
    picture.point(player.step());
  };
  const axisButton = textButton("Width shows time", () => {
    axis = axis === "steps" ? "time" : "steps";
    axisButton.setAttribute("aria-pressed", String(axis === "time"));
    redraw();
  }, "false");
  const player = createPlayer({
    root, count: length, label: "KV steps", extras: [axisButton], group: model.get("group"),
    name: (step) => `step ${longest.steps[step]?.step ?? 0} of ${longest.steps[length - 1]?.step ?? 0}`,
    // On the time axis a step is shown for as long as it takes, the longest for two seconds.
    delay: (step) => {
      const at = longest.steps[step];
      return axis === "time" && at ? Math.max(90, ((at.end_us - at.start_us) / slowest) * 2000) : 900;
    },
    onStep: (step) => {
      picture.point(step);
      sums.replaceChildren(...sides.map((side) => totals(side, step)));
      return sides.map((side) => sideWords(side, step)).join("\n");
    },
  });
  player.live.classList.toggle("sn-kv-two", sides.length > 1);
  root.append(...[
    titleRow(model, chips(sides[0].trace)),
    player.toolbar, player.keys, player.live, aloneNote(names), picture.stage,
    ...sides.filter((side) => side.trace.error).map(stopNote),
    sums,
    kvLegend(picture.patterns),
  ].filter(Boolean));
  player.open(model, firstPreemption(sides.map((side) => side.trace)));
  return player.sized((room) => {
    width = room;
    redraw();
  });
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "kv-budget", label: "KV tokens against their budget",
    inputs: ["trace", "other", "title", "names", "group"],
    build: (root) => build(root, model),
  }),
};
