import assert from "node:assert/strict";
import test from "node:test";

import {
  bytesWords, cellBytes, cellsOf, isRing, lanesOf, mostLanes, overwritten, rowsOf, slotState,
  slotsWords, stateOf, stripWords, unseenBytes, viewLabels,
} from "../../widgets/static/storage_strip_layout.js";
import { ringColumns } from "../../widgets/static/storage_strip_ring.js";

const view = (label, offset, nbytes, storage = 0) => ({ label, storage, offset_bytes: offset, nbytes });
const buffer = { label: "buffer", nbytes: 12800 };
const bytes = (storages, views, live, counted) =>
  ({ words: "So it is.", storages, views, live_bytes: live, counted_bytes: counted });
const story = [
  bytes([buffer], [view("a", 0, 640), view("b", 640, 640)], 12800, 12800),
  bytes([buffer], [view("b", 640, 640)], 12800, 640),
  bytes([{ label: "copy", nbytes: 640 }], [view("b", 0, 640)], 640, 640),
];

test("a cell is as wide as lets views begin with one, unless that is too many cells", () => {
  assert.equal(cellBytes(story), 640);
  assert.equal(cellBytes([bytes([{ label: "x", nbytes: 6400 }], [view("a", 0, 4)], 1, 1)]), 128);
});

test("storages keep their rows: alive, freed, or not there yet", () => {
  const [first, second] = rowsOf(story);
  assert.deepEqual([first.label, second.label], ["buffer", "copy"]);
  assert.deepEqual([0, 1, 2].map((index) => stateOf(story, first, index)), ["alive", "alive", "freed"]);
  assert.deepEqual([0, 1, 2].map((index) => stateOf(story, second, index)), ["later", "later", "alive"]);
  assert.deepEqual(viewLabels(story), ["a", "b"]);
});

test("overlapping views get lanes of their own, neighbours share one", () => {
  const step = bytes([buffer], [view("tail", 900, 100), view("all", 0, 1000), view("next", 1000, 10)], 1, 1);
  assert.deepEqual(lanesOf(step, "buffer").map(({ label, lane }) => [label, lane]), [["all", 0], ["tail", 1], ["next", 0]]);
  assert.equal(mostLanes([step], "buffer"), 2);
});

test("a cell belongs to the view that touches it, and nobody's bytes are counted once", () => {
  const cells = cellsOf(story[1], rowsOf(story)[0], 640);
  assert.equal(cells.length, 20);
  assert.deepEqual(cells.slice(0, 3).map((each) => each?.label ?? null), [null, "b", null]);
  assert.equal(unseenBytes(story[1]), 12160);
  assert.equal(unseenBytes(bytes([buffer], [view("x", 0, 100), view("y", 50, 100), view("z", 60, 10)], 1, 1)), 12650);
});

test("a step says what is held beside what is counted", () => {
  assert.equal(bytesWords(story[1]), "So it is. Held: 12,800 bytes; counted: 640. No view shows 12,160 of the bytes held.");
  assert.equal(bytesWords(story[2]), "So it is. Held: 640 bytes; counted: 640.");
  assert.equal(stripWords(story, rowsOf(story)[0], 1), "buffer, 12,800 bytes: b at byte 640, 640 long");
  assert.equal(stripWords(story, rowsOf(story)[0], 2), "buffer, 12,800 bytes: freed");
  assert.equal(stripWords(story, rowsOf(story)[1], 0), "copy, 640 bytes: not there yet");
});

const slots = (positions, fresh) => ({
  words: "So it is.", sinks: 1, window: 2,
  slots: positions.map((position) => ({ position, new: position !== null && position === fresh })),
});
const ring = [slots([0, 1, null], 1), slots([0, 1, 2], 2), slots([0, 3, 2], 3)];

test("a slot is empty, a sink, kept or new", () => {
  assert.equal(isRing(ring), true);
  assert.equal(isRing(story), false);
  assert.deepEqual([0, 1, 2].map((at) => slotState(ring[0], at)), ["sink", "new", "empty"]);
  assert.equal(slotState(ring[2], 2), "kept");
});

test("what a step overwrote is named, and what is held", () => {
  assert.deepEqual([0, 1, 2].map((index) => overwritten(ring, index)), [[], [], [1]]);
  assert.equal(slotsWords(ring, 2), "So it is. Held: positions 0, 2 and 3, in 3 slots. Overwritten: 1.");
  assert.equal(slotsWords([slots([null, null, null], null)], 0), "So it is. Nothing is held, in 3 slots.");
});

test("a long ring goes on in a second line", () => {
  assert.equal(ringColumns(10, 900), 10);
  assert.equal(ringColumns(20, 340), 12);
});
