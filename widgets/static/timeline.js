// A trace, and a reference below it, with one step cursor. Nothing here decides what runs.

import { mount, node, titleRow } from "./dom.js";
import { createPlayer, textButton } from "./player.js";
import { timelineOpening } from "./timeline_layout.js";
import { createPicture } from "./timeline_picture.js";
import { BLOCK_GAP, blockHeight, timelineLegend } from "./timeline_rows.js";
import { textTable } from "./timeline_texts.js";
import { differenceWords, firstDifference, stepWords, traceWords } from "./timeline_words.js";
import { aloneNote } from "./whose.js";
import { capital, clockWords, number } from "./words.js";

function chips(trace) {
  const facts = [clockWords(trace.clock), `token budget ${number(trace.token_budget)}`];
  if (trace.executor) facts.push(`${trace.executor} executor`);
  return node("ul", { class: "sn-chips" }, ...facts.map((fact, index) =>
    node("li", { class: index === 0 ? "sn-chip sn-chip-strong" : "sn-chip" }, fact)));
}

function stopNote(side) {
  const last = side.trace.steps[side.trace.steps.length - 1];
  const when = last ? `after step ${last.step}` : "before its first step";
  const who = capital(side.name || "the run");
  return node("p", { class: "sn-note sn-note-bad" }, node("strong", {}, `${who} stopped ${when}: `), side.trace.error);
}

function sidesOf(trace, reference, names) {
  const named = reference ? names : [""];
  let top = 0;
  return [trace, reference].filter(Boolean).map((each, index) => {
    const side = { trace: each, name: named[index], top };
    top += blockHeight(each) + BLOCK_GAP;
    return side;
  });
}

function sideWords(side, index, alphabet) {
  const { trace } = side;
  const who = side.name ? `${capital(side.name)}, ` : "";
  const last = trace.steps.length - 1;
  if (last < 0) return `${who}${side.name ? "no" : "No"} step was run.${trace.error ? ` It stopped: ${trace.error}` : ""}`;
  if (index > last) return `${capital(side.name || "the run")} ${trace.error ? "has stopped" : "is already done"}.`;
  const words = stepWords(trace, index, alphabet);
  const stop = trace.error && index === last ? ` Here it stopped: ${trace.error}` : "";
  return `${who ? who + words[0].toLowerCase() + words.slice(1) : words}${stop}`;
}

function build(root, model) {
  const trace = model.get("trace");
  const reference = model.get("reference");
  const alphabet = model.get("alphabet");
  const names = model.get("names");
  const sides = sidesOf(trace, reference, names);
  const length = Math.max(1, ...sides.map((side) => side.trace.steps.length));
  const label = sides.map((side) => `${side.name ? `${side.name}: ` : ""}${traceWords(side.trace)}`).join("; ");
  const difference = reference ? firstDifference(trace, reference) : null;
  const picture = createPicture(sides, alphabet, `Timeline. ${label}.`, difference?.index ?? null);
  const texts = textTable(sides, alphabet);
  let axis = model.get("axis");
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
  }, String(axis === "time"));
  const agrees = difference === null && names[0] === "yours";
  const extras = [axisButton];
  if (reference) {
    const jump = textButton("Jump to first difference", () => difference && player.go(difference.index));
    if (!difference) jump.setAttribute("aria-disabled", "true");
    extras.push(jump);
  }
  const longest = Math.max(1, ...trace.steps.map((step) => step.end_us - step.start_us));
  const player = createPlayer({
    root, count: length, label: "Timeline steps", extras, group: model.get("group"),
    name: (step) => `step ${trace.steps[step]?.step ?? reference?.steps[step]?.step ?? 0} of ${length - 1}`,
    // On the time axis a step is shown for as long as it takes, the longest for two seconds.
    delay: (step) => {
      const at = trace.steps[step];
      return axis === "time" && at ? Math.max(90, ((at.end_us - at.start_us) / longest) * 2000) : 900;
    },
    onStep: (step) => {
      texts.update(step);
      picture.point(step);
      return sides.map((side) => sideWords(side, step, alphabet)).join("\n");
    },
  });
  root.append(...[
    titleRow(model, chips(trace)),
    player.toolbar,
    player.keys,
    player.live,
    reference ? node("p", { class: `sn-note${agrees ? " sn-note-good" : ""}` }, differenceWords(trace, reference, difference, alphabet, names)) : aloneNote(names),
    picture.stage,
    ...sides.filter((side) => side.trace.error).map(stopNote),
    timelineLegend(picture.patterns, trace, difference !== null),
    node("div", { class: "sn-tl-tablebox" }, texts.table),
  ].filter(Boolean));
  player.open(model, difference?.index ?? timelineOpening(sides.map((side) => side.trace)));
  return player.sized((room) => {
    width = room;
    redraw();
  });
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "timeline", label: "Timeline of a run",
    inputs: ["trace", "reference", "alphabet", "title", "axis", "names", "group"],
    build: (root) => build(root, model),
  }),
};
