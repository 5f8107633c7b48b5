// Where pictures open, and that they say no more than what has happened by then.

import assert from "node:assert/strict";
import test from "node:test";

import { viewWords } from "../../widgets/static/batch_view_layout.js";
import { sideSummary } from "../../widgets/static/batching_layout.js";
import { fleetOpening } from "../../widgets/static/fleet_view_layout.js";
import { heapOpening } from "../../widgets/static/heap_stepper_layout.js";
import { growthOpening } from "../../widgets/static/kv_growth_layout.js";
import { lazyOpening } from "../../widgets/static/lazy_heap_layout.js";
import { probePlace } from "../../widgets/static/receptive_field_layout.js";
import { stripOpening as passOpening } from "../../widgets/static/speculation_strip_layout.js";
import { stripOpening } from "../../widgets/static/storage_strip_layout.js";
import { chunkLines, firstPreemption, gapsOf, pixelsPerUnit, timelineOpening } from "../../widgets/static/timeline_layout.js";
import { boardOpening } from "../../widgets/static/vote_board_layout.js";
import { prefill, smallTrace, step } from "./trace_fixture.mjs";

// ---- openings -------------------------------------------------------------------------------

test("a heap opens at the first pop from where it is fullest, or at the fullest", () => {
  const frame = (op, ...order) => ({ operation: op && { op }, order });
  const pushes = [frame(null), frame("push", 1), frame("push", 1, 2), frame("push", 1, 2, 3)];
  assert.equal(heapOpening([...pushes, frame("pop", 1, 2, 3), frame("pop", 2, 3)]), 4);
  assert.equal(heapOpening([frame("push", 1), frame("pop", 1), ...pushes, frame("pop", 1, 2, 3)]), 6);
  assert.equal(heapOpening([...pushes, frame("look", 1, 2, 3)]), 3);
});

test("a lazy heap opens at its first stale entry, or at the fullest", () => {
  const frame = (...states) => ({ states, order: states });
  assert.equal(lazyOpening([frame(), frame("live"), frame("live", "stale"), frame("revived")]), 2);
  assert.equal(lazyOpening([frame(), frame("live"), frame("live", "live"), frame("live")]), 2);
});

test("a fleet opens where its queue is first longest", () => {
  const queue = [{ at: 0, waiting: 0 }, { at: 5, waiting: 2 }, { at: 9, waiting: 1 }];
  assert.equal(fleetOpening({ queue, events: [{ at: 0 }, { at: 4 }, { at: 6 }, { at: 8 }, { at: 9 }] }), 2);
  assert.equal(fleetOpening({ queue: [], events: [] }), 0);
});

test("runs open at the first preemption of any of them", () => {
  const [calm, pressed] = [smallTrace(), smallTrace()];
  assert.equal(firstPreemption([calm]), 0);
  pressed.steps[2].preempted = [1];
  assert.equal(firstPreemption([calm, pressed]), 2);
  assert.equal(growthOpening([{ trace: calm }, { trace: pressed }]), 2);
});

test("a timeline without a preemption opens where a request first finds what is there", () => {
  const [calm, found] = [smallTrace(), smallTrace()];
  assert.equal(timelineOpening([calm]), 0);
  found.steps[1].prefix_hits = [{ request_id: 1, num_tokens: 8 }];
  assert.equal(timelineOpening([found]), 1);
  found.steps[2].preempted = [1];
  assert.equal(timelineOpening([found]), 2);
});

test("growth without a preemption opens where the most is held", () => {
  const held = (tokens) => step(0, 0, 1, [], { kv: [{ request_id: 0, kv_tokens: tokens }] });
  assert.equal(growthOpening([{ trace: { steps: [held(1), held(5), held(5), held(2)] } }]), 1);
  assert.equal(growthOpening([{ trace: { steps: [] } }]), 0);
});

test("a ring opens where it first overwrites, or full; bytes where none is shown of some", () => {
  const ring = (...positions) => ({ sinks: 0, window: 2, slots: positions.map((position) => ({ position })) });
  assert.equal(stripOpening([ring(0, null), ring(0, 1), ring(2, 1), ring(2, 3)]), 2);
  assert.equal(stripOpening([ring(0, null), ring(0, 1)]), 1);
  const bytes = (nbytes) => ({ storages: [{ label: "a", nbytes: 8 }], views: [{ label: "v", storage: 0, offset_bytes: 0, nbytes }] });
  assert.equal(stripOpening([bytes(8), bytes(4), bytes(2)]), 1);
  assert.equal(stripOpening([bytes(8), bytes(8)]), 0);
});

test("votes open at the first 1, drafts at the first that is rejected", () => {
  const board = (...votes) => ({ record: { checks: [votes.map((vote, layer) => ({ layer, vote })), [{ layer: 0, vote: 0 }]] } });
  assert.equal(boardOpening(board(0, 0, 1)), 2);
  assert.equal(boardOpening(board(0, 0)), 0);
  const pass = (...kept) => ({ drafts: kept.map((each) => ({ kept: each })) });
  assert.equal(passOpening({ passes: [pass(true), pass(true, false), pass(false)] }), 1);
  assert.equal(passOpening({ passes: [pass(true)] }), 0);
});

// ---- no more than has happened ------------------------------------------------------------------

test("first tokens and gaps are those up to the step", () => {
  assert.deepEqual(gapsOf(smallTrace(), 0), [
    { id: 0, firstUs: 2000, worstUs: null }, { id: 1, firstUs: null, worstUs: null }, { id: 2, firstUs: null, worstUs: null },
  ]);
  assert.deepEqual(gapsOf(smallTrace(), 1)[0], { id: 0, firstUs: 2000, worstUs: 6100 });
});

test("a side of the slots says its length only once it is over", () => {
  const side = { name: "static", slots: 2, length: 4, spans: [{ request: 0, slot: 0, start: 0, end: 4 }] };
  assert.equal(sideSummary(side, 1), "2 idle slot-steps so far");
  assert.equal(sideSummary(side, 3), "last request done after 4 steps, 4 idle slot-steps");
  assert.equal(sideSummary(side, 9), "last request done after 4 steps, 4 idle slot-steps");
});

test("a batch that will be packed does not count its padding beforehand", () => {
  const cells = [[{ real: false }, { real: true }], [{ real: true }, { real: true }]];
  assert.equal(viewWords("batch", [0, 1], cells, null, true),
    "The padded batch: 2 rows of 2 cells. Every cell is computed, whether it holds a token or not.");
  assert.equal(viewWords("batch", [0, 1], cells, null),
    "The padded batch: 2 rows of 2 cells, 3 of them real tokens. The other 1 are padding, 25 percent.");
});

test("a token's place is said without its way", () => {
  assert.equal(probePlace({ query: 40 }, 20), "Token 20 lies 20 back.");
  assert.equal(probePlace({ query: 40 }, 40), "Token 40 is the query itself.");
});

// ---- labels ---------------------------------------------------------------------------------

test("every chunk has room for its label on the axis of steps", () => {
  assert.deepEqual(chunkLines({ start: 4, end: 10 }, 40), ["4-9"]);
  assert.deepEqual(chunkLines({ start: 120, end: 150 }, 27), ["120-", "149"]);
  assert.deepEqual(chunkLines({ start: 1024, end: 1025 }, 5), ["1024"]);
  const trace = { steps: Array.from({ length: 90 }, () => step(0, 0, 1, [prefill(0, 10240, 10300)])) };
  assert.equal(pixelsPerUnit([trace], "steps", 500), 42);
});
