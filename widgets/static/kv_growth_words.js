// How the KV cache of a run grows, in words: pure functions of the trace's JSON.

import { growthSteps, growthTotals } from "./kv_growth_layout.js";
import { capital, count, listed, number } from "./words.js";

function paddingWords({ computed, useful }) {
  const waste = computed - useful;
  return waste ? [`Padding: ${number(waste)} of ${count(computed, "computed token")}.`] : [];
}

// Where the scheduler counts something else than what is held: by request, and in which direction.
function countedWords(step, unit) {
  const wrong = step.stack.filter((each) => each.amount !== each.counted);
  if (!wrong.length) return [];
  const who = wrong.map((each) => `${number(each.counted)} instead of ${number(each.amount)} for request ${each.id}`);
  const way = step.counted < step.held ? "fewer" : "more";
  const gap = Math.abs(step.counted - step.held);
  const total = gap ? `, ${count(gap, unit.noun)} ${way} than are held` : "";
  return [`The scheduler counts ${listed(who)}${total}.`];
}

// One step in words: what is held, what is counted, who lost what, what was computed for nothing.
export function growthStepWords(trace, index, unit) {
  const step = growthSteps(trace, unit)[index];
  const budget = trace.max_kv_tokens === null ? null : unit.times(trace.max_kv_tokens);
  const held = budget === null ? `${count(step.held, unit.noun)} held`
    : `${number(step.held)} of ${count(budget, unit.noun)} held`;
  const over = budget !== null && step.held > budget ? `, ${number(step.held - budget)} over the budget` : "";
  const peak = step.peak !== null && step.peak > step.held
    ? `, up to ${number(step.peak)} within the step` : "";
  return [
    `Step ${trace.steps[index].step}: ${held}${over}${peak}.`,
    ...step.dropped.map(({ id, amount }) => `Request ${id} is preempted and loses ${number(amount)}.`),
    ...step.finished.map(({ id, amount }) => `Request ${id} is done and releases ${number(amount)}.`),
    ...countedWords(step, unit),
    ...paddingWords(step),
  ].join(" ");
}

// A run in the live line; one that is shorter than the other says so.
export function runWords({ label, trace }, index, unit) {
  const last = trace.steps.length - 1;
  const who = capital(label);
  if (last < 0) return `${who}: no step was run.`;
  if (index > last) return `${who} ${trace.error ? "has stopped" : "is already done"}.`;
  const words = growthStepWords(trace, index, unit);
  const stop = trace.error && index === last ? ` Here it stopped: ${trace.error}` : "";
  return `${who}, ${words[0].toLowerCase()}${words.slice(1)}${stop}`;
}

// The whole run in one line, per request and in all.
export function growthTotalsWords(trace, unit) {
  const { held, one, peak, preemptions, computed, padding } = growthTotals(trace, unit);
  const within = peak > held ? ` (up to ${number(peak)} within a step)` : "";
  const share = computed ? ` (${Math.round((padding / computed) * 100)} percent)` : "";
  return `at most ${count(held, unit.noun)} in all${within} and ${number(one)} for one request; ` +
    `${count(preemptions, "preemption")}; ${number(padding)} of ${count(computed, "computed token")} ` +
    `${padding === 1 ? "is" : "are"} padding${share}; ${count(trace.steps.length, "step")}`;
}
