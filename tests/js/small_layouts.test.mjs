import assert from "node:assert/strict";
import test from "node:test";

import { idleBefore, idleSpans, sideSummary, stepWords as slotWords, wholeLength }
  from "../../widgets/static/batching_layout.js";
import { scale, ticks } from "../../widgets/static/chart.js";
import { cellSize, cellsOfRow, differingCells, maskWords, numRows, rowWords, stepWords as maskStep }
  from "../../widgets/static/mask_layout.js";
import { followers } from "../../widgets/static/waiting_rows.js";
import { barsOf, mostTokens, numSteps, stepWords as workWords, totalAt }
  from "../../widgets/static/work_bars_layout.js";

const right = { name: "right", context_columns: 2, mask: [[true, true, true, false], [true, true, true, true]] };
const yours = { name: "yours", context_columns: 2, mask: [[true, true, true, true], [false, true, true, true]] };

test("a mask cell knows whether it is visible, in the future, its own, different", () => {
  assert.deepEqual(cellsOfRow(yours, 0, right)[3],
    { visible: true, future: true, own: false, differs: true });
  assert.deepEqual(cellsOfRow(yours, 0, right)[2],
    { visible: true, future: false, own: true, differs: false });
  assert.equal(differingCells(yours, right), 2);
  assert.equal(cellsOfRow(yours, 0)[3].differs, false);
});

test("masks of different shapes differ where one has no cell", () => {
  const short = { name: "short", context_columns: 0, mask: [[true, false]] };
  assert.equal(differingCells(yours, short), 7);
  assert.equal(numRows([short, yours]), 2);
  assert.equal(rowWords(short, 1), "short has no row 1");
});

test("a query row is said in words, its future and its differences too", () => {
  assert.equal(maskStep([yours, right], 0),
    "Query row 0, position 2: yours sees keys 0 to 3 (2 of 2 past and 2 new), and key 3 lies in its " +
    "future; right sees keys 0 to 2 (2 of 2 past and 1 new). Against right, yours also sees key 3.");
  assert.match(maskStep([yours, right], 1), /Against right, yours misses key 0\.$/);
  assert.match(maskStep([right, right], 1), /They agree in this row\.$/);
  assert.equal(maskStep([right], 1), "Query row 1, position 3: right sees keys 0 to 3 (2 of 2 past and 2 new).");
  assert.equal(rowWords({ name: "none", context_columns: 0, mask: [[false]] }, 0), "none sees no key at all");
  assert.equal(maskWords(right), "Mask right: 2 query rows by 4 keys, 2 of them past");
});

test("mask cells are between 13 and 30 pixels", () => {
  assert.deepEqual([4, 20, 200].map((keys) => cellSize(keys, 400)), [30, 20, 13]);
});

const work = [{ name: "without", tokens: [5, 6, 7] }, { name: "with", tokens: [5, 1, 1] }];

test("work bars share one scale and add up", () => {
  assert.equal(numSteps(work), 3);
  assert.equal(mostTokens(work), 7);
  assert.equal(totalAt(work[0].tokens, 1), 11);
  assert.deepEqual(barsOf([7, 0], 2, 7, 40, 70),
    [{ x: 1, width: 18, y: 0, height: 70 }, { x: 21, width: 18, y: 70, height: 0 }]);
});

test("work so far is said with the factor between the two", () => {
  assert.equal(workWords(work, 2),
    "New token 3: without 7 tokens, with 1 token through the model. Together so far: without 18, " +
    "with 7. That is 2.6 times the work.");
  assert.doesNotMatch(workWords(work, 0), /times/);
});

const waiting = { name: "static", slots: 2, length: 6, spans: [
  { request: 0, slot: 0, start: 0, end: 4 }, { request: 1, slot: 1, start: 0, end: 1 },
  { request: 2, slot: 0, start: 4, end: 6 }] };
const filling = { name: "continuous", slots: 2, length: 4, spans: [
  { request: 0, slot: 0, start: 0, end: 4 }, { request: 1, slot: 1, start: 0, end: 1 },
  { request: 2, slot: 1, start: 1, end: 3 }] };

test("idle stretches are what no request holds until the side is done", () => {
  assert.deepEqual(idleSpans(waiting, 1), [{ slot: 1, start: 1, end: 6 }]);
  assert.deepEqual(idleSpans(waiting, 0), []);
  assert.equal(idleBefore(waiting, 3), 2);
  assert.equal(sideSummary(filling, 3), "last request done after 4 steps, 1 idle slot-step");
  assert.equal(wholeLength([waiting, filling]), 6);
});

test("a batching step says who runs, who idles and who is done", () => {
  assert.equal(slotWords([waiting, filling], 3),
    "Step 3: static runs request 0, 1 slot idle, request 0 done; continuous runs request 0, 1 slot " +
    "idle, request 0 done. Idle slot-steps so far: static 3 and continuous 1.");
  assert.match(slotWords([waiting, filling], 5), /continuous is done since step 4\./);
});

test("ticks are round and reach past the top", () => {
  assert.deepEqual(ticks(8.4), [0, 5, 10]);
  assert.deepEqual(ticks(0.9), [0, 0.5, 1]);
  assert.deepEqual(ticks(100, 4), [0, 50, 100]);
  assert.deepEqual(ticks(0), [0, 1]);
  assert.equal(scale(5, 10, 100, 200), 150);
});

test("of boxes that wait close together the first one stays", () => {
  const places = [[0, 40], [60, 40], [180, 40], [240, 0]].map(([top, height]) => ({ top, height }));
  assert.deepEqual(followers(places), [false, true, false, false]);
});
