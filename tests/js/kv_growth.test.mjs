import assert from "node:assert/strict";
import test from "node:test";

import {
  growthSteps, growthTotals, longestSteps, mostOf, mostPadding, shownRuns, splitRuns, unitOf,
} from "../../widgets/static/kv_growth_layout.js";
import { boxesOf } from "../../widgets/static/kv_stacks.js";
import { growthStepWords, growthTotalsWords, runWords } from "../../widgets/static/kv_growth_words.js";
import { decode, prefill, smallTrace, step } from "./trace_fixture.mjs";

const entry = (id, tokens, counted = tokens, live = null) =>
  ({ request_id: id, kv_tokens: tokens, kv_tokens_charged: counted, live_bytes: live });
const did = (kv, computed, useful, more = {}) => ({
  kv, kv_peak: null, forwards: [{ useful_tokens: useful, computed_tokens: computed }],
  kv_after: kv.reduce((sum, each) => sum + each.kv_tokens, 0), ...more,
});

// Request 1 is counted with 2 tokens while it holds 3, and is preempted in step 2; 0 ends in step 3.
function run(label = "W = 4", window = 4) {
  const base = smallTrace();
  return {
    label, window, trace: {
      ...base, max_kv_tokens: 8, requests: base.requests.slice(0, 2),
      steps: [
        step(0, 0, 1, [prefill(0, 0, 6)], did([entry(0, 4, 4, 40)], 6, 6, { kv_peak: 6 })),
        step(1, 1, 2, [decode(0, 6, 1), prefill(1, 0, 3)], did([entry(1, 3, 2), entry(0, 4, 4, 40)], 6, 4, { kv_peak: 8 })),
        step(2, 2, 3, [decode(0, 7, 1)], did([entry(0, 4, 4, 40)], 1, 1, { preempted: [1], kv_peak: 5 })),
        step(3, 3, 4, [decode(0, 8, 1)], did([], 1, 1, { finished: [0], kv_peak: 5 })),
      ],
    },
  };
}

const tokens = unitOf(null);
const bytes = unitOf(10);

test("the run without a window stays, and one of the others joins it", () => {
  const runs = [run(), run("no window", null), run("W = 2", 2)];
  assert.deepEqual(splitRuns(runs).windowed.map((each) => each.label), ["W = 4", "W = 2"]);
  assert.deepEqual(shownRuns(runs, 1).map((each) => each.label), ["no window", "W = 2"]);
  assert.deepEqual(shownRuns([runs[1]], 0).map((each) => each.label), ["no window"]);
  const short = { ...run(), trace: { ...run().trace, steps: [] } };
  assert.equal(longestSteps([short, run()]).length, 4);
});

test("a column is stacked in the order of arrival, then what was released", () => {
  const steps = growthSteps(run().trace, tokens);
  assert.deepEqual(boxesOf(steps[1]).map(({ id, from, amount }) => [id, from, amount]), [[0, 0, 4], [1, 4, 3]]);
  assert.deepEqual(boxesOf(steps[2]).map(({ kind, id, from, amount }) => [kind, id, from, amount]),
    [["held", 0, 0, 4], ["dropped", 1, 4, 3]]);
  assert.deepEqual(steps[3].finished, [{ id: 0, amount: 5 }]);
});

test("held and counted are told apart, padding is what was computed beyond the useful", () => {
  const [, one] = growthSteps(run().trace, tokens);
  assert.deepEqual([one.held, one.counted, one.peak, one.computed - one.useful], [7, 6, 8, 2]);
});

test("bytes are the measured ones where the trace has them, else tokens times their size", () => {
  const [, one, , last] = growthSteps(run().trace, bytes);
  assert.deepEqual(one.stack.map((each) => each.amount), [40, 30]);
  assert.deepEqual(one.stack.map((each) => each.counted), [40, 20]);
  assert.equal(one.peak, 80);
  assert.deepEqual(last.finished, [{ id: 0, amount: 40 }]);
});

test("the axis has room for every run's height and budget, whichever is shown", () => {
  assert.equal(mostOf([run()], tokens), 8);
  const tall = run("no window", null);
  tall.trace.steps[1].kv_peak = 11;
  assert.equal(mostOf([run(), tall], tokens), 11);
  assert.equal(mostOf([run(), tall], bytes), 110);
  assert.equal(mostPadding([run(), tall], tokens), 2);
});

test("a step says what is held, lost, miscounted and padded", () => {
  const words = (index, unit = tokens) => growthStepWords(run().trace, index, unit);
  assert.equal(words(0), "Step 0: 4 of 8 KV tokens held, up to 6 within the step.");
  assert.equal(words(1), "Step 1: 7 of 8 KV tokens held, up to 8 within the step. The scheduler " +
    "counts 2 instead of 3 for request 1, 1 KV token fewer than are held. Padding: 2 of 6 computed tokens.");
  assert.equal(words(2), "Step 2: 4 of 8 KV tokens held, up to 5 within the step. Request 1 is " +
    "preempted and loses 3.");
  assert.equal(words(3), "Step 3: 0 of 8 KV tokens held, up to 5 within the step. Request 0 is " +
    "done and releases 5.");
  assert.match(words(1, bytes), /^Step 1: 70 of 80 bytes held, up to 80 within/);
});

test("a run that is over says so, and one that stopped says why", () => {
  assert.equal(runWords(run(), 9, tokens), "W = 4 is already done.");
  const stopped = run("yours");
  stopped.trace.error = "your evict raised KeyError";
  assert.match(runWords(stopped, 3, tokens), /^Yours, step 3: .* Here it stopped: your evict raised KeyError$/);
  assert.equal(runWords(stopped, 4, tokens), "Yours has stopped.");
  stopped.trace.steps = [];
  assert.equal(runWords(stopped, 0, tokens), "Yours: no step was run.");
});

test("the whole run is said in one line, in all and for one request", () => {
  assert.deepEqual(growthTotals(run().trace, tokens),
    { held: 7, one: 4, peak: 8, preemptions: 1, computed: 14, padding: 2 });
  assert.equal(growthTotalsWords(run().trace, tokens), "at most 7 KV tokens in all (up to 8 within a " +
    "step) and 4 for one request; 1 preemption; 2 of 14 computed tokens are padding (14 percent); 4 steps");
});
