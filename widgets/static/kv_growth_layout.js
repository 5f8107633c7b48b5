// What grows, in tokens or bytes, step by step: pure functions of a run's trace.

import { sumOf } from "./kv_stacks.js";
import { firstPreemption } from "./timeline_layout.js";
import { keptEnd } from "./work.js";

// ---- runs -----------------------------------------------------------------------------------

// The run without a window, or null, and the others in their order.
export function splitRuns(runs) {
  return {
    full: runs.find((run) => run.window === null) ?? null,
    windowed: runs.filter((run) => run.window !== null),
  };
}

// The runs in view: the one without a window first.
export function shownRuns(runs, at) {
  const { full, windowed } = splitRuns(runs);
  return [full, windowed[at]].filter(Boolean);
}

// The steps of the longest run.
export function longestSteps(runs) {
  return runs.map((run) => run.trace.steps).reduce((most, steps) => (steps.length > most.length ? steps : most));
}

// Where the picture opens: at the first preemption, else where the first run holds the most.
export function growthOpening(runs) {
  const first = firstPreemption(runs.map((run) => run.trace));
  if (first) return first;
  const held = runs[0].trace.steps.map((step) => step.kv.reduce((total, each) => total + each.kv_tokens, 0));
  return Math.max(0, held.indexOf(Math.max(...held)));
}

// ---- steps ----------------------------------------------------------------------------------

// How one unit is drawn and said: `times(tokens)` converts, `of(entry, more)` is what a kv entry
// (or none) holds with so many more tokens. Bytes are those that the trace measured, where it did.
export function unitOf(bytesPerToken) {
  const times = (tokens) => tokens * (bytesPerToken ?? 1);
  const counted = (entry, more = 0) => times((entry?.kv_tokens ?? 0) + more);
  if (bytesPerToken === null) return { noun: "KV token", times, of: counted };
  return { noun: "byte", times, of: (entry, more = 0) => entry?.live_bytes ?? counted(entry, more) };
}

// For every step: what each request holds and is counted with, what preemption and completion
// released (a finished request also the K/V of its last step), the peak within the step where it is
// recorded, and the padding. All amounts in the unit, padding in tokens.
export function growthSteps(trace, unit) {
  const order = trace.requests.map((request) => request.id);
  let before = new Map();
  return trace.steps.map((step) => {
    const kv = [...step.kv].sort((one, other) => order.indexOf(one.request_id) - order.indexOf(other.request_id));
    const stack = kv.map((entry) => ({
      id: entry.request_id, amount: unit.of(entry), counted: unit.times(entry.kv_tokens_charged),
    })).filter((each) => each.amount > 0 || each.counted > 0);
    const computed = (id) => {
      const work = step.work.find((each) => each.request_id === id);
      return work ? keptEnd(work) - work.start : 0;
    };
    const dropped = step.preempted.map((id) => ({ id, amount: unit.of(before.get(id)) }));
    const finished = step.finished.map((id) => ({ id, amount: unit.of(before.get(id), computed(id)) }));
    before = new Map(kv.map((entry) => [entry.request_id, entry]));
    return {
      stack, dropped, finished,
      held: sumOf(stack),
      counted: sum(stack.map((each) => each.counted)),
      peak: step.kv_peak === null ? null : unit.times(step.kv_peak),
      computed: sum(step.forwards.map((each) => each.computed_tokens)),
      useful: sum(step.forwards.map((each) => each.useful_tokens)),
    };
  });
}

function sum(amounts) {
  return amounts.reduce((total, each) => total + each, 0);
}

// Where the column's boxes end without what preemption took away.
export function topOf(step) {
  return sumOf([...step.stack, ...step.finished]);
}

// The most that any run must show, so that the axis stays when the window changes.
export function mostOf(runs, unit) {
  const heights = runs.flatMap((run) => growthSteps(run.trace, unit).map((step) =>
    Math.max(topOf(step) + sumOf(step.dropped), step.peak ?? 0, step.counted)));
  const budgets = runs.map((run) => unit.times(run.trace.max_kv_tokens ?? 0));
  return Math.max(1, ...heights, ...budgets);
}

export function mostPadding(runs, unit) {
  return Math.max(0, ...runs.flatMap((run) => growthSteps(run.trace, unit).map((step) => step.computed - step.useful)));
}

// A whole run in numbers: the most held at once, by all and by one request, and the work.
export function growthTotals(trace, unit) {
  const steps = growthSteps(trace, unit);
  const most = (values) => Math.max(0, ...values);
  return {
    held: most(steps.map((step) => step.held)),
    one: most(steps.flatMap((step) => step.stack.map((each) => each.amount))),
    peak: most(steps.map((step) => step.peak ?? 0)),
    preemptions: trace.steps.reduce((total, step) => total + step.preempted.length, 0),
    computed: sum(steps.map((step) => step.computed)),
    padding: sum(steps.map((step) => step.computed - step.useful)),
  };
}
