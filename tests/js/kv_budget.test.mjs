import assert from "node:assert/strict";
import test from "node:test";

import {
  deepestQueue, kvSteps, lifeOf, mostHeld, runsOf, totalsOf, wholeTime,
} from "../../widgets/static/kv_budget_layout.js";
import { boxesOf, stepWidth } from "../../widgets/static/kv_stacks.js";
import { kvStepWords, totalsWords } from "../../widgets/static/kv_budget_words.js";
import { decode, prefill, smallTrace, step, wait } from "./trace_fixture.mjs";

const held = (kv, more = {}) => ({
  kv: Object.entries(kv).map(([id, tokens]) => ({ request_id: Number(id), kv_tokens: tokens })),
  kv_after: Object.values(kv).reduce((sum, tokens) => sum + tokens, 0), ...more,
});

// Budget 8. Request 1 is preempted in step 2 after 4 tokens and 1 generated, waits, recomputes its
// 4 tokens in two chunks (and is preempted again in between), then ends; request 0 ends in step 3.
function swapped() {
  const base = smallTrace();
  const short = "the KV budget is short";
  return {
    ...base, max_kv_tokens: 8,
    requests: base.requests.slice(0, 2).map((request, id) =>
      ({ ...request, arrival_step: id, prompt_tokens: [1, 2, 3] })),
    steps: [
      step(0, 0, 1000, [prefill(0, 0, 3, 2)], held({ 0: 3 }, { admitted: [0] })),
      step(1, 1000, 2000, [decode(0, 3, 1), prefill(1, 0, 4, 1)], held({ 0: 4, 1: 4 }, { admitted: [1] })),
      step(2, 2000, 3000, [decode(0, 4, 1)],
        held({ 0: 5 }, { preempted: [1], waits: [wait(1, "preempted to keep the KV budget")] })),
      step(3, 3000, 4000, [decode(0, 5, 1)], held({}, { finished: [0], waits: [wait(1, short)] })),
      step(4, 4000, 5000, [prefill(1, 0, 2)], held({ 1: 2 }, { admitted: [1] })),
      step(5, 5000, 6000, [], held({}, { preempted: [1], waits: [wait(1, short)] })),
      step(6, 6000, 7000, [prefill(1, 0, 5, 1)], held({ 1: 5 }, { admitted: [1] })),
      step(7, 7000, 8000, [decode(1, 5, 1)], held({}, { finished: [1] })),
    ],
  };
}

test("recomputed are the tokens of a prefill below what the request had reached before", () => {
  const steps = kvSteps(swapped());
  assert.deepEqual(steps.map((each) => each.again), [0, 0, 0, 0, 2, 0, 4, 0]);
  assert.deepEqual(steps.map((each) => each.againSoFar), [0, 0, 0, 0, 2, 2, 6, 6]);
  assert.deepEqual(totalsOf(swapped()), { computed: 18, again: 6, generated: 7, preemptions: 2 });
});

test("a stack keeps its recomputed part hatched for as long as it is held", () => {
  const steps = kvSteps(swapped());
  assert.deepEqual(steps[1].stack, [{ id: 0, amount: 4, again: 0 }, { id: 1, amount: 4, again: 0 }]);
  assert.deepEqual(steps[4].stack, [{ id: 1, amount: 2, again: 2 }]);
  assert.deepEqual(steps[6].stack, [{ id: 1, amount: 5, again: 4 }]);
});

test("a preemption drops what the request held, and counts what it keeps", () => {
  const steps = kvSteps(swapped());
  assert.deepEqual(steps[2].dropped, [{ id: 1, amount: 4, generated: 1 }]);
  assert.deepEqual(steps[5].dropped, [{ id: 1, amount: 2, generated: 1 }]);
  assert.deepEqual(steps[3].finished, [{ id: 0, amount: 6 }]);
});

test("boxes lie on top of each other: held, finished, dropped", () => {
  const [, two, three] = [1, 2, 3].map((index) => boxesOf(kvSteps(swapped())[index]));
  assert.deepEqual(two, [
    { kind: "held", id: 0, from: 0, amount: 5, again: 0 },
    { kind: "dropped", id: 1, from: 5, amount: 4, again: 0 },
  ]);
  assert.deepEqual(three, [{ kind: "finished", id: 0, from: 0, amount: 6, again: 0 }]);
});

test("the chart shows the budget and whatever did not fit under it", () => {
  assert.equal(mostHeld(swapped()), 9);
  assert.equal(mostHeld({ ...swapped(), max_kv_tokens: 40 }), 40);
  assert.equal(mostHeld({ ...swapped(), max_kv_tokens: null, steps: [] }), 1);
  assert.equal(deepestQueue(swapped()), 1);
  assert.equal(deepestQueue({ ...swapped(), steps: [] }), 0);
});

test("a lifecycle goes through every state, and back", () => {
  const trace = swapped();
  assert.deepEqual(lifeOf(trace, trace.requests[0]),
    ["prefilling", "active", "active", "active", "done", "done", "done", "done"]);
  assert.deepEqual(lifeOf(trace, trace.requests[1]),
    ["before", "prefilling", "preempted", "preempted", "recomputing", "preempted", "recomputing", "active"]);
});

test("a request that arrived and never started waits; one that got nothing keeps its state", () => {
  const trace = smallTrace();
  assert.deepEqual(lifeOf(trace, trace.requests[2]), ["before", "waiting", "prefilling", "prefilling"]);
  trace.steps[2].work = trace.steps[2].work.filter((work) => work.request_id !== 1);
  assert.equal(lifeOf(trace, trace.requests[1])[2], "prefilling");
  trace.steps[2].waits = [wait(1, "the token budget is spent", "active")];
  assert.equal(lifeOf(trace, trace.requests[1])[2], "active");
});

test("a request that came back and got nothing is not preempted any more", () => {
  const trace = swapped();
  trace.steps[7] = { ...trace.steps[7], work: [], finished: [], waits: [wait(1, "the token budget is spent", "active")] };
  assert.equal(lifeOf(trace, trace.requests[1])[7], "active");
});

test("neighbouring steps in one state are one run", () => {
  assert.deepEqual(runsOf(["a", "a", "b"]), [{ state: "a", from: 0, to: 2 }, { state: "b", from: 2, to: 3 }]);
});

test("steps shrink to 9 pixels before the picture scrolls", () => {
  const many = { steps: Array(200).fill(null) };
  assert.equal(stepWidth([many], 900), 9);
  assert.equal(stepWidth([{ steps: Array(20).fill(null) }, { steps: [] }], 900), 45);
  assert.equal(stepWidth([{ steps: [] }], 900), 58);
});

test("a step says what is held, lost, recomputed, done and waiting", () => {
  const words = (index) => kvStepWords(swapped(), index);
  assert.equal(words(1), "Step 1: 8 of 8 KV tokens held.");
  assert.equal(words(2), "Step 2: 5 of 8 KV tokens held. Request 1 is preempted: its 4 tokens are " +
    "released; it has 1 generated token to keep.");
  assert.equal(words(3), "Step 3: 0 of 8 KV tokens held. Request 0 is done: its 6 tokens are " +
    "released. Request 1 waits: the KV budget is short.");
  assert.equal(words(4), "Step 4: 2 of 8 KV tokens held. Request 1 recomputes tokens 0 to 1. " +
    "Recomputed so far: 2 tokens.");
});

test("without a budget no budget is named, and beyond it the excess is", () => {
  assert.equal(kvStepWords({ ...swapped(), max_kv_tokens: null }, 1), "Step 1: 8 KV tokens held.");
  assert.equal(kvStepWords({ ...swapped(), max_kv_tokens: 6 }, 1),
    "Step 1: 8 of 6 KV tokens held, 2 over the budget.");
});

test("the whole run is said in one line", () => {
  assert.equal(totalsWords(swapped()), "18 tokens computed, 6 of them recomputed (33 percent); " +
    "2 preemptions; 7 tokens generated in 8 steps, 8.0 ms");
  assert.equal(totalsWords({ ...swapped(), steps: [] }),
    "0 tokens computed, none of them recomputed; 0 preemptions; 0 tokens generated in 0 steps, 0 ms");
  assert.equal(wholeTime(swapped()), 8000);
});
