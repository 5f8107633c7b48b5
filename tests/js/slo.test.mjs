import assert from "node:assert/strict";
import test from "node:test";

import {
  decisionWords, fourCases, isCase, roleWords, rowsOf, scoreRange, scoreTicks,
} from "../../widgets/static/gate_picture_layout.js";
import {
  changeWords, intervalWords, ladderPlaces, rowWords, wasteMark, wasteWords, wrapped,
} from "../../widgets/static/repair_ladder_layout.js";
import { fateWords, scoreWords, signedDuration } from "../../widgets/static/signed_words.js";
import { agrees, axisTicks, momentOf, momentWords } from "../../widgets/static/slack_timeline_layout.js";

// ---- signs ----------------------------------------------------------------------------------

test("times and scores carry their sign", () => {
  assert.deepEqual([32000, -850, 0, 2.5e6].map(signedDuration), ["+32.0 ms", "−0.85 ms", "0 ms", "+2.50 s"]);
  assert.deepEqual([0.0123456, -0.5, 1, 0, 2e-7].map(scoreWords), ["0.0123", "−0.5", "1", "0", "2.0e-7"]);
});

test("a slack of 0 still makes it", () => {
  assert.deepEqual([1, 0, -1].map(fateWords), ["can make it", "can make it", "doomed"]);
});

// ---- slack ----------------------------------------------------------------------------------

const moment = (now, done, predicted, slack, edf_score) =>
  ({ now_us: now, done_tokens: done, predicted_us: predicted, whole_us: predicted + 100 * done, slack_us: slack, edf_score });
const item = {
  label: "a prefill", arrival_us: 1000, deadline_us: 101000, total_tokens: 500, a: 100, c: 10000,
  moments: [moment(1000, 0, 60000, 40000, 0.01), moment(51000, 100, 50000, 0, 0.02), moment(71000, 100, 50000, -20000, -0.0333)],
};

test("a moment lies after the arrival, and the bar leaves a gap or overshoots", () => {
  assert.deepEqual([0, 1, 2].map((step) => momentOf(item, step).gap), [40000, 0, -20000]);
  const { now, deadline, end, wholeEnd } = momentOf(item, 1);
  assert.deepEqual([now, deadline, end, wholeEnd], [50000, 100000, 100000, 110000]);
});

test("the axis holds the whole bar of every moment", () => {
  assert.deepEqual(axisTicks([item], 4), [0, 50, 100, 150]);
  assert.deepEqual(axisTicks([{ ...item, deadline_us: 301000 }], 4), [0, 100, 200, 300]);
});

test("a slack that is not the gap is found out, rounding is forgiven", () => {
  const given = (slack) => agrees({ ...momentOf(item, 0), slack_us: slack });
  assert.deepEqual([40000, 40001, 39800, 30000, -40000].map(given), [true, true, true, false, false]);
});

test("a moment is told with its tokens, its bar, slack and score", () => {
  assert.equal(momentWords(item, 0), "A prefill, 0 ms after the arrival: 500 tokens to compute, predicted 60.0 ms. " +
    "The bar ends 40.0 ms before the deadline: slack +40.0 ms, score 0.01 per ms.");
  assert.equal(momentWords(item, 2), "A prefill, 70.0 ms after the arrival: 400 of 500 tokens are left, predicted 50.0 ms. " +
    "The bar overshoots the deadline by 20.0 ms: slack −20.0 ms, score −0.0333 per ms. For the whole prompt it would be 60.0 ms.");
  const wrong = { ...item, moments: [moment(1000, 0, 60000, 90000, 0.01)] };
  assert.match(momentWords(wrong, 0), /slack \+90\.0 ms.* That is not the gap in the picture, \+40\.0 ms\.$/);
  const late = { ...item, moments: [moment(111000, 0, 60000, -70000, -0.1)] };
  assert.match(momentWords(late, 0), /110 ms after the arrival, the deadline 10\.0 ms past: /);
});

// ---- the gate -------------------------------------------------------------------------------

const runner = (id, slack, edf_score, immune = false) => ({ id, slack_us: slack, edf_score, immune });
const decision = {
  candidate: { id: 7, slack_us: 20000, edf_score: 0.02 }, margin: 1.2, words: "It passes.",
  running: [runner(1, 300000, 0.001), runner(2, 80000, 0.01), runner(3, 9000, 0.05, true)],
  incumbent: 2, victim: 1, bar: 0.012,
};
const doomed = {
  ...decision, candidate: { id: 7, slack_us: -2, edf_score: -0.011 }, running: [runner(2, -1, -0.01)], bar: -0.012, victim: null,
};

test("each decision is one of the four cases, and none without an incumbent", () => {
  const here = (each) => fourCases(1.2).flat().map((cell) => isCase(cell, each));
  assert.deepEqual(here(decision), [true, false, false, false]);
  assert.deepEqual(here({ ...decision, candidate: doomed.candidate }), [false, false, true, false]);
  assert.deepEqual(here({ ...doomed, candidate: decision.candidate }), [false, true, false, false]);
  assert.deepEqual(here(doomed), [false, false, false, true]);
  assert.deepEqual(here({ ...decision, incumbent: null, bar: null }), [false, false, false, false]);
  assert.match(fourCases(1.5)[0][0].words, /more than 1\.5 times/);
});

test("rows begin with the candidate, then the highest score, each with its part", () => {
  assert.deepEqual(rowsOf(decision).map((row) => [row.id, row.kind, ...row.roles]), [
    [7, "candidate", "candidate"], [3, "immune", "immune"], [2, "running", "incumbent"], [1, "running", "victim"],
  ]);
  assert.equal(roleWords(rowsOf(decision)[3]), "0.001 · victim");
});

test("the axis holds all scores, the bar and 0", () => {
  const { low, high } = scoreRange(doomed);
  assert.ok(low < -0.012 && high > 0 && high < 0.002);
  assert.deepEqual(scoreTicks({ low: -0.013, high: 0.001 }, 3), [-0.01, -0.005, 0]);
  assert.deepEqual(scoreTicks({ low: -0.25, high: 1.1 }, 4), [0, 0.5, 1]);
});

test("a decision is told with the incumbent, the margin and the victim", () => {
  assert.equal(decisionWords(decision), "It passes.\nRequest 7 waits with slack +20.0 ms, score 0.02. The incumbent is the most " +
    "urgent running request that is not immune, request 2: slack +80.0 ms, score 0.01; 1.2 times that is 0.012. Request 1 is preempted.");
  assert.match(decisionWords({ ...decision, incumbent: null, victim: null }), /Every running request is immune: .* No request is preempted\.$/);
  assert.match(decisionWords({ ...decision, incumbent: null, running: [], victim: null }), / Nothing runs\. No request is preempted\.$/);
});

// ---- the repair ladder ----------------------------------------------------------------------

const cell = (urgent, share = 0, preemptions = 0) =>
  ({ urgent: [urgent, urgent - 4, urgent + 5], generous: [80, null, null], wasted_share: share, preemptions });
const rows = [
  { variant: "most urgent first", words: "", loads: { 4: cell(58.4) } },
  { variant: "+ arrivals seen", words: "Now they are seen.", loads: { 4: cell(5, 0.554, 340.2) } },
  { variant: "+ suspension", words: "", loads: { 4: cell(6, 0, 1) } },
];

test("an interval is told where there is one", () => {
  assert.equal(intervalWords([58.4, 52.2, 65.5]), "58 % (52 to 66)");
  assert.equal(intervalWords([58.4, null, null]), "58 %");
});

test("a rung is told with what it changed", () => {
  assert.equal(changeWords(rows, 0, "4", "urgent"), "");
  assert.equal(changeWords(rows, 1, "4", "urgent"), ", 53 points less than before");
  assert.equal(changeWords(rows, 2, "4", "urgent"), ", 1 point more than before");
  assert.equal(rowWords(rows, 1, "4"), "+ arrivals seen, at 4 requests/s. In time: urgent 5 % (1 to 10), 53 points less than before; " +
    "generous 80 %, as before. 340 preemptions throw away 55 % of the computing time.\nNow they are seen.");
  assert.equal(wasteWords(rows[0].loads[4]), "Nothing is preempted.");
  assert.equal(wasteWords(rows[2].loads[4]), "1 preemption, and no work is thrown away.");
  assert.equal(wasteMark(rows[1].loads[4]), "thrown away: 55 %, 340 preemptions");
  assert.equal(wasteMark(rows[0].loads[4]), "no preemption");
});

test("names stand beside the bars where there is room, in lines that fit", () => {
  const [wide, narrow, phone] = [900, 330, 250].map((width) => ladderPlaces(width, ["a", "arrival order, everyone batched along"]));
  assert.ok(wide.left > 200 && wide.above === 0);
  assert.ok(narrow.left < 10 && narrow.right > narrow.left + 200);
  assert.deepEqual([narrow.above, phone.above], [22, 38]);
  assert.deepEqual(wrapped("arrival order, everyone batched along", 27), ["arrival order, everyone", "batched along"]);
  assert.deepEqual(wrapped("unbreakable", 3), ["unbreakable"]);
});
