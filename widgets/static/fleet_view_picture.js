// The picture of a fleet: what stays while the window stays, and what moves with the step.

import { chartText, hatch } from "./chart.js";
import { freshId, svg } from "./dom.js";
import {
  areaPath, fleetPlaces, laneColumns, marksWithin, queueColumns, runsWithin, waitsOf,
} from "./fleet_view_layout.js";
import { drawMoment, drawTimeGrid, drawTrack, laneName, laneScale } from "./lanes.js";
import { number } from "./words.js";

const FEW_RUNS = 140;
const LABEL_ROOM = 15;

const shape = (d, className, more = {}) => svg("path", { d, class: className, ...more });
const widthIn = ({ left, right }) => right - left;

// The name of what begins at `top`: above it on a slim picture.
function nameAt(places, top, words) {
  return laneName(top + (places.slim ? -5 : 18), words);
}

function drawTime(places) {
  const inSeconds = (ms) => number(Number((ms / 1000).toPrecision(9)));
  const { queue, base, slim, right } = places;
  return svg(
    "g", {},
    drawTimeGrid(places, { top: queue.top, base, wanted: slim ? 3 : 8, end: right, words: inSeconds }),
    chartText(0, base + 15, "start", slim ? "" : "seconds"),
  );
}

// The queue's depth, its late part on the ground, and a cross for every deadline that was missed.
function drawQueue(fleet, scale, box, late) {
  const { waiting, late: overdue } = queueColumns(fleet.queue, scale, widthIn(scale));
  const top = Math.max(1, ...waiting);
  const at = { left: scale.left, base: box.top + box.tall, tall: box.tall, top };
  const rest = waiting.map((value, index) => Math.max(0, value - overdue[index]));
  return { top, nodes: [
    drawTrack(scale, at.base),
    shape(areaPath(rest, { ...at, floors: overdue }), "sn-fv-waiting"),
    shape(areaPath(overdue, at), "sn-fv-late", { fill: `url(#${late})` }),
  ] };
}

function drawRuns(runs, base, places, most, stripes) {
  const group = svg("g", {});
  for (const run of runs) {
    const box = places.cut(run.start_us, run.end_us, 1);
    const tall = (run.num_requests / most) * places.lane.tall;
    group.append(svg("rect", { ...box, y: base - tall, height: tall, class: `sn-fv-${run.kind} sn-fv-run`, fill: run.kind === "prefill" ? `url(#${stripes})` : null }));
    if (box.width > LABEL_ROOM) group.append(chartText(box.x + box.width / 2, base - 4, "middle", String(run.num_requests), "sn-fv-count"));
  }
  return group;
}

function drawLane(fleet, lane, runs, places, detailed, fills) {
  const { most, trace } = fleet;
  const { left } = places;
  const top = places.lane_top(lane.worker);
  const base = top + places.lane.tall;
  const kvBase = base + 3 + places.lane.kv;
  const columns = laneColumns(runs, places, widthIn(places));
  const at = { left, base, tall: places.lane.tall, top: most };
  const kv = { left, base: kvBase, tall: places.lane.kv, top: trace.kv_tokens };
  const hits = marksWithin(lane.visits.filter((visit) => visit.hit_tokens > 0).map((visit) => visit.dispatched_us), places, 3);
  const lost = marksWithin(lane.visits.filter((visit) => visit.ended === "preempted").map((visit) => visit.end_us), places, 4);
  return svg("g", {},
    nameAt(places, top, `worker ${lane.worker}`),
    drawTrack(places, base),
    ...(detailed
      ? [drawRuns(runs, base, places, most, fills.prefill)]
      : [shape(areaPath(columns.decode, at), "sn-fv-decode"), shape(areaPath(columns.prefill, at), "sn-fv-prefill", { fill: `url(#${fills.prefill})` })]),
    svg("rect", { x: left, y: base + 3, width: widthIn(places), height: places.lane.kv, class: "sn-fv-kv" }),
    shape(areaPath(columns.reserved, kv), "sn-fv-reserved"),
    shape(areaPath(columns.cached, { ...kv, floors: columns.reserved }), "sn-fv-cached", { fill: `url(#${fills.cached})` }),
    shape(hits.map((x) => `M${x} ${kvBase + 1}l3 6h-6Z`).join(""), "sn-fv-hit"),
    shape(lost.map((x) => `M${x - 4} ${top}l8 8m0 -8l-8 8`).join(""), "sn-fv-lost"),
  );
}

// The whole run's queue with the window on it.
function drawOverview(fleet, places, late) {
  const whole = laneScale({ from: 0, to: fleet.end }, places.left, places.right);
  const box = { top: places.name, tall: 24 };
  return svg("g", {},
    nameAt(places, box.top, "whole run"), ...drawQueue(fleet, whole, box, late).nodes,
    svg("rect", { ...whole.cut(places.from, places.to, 4), y: box.top - 3, height: box.tall + 6, rx: 3, class: "sn-fv-window" }));
}

// What stays while the window stays. Returns { picture, places, moving }: `moving` is the layer that
// pointAtEvent fills.
export function drawFleet(fleet, shown, width, zoomed, words) {
  const { trace, lanes, events } = fleet;
  const places = fleetPlaces(trace.num_workers, width, zoomed, shown);
  const fills = { prefill: freshId("prefill"), cached: freshId("cached"), late: freshId("late"), waits: freshId("waits") };
  const picture = svg("svg", { width, height: places.height, role: "img", "aria-label": words, class: "sn-fv-picture" });
  const queue = drawQueue(fleet, places, places.queue, fills.late);
  const missed = marksWithin(events.filter((event) => event.kind === "miss").map((event) => event.at), places, 3);
  const moving = svg("g", {});
  const found = lanes.map((lane) => runsWithin(lane, shown));
  const detailed = found.reduce((sum, runs) => sum + runs.length, 0) <= FEW_RUNS;
  picture.append(
    svg("defs", {}, hatch(fills.prefill, "sn-fv-stripe-prefill", 3), hatch(fills.cached, "sn-fv-stripe-cached", 2), hatch(fills.late, "sn-fv-stripe-late", 2.6), hatch(fills.waits, "sn-fv-stripe-waits", 1.8)),
    drawTime(places),
    ...(zoomed ? [drawOverview(fleet, places, fills.late)] : []),
    nameAt(places, places.queue.top, "queue"),
    ...queue.nodes,
    chartText(places.slim ? places.right : places.left - 6, places.queue.top + (places.slim ? -5 : 10), "end", `${places.slim ? "up to " : ""}${queue.top}`),
    shape(missed.map((x) => `M${x} ${places.queue.top + places.queue.tall + 1}v6`).join(""), "sn-fv-missed"),
    ...lanes.map((lane, index) => drawLane(fleet, lane, found[index], places, detailed, fills)),
    moving,
  );
  // Above the cursor, which may cross them.
  picture.append(...picture.querySelectorAll(".sn-fv-count"));
  return { picture, places, moving, fills };
}

function drawStrip(fleet, id, places, fills) {
  const request = fleet.byId.get(id);
  const visits = fleet.visitsOf.get(id) ?? [];
  const y = places.strip;
  const span = (from, to, className, more = {}) => {
    const box = places.cut(from, to);
    return box && svg("rect", { ...box, y, height: places.stripTall, class: className, ...more });
  };
  const first = request.first_token_us;
  const parts = [
    nameAt(places, y - (places.slim ? 0 : 3), `request ${id}`),
    ...waitsOf(request, visits, fleet.end).map(({ from, to }) => span(from, to, "sn-fv-waits", { fill: `url(#${fills.waits})` })),
    ...visits.flatMap((visit) => {
      const box = places.cut(visit.dispatched_us, visit.end_us);
      const begins = Math.min(visit.end_us, Math.max(visit.dispatched_us, first ?? visit.end_us));
      return [
        span(visit.dispatched_us, visit.end_us, "sn-fv-decode sn-fv-run"),
        begins > visit.dispatched_us ? span(visit.dispatched_us, begins, "sn-fv-prefill sn-fv-run", { fill: `url(#${fills.prefill})` }) : null,
        box && box.width > 58 ? chartText(box.x + box.width / 2, y + 14.5, "middle", `worker ${visit.worker}`, "sn-fv-count") : null,
      ];
    }),
  ];
  const due = request.deadline_us;
  if (places.shows(due)) parts.push(shape(`M${places.x(due)} ${y - 5}V${y + places.stripTall + 5}M${places.x(due)} ${y - 5}h8l-3 3.5l3 3.5h-8`, "sn-fv-due"));
  return svg("g", {}, ...parts.filter(Boolean));
}

// Moves the cursor to a moment, marks the event's lane, and draws the way of its request.
export function pointAtEvent(fleet, event, us, { places, moving, fills }) {
  if (!event) return moving.replaceChildren();
  const parts = [];
  if (event.worker !== null) {
    const top = places.lane_top(event.worker);
    parts.push(svg("rect", { x: places.left, y: top - 3, width: widthIn(places), height: places.lane.tall + places.lane.kv + 9, rx: 4, class: "sn-fv-here" }));
  }
  parts.push(drawStrip(fleet, event.id, places, fills), drawMoment(places.x(us), places.queue.top - 4, places.base));
  return moving.replaceChildren(...parts);
}
