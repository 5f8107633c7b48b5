// Who holds, loses and recomputes which KV tokens: pure functions of the trace's JSON.

import { sumOf } from "./kv_stacks.js";
import { originOf } from "./timeline_layout.js";
import { keptEnd, tokensOf } from "./work.js";

// ---- tokens ---------------------------------------------------------------------------------

// For every step: the stack of KV tokens by request, what preemption and completion released, the
// depth of the queue, and the tokens computed. `again` counts tokens that the request had computed
// before it was preempted: of a stack's tokens, of a step's work, and so far.
export function kvSteps(trace) {
  const reached = new Map();
  const lost = new Map();
  const generated = new Map();
  const order = trace.requests.map((request) => request.id);
  let held = new Map();
  let againSoFar = 0;
  return trace.steps.map((step) => {
    const dropped = step.preempted.map((id) => {
      lost.set(id, reached.get(id) ?? 0);
      return { id, amount: held.get(id) ?? 0, generated: generated.get(id) ?? 0 };
    });
    const work = step.work.map((each) => {
      const before = reached.get(each.request_id) ?? 0;
      const again = each.kind === "prefill" ? Math.max(0, Math.min(each.end, before) - each.start) : 0;
      const end = keptEnd(each);
      reached.set(each.request_id, Math.max(before, end));
      generated.set(each.request_id, (generated.get(each.request_id) ?? 0) + tokensOf(each).length);
      return { id: each.request_id, start: each.start, end, again };
    });
    const again = work.reduce((sum, each) => sum + each.again, 0);
    againSoFar += again;
    held = new Map(step.kv.map((each) => [each.request_id, each.kv_tokens]));
    const stack = order.filter((id) => held.get(id) > 0)
      .map((id) => ({ id, amount: held.get(id), again: Math.min(held.get(id), lost.get(id) ?? 0) }));
    const finished = step.finished.map((id) => ({ id, amount: work.find((each) => each.id === id)?.end ?? 0 }));
    const queue = step.waits.filter((wait) => wait.status === "waiting").length;
    return { stack, dropped, finished, work, again, againSoFar, queue, total: step.kv_after };
  });
}

// The whole run: tokens computed, of which recomputed; tokens generated; preemptions.
export function totalsOf(trace) {
  const work = trace.steps.flatMap((step) => step.work);
  const steps = kvSteps(trace);
  return {
    computed: work.reduce((sum, each) => sum + each.end - each.start, 0),
    again: steps.length ? steps[steps.length - 1].againSoFar : 0,
    generated: work.flatMap(tokensOf).length,
    preemptions: trace.steps.reduce((sum, step) => sum + step.preempted.length, 0),
  };
}

// The most tokens that the chart must show: the budget, or a stack with what was released from it.
export function mostHeld(trace) {
  const heights = kvSteps(trace).map((step) => sumOf([...step.stack, ...step.finished, ...step.dropped]));
  return Math.max(1, trace.max_kv_tokens ?? 0, ...heights);
}

export function deepestQueue(trace) {
  return Math.max(0, ...kvSteps(trace).map((step) => step.queue));
}

// ---- lifecycles -----------------------------------------------------------------------------

// One state per step for one request: before, waiting, prefilling, recomputing, active, preempted
// (waiting to come back), done.
export function lifeOf(trace, request) {
  let state = "before";
  let out = false;
  let done = false;
  const steps = kvSteps(trace);
  return trace.steps.map((step, index) => {
    const { id } = request;
    if (done) return "done";
    const work = step.work.find((each) => each.request_id === id);
    const wait = step.waits.find((each) => each.request_id === id);
    if (step.preempted.includes(id)) out = true;
    if (work || step.admitted.includes(id)) out = false;
    if (work) {
      const again = steps[index].work.find((each) => each.id === id).again > 0;
      state = work.kind === "decode" ? "active" : again ? "recomputing" : "prefilling";
    } else if (out) state = "preempted";
    else if (wait) state = wait.status;
    else if (state === "before" && request.arrival_step <= step.step) state = "waiting";
    if (step.finished.includes(id)) done = true;
    return state;
  });
}

// Neighbouring steps in the same state, as [from, to).
export function runsOf(states) {
  const runs = [];
  states.forEach((state, index) => {
    const last = runs[runs.length - 1];
    if (last && last.state === state) last.to = index + 1;
    else runs.push({ state, from: index, to: index + 1 });
  });
  return runs;
}

export function wholeTime(trace) {
  const last = trace.steps[trace.steps.length - 1];
  return last ? last.end_us - originOf(trace) : 0;
}
