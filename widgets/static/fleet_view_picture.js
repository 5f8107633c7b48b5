// The picture of a fleet: what stays while the window stays, and what moves with the step.

import { chartText, hatch } from "./chart.js";
import { freshId, svg } from "./dom.js";
import {
  areaPath, fleetPlaces, laneColumns, marksWithin, queueColumns, runsWithin, waitsOf,
} from "./fleet_view_layout.js";
import { timeTicks } from "./slo_cycle_layout.js";
import { number } from "./words.js";

const FEW_RUNS = 140;
const LABEL_ROOM = 15;

const shape = (d, className, more = {}) => svg("path", { d, class: className, ...more });

function laneName(places, y, words) {
  return places.slim ? chartText(0, y - 5, "start", words, "sn-fv-name") : chartText(0, y + 18, "start", words, "sn-fv-name");
}

function drawTime(places, shown) {
  const group = svg("g", {});
  for (const ms of timeTicks(shown, places.slim ? 3 : 8)) {
    const x = places.left + ((ms * 1000 - shown.from) / (shown.to - shown.from)) * places.room;
    group.append(shape(`M${x} ${places.queue.top}V${places.base}`, "sn-fv-grid"));
    const words = number(Number((ms / 1000).toPrecision(9)));
    const half = words.length * 3.4;
    group.append(chartText(Math.max(half, Math.min(x, places.right - half)), places.base + 15, "middle", words));
  }
  group.append(chartText(0, places.base + 15, "start", places.slim ? "" : "seconds"));
  return group;
}

// The queue's depth, its late part on the ground, and a cross for every deadline that was missed.
function drawQueue(fleet, shown, places, box, late) {
  const { waiting, late: overdue } = queueColumns(fleet.queue, shown, places.room);
  const top = Math.max(1, ...waiting);
  const at = { left: places.left, base: box.top + box.tall, tall: box.tall, top };
  const rest = waiting.map((value, index) => Math.max(0, value - overdue[index]));
  return { top, nodes: [
    shape(`M${places.left} ${at.base}H${places.right}`, "sn-fv-track"),
    shape(areaPath(rest, { ...at, floors: overdue }), "sn-fv-waiting"),
    shape(areaPath(overdue, at), "sn-fv-late", { fill: `url(#${late})` }),
  ] };
}

function drawRuns(runs, lane, shown, places, most, stripes) {
  const top = places.lane_top(lane.worker);
  const base = top + places.lane.tall;
  const group = svg("g", {});
  for (const run of runs) {
    const x = (us) => places.left + Math.max(0, Math.min(1, (us - shown.from) / (shown.to - shown.from))) * places.room;
    const [from, to] = [x(run.start_us), x(run.end_us)];
    const tall = (run.num_requests / most) * places.lane.tall;
    group.append(svg("rect", { x: from, y: base - tall, width: Math.max(1, to - from), height: tall, class: `sn-fv-${run.kind} sn-fv-run`, fill: run.kind === "prefill" ? `url(#${stripes})` : null }));
    if (to - from > LABEL_ROOM) group.append(chartText((from + to) / 2, base - 4, "middle", String(run.num_requests), "sn-fv-count"));
  }
  return group;
}

function drawLane(fleet, lane, runs, shown, places, detailed, fills) {
  const { most, trace } = fleet;
  const top = places.lane_top(lane.worker);
  const base = top + places.lane.tall;
  const kvBase = base + 3 + places.lane.kv;
  const columns = laneColumns(runs, shown, places.room);
  const at = { left: places.left, base, tall: places.lane.tall, top: most };
  const kv = { left: places.left, base: kvBase, tall: places.lane.kv, top: trace.kv_tokens };
  const x = (column) => places.left + column;
  const hits = marksWithin(lane.visits.filter((visit) => visit.hit_tokens > 0).map((visit) => visit.dispatched_us), shown, places.room, 3);
  const lost = marksWithin(lane.visits.filter((visit) => visit.ended === "preempted").map((visit) => visit.end_us), shown, places.room, 4);
  return svg("g", {},
    laneName(places, top, `worker ${lane.worker}`),
    shape(`M${places.left} ${base}H${places.right}`, "sn-fv-track"),
    ...(detailed
      ? [drawRuns(runs, lane, shown, places, most, fills.prefill)]
      : [shape(areaPath(columns.decode, at), "sn-fv-decode"), shape(areaPath(columns.prefill, at), "sn-fv-prefill", { fill: `url(#${fills.prefill})` })]),
    svg("rect", { x: places.left, y: base + 3, width: places.room, height: places.lane.kv, class: "sn-fv-kv" }),
    shape(areaPath(columns.reserved, kv), "sn-fv-reserved"),
    shape(areaPath(columns.cached, { ...kv, floors: columns.reserved }), "sn-fv-cached", { fill: `url(#${fills.cached})` }),
    shape(hits.map((column) => `M${x(column)} ${kvBase + 1}l3 6h-6Z`).join(""), "sn-fv-hit"),
    shape(lost.map((column) => `M${x(column) - 4} ${top}l8 8m0 -8l-8 8`).join(""), "sn-fv-lost"),
  );
}

// The whole run's queue with the window on it.
function drawOverview(fleet, shown, places, late) {
  const whole = { from: 0, to: fleet.end };
  const box = { top: places.name, tall: 24 };
  const x = (us) => places.left + (us / fleet.end) * places.room;
  const width = Math.max(4, x(shown.to) - x(shown.from));
  return svg("g", {},
    laneName(places, box.top, "whole run"), ...drawQueue(fleet, whole, places, box, late).nodes,
    svg("rect", { x: x(shown.from), y: box.top - 3, width, height: box.tall + 6, rx: 3, class: "sn-fv-window" }));
}

// What stays while the window stays. Returns { picture, places, moving }: `moving` is the layer that
// pointAtEvent fills.
export function drawFleet(fleet, shown, width, zoomed, words) {
  const { trace, lanes, events } = fleet;
  const places = fleetPlaces(trace.num_workers, width, zoomed);
  const fills = { prefill: freshId("prefill"), cached: freshId("cached"), late: freshId("late"), waits: freshId("waits") };
  const picture = svg("svg", { width, height: places.height, role: "img", "aria-label": words, class: "sn-fv-picture" });
  const queue = drawQueue(fleet, shown, places, places.queue, fills.late);
  const missed = marksWithin(events.filter((event) => event.kind === "miss").map((event) => event.at), shown, places.room, 3);
  const moving = svg("g", {});
  const found = lanes.map((lane) => runsWithin(lane, shown));
  const detailed = found.reduce((sum, runs) => sum + runs.length, 0) <= FEW_RUNS;
  picture.append(
    svg("defs", {}, hatch(fills.prefill, "sn-fv-stripe-prefill", 3), hatch(fills.cached, "sn-fv-stripe-cached", 2), hatch(fills.late, "sn-fv-stripe-late", 2.6), hatch(fills.waits, "sn-fv-stripe-waits", 1.8)),
    drawTime(places, shown),
    ...(zoomed ? [drawOverview(fleet, shown, places, fills.late)] : []),
    laneName(places, places.queue.top, "queue"),
    ...queue.nodes,
    chartText(places.slim ? places.right : places.left - 6, places.queue.top + (places.slim ? -5 : 10), "end", `${places.slim ? "up to " : ""}${queue.top}`),
    shape(missed.map((column) => `M${places.left + column} ${places.queue.top + places.queue.tall + 1}v6`).join(""), "sn-fv-missed"),
    ...lanes.map((lane, index) => drawLane(fleet, lane, found[index], shown, places, detailed, fills)),
    moving,
  );
  // Above the cursor, which may cross them.
  picture.append(...picture.querySelectorAll(".sn-fv-count"));
  return { picture, places, moving, fills };
}

function drawStrip(fleet, id, shown, places, fills) {
  const request = fleet.byId.get(id);
  const visits = fleet.visitsOf.get(id) ?? [];
  const y = places.strip;
  const x = (us) => places.left + Math.max(0, Math.min(1, (us - shown.from) / (shown.to - shown.from))) * places.room;
  const span = (from, to, className, more = {}) => (to < shown.from || from > shown.to ? null
    : svg("rect", { x: x(from), y, width: Math.max(1.5, x(to) - x(from)), height: places.stripTall, class: className, ...more }));
  const first = request.first_token_us;
  const parts = [
    laneName(places, y - (places.slim ? 0 : 3), `request ${id}`),
    ...waitsOf(request, visits, fleet.end).map(({ from, to }) => span(from, to, "sn-fv-waits", { fill: `url(#${fills.waits})` })),
    ...visits.flatMap((visit) => {
      const begins = Math.min(visit.end_us, Math.max(visit.dispatched_us, first ?? visit.end_us));
      const name = x(visit.end_us) - x(visit.dispatched_us) > 58 && visit.dispatched_us <= shown.to && visit.end_us >= shown.from
        ? chartText((x(visit.dispatched_us) + x(visit.end_us)) / 2, y + 14.5, "middle", `worker ${visit.worker}`, "sn-fv-count") : null;
      return [span(visit.dispatched_us, visit.end_us, "sn-fv-decode sn-fv-run"), begins > visit.dispatched_us ? span(visit.dispatched_us, begins, "sn-fv-prefill sn-fv-run", { fill: `url(#${fills.prefill})` }) : null, name];
    }),
  ];
  const due = request.deadline_us;
  if (due >= shown.from && due <= shown.to) parts.push(shape(`M${x(due)} ${y - 5}V${y + places.stripTall + 5}M${x(due)} ${y - 5}h8l-3 3.5l3 3.5h-8`, "sn-fv-due"));
  return svg("g", {}, ...parts.filter(Boolean));
}

// Moves the cursor to a moment, marks the event's lane, and draws the way of its request.
export function pointAtEvent(fleet, event, us, shown, { places, moving, fills }) {
  if (!event) return moving.replaceChildren();
  const x = places.left + ((us - shown.from) / (shown.to - shown.from)) * places.room;
  const parts = [];
  if (event.worker !== null) {
    const top = places.lane_top(event.worker);
    parts.push(svg("rect", { x: places.left, y: top - 3, width: places.room, height: places.lane.tall + places.lane.kv + 9, rx: 4, class: "sn-fv-here" }));
  }
  parts.push(drawStrip(fleet, event.id, shown, places, fills), shape(`M${x} ${places.queue.top - 4}V${places.base}`, "sn-fv-cursor"));
  return moving.replaceChildren(...parts);
}
