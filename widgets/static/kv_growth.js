// KV tokens of several runs growing step by step: one without a window, and one of those with.

import { mount, node, svg, titleRow } from "./dom.js";
import { growthOpening, longestSteps, shownRuns, splitRuns, unitOf } from "./kv_growth_layout.js";
import { createGrowthPicture } from "./kv_growth_picture.js";
import { growthTotalsWords, runWords } from "./kv_growth_words.js";
import { createPlayer, textButton } from "./player.js";
import { createSlider } from "./slider.js";
import { capital, number } from "./words.js";

function chips(runs) {
  const budgets = [...new Set(runs.map((run) => run.trace.max_kv_tokens))];
  const facts = budgets.map((budget) => (budget === null ? "no KV budget" : `KV budget ${number(budget)} tokens`));
  return node("ul", { class: "sn-chips" }, ...facts.map((fact) => node("li", { class: "sn-chip" }, fact)));
}

// What the run came to up to the step shown.
function totalsLine({ label, trace }, unit, index) {
  const past = { ...trace, steps: trace.steps.slice(0, index + 1) };
  const when = past.steps.length < trace.steps.length ? "so far " : "";
  return node("p", { class: "sn-kg-total" }, node("strong", {}, `${capital(label)}: `), `${when}${growthTotalsWords(past, unit)}.`);
}

function stopNote({ label, trace }) {
  const last = trace.steps[trace.steps.length - 1];
  const when = last ? `after step ${last.step}` : "before its first step";
  return node("p", { class: "sn-note sn-note-bad" }, node("strong", {}, `${capital(label)} stopped ${when}: `), trace.error);
}

function swatch(className, words, hue = "sn-hue-0", fill = null) {
  const box = className === "sn-kg-counted"
    ? svg("path", { d: "M1 7h20", class: className })
    : svg("rect", { x: 1, y: 1, width: 20, height: 12, rx: 2, class: `${className} ${hue}`, fill });
  return node("li", {}, svg("svg", { width: 22, height: 14, "aria-hidden": "true" }, box), words);
}

function legend(runs, stripes) {
  const requests = runs[0].trace.requests.map((request, at) => swatch("sn-kg-held", `request ${request.id}`, `sn-hue-${at % 8}`));
  const steps = runs.flatMap((run) => run.trace.steps);
  const miscounted = steps.some((step) => step.kv.some((each) => each.kv_tokens_charged !== each.kv_tokens));
  return node(
    "ul", { class: "sn-legend" }, ...requests,
    swatch("sn-kg-finished", "released because done"),
    steps.some((step) => step.preempted.length) ? swatch("sn-kg-dropped", "released by preemption (who is above)") : null,
    steps.some((step) => step.kv_peak !== null) ? swatch("sn-kg-peak", "held within the step only") : null,
    miscounted ? swatch("sn-kg-counted", "what the scheduler counts") : null,
    swatch("sn-kg-padding", "padding: computed for nothing", "", `url(#${stripes})`),
  );
}

function build(root, model) {
  const runs = model.get("runs");
  const perToken = model.get("bytes_per_token");
  const { windowed } = splitRuns(runs);
  const picture = createGrowthPicture(runs);
  const [stops, totals] = [node("div", {}), node("div", {})];
  let at = Math.min(model.get("shown"), Math.max(0, windowed.length - 1));
  let unit = unitOf(null);
  let width = 0;

  const sides = () => shownRuns(runs, at);
  const redraw = () => {
    stops.replaceChildren(...sides().filter((run) => run.trace.error).map(stopNote));
    if (!width) return;
    const label = sides().map((run) => `${capital(run.label)}: ${growthTotalsWords(run.trace, unit)}`).join(". ");
    picture.draw(sides(), unit, width, `${label}.`, (index) => player.go(index));
    picture.point(player.step());
  };
  const change = () => {
    redraw();
    player.go(player.step());
  };
  const slider = windowed.length > 1 ? createSlider({
    label: "window", max: windowed.length - 1, value: at, words: (index) => windowed[index].label,
    onInput: (index) => {
      at = index;
      change();
    },
  }) : null;
  const bytesButton = perToken === null ? null : textButton("Show bytes", () => {
    const bytes = unit.noun !== "byte";
    unit = unitOf(bytes ? perToken : null);
    bytesButton.setAttribute("aria-pressed", String(bytes));
    change();
  }, "false");
  const steps = longestSteps(runs);
  const player = createPlayer({
    root, count: Math.max(1, steps.length), label: "Steps of the runs",
    extras: [slider?.input, bytesButton].filter(Boolean),
    name: (step) => `step ${steps[step]?.step ?? 0} of ${steps[steps.length - 1]?.step ?? 0}`,
    delay: () => 700,
    onStep: (step) => {
      picture.point(step);
      totals.replaceChildren(...sides().map((run) => totalsLine(run, unit, step)));
      return sides().map((run) => runWords(run, step, unit)).join("\n");
    },
  });
  slider?.frame(player);
  player.live.classList.toggle("sn-kg-two", sides().length > 1);
  root.append(
    titleRow(model, chips(runs)),
    player.toolbar, player.keys, player.live, picture.stage, stops, totals, legend(runs, picture.stripes),
  );
  redraw();
  player.open(model, growthOpening(sides()));
  return player.sized((room) => {
    width = room;
    redraw();
  });
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "kv-growth", label: "KV tokens over the steps of several runs",
    inputs: ["runs", "title", "bytes_per_token", "shown"],
    build: (root) => build(root, model),
  }),
};
