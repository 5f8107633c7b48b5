// A trace that begins in the middle and grows: what is drawn of it, and what is said.

import assert from "node:assert/strict";
import { test } from "node:test";

import { requestHue } from "../../widgets/static/column_picture.js";
import { kvSteps } from "../../widgets/static/kv_budget_layout.js";
import { goesOn, heapFrame, pushWords, withRows } from "../../widgets/static/live_trace.js";
import { knownBefore } from "../../widgets/static/timeline_layout.js";
import { alphabet, decode, prefill, step } from "./trace_fixture.mjs";

const held = (...pairs) => pairs.map(([id, tokens]) => ({ request_id: id, kv_tokens: tokens }));

// Request 7 held 12 tokens and had been given 3 of a text when the trace begins; 9 is new.
function middle() {
  const requests = [
    { id: 7, prompt_tokens: [0, 0, 0, 0, 0], max_new_tokens: 9, priority: 1, arrival_step: 2, hue: 5, before: { held: 7, reached: 7, lost: 0, generated: 3 } },
    { id: 9, prompt_tokens: [0, 0], max_new_tokens: 9, priority: 0, arrival_step: 40, hue: 1, before: { held: 0, reached: 0, lost: 0, generated: 0 } },
  ];
  return {
    version: 1, clock: { name: "this machine", modelled: false }, executor: "packed", token_budget: 8,
    max_kv_tokens: 320, error: null, requests,
    steps: [
      step(40, 0, 10, [decode(7, 7, 2), prefill(9, 0, 2, 3)], { kv: held([7, 8], [9, 2]), kv_after: 10, lost: [] }),
      step(41, 10, 20, [prefill(7, 0, 5, 2), prefill(9, 0, 2, 3)], { kv: held([7, 5], [9, 2]), kv_after: 7, lost: [7, 9] }),
    ],
  };
}

test("known tokens count what was given before the trace, until the worker is lost", () => {
  const trace = middle();
  assert.equal(knownBefore(trace, 7, 0), 8);
  assert.equal(knownBefore(trace, 7, 1), 5);
  assert.equal(knownBefore(trace, 9, 1), 2);
});

test("what is computed again after a loss is marked, and the loss is seen as released tokens", () => {
  const [first, second] = kvSteps(middle());
  assert.deepEqual(first.dropped, []);
  assert.deepEqual(first.stack.map((each) => each.again), [0, 0]);
  assert.deepEqual(second.dropped.map(({ id, tokens }) => [id, tokens]), [[7, 8], [9, 2]]);
  assert.deepEqual(second.work.map((each) => each.again), [5, 2]);
  assert.deepEqual(second.stack.map((each) => each.again), [5, 2]);
});

test("a preemption in the first step drops what was held before the trace", () => {
  const trace = middle();
  trace.steps = [step(40, 0, 10, [], { preempted: [7], kv: [], lost: [] })];
  assert.deepEqual(kvSteps(trace)[0].dropped, [{ id: 7, tokens: 7, generated: 3 }]);
});

test("a request keeps its colour when others go", () => {
  const trace = middle();
  assert.equal(requestHue(trace, 9), "sn-hue-1");
  assert.equal(requestHue(withRows(trace, [9]), 9), "sn-hue-1");
  const plain = { requests: [{ id: 3 }, { id: 4 }] };
  assert.equal(requestHue(plain, 4), "sn-hue-1");
});

test("rows are left out and steps are not", () => {
  const rows = withRows(middle(), [9]);
  assert.deepEqual(rows.requests.map((request) => request.id), [9]);
  assert.equal(rows.steps[0].work.length, 2);
});

test("the heap's array is drawn as it is, its top lit", () => {
  const { entries, frame } = heapFrame([{ id: 9, key: [0, 4], hue: 1 }, { id: 7, key: [1, 2], hue: 7 }]);
  assert.deepEqual(frame, { kind: "live", order: [9, 7], lit: [9], move: null });
  assert.deepEqual(entries.get(7), { id: 7, key: [1, 2], hue: 7, label: "7" });
});

test("a heap's picture goes on while entries only leave, and is drawn anew when one comes", () => {
  const of = (...queue) => heapFrame(queue.map(([id, key]) => ({ id, key, hue: 0 }))).entries;
  const before = of([1, [4]], [2, [5]]);
  assert.equal(goesOn(before, of([2, [5]])), true);
  assert.equal(goesOn(before, of([2, [5]], [3, [6]])), false);
  assert.equal(goesOn(before, of([1, [4]], [2, [9]])), false, "a key has changed");
  assert.equal(goesOn(null, before), false);
});

test("the newest step is said, with the KV tokens held and a lost worker", () => {
  const trace = middle();
  assert.equal(pushWords({ ...trace, steps: [] }, alphabet), "No step has been run yet.");
  const words = pushWords(trace, alphabet);
  assert.match(words, /^Step 41: request 7 prefills tokens 0 to 4 of 5/);
  assert.match(words, /7 of 320 KV tokens held\. With the last worker, 2 requests lost all K\/V\.$/);
});
