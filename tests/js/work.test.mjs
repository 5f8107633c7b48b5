import assert from "node:assert/strict";
import test from "node:test";

import { kvSteps, totalsOf } from "../../widgets/static/kv_budget_layout.js";
import { growthSteps, unitOf } from "../../widgets/static/kv_growth_layout.js";
import { cellsOf, generatedAt, knownBefore } from "../../widgets/static/timeline_layout.js";
import { firstDifference, stepWords, tokensMark } from "../../widgets/static/timeline_words.js";
import { keptEnd, tokensOf } from "../../widgets/static/work.js";
import { alphabet, prefill, smallTrace, step } from "./trace_fixture.mjs";

const verified = (at, drafted, accepted, sampled) => ({
  request_id: 0, kind: "decode", start: at, end: at + 1 + drafted.length, sampled, drafted,
  num_accepted: accepted,
});

// Four tokens of prompt; two of three drafts accepted; then both, which ends it.
function speculative() {
  const base = smallTrace();
  const kv = (tokens) => ({
    kv: tokens ? [{ request_id: 0, kv_tokens: tokens, kv_tokens_charged: tokens, live_bytes: tokens }] : [],
    kv_after: tokens, kv_peak: tokens,
  });
  return {
    ...base, requests: [base.requests[0]],
    steps: [
      step(0, 0, 1000, [prefill(0, 0, 4, 2)], kv(4)),
      step(1, 1000, 2000, [verified(4, [3, 4, 4], 2, 0)], kv(7)),
      step(2, 2000, 3000, [verified(7, [2, 3], 2, 4)], { ...kv(0), finished: [0] }),
    ],
  };
}

test("accepted drafts are tokens of the request, rejected ones are neither text nor K/V", () => {
  assert.deepEqual(tokensOf(verified(4, [3, 4, 4], 2, 0)), [3, 4, 0]);
  assert.deepEqual(tokensOf(prefill(0, 0, 4)), []);
  assert.equal(keptEnd(verified(4, [3, 4, 4], 2, 0)), 7);
  assert.equal(keptEnd(prefill(0, 0, 4)), 4);
});

test("every picture counts the tokens of a verifying pass", () => {
  const trace = speculative();
  assert.equal(knownBefore(trace, 0, 2), 8);
  assert.deepEqual(generatedAt(trace, 2).get(0), [2, 3, 4, 0, 2, 3, 4]);
  assert.equal(totalsOf(trace).generated, 7);
  assert.deepEqual(kvSteps(trace)[1].work, [{ id: 0, start: 4, end: 7, again: 0 }]);
  assert.equal(kvSteps(trace)[2].finished[0].amount, 10);
  assert.equal(growthSteps(trace, unitOf(null))[2].finished[0].amount, 10);
  assert.match(stepWords(trace, 1, alphabet), /decodes and samples 'b', 'c' and a line break/);
});

test("other drafts with the same end are a difference", () => {
  const trace = speculative();
  const other = structuredClone(trace);
  other.steps[1].work[0].drafted[0] = 1;
  assert.equal(firstDifference(trace, structuredClone(trace)), null);
  assert.notEqual(firstDifference(trace, other), null);
});

test("a cell of a verifying pass has all its tokens", () => {
  const trace = speculative();
  assert.deepEqual(cellsOf(trace, trace.requests[0]).map((cell) => cell.tokens), [[2], [3, 4, 0], [2, 3, 4]]);
  assert.equal(tokensMark([3, 1, 0], alphabet), "b␣↵");
  assert.equal(tokensMark([1], alphabet), "sp");
});
