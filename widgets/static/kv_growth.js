// KV tokens of several runs growing step by step: one without a window, and one of those with.

import { boxKey, legendKey, legendOf } from "./chart.js";
import { factChips, node, svg } from "./dom.js";
import { growthOpening, longestSteps, shownRuns, splitRuns, unitOf } from "./kv_growth_layout.js";
import { createGrowthPicture } from "./kv_growth_picture.js";
import { growthTotalsWords, runWords } from "./kv_growth_words.js";
import { toggleButton } from "./player.js";
import { createSlider } from "./slider.js";
import { steppedPicture } from "./stepped.js";
import { stopNote } from "./whose.js";
import { capital, number } from "./words.js";

// What the run came to up to the step shown.
function totalsLine({ label, trace }, unit, index) {
  const past = { ...trace, steps: trace.steps.slice(0, index + 1) };
  const when = past.steps.length < trace.steps.length ? "so far " : "";
  return node("p", { class: "sn-total" }, node("strong", {}, `${capital(label)}: `), `${when}${growthTotalsWords(past, unit)}.`);
}

function legend(runs, stripes) {
  const steps = runs.flatMap((run) => run.trace.steps);
  const miscounted = steps.some((step) => step.kv.some((each) => each.kv_tokens_charged !== each.kv_tokens));
  const box = (className, words, more = {}) => boxKey(className, words, 22, { rx: 2, ...more });
  return legendOf(
    ...runs[0].trace.requests.map((request, at) => box(`sn-kv-box-held sn-hue-${at % 8}`, `request ${request.id}`)),
    box("sn-kv-box-finished sn-hue-0", "released because done"),
    steps.some((step) => step.preempted.length) ? box("sn-kv-box-dropped", "released by preemption (who is above)") : null,
    steps.some((step) => step.kv_peak !== null) ? box("sn-kg-peak", "held within the step only") : null,
    miscounted ? legendKey("what the scheduler counts", 22, svg("path", { d: "M1 7h20", class: "sn-kg-counted" })) : null,
    box("sn-kg-padding", "padding: computed for nothing", { fill: `url(#${stripes})` }),
  );
}

function build({ runs, bytes_per_token: perToken, shown }, moves) {
  const { windowed } = splitRuns(runs);
  const picture = createGrowthPicture(runs);
  const [stops, totals] = [node("div", {}), node("div", {})];
  let at = Math.min(shown, Math.max(0, windowed.length - 1));
  let unit = unitOf(null);
  const sides = () => shownRuns(runs, at);
  const change = () => {
    moves.redraw();
    moves.again();
  };
  const slider = windowed.length > 1 ? createSlider({
    label: "window", max: windowed.length - 1, value: at, words: (index) => windowed[index].label,
    onInput: (index) => {
      at = index;
      change();
    },
  }) : null;
  const bytesButton = perToken === null ? null : toggleButton("Show bytes", (bytes) => {
    unit = unitOf(bytes ? perToken : null);
    change();
  });
  const steps = longestSteps(runs);
  const budgets = [...new Set(runs.map((run) => run.trace.max_kv_tokens))];
  const facts = budgets.map((budget) => (budget === null ? "no KV budget" : `KV budget ${number(budget)} tokens`));
  return {
    count: Math.max(1, steps.length), label: "Steps of the runs", sliders: [slider].filter(Boolean),
    extras: [slider?.input, bytesButton].filter(Boolean), lines: sides().length > 1 ? 4 : null,
    name: (step) => `step ${steps[step]?.step ?? 0} of ${steps[steps.length - 1]?.step ?? 0}`,
    delay: () => 700,
    layOut: (width) => {
      stops.replaceChildren(...sides().filter((run) => run.trace.error).map(({ label, trace }) => stopNote({ name: label, trace })));
      const label = sides().map((run) => `${capital(run.label)}: ${growthTotalsWords(run.trace, unit)}`).join(". ");
      picture.draw(sides(), unit, width, `${label}.`, moves.go);
    },
    draw: (step) => {
      picture.point(step);
      totals.replaceChildren(...sides().map((run) => totalsLine(run, unit, step)));
    },
    says: (step) => sides().map((run) => runWords(run, step, unit)).join("\n"),
    facts: [factChips(facts, false)],
    below: [picture.stage, stops, totals, legend(runs, picture.stripes)],
    opening: growthOpening(sides()),
  };
}

export default steppedPicture({
  name: "kv-growth", label: "KV tokens over the steps of several runs", build,
  inputs: ["runs", "bytes_per_token", "shown"],
});
