// A fleet's events, queue, batches and windows over virtual time: pure functions of its trace.

import { laneScale } from "./lanes.js";

// ---- records --------------------------------------------------------------------------------

// Columns of equal length as one object per row.
export function rowsOf(columns) {
  const names = Object.keys(columns);
  return columns[names[0]].map((_, index) => Object.fromEntries(names.map((name) => [name, columns[name][index]])));
}

function grouped(rows, key) {
  const groups = new Map();
  for (const row of rows) {
    if (!groups.has(row[key])) groups.set(row[key], []);
    groups.get(row[key]).push(row);
  }
  return groups;
}

// Everything that the picture and its words ask for, found once.
export function fleetOf(trace) {
  const requests = rowsOf(trace.requests);
  const visits = rowsOf(trace.visits).sort((one, other) => one.dispatched_us - other.dispatched_us);
  const runs = rowsOf(trace.runs).sort((one, other) => one.start_us - other.start_us);
  const [runsOf, visitsAt] = [grouped(runs, "worker"), grouped(visits, "worker")];
  const fleet = {
    trace, requests, decisions: rowsOf(trace.decisions),
    byId: new Map(requests.map((request) => [request.id, request])),
    visitsOf: grouped(visits, "request_id"),
    lanes: Array.from({ length: trace.num_workers }, (_, worker) => ({ worker, runs: runsOf.get(worker) ?? [], visits: visitsAt.get(worker) ?? [] })),
    end: Math.max(1, trace.end_us, ...runs.slice(-1).map((run) => run.end_us)),
    most: runs.reduce((most, run) => Math.max(most, run.num_requests), 1),
  };
  fleet.queue = queueSteps(fleet);
  fleet.events = eventsOf(fleet);
  return fleet;
}

// ---- events ---------------------------------------------------------------------------------

const ORDER = ["arrival", "refuse", "bump", "preempt", "finish", "token", "dispatch", "miss"];
const TROUBLE = ["refuse", "preempt", "miss"];

// What happens to requests, one thing at a time, in order: { at, kind, id, worker, visit }.
export function eventsOf({ requests, decisions, visitsOf, end }) {
  const events = [];
  for (const request of requests) {
    const { id, deadline_us: deadline, finished_us: finished } = request;
    const visits = visitsOf.get(id) ?? [];
    const last = visits[visits.length - 1];
    events.push({ at: request.arrival_us, kind: "arrival", id, worker: null, visit: null });
    for (const visit of visits) {
      events.push({ at: visit.dispatched_us, kind: "dispatch", id, worker: visit.worker, visit });
      if (visit.ended === "preempted") events.push({ at: visit.end_us, kind: "preempt", id, worker: visit.worker, visit });
    }
    if (request.first_token_us !== null) {
      const visit = visits.find((each) => each.end_us >= request.first_token_us) ?? last ?? null;
      events.push({ at: request.first_token_us, kind: "token", id, worker: visit?.worker ?? null, visit });
    }
    if (finished !== null) events.push({ at: finished, kind: "finish", id, worker: last?.worker ?? null, visit: last ?? null });
    if (!request.refused && deadline <= end && (finished === null || finished > deadline)) {
      const visit = visits.find((each) => each.dispatched_us <= deadline && deadline < each.end_us) ?? null;
      events.push({ at: deadline, kind: "miss", id, worker: visit?.worker ?? null, visit });
    }
  }
  for (const { kind, at_us: at, request_id: id } of decisions) {
    if (kind === "bump" || kind === "refuse") events.push({ at, kind, id, worker: null, visit: null });
  }
  return events.sort((one, other) => one.at - other.at || ORDER.indexOf(one.kind) - ORDER.indexOf(other.kind) || one.id - other.id);
}

// The next event after `index` that is a missed deadline, a preemption or a refusal, going round;
// null where there is none.
export function nextTrouble(events, index) {
  const isTrouble = (event) => TROUBLE.includes(event.kind);
  const after = events.findIndex((event, at) => at > index && isTrouble(event));
  if (after >= 0) return after;
  const first = events.findIndex(isTrouble);
  return first < 0 ? null : first;
}

// Where the picture opens: at the first event at which the queue is longest.
export function fleetOpening(fleet) {
  const waiting = fleet.events.map((event) => queueAt(fleet, event.at).waiting);
  return Math.max(0, waiting.indexOf(Math.max(...waiting)));
}

// The event nearest in time, of the worker where one is named and has any.
export function nearestEvent(events, us, worker) {
  const own = worker === null ? [] : events.filter((event) => event.worker === worker);
  const among = own.length ? own : events;
  const nearest = among.reduce((best, event) => (Math.abs(event.at - us) < Math.abs(best.at - us) ? event : best), among[0]);
  return nearest ? events.indexOf(nearest) : null;
}

// ---- the queue ------------------------------------------------------------------------------

// The stretches of time in which a request waits: since its arrival or preemption.
export function waitsOf(request, visits, end) {
  if (request.refused) return [];
  const waits = [];
  let from = request.arrival_us;
  for (const visit of visits) {
    waits.push({ from, to: visit.dispatched_us });
    if (visit.ended !== "preempted" && visit.ended !== "sent") return waits;
    from = visit.end_us;
  }
  return [...waits, { from, to: end }];
}

// How many wait from each moment on, and how many of them are past their deadline.
function queueSteps({ requests, visitsOf, end }) {
  const changes = new Map();
  const change = (at, waiting, late) => {
    const here = changes.get(at) ?? { waiting: 0, late: 0 };
    changes.set(at, { waiting: here.waiting + waiting, late: here.late + late });
  };
  for (const request of requests) {
    for (const { from, to } of waitsOf(request, visitsOf.get(request.id) ?? [], end + 1)) {
      change(from, 1, 0);
      change(to, -1, 0);
      const late = Math.max(from, request.deadline_us);
      if (late >= to) continue;
      change(late, 0, 1);
      change(to, 0, -1);
    }
  }
  let [waiting, late] = [0, 0];
  return [...changes].sort(([one], [other]) => one - other).map(([at, delta]) => {
    waiting += delta.waiting;
    late += delta.late;
    return { at, waiting, late };
  });
}

// ---- moments --------------------------------------------------------------------------------

// The last index whose `key` is at most `us`, -1 where there is none; rows by rising `key`.
export function lastBefore(rows, key, us) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle][key] <= us) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export function queueAt(fleet, us) {
  return fleet.queue[lastBefore(fleet.queue, "at", us)] ?? { at: 0, waiting: 0, late: 0 };
}

// What a worker does at a moment: its run or null, who is in its batch, who is on the way to it,
// and its K/V; an idle worker's cache is what its last run left.
export function workerAt(lane, us) {
  const before = lane.runs[lastBefore(lane.runs, "start_us", us)] ?? null;
  const run = before && us < before.end_us ? before : null;
  const here = lane.visits.filter((visit) => visit.dispatched_us <= us && us < visit.end_us);
  return {
    run,
    batch: here.filter((visit) => visit.start_us <= us).map((visit) => visit.request_id),
    coming: here.filter((visit) => visit.start_us > us).map((visit) => visit.request_id),
    reserved: run ? run.reserved_tokens : 0,
    cached: before ? before.cached_tokens : 0,
  };
}

// ---- windows --------------------------------------------------------------------------------

const SHORTEST_US = 20000;

// How often the window can be halved.
export function mostZoom(end) {
  return Math.max(0, Math.ceil(Math.log2(end / SHORTEST_US)));
}

// The window that shows `us`: the present one while `us` is well inside, else one around it.
export function windowAt(us, zoom, end, present = null) {
  const span = end / 2 ** zoom;
  const inside = present && Math.abs(present.to - present.from - span) < 1 && us >= present.from + (present.from > 0 ? span * 0.03 : 0) && us <= present.to - (present.to < end ? span * 0.03 : 0);
  if (inside) return present;
  const from = Math.max(0, Math.min(end - span, us - span * 0.35));
  return { from, to: from + span };
}

// The runs of a lane that touch a window.
export function runsWithin(lane, { from, to }) {
  const first = Math.max(0, lastBefore(lane.runs, "start_us", from));
  const last = lastBefore(lane.runs, "start_us", to);
  return lane.runs.slice(first, last + 1).filter((run) => run.end_us > from);
}

// A value per pixel column for each name: `paint` keeps the highest in those that a stretch touches.
function pixelColumns({ from, to }, width, names) {
  const size = Math.max(1, Math.floor(width));
  const columns = Object.fromEntries(names.map((name) => [name, new Array(size).fill(0)]));
  const at = (us) => ((us - from) / (to - from)) * size;
  const paint = (name, start, end, value) => {
    const first = Math.max(0, Math.floor(at(start)));
    const last = Math.min(size, Math.max(first + 1, Math.ceil(at(end))));
    for (let column = first; column < last; column += 1) columns[name][column] = Math.max(columns[name][column], value);
  };
  return { columns, paint };
}

// A lane's runs as one value per pixel column: the most requests that decode, the most that
// prefill, and the K/V set aside and cached. However many runs there are, there are `width` columns.
export function laneColumns(runs, window, width) {
  const { columns, paint } = pixelColumns(window, width, ["decode", "prefill", "reserved", "cached"]);
  runs.forEach((run, index) => {
    paint(run.kind, run.start_us, run.end_us, run.num_requests);
    paint("reserved", run.start_us, run.end_us, run.reserved_tokens);
    // What is cached stays after a run, until the next one begins.
    paint("cached", run.start_us, runs[index + 1]?.start_us ?? window.to, run.cached_tokens);
  });
  return columns;
}

// The queue as one value per pixel column: the most that wait, the most that are late.
export function queueColumns(queue, window, width) {
  const { columns, paint } = pixelColumns(window, width, ["waiting", "late"]);
  for (let index = Math.max(0, lastBefore(queue, "at", window.from)); index < queue.length && queue[index].at < window.to; index += 1) {
    const { at, waiting, late } = queue[index];
    const until = queue[index + 1]?.at ?? window.to;
    paint("waiting", at, until, waiting);
    paint("late", at, until, late);
  }
  return columns;
}

// Columns as the outline of an area above `base`: `tall` pixels for a value of `top`. `floors`,
// where given, are the values on which the area stands.
export function areaPath(values, { left, base, tall, top, floors = null }) {
  const y = (value) => (base - (value / top) * tall).toFixed(1);
  const parts = [];
  for (let from = 0; from < values.length;) {
    let to = from + 1;
    const floor = floors ? floors[from] : 0;
    while (to < values.length && values[to] === values[from] && (!floors || floors[to] === floor)) to += 1;
    if (values[from] > 0) parts.push(`M${left + from} ${y(floor)}V${y(floor + values[from])}H${left + to}V${y(floor)}Z`);
    from = to;
  }
  return parts.join("");
}

// The shown times as distinct places on the scale, at least `apart`.
export function marksWithin(times, scale, apart) {
  return [...new Set(times.filter(scale.shows).map((us) => scale.left + Math.round((scale.x(us) - scale.left) / apart) * apart))];
}

// ---- places ---------------------------------------------------------------------------------

const SLIM = 620;

// Where lanes lie, from above: the whole run where the window is a part of it, the queue, the
// workers, the request of the step, the axis of time.
export function fleetPlaces(numWorkers, width, zoomed, shown) {
  const slim = width < SLIM;
  const name = slim ? 16 : 0;
  const overview = zoomed ? 34 + name : 0;
  const queue = { top: overview + name + 6, tall: 48 };
  const lane = { tall: 28, kv: 9, pitch: 54 + name };
  const lanes = queue.top + queue.tall + 14;
  const strip = lanes + numWorkers * lane.pitch + name;
  return {
    ...laneScale(shown, slim ? 2 : 102, width - 4),
    slim, name, overview, queue, lane, strip, stripTall: 20,
    base: strip + 30, height: strip + 54,
    lane_top: (worker) => lanes + worker * lane.pitch + name,
    laneAt: (y) => {
      const worker = Math.floor((y - lanes) / lane.pitch);
      return worker >= 0 && worker < numWorkers ? worker : null;
    },
  };
}
