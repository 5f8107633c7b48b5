// What the KV cache of a run does, in words: pure functions of the trace's JSON.

import { kvSteps, totalsOf, wholeTime } from "./kv_budget_layout.js";
import { capital, count, duration, named, number } from "./words.js";

export const STATE_WORDS = {
  waiting: "waiting", prefilling: "prefilling", recomputing: "recomputing", active: "active",
  preempted: "preempted", done: "done",
};

function its(tokens) {
  return tokens === 1 ? "its 1 token is" : `its ${number(tokens)} tokens are`;
}

function droppedWords({ id, amount, generated }) {
  const kept = generated ? `; it has ${count(generated, "generated token")} to keep` : "";
  return `Request ${id} is preempted: ${its(amount)} released${kept}.`;
}

function againWords({ id, start, again }) {
  const last = start + again - 1;
  return `Request ${id} recomputes ${again === 1 ? `token ${start}` : `tokens ${start} to ${last}`}.`;
}

// Who waits and why the first of them may not start; those just preempted have been named already.
function queueWords(step) {
  const waits = step.waits.filter((wait) => wait.status === "waiting" && !step.preempted.includes(wait.request_id));
  if (!waits.length) return [];
  const one = waits.length === 1;
  const who = capital(named("request", waits.map((wait) => wait.request_id)));
  return [`${who} ${one ? "waits" : "wait"}: ${waits[0].reason}.`];
}

// One step in words: what is held, who lost what, who computes what again, who waits.
export function kvStepWords(trace, index) {
  const step = trace.steps[index];
  const kv = kvSteps(trace)[index];
  const budget = trace.max_kv_tokens;
  const held = budget === null ? `${count(kv.total, "KV token")} held`
    : `${number(kv.total)} of ${count(budget, "KV token")} held`;
  const over = budget !== null && kv.total > budget ? `, ${number(kv.total - budget)} over the budget` : "";
  return [
    `Step ${step.step}: ${held}${over}.`,
    ...kv.dropped.map(droppedWords),
    ...kv.work.filter((each) => each.again).map(againWords),
    ...kv.finished.map(({ id, amount }) => `Request ${id} is done: ${its(amount)} released.`),
    ...queueWords(step),
    ...(kv.againSoFar ? [`Recomputed so far: ${count(kv.againSoFar, "token")}.`] : []),
  ].join(" ");
}

// The whole run in one line: what was computed, how much of it twice.
export function totalsWords(trace) {
  const { computed, again, generated, preemptions } = totalsOf(trace);
  const share = computed ? ` (${Math.round((again / computed) * 100)} percent)` : "";
  const twice = again ? `${number(again)} of them recomputed${share}` : "none of them recomputed";
  return `${count(computed, "token")} computed, ${twice}; ${count(preemptions, "preemption")}; ` +
    `${count(generated, "token")} generated in ${count(trace.steps.length, "step")}, ${duration(wholeTime(trace))}`;
}
