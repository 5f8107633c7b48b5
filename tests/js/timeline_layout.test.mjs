import assert from "node:assert/strict";
import test from "node:test";

import {
  bandsOf, budgetBars, cellsOf, columnsOf, gapsOf, generatedAt, mostTokens, originOf, pixelsPerUnit,
  scrollFor, timeTicks, widthOf,
} from "../../widgets/static/timeline_layout.js";
import { differenceWords, firstDifference, stepWords, tokenMark, traceWords }
  from "../../widgets/static/timeline_words.js";
import { alphabet, decode, prefill, smallTrace, step, wait } from "./trace_fixture.mjs";

const names = ["yours", "the reference"];

const states = (trace, at) => cellsOf(trace, trace.requests[at]).map((cell) => cell.state);

test("every step of a request has one state", () => {
  const trace = smallTrace();
  assert.deepEqual(states(trace, 0), ["prefill", "decode", "decode", "done"]);
  assert.deepEqual(states(trace, 1), ["prefill", "prefill", "decode", "decode"]);
  assert.deepEqual(states(trace, 2), ["before", "waiting", "prefill", "prefill"]);
});

test("a started request that got nothing is idle, a preempted one waits again", () => {
  const trace = smallTrace();
  trace.steps[2].work = [decode(0, 5, 0)];
  trace.steps[2].waits = [wait(1, "passed over", "active")];
  trace.steps[3].work = [];
  trace.steps[3].preempted = [1];
  trace.steps[3].finished = [];
  assert.deepEqual(states(trace, 1), ["prefill", "prefill", "idle", "waiting"]);
});

test("a prefill cell knows its range and the known tokens, generated ones included", () => {
  const trace = smallTrace();
  const [first, second] = cellsOf(trace, trace.requests[1]);
  assert.deepEqual([first.start, first.end, first.total, first.sampled], [0, 4, 10, null]);
  assert.deepEqual([second.start, second.end, second.total, second.sampled], [4, 10, 10, 1]);
  trace.steps[3].work = [prefill(1, 0, 12, 2)];
  assert.equal(cellsOf(trace, trace.requests[1])[3].total, 12);
});

test("neighbouring cells without work join into a band, working ones stay apart", () => {
  const cells = ["waiting", "waiting", "prefill", "prefill", "idle", "idle", "done"]
    .map((state) => ({ state }));
  const spans = bandsOf(cells).map((band) => [band.cell.state, band.from, band.to]);
  assert.deepEqual(spans, [["waiting", 0, 2], ["prefill", 2, 3], ["prefill", 3, 4],
    ["idle", 4, 6], ["done", 6, 7]]);
});

test("on the time axis a column starts and is as wide as its step took", () => {
  const trace = smallTrace();
  assert.equal(originOf(trace), 1000);
  assert.deepEqual(columnsOf(trace, "time", 0.01).map(({ x, width }) => [x, width]),
    [[0, 20], [20, 61], [81, 10], [91, 10]]);
  assert.deepEqual(columnsOf(trace, "steps", 40).map(({ x, width }) => [x, width]),
    [[0, 40], [40, 40], [80, 40], [120, 40]]);
  assert.equal(widthOf([columnsOf(trace, "steps", 40), []]), 160);
});

test("a step column is 30 to 58 pixels wide and both traces share the scale", () => {
  const trace = smallTrace();
  const long = { ...trace, steps: Array.from({ length: 12 }, () => trace.steps[0]) };
  assert.equal(pixelsPerUnit([trace], "steps", 1000), 58);
  assert.equal(pixelsPerUnit([trace, long], "steps", 480), 40);
  assert.equal(pixelsPerUnit([trace, long], "steps", 100), 30);
});

test("the time axis fills the width, and widens for short steps up to four screens", () => {
  const trace = smallTrace();
  assert.equal(pixelsPerUnit([trace], "time", 1010), 0.1);
  assert.equal(pixelsPerUnit([trace], "time", 20.2), 0.005);
  trace.steps[3].end_us = trace.steps[3].start_us + 10;
  assert.equal(pixelsPerUnit([trace], "time", 911), 911 * 4 / 9110);
});

test("time ticks are round milliseconds within the width", () => {
  assert.deepEqual(timeTicks(400, 0.04).map(({ x, ms }) => [ms, x]),
    [[0, 0], [2, 80], [4, 160], [6, 240], [8, 320], [10, 400]]);
  assert.deepEqual(timeTicks(0, 1), []);
});

test("budget bars split what is within the budget from what is over it", () => {
  const trace = smallTrace();
  trace.steps[1].work = [decode(0, 4, 3), prefill(1, 4, 19)];
  assert.equal(mostTokens(trace), 16);
  const bar = budgetBars(trace)[1];
  assert.deepEqual(bar, { used: 16, budget: 8, within: 0.5, over: 0.5, limit: 0.5 });
  assert.deepEqual(budgetBars(trace, 32)[0],
    { used: 8, budget: 8, within: 0.25, over: 0, limit: 0.25 });
});

test("the picture scrolls no further than it takes to show the cursor", () => {
  assert.equal(scrollFor({ x: 100, width: 40 }, 400, 0), 0);
  assert.equal(scrollFor({ x: 500, width: 40 }, 400, 0), 180);
  assert.equal(scrollFor({ x: 500, width: 40 }, 400, 600), 460);
  assert.equal(scrollFor({ x: 10, width: 40 }, 400, 600), 0);
});

test("the text so far is what was sampled up to and including the step", () => {
  const texts = generatedAt(smallTrace(), 2);
  assert.deepEqual([...texts], [[0, [2, 3, 0]], [1, [1, 4]], [2, []]]);
});

test("gaps run from token to token, the first token counts from arrival", () => {
  assert.deepEqual(gapsOf(smallTrace()), [
    { id: 0, firstUs: 2000, worstUs: 6100 },
    { id: 1, firstUs: 8100, worstUs: 1000 },
    { id: 2, firstUs: 8100, worstUs: null },
  ]);
});

test("a step is said in words, with budget, cost and whose clock it is", () => {
  const trace = smallTrace();
  assert.equal(stepWords(trace, 1, alphabet),
    "Step 1: request 0 decodes and samples 'b'; request 1 prefills tokens 4 to 9 of 10 and samples " +
    "a space; request 2 waits: the token budget is spent. 7 of 8 tokens, 6.1 ms " +
    "(modelled: a large GPU).");
  assert.equal(stepWords(trace, 2, alphabet),
    "Step 2: requests 0 and 1 decode and sample a line break and 'c'; request 2 prefills token 0 of 2; " +
    "request 0 is done. 3 of 8 tokens, 1.0 ms (modelled: a large GPU).");
});

test("a step over its budget says by how much, a measured clock says measured", () => {
  const trace = smallTrace();
  trace.steps[0].work = [prefill(1, 0, 10, 9)];
  trace.clock = { name: "this machine", modelled: false };
  assert.equal(stepWords(trace, 0, alphabet),
    "Step 0: request 1 prefills tokens 0 to 9 of 10 and samples token 9. 10 of 8 tokens, " +
    "2 over the budget, 2.0 ms (measured: this machine).");
});

test("requests that wait for one reason share a phrase, paused ones have their own", () => {
  const trace = smallTrace();
  trace.steps[1].work = [];
  trace.steps[1].waits = [wait(1, "late"), wait(2, "late"), wait(0, "late", "active")];
  assert.match(stepWords(trace, 1, alphabet),
    /^Step 1: requests 1 and 2 wait: late; request 0 pauses: late\. 0 of 8 tokens/);
});

test("the first difference is the first step whose work differs, order aside", () => {
  const mine = smallTrace();
  const reference = smallTrace();
  reference.steps[0].work.reverse();
  assert.equal(firstDifference(mine, reference), null);
  mine.steps[1].work[1].end = 8;
  assert.deepEqual(firstDifference(mine, reference), { index: 1, ids: [1] });
});

test("another sampled token is a difference, and so is an earlier end", () => {
  const mine = smallTrace();
  mine.steps[2].work[1].sampled = 3;
  assert.deepEqual(firstDifference(mine, smallTrace()), { index: 2, ids: [1] });
  const short = smallTrace();
  short.steps.pop();
  const difference = firstDifference(short, smallTrace());
  assert.equal(difference.index, 3);
  assert.equal(differenceWords(short, smallTrace(), difference, alphabet, names),
    "Yours ends after step 2; the reference goes on.");
  assert.equal(differenceWords(smallTrace(), short, difference, alphabet, names),
    "The reference ends after step 2; yours goes on.");
});

test("the difference says what each did for the requests that differ, and for no other", () => {
  const mine = smallTrace();
  mine.steps[1].work.splice(1, 1);
  mine.steps[1].waits.push(wait(1, "it was left out", "prefilling"));
  const reference = smallTrace();
  assert.equal(differenceWords(mine, reference, firstDifference(mine, reference), alphabet, names),
    "Step 1 is the first that differs. Yours: request 1 pauses: it was left out. The reference: " +
    "request 1 prefills tokens 4 to 9 of 10 and samples a space.");
  assert.equal(differenceWords(mine, mine, null, alphabet, names), "Both did the same work in every step.");
});

test("an empty run has places and words too", () => {
  const empty = { ...smallTrace(), requests: [], steps: [] };
  assert.equal(originOf(empty), 0);
  assert.equal(pixelsPerUnit([empty], "time", 500), 500);
  assert.equal(traceWords(empty), "0 requests in 0 steps");
  assert.equal(traceWords(smallTrace()), "3 requests in 4 steps, 10.1 ms in all");
  assert.equal(differenceWords(empty, smallTrace(), firstDifference(empty, smallTrace()), alphabet, names),
    "Yours has no step; the reference goes on.");
});

test("white space and unknown tokens have visible marks", () => {
  assert.deepEqual([0, 1, 2, 99].map((token) => tokenMark(token, alphabet)),
    ["\\n", "sp", "a", "#99"]);
});

test("a step in which nothing runs says so", () => {
  const trace = smallTrace();
  trace.steps.push(step(4, 11100, 11100, []));
  assert.equal(stepWords(trace, 4, alphabet),
    "Step 4: nothing runs. 0 of 8 tokens, 0 ms (modelled: a large GPU).");
});

test("a step that takes no time does not widen the others", () => {
  const trace = smallTrace();
  const last = trace.steps[trace.steps.length - 1];
  const left = { ...trace, steps: [...trace.steps, { ...last, start_us: last.end_us }] };
  assert.equal(pixelsPerUnit([left], "time", 900), pixelsPerUnit([trace], "time", 900));
});
