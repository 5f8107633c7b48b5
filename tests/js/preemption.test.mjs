import assert from "node:assert/strict";
import test from "node:test";

import { middleWithin, ticksWithin } from "../../widgets/static/chart.js";
import { cyclePlaces, dotsOf, eventAt, eventWords, timeRange } from "../../widgets/static/slo_cycle_layout.js";
import {
  boardPlaces, hasEnded, layersRun, layerWords, stateAt, timesWords, votesWords, workKind, workWords, writeAt,
} from "../../widgets/static/vote_board_layout.js";

// ---- votes ----------------------------------------------------------------------------------

const check = (layer, reached, vote) => ({ layer, vote, reached_us: reached, agree_us: 500 });
const looks = (late, lastVote) => [0, 1, 2, 3].map((layer) => check(layer, 30000 * layer + late, layer === 3 ? lastVote : 0));
const end = (how, layer, words = "") => ({ how, layer, words });

// Written after rank 0 has looked at layer 3, and before rank 1 has.
const right = {
  label: "with a vote", words: "So.", mark: "target 17", agreement: "vote", results: [0, 0, 0, 1, null, null], wasted_share: 0.5,
  endings: [end("left", 3), end("left", 3)],
  record: {
    pass_number: 17, layer: 3, num_layers: 6, written_us: 91000, replied_us: 95000, resumed_us: null,
    checks: [looks(0, 0), looks(2000, 1)],
  },
};
const alone = {
  ...right, results: [0, 0, 0, null, null, null], wasted_share: null,
  endings: [end("hangs", 3, "waits for rank 1"), end("left", 3, "left without a vote")],
};
const done = {
  ...right, wasted_share: 0, endings: [end("finished", 6), end("finished", 6)], record: { ...right.record, layer: 6 },
};

test("a rank ran, left, and never ran the rest", () => {
  assert.deepEqual([0, 2, 3, 4].map((layer) => stateAt(right, 0, layer)), ["ran", "ran", "left", "never"]);
  assert.deepEqual([2, 3, 4].map((layer) => stateAt(alone, 0, layer)), ["ran", "hangs", "never"]);
  assert.equal(stateAt(alone, 1, 3), "alone");
  assert.equal(stateAt(done, 0, 5), "ran");
});

test("the write lands between two looks of each rank", () => {
  assert.ok(Math.abs(writeAt(right, 0) - (3 + 1 / 30)) < 1e-9);
  assert.ok(Math.abs(writeAt(right, 1) - (2 + 29 / 30)) < 1e-9);
  const at = (written) => writeAt({ ...right, record: { ...right.record, written_us: written } }, 0);
  assert.ok(at(-5) > -1 && at(-5) < 0);
  assert.ok(at(1e9) > 3 && at(1e9) < 4);
  assert.equal(at(null), null);
});

test("a pass is wasted, kept, lost or finished", () => {
  const kept = { ...right, wasted_share: 0 };
  assert.deepEqual([right, kept, alone, done].map(workKind), ["wasted", "kept", "lost", "finished"]);
  assert.deepEqual([hasEnded(right), hasEnded(alone)], [true, false]);
  assert.equal(layersRun(alone), 3);
  assert.equal(workWords(right), "3 of 6 layers computed for nothing: 50 percent of the pass.");
  assert.match(workWords(alone), /^The pass never ends/);
});

test("equal votes are told together", () => {
  assert.equal(votesWords(right, 0), "ranks 0 and 1 vote 0");
  assert.equal(votesWords(right, 3), "rank 0 votes 0, rank 1 votes 1");
  assert.equal(votesWords(right, 5), "");
});

test("a layer is told with its votes, the write, and who left", () => {
  assert.equal(layerWords(right, 0), "Layer 0: ranks 0 and 1 vote 0; MAX is 0.");
  assert.equal(layerWords(right, 3), "Layer 3: rank 0 votes 0, rank 1 votes 1; MAX is 1. Target 17 is written after rank 0 looked " +
    "here, and before rank 1 did. All ranks leave here, no rank by itself. 3 of 6 layers computed for nothing: 50 percent of the pass.");
  assert.match(layerWords(right, 4), /^Layer 4 is never run\. /);
  assert.equal(layerWords(right, 6), "This pass has 6 layers.");
  assert.match(layerWords(alone, 3), /1; the collective never answers\. .* Rank 0 hangs here: it waits for rank 1\. Rank 1 leaves here: it left without a vote\./);
});

test("a write before the first look, and one between equal looks, are told", () => {
  const early = { ...right, mark: "the flag", record: { ...right.record, written_us: -5 } };
  assert.match(layerWords(early, 0), / The flag is written before any rank looks for the first time\.$/);
  const between = { ...right, record: { ...right.record, written_us: 40000 } };
  assert.match(layerWords(between, 1), / Target 17 is written after every rank's look at layer 1\.$/);
});

test("the times are told as far as they are known", () => {
  assert.equal(timesWords(right), "Written 91.0 ms into the pass; last reply 4.0 ms after the write; agreeing took 0.50 ms per " +
    "layer and rank, waiting for the others included.");
  assert.equal(timesWords(alone), "Written 91.0 ms into the pass; last reply 4.0 ms after the write.");
  const early = { ...alone, record: { ...right.record, written_us: -2000, replied_us: null } };
  assert.equal(timesWords(early), "Written 2.0 ms before the pass.");
});

test("twelve layers fit a phone, thirty-two scroll", () => {
  const of = (layers, width) => boardPlaces({ ...right, record: { ...right.record, num_layers: layers } }, width).width;
  assert.ok(of(12, 326) <= 327);
  assert.ok(of(32, 326) > 700);
  assert.ok(of(12, 926) <= 926);
  const places = boardPlaces(right, 900);
  assert.ok(places.between(3.03) > places.x(3) + places.cell / 2 && places.between(2.97) < places.x(3) + places.cell / 2);
});

// ---- the cycle ------------------------------------------------------------------------------

const event = (stage, points, words = "It happens.") => ({
  stage, words, reach: null, at_us: Math.max(...points.map(([, at]) => at)),
  points: points.map(([lane, at]) => ({ lane, at_us: at })),
});
const cycle = {
  lanes: ["inbox", "engine thread", "monitor thread", "rank 0", "rank 1"],
  spans: [{ lane: 3, from_us: 0, to_us: 93000, kind: "pass", words: "pass 17" }],
  events: [
    event("arrival", [[0, 88000]]), event("inbox", [[0, 88000]]), event("vote", [[3, 90000], [4, 92000]]),
    event("re-admission", [[1, 97000]]), event("first token", [[1, 140000]]),
  ],
};

test("the whole cycle is shown, or what lies between the arrival and the re-admission", () => {
  const whole = timeRange(cycle, false);
  assert.ok(whole.from < 0 && whole.to > 140000);
  const near = timeRange(cycle, true);
  assert.ok(near.from > 85000 && near.from < 88000 && near.to > 97000 && near.to < 100000);
});

test("ticks are round, and below 0 where the range is", () => {
  assert.deepEqual(ticksWithin(-1, 141, 4), [0, 50, 100]);
  assert.deepEqual(ticksWithin(-1, 1.2, 4), [-1, 0, 1]);
  assert.deepEqual(ticksWithin(87.46, 97.54, 4), [90, 95]);
});

test("the words of a tick near an end stand within the picture, and elsewhere below it", () => {
  assert.deepEqual([[4, 20], [322, 36], [100, 20]].map(([x, width]) => middleWithin(x, width, 0, 330)), [10, 312, 100]);
});

test("dots of one lane stand beside each other, and out of range they are not there", () => {
  const range = timeRange(cycle, true);
  const places = cyclePlaces(cycle.lanes, range, 900);
  const dots = dotsOf(cycle.events, places);
  assert.equal(dots[0][0].x, places.x(88000));
  assert.equal(dots[1][0].x, dots[0][0].x + 22);
  assert.equal(dots[1][0].exact, dots[0][0].exact);
  assert.deepEqual(dots[2].map((dot) => dot.lane), [3, 4]);
  assert.deepEqual(dots[4], []);
});

test("a press finds the nearest dot, or none", () => {
  const range = timeRange(cycle, false);
  const places = cyclePlaces(cycle.lanes, range, 900);
  const dots = dotsOf(cycle.events, places);
  assert.equal(eventAt(dots, places, places.x(140000) + 4, places.y(1) - 6), 4);
  assert.equal(eventAt(dots, places, places.x(10000), places.y(1)), null);
});

test("a span is cut to what is shown", () => {
  const range = { from: 50000, to: 100000 };
  const places = cyclePlaces(cycle.lanes, range, 900);
  const box = places.cut(0, 93000);
  assert.equal(box.x, places.x(50000));
  assert.equal(box.width, places.x(93000) - places.x(50000));
  assert.equal(places.cut(0, 40000), null);
  assert.ok(cyclePlaces(cycle.lanes, range, 330).narrow);
});

test("an event is told with its place in the cycle and its time", () => {
  assert.equal(eventWords(cycle.events, 2), "3 of 5: vote, 92.0 ms into the pass.\nIt happens.");
  assert.equal(eventWords([event("arrival", [[0, -3000]])], 0), "1 of 1: arrival, 3.0 ms before the pass.\nIt happens.");
});
