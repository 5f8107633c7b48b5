// The live page's layout: what the server says, as rows, bars, curves and words.

import assert from "node:assert/strict";
import { test } from "node:test";

import { atMost, bars, curve, joined, label, path, queueWords, rates, rows, sampled, seconds, since, stepWords, words } from "../../nanogpt/server/static/live_layout.js";

const step = (number, work = []) => ({ step: number, work });
const request = (id, more = {}) => ({ id, status: "active", prompt: 5, known: 5, generated: 2, wanted: 9, ...more });

test("steps are joined in order, none twice and no more than are kept", () => {
  const numbers = (frames) => frames.map((each) => each.step);
  assert.deepEqual(numbers(joined([step(1), step(2)], [step(2), step(3)])), [1, 2, 3]);
  assert.deepEqual(numbers(joined([step(1), step(2)], [step(3), step(4)], 3)), [2, 3, 4]);
  assert.deepEqual(numbers(joined([step(1), step(2)], [step(4), step(5)])), [4, 5]);
  assert.deepEqual(numbers(joined([step(1)], [])), [1]);
  assert.deepEqual(numbers(joined([], [step(7)])), [7]);
});

test("the newest step stands in the last column, and a row begins with its first work", () => {
  const frames = [step(7, [[1, 0, 4]]), step(8, [[1, 1, 1], [2, 0, 3]]), step(9, [[2, 1, 1]])];
  const [first, second, third] = rows([request(1), request(2), request(3, { status: "waiting" })], frames, 10, 24);
  assert.deepEqual(first.cells, [{ column: 7, kind: "prefill", tokens: 4 }, { column: 8, kind: "decode", tokens: 1 }]);
  assert.deepEqual([first.from, second.from, third.from], [7, 8, null]);
  assert.deepEqual(third.cells, []);
  assert.deepEqual(rows([request(1)], frames, 1, 24)[0].cells, []);
  assert.equal(rows([request(1), request(2)], frames, 10, 1).length, 1);
});

test("a label says how far a request is", () => {
  assert.equal(label(request(4)), "#4 2/9");
  assert.equal(label(request(4, { status: "prefilling", known: 3, generated: 1 })), "#4 3/6");
  assert.equal(label(request(4, { status: "waiting" })), "#4 waits");
});

test("a histogram counts from its base, and whole again when the server has begun anew", () => {
  const now = { bounds: [1, 2], counts: [5, 3, 1] };
  assert.deepEqual(since(now, { bounds: [1, 2], counts: [4, 0, 1] }).counts, [1, 3, 0]);
  assert.deepEqual(since(now, null).counts, [5, 3, 1]);
  assert.deepEqual(since(now, { bounds: [1, 2], counts: [9, 0, 0] }).counts, [5, 3, 1]);
});

test("a share lies in the bucket in which so many have been seen", () => {
  const histogram = { bounds: [0.001, 0.01, 0.1], counts: [5, 4, 1, 0] };
  assert.equal(atMost(histogram, 0.5), 0.001);
  assert.equal(atMost(histogram, 0.51), 0.01);
  assert.equal(atMost(histogram, 0.95), 0.1);
  assert.equal(atMost({ bounds: [1], counts: [0, 2] }, 0.5), Infinity);
  assert.equal(atMost({ bounds: [1], counts: [0, 0] }, 0.5), null);
});

test("bars are those with something in them, and one more on each side", () => {
  const shown = bars({ bounds: [0.001, 0.0025, 0.5, 60], counts: [0, 0, 4, 1, 0] });
  assert.deepEqual(shown.map((bar) => bar.label), ["≤ 2.5 ms", "≤ 500 ms", "≤ 1 min", "> 1 min"]);
  assert.deepEqual(shown.map((bar) => bar.share), [0, 1, 0.25, 0]);
  assert.deepEqual(bars({ bounds: [1], counts: [0, 0] }), []);
  assert.equal(seconds(Infinity), "more than 2 min");
});

test("rates are tokens over seconds, of a minute, and never below 0", () => {
  const samples = [{ at_s: 10, tokens: 0 }, { at_s: 10.5, tokens: 50 }, { at_s: 11, tokens: 60 }];
  assert.deepEqual(rates(samples).map((each) => each.rate), [100, 20]);
  assert.equal(sampled(samples, { at_s: 70.6, tokens: 61 }).length, 2);
  assert.deepEqual(sampled(samples, { at_s: 12, tokens: 3 }), [{ at_s: 12, tokens: 3 }]);
  assert.equal(rates([samples[0], { at_s: 10, tokens: 9 }])[0].rate, 0);
});

test("a curve fills its box from the bottom, and its path closes there", () => {
  const box = { x: 10, y: 0, width: 100, height: 50 };
  const points = curve([5, 6, 7], [0, 2, 4], box);
  assert.deepEqual(points, [[10, 50], [60, 25], [110, 0]]);
  assert.deepEqual(curve([5, 7], [4, 4], box, 8).map(([, y]) => y), [25, 25]);
  assert.equal(path(points), "M10.0 50.0L60.0 25.0L110.0 0.0");
  assert.equal(path(points, 50), "M10.0 50.0L60.0 25.0L110.0 0.0L110.0 50L10.0 50Z");
  assert.equal(path([]), "");
});

test("the words have every number", () => {
  const state = { running: 3, waiting: 1, kv_usage: 0.414, preemptions: 1 };
  assert.equal(words(state, 99.6), "3 running, 1 waiting, 100 tokens/s, KV 41 % full, 1 preemption so far");
  assert.equal(words({ ...state, preemptions: 0 }, 0), "3 running, 1 waiting, 0 tokens/s, KV 41 % full");
});

test("a step says who computed how much, and the queue who is first to start", () => {
  const frame = { step: 9, preempted: [3], work: [[1, 0, 4], [2, 1, 1], [4, 2, 8]] };
  assert.equal(stepWords([frame]), "Step 9: #3 is preempted, #1 prefills 4 tokens, #2 decodes 1 token, #4 computes again 8 tokens.");
  assert.equal(stepWords([]), "");
  const waiting = [5, 6, 7].map((id) => request(id, { status: "waiting", key: [1, id] }));
  assert.equal(queueWords([request(1), ...waiting], 2), "Waiting, the first to start first: #5 (key 1, 5), #6 (key 1, 6) and 1 more.");
  assert.equal(queueWords([request(1)]), "No request waits.");
});
