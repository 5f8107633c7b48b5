// A fleet over virtual time: a window that follows the event, and a table of the moment.

import { boxKey, legendKey, legendOf } from "./chart.js";
import { factChips, keepFocus, node, pointIn, svg } from "./dom.js";
import { fleetOf, fleetOpening, mostZoom, nearestEvent, nextTrouble, windowAt, workerAt } from "./fleet_view_layout.js";
import { drawFleet, pointAtEvent } from "./fleet_view_picture.js";
import { clockTime, fleetWords, passWords, queueWords, runWords, wayWords } from "./fleet_view_words.js";
import { textButton } from "./player.js";
import { steppedPicture } from "./stepped.js";
import { clockWords, count, number } from "./words.js";

const WINDOW_MS = 20000;

function share(parts, words) {
  const bar = node("span", { class: "sn-fv-share", "aria-hidden": "true" });
  for (const { part, className } of parts) {
    const piece = node("i", { class: className });
    piece.style.width = `${Math.min(100, 100 * part)}%`;
    bar.append(piece);
  }
  return [words, bar];
}

// One row per worker at a moment, updated in place.
function createMoment(fleet) {
  const { batch_size: places, kv_tokens: kv } = fleet.trace;
  const caption = node("caption", {});
  const rows = fleet.lanes.map((lane) => {
    const cells = [node("td", {}), node("td", {}), node("td", {})];
    return { lane, cells, row: node("tr", {}, node("th", { scope: "row" }, `worker ${lane.worker}`), ...cells) };
  });
  const head = ["", "pass", `batch, of ${number(places)}`, `KV tokens, of ${number(kv)}`];
  const table = node("table", { class: "sn-fv-table" }, caption,
    node("thead", {}, node("tr", {}, ...head.map((words) => (words ? node("th", { scope: "col" }, words) : node("td", {}))))),
    node("tbody", {}, ...rows.map(({ row }) => row)));
  const show = (us) => {
    caption.textContent = `At ${clockTime(us)}: ${queueWords(fleet, us)}`;
    for (const { lane, cells } of rows) {
      const { batch, reserved, cached } = workerAt(lane, us);
      cells[0].textContent = passWords(lane, us);
      cells[1].replaceChildren(...share([{ part: batch.length / places, className: "sn-fv-bar-batch" }], number(batch.length)));
      cells[2].replaceChildren(...share(
        [{ part: reserved / kv, className: "sn-fv-bar-reserved" }, { part: cached / kv, className: "sn-fv-bar-cached" }],
        `${number(reserved)} set aside, ${number(cached)} cached`,
      ));
    }
  };
  return { table, show };
}

function legend(fleet) {
  const mark = (d, className, words) => legendKey(words, 20, svg("path", { d, class: className }));
  const striped = (name, words) => legendKey(words, 20,
    svg("rect", { x: 1, y: 1, width: 18, height: 12, class: "sn-fv-striped" }),
    svg("path", { d: "M3 13L11 1M10 13L18 1", class: `sn-fv-stripe-${name}`, "stroke-width": 2.4 }));
  const box = (className, words) => boxKey(className, words, 20, { rx: null });
  return legendOf(
    box("sn-fv-decode", `decode; as high as its requests, at most ${number(fleet.most)}`),
    striped("prefill", "prefill"),
    box("sn-fv-reserved", "KV set aside"),
    striped("cached", "KV cached"),
    mark("M10 3l4 8h-8Z", "sn-fv-hit", "prefix hit"),
    mark("M10 3v8", "sn-fv-missed", "deadline missed"),
    fleet.events.some((event) => event.kind === "preempt") ? mark("M6 3l8 8m0 -8l-8 8", "sn-fv-lost", "preempted") : null,
    box("sn-fv-waiting", "waits"),
    striped("late", "waits past its deadline"),
    mark("M4 1V13M4 1h10l-4 3.5l4 3.5h-10", "sn-fv-due", "the request's deadline"),
  );
}

// The time under the pointer, on the whole run's strip or in the window, and the worker if any.
function pointedAt(event, stage, fleet, places) {
  const [x, y] = pointIn(stage, event);
  const part = Math.max(0, Math.min(1, (x - places.left) / (places.right - places.left)));
  if (y < places.overview) return { us: part * fleet.end, worker: null };
  return { us: places.from + part * (places.to - places.from), worker: places.laneAt(y) };
}

function build({ trace, zoom: firstZoom }, moves) {
  const fleet = fleetOf(trace);
  const { events, end } = fleet;
  const most = mostZoom(end);
  const pointed = (event) => pointedAt(event, stage, fleet, drawn.places);
  const stage = node("div", {
    onpointermove: (event) => moment.show(pointed(event).us),
    onpointerleave: () => moment.show(timeOf(moves.step())),
    onclick: (event) => {
      const { us, worker } = pointed(event);
      const index = nearestEvent(events, us, worker);
      if (index !== null) moves.go(index);
    },
    onmousedown: keepFocus,
  });
  const way = node("p", { class: "sn-fv-way" });
  const moment = createMoment(fleet);
  let zoom = Math.min(firstZoom, most);
  let shown = null;
  let drawn = null;
  const timeOf = (step) => events[step]?.at ?? 0;
  const setZoom = (next) => {
    zoom = Math.max(0, Math.min(most, next));
    zoomOut.setAttribute("aria-disabled", String(zoom === 0));
    zoomIn.setAttribute("aria-disabled", String(zoom === most));
    moves.redraw();
  };
  const zoomIn = textButton("Zoom in", () => setZoom(zoom + 1));
  const zoomOut = textButton("Zoom out", () => setZoom(zoom - 1));
  const trouble = textButton("Next trouble", () => {
    const next = nextTrouble(events, moves.step());
    if (next !== null) moves.go(next);
  });
  if (nextTrouble(events, -1) === null) trouble.setAttribute("aria-disabled", "true");
  trouble.title = "The next missed deadline, preemption or refusal";
  setZoom(zoom);
  return {
    count: Math.max(1, events.length), label: "Events of the fleet", lines: 3, extras: [zoomIn, zoomOut, trouble],
    name: (step) => clockTime(timeOf(step)),
    // The window passes in about 20 seconds, quiet stretches faster.
    delay: (step) => Math.max(50, Math.min(900, ((timeOf(step + 1) - timeOf(step)) / (end / 2 ** zoom)) * WINDOW_MS)),
    layOut: () => {
      shown = null;
    },
    draw: (step, width) => {
      const next = windowAt(timeOf(step), zoom, end, shown);
      if (next !== shown) {
        shown = next;
        drawn = drawFleet(fleet, shown, width, zoom > 0, runWords(fleet));
        stage.replaceChildren(drawn.picture);
      }
      pointAtEvent(fleet, events[step], timeOf(step), drawn);
      moment.show(timeOf(step));
      way.textContent = events[step] ? wayWords(fleet, events[step].id) : "";
    },
    says: (step) => fleetWords(fleet, step),
    facts: [factChips([clockWords(trace.cost), trace.name, count(trace.num_workers, "worker"), count(fleet.requests.length, "request")])],
    below: [
      stage, way, moment.table,
      trace.error ? node("p", { class: "sn-note sn-note-bad" }, node("strong", {}, "It stopped: "), trace.error) : null,
      legend(fleet),
    ],
    opening: fleetOpening(fleet),
  };
}

export default steppedPicture({ name: "fleet-view", label: "A fleet over virtual time", inputs: ["trace", "zoom"], build });
