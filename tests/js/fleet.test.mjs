import assert from "node:assert/strict";
import test from "node:test";

import {
  areaPath, fleetOf, fleetPlaces, laneColumns, lastBefore, marksWithin, mostZoom, nearestEvent, nextTrouble, queueAt, queueColumns,
  runsWithin, waitsOf, windowAt, workerAt,
} from "../../widgets/static/fleet_view_layout.js";
import { laneScale } from "../../widgets/static/lanes.js";
import { fleetWords, namesOf, passWords, runWords, wayWords } from "../../widgets/static/fleet_view_words.js";

// ---- a small fleet --------------------------------------------------------------------------

const columns = (rows) => Object.fromEntries(Object.keys(rows[0]).map((name) => [name, rows.map((row) => row[name])]));
const request = (id, arrival, deadline, first, finished, more = {}) => ({
  id, arrival_us: arrival, deadline_us: deadline, priority: 2, prompt_tokens: 20, max_new_tokens: 8,
  first_token_us: first, finished_us: finished, refused: false, ...more,
});
const visit = (id, worker, dispatched, start, end, ended, hit = 0) => ({
  request_id: id, worker, dispatched_us: dispatched, start_us: start, end_us: end, hit_tokens: hit, computed_tokens: 20 - hit,
  generated_tokens: 3, ended,
});
const run = (worker, start, end, kind, requests, reserved, cached) =>
  ({ worker, start_us: start, end_us: end, kind, num_steps: 1, num_requests: requests, reserved_tokens: reserved, cached_tokens: cached });

// 0 runs at once; 1 is preempted and comes back too late; 2 never fits; 3 still waits at the end.
const trace = {
  name: "adaptive", cost: { name: "source", modelled: true }, num_workers: 2, batch_size: 4, kv_tokens: 25, end_us: 100000, error: null,
  requests: columns([
    request(0, 0, 60000, 10000, 40000), request(1, 5000, 50000, 20000, 90000),
    request(2, 7000, 60000, null, null, { refused: true }), request(3, 30000, 70000, null, null),
  ]),
  visits: columns([
    visit(0, 0, 0, 1000, 40000, "finished"), visit(1, 1, 6000, 6000, 25000, "preempted"), visit(1, 0, 45000, 45000, 90000, "finished", 12),
  ]),
  runs: columns([
    run(0, 1000, 10000, "prefill", 1, 20, 0), run(0, 10000, 40000, "decode", 2, 25, 4), run(1, 6000, 25000, "prefill", 1, 20, 0),
    run(0, 45000, 90000, "decode", 1, 10, 8),
  ]),
  decisions: columns([
    { at_us: 7000, kind: "refuse", request_id: 2, worker: null }, { at_us: 44000, kind: "bump", request_id: 1, worker: null },
  ]),
};
const fleet = fleetOf(trace);

test("the events of requests are told in the order of time", () => {
  assert.deepEqual(fleet.events.map(({ at, kind, id }) => `${at} ${kind} ${id}`), [
    "0 arrival 0", "0 dispatch 0", "5000 arrival 1", "6000 dispatch 1", "7000 arrival 2", "7000 refuse 2", "10000 token 0",
    "20000 token 1", "25000 preempt 1", "30000 arrival 3", "40000 finish 0", "44000 bump 1", "45000 dispatch 1", "50000 miss 1",
    "70000 miss 3", "90000 finish 1",
  ]);
  assert.deepEqual(fleet.events.filter(({ kind }) => kind === "token").map(({ worker }) => worker), [0, 1]);
});

test("trouble is a refusal, a preemption or a missed deadline, and goes round", () => {
  const kinds = [];
  for (let index = nextTrouble(fleet.events, -1), seen = 0; seen < 5; index = nextTrouble(fleet.events, index), seen += 1) kinds.push(fleet.events[index].kind);
  assert.deepEqual(kinds, ["refuse", "preempt", "miss", "miss", "refuse"]);
  assert.equal(nextTrouble(fleet.events.filter(({ kind }) => kind === "arrival"), 0), null);
});

test("a press finds the nearest event, of the worker that it is on", () => {
  assert.equal(fleet.events[nearestEvent(fleet.events, 29000, null)].kind, "arrival");
  assert.equal(fleet.events[nearestEvent(fleet.events, 29000, 1)].kind, "preempt");
  assert.equal(fleet.events[nearestEvent(fleet.events, 29000, 7)].kind, "arrival");
  assert.equal(nearestEvent([], 0, null), null);
});

test("a request waits until it is dispatched, again after a preemption, and never when refused", () => {
  const waits = (id) => waitsOf(fleet.byId.get(id), fleet.visitsOf.get(id) ?? [], 100000);
  assert.deepEqual(waits(1), [{ from: 5000, to: 6000 }, { from: 25000, to: 45000 }]);
  assert.deepEqual(waits(2), []);
  assert.deepEqual(waits(3), [{ from: 30000, to: 100000 }]);
});

test("the queue counts who waits and who is past the deadline", () => {
  const at = (us) => [queueAt(fleet, us).waiting, queueAt(fleet, us).late];
  assert.deepEqual([0, 5500, 6000, 26000, 31000, 45000, 69999, 70000, 100000].map(at),
    [[0, 0], [1, 0], [0, 0], [1, 0], [2, 0], [1, 0], [1, 0], [1, 1], [1, 1]]);
});

test("a moment of a worker: its run, its batch, who comes, its K/V", () => {
  const [first, second] = fleet.lanes;
  assert.deepEqual(workerAt(first, 500), { run: null, batch: [], coming: [0], reserved: 0, cached: 0 });
  const { run: pass, batch, reserved, cached } = workerAt(first, 10000);
  assert.deepEqual([pass.kind, batch, reserved, cached], ["decode", [0], 25, 4]);
  assert.deepEqual(workerAt(first, 40000), { run: null, batch: [], coming: [], reserved: 0, cached: 4 });
  assert.deepEqual([500, 6000, 30000].map((us) => passWords(second, us)), ["idle", "prefill of request 1", "idle"]);
  assert.equal(passWords(first, 500), "about to start request 0");
});

test("the last row before a time is found, also where there is none", () => {
  const rows = [{ at: 1 }, { at: 3 }, { at: 3 }, { at: 9 }];
  assert.deepEqual([0, 1, 3, 8, 9].map((us) => lastBefore(rows, "at", us)), [-1, 0, 2, 2, 3]);
});

// ---- windows and columns --------------------------------------------------------------------

test("a window keeps still while the event is inside and follows when it is not", () => {
  assert.deepEqual(windowAt(70000, 0, 100000), { from: 0, to: 100000 });
  const first = windowAt(0, 2, 100000);
  assert.deepEqual(first, { from: 0, to: 25000 });
  assert.equal(windowAt(20000, 2, 100000, first), first);
  assert.deepEqual(windowAt(50000, 2, 100000, first), { from: 41250, to: 66250 });
  assert.deepEqual(windowAt(100000, 2, 100000, first), { from: 75000, to: 100000 });
  assert.deepEqual([mostZoom(20e6), mostZoom(10000)], [10, 0]);
});

test("only the runs that touch a window are drawn", () => {
  const starts = (from, to) => runsWithin(fleet.lanes[0], { from, to }).map((each) => each.start_us);
  assert.deepEqual(starts(0, 100000), [1000, 10000, 45000]);
  assert.deepEqual(starts(39000, 44000), [10000]);
  assert.deepEqual(starts(41000, 44000), []);
});

test("a lane has as many columns as pixels, a short run is never lost, the cache stays after a run", () => {
  const found = laneColumns(fleet.lanes[0].runs, { from: 0, to: 100000 }, 10);
  assert.deepEqual(found.decode, [0, 2, 2, 2, 1, 1, 1, 1, 1, 0]);
  assert.deepEqual(found.prefill, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
  assert.deepEqual(found.cached, [0, 4, 4, 4, 8, 8, 8, 8, 8, 8]);
  const many = Array.from({ length: 5000 }, (_, index) => run(0, index * 20, index * 20 + 1, "decode", index === 2501 ? 9 : 1, 1, 0));
  const short = laneColumns(many, { from: 0, to: 100000 }, 10);
  assert.deepEqual(short.decode, [1, 1, 1, 1, 1, 9, 1, 1, 1, 1]);
});

test("the queue's columns hold the most of each", () => {
  const found = queueColumns(fleet.queue, { from: 0, to: 100000 }, 10);
  assert.deepEqual(found.waiting, [1, 0, 1, 2, 2, 1, 1, 1, 1, 1]);
  assert.deepEqual(found.late, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]);
});

test("equal columns become one step of the outline", () => {
  assert.equal(areaPath([0, 2, 2, 1], { left: 10, base: 100, tall: 20, top: 2 }), "M11 100.0V80.0H13V100.0ZM13 100.0V90.0H14V100.0Z");
  assert.equal(areaPath([1, 1], { left: 0, base: 10, tall: 10, top: 2, floors: [0, 1] }), "M0 10.0V5.0H1V10.0ZM1 5.0V0.0H2V5.0Z");
  assert.deepEqual(marksWithin([0, 10, 11, 50, 200], laneScale({ from: 0, to: 100 }, 20, 120), 3), [20, 29, 32, 71]);
});

test("lanes have names beside them where there is room, above them where there is none", () => {
  const [wide, slim] = [[900, true], [330, false]].map(([width, zoomed]) => fleetPlaces(4, width, zoomed, { from: 0, to: 1 }));
  assert.ok(wide.left > 90 && slim.left < 10 && slim.overview === 0 && wide.overview > 0);
  for (const places of [wide, slim]) {
    assert.deepEqual([0, 3].map((worker) => places.laneAt(places.lane_top(worker) + 5)), [0, 3]);
    assert.equal(places.laneAt(places.queue.top), null);
    assert.ok(places.lane_top(3) + places.lane.tall + places.lane.kv < places.strip);
  }
});

// ---- the fleet in words ---------------------------------------------------------------------

const told = (kind, id) => fleetWords(fleet, fleet.events.findLastIndex((event) => event.kind === kind && event.id === id)).replace(/^[\d.]+ s, event \d+ of 16: /, "");

test("every event is told with its numbers and the queue", () => {
  assert.equal(fleetWords(fleet, 2), "0.005 s, event 3 of 16: Request 1 arrives: priority 2, 20 prompt tokens, at most 8 to generate, due in 45.0 ms. 1 waits.");
  assert.equal(told("dispatch", 0), "Request 0 is given to worker 0 at once: no hit, 20 tokens to compute. Nothing waits.");
  assert.equal(told("dispatch", 1), "Request 1 is given to worker 0 for the second time after 20.0 ms of waiting: 12 of its 20 tokens hit the cache. 1 waits.");
  assert.equal(told("refuse", 2), "Request 2 is refused: its 27 KV tokens never fit into 25. Nothing waits.");
  assert.equal(told("token", 1), "Request 1 has its first token, 15.0 ms after it arrived. Nothing waits.");
  assert.equal(told("preempt", 1), "Request 1 loses its place at worker 1 after 3 tokens generated there, and waits again. 1 waits.");
  assert.equal(told("bump", 1), "Request 1 becomes urgent, 6.0 ms before its deadline. 2 wait.");
  assert.equal(told("miss", 1), "The deadline of request 1 passes: it is at worker 0. 1 waits.");
  assert.equal(told("miss", 3), "The deadline of request 3 passes: it still waits. 1 waits, all past its deadline.");
  assert.equal(told("finish", 0), "Request 0 is done, 20.0 ms before its deadline. 2 wait.");
  assert.equal(told("finish", 1), "Request 1 is done, 40.0 ms too late. 1 waits, all past its deadline.");
});

test("a request's way and the run are told in a sentence", () => {
  assert.equal(wayWords(fleet, 1), "Request 1, priority 2, at workers 1 and 0: first token after 15.0 ms, 40.0 ms late.");
  assert.equal(wayWords(fleet, 3), "Request 3, priority 2, at no worker: no token, not finished.");
  assert.equal(wayWords(fleet, 2), "Request 2 was refused.");
  assert.equal(runWords(fleet), "Adaptive: 4 requests at 2 workers in 0.100 s, 2 deadlines missed, 1 preemption.");
  assert.equal(namesOf([1, 2, 3, 4, 5, 6, 7, 8]), "requests 1, 2, 3, 4, 5, 6 and 2 more");
});

test("a run without anything is drawn and told", () => {
  const empty = fleetOf({ ...trace, requests: { id: [] }, visits: { worker: [] }, runs: { worker: [] }, decisions: { kind: [] }, end_us: 0 });
  assert.deepEqual([empty.events.length, empty.queue.length, empty.end], [0, 0, 1]);
  assert.equal(fleetWords(empty, 0), "Nothing happens in this run.");
});

