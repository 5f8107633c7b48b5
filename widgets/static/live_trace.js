// A run that has no end yet: the newest steps on the timeline, its KV tokens below them on the same
// columns, and the heap of the waiting. Each `push` brings the newest records; nothing steps here.

import { hatch } from "./chart.js";
import { freshId, node, svg } from "./dom.js";
import { createHeapPicture } from "./heap_stepper_picture.js";
import { keyWords } from "./heap_stepper_layout.js";
import { kvSteps, mostHeld } from "./kv_budget_layout.js";
import { drawChart } from "./kv_budget_rows.js";
import { columnsOf, mostTokens, pixelsPerUnit, widthOf } from "./timeline_layout.js";
import { EDGE, HEAD, ROW, blockHeight, drawBlock } from "./timeline_rows.js";
import { requestHue } from "./column_picture.js";
import { stepWords } from "./timeline_words.js";
import { count, number } from "./words.js";

const LABELS = 78;
const CHART_HEIGHT = 92;
const ABOVE_CHART = 26;
const TAIL = 18;

// The rows of `ids` alone: every step's record stays whole.
export function withRows(trace, ids) {
  return { ...trace, requests: trace.requests.filter((request) => ids.includes(request.id)) };
}

// What the heap's picture draws of the array of waiting requests: one frame, and its entries.
export function heapFrame(queue) {
  const entries = new Map(queue.map(({ id, key, hue }) => [id, { id, key, hue, label: `${id}` }]));
  const order = queue.map(({ id }) => id);
  return { entries, frame: { kind: "live", order, lit: order.slice(0, 1), move: null } };
}

// Whether a heap's picture can go on from `before` to `after`, every entry moving to its place.
export function goesOn(before, after) {
  if (!before || after.size === 0) return false;
  return [...after.values()].every((entry) => {
    const old = before.get(entry.id);
    return old && String(old.key) === String(entry.key);
  });
}

// The step that was just run in words, with what the KV cache holds and what waits.
export function pushWords(trace, alphabet) {
  const last = trace.steps.length - 1;
  if (last < 0) return "No step has been run yet.";
  const step = trace.steps[last];
  const lost = step.lost?.length ? ` With the last worker, ${count(step.lost.length, "request")} lost all K/V.` : "";
  return `${stepWords(trace, last, alphabet)} ${number(step.kv_after)} of ${count(trace.max_kv_tokens, "KV token")} held.${lost}`;
}

function label(x, y, words, className, anchor = "start") {
  return svg("text", { x, y, class: className, "text-anchor": anchor }, words);
}

function drawNames(rows, trace, most, height) {
  const names = svg("svg", { width: LABELS, height, class: "sn-lv-names", "aria-hidden": "true" });
  rows.requests.forEach((request, row) => {
    const y = HEAD + (row + 0.5) * ROW;
    names.append(svg("rect", { x: 0, y: y - 9, width: 6, height: 18, rx: 3, class: `sn-tl-key ${requestHue(trace, request.id)}` }));
    const urgent = request.priority === 0;
    names.append(label(12, y + (urgent ? -1 : 5), `${request.id}`, "sn-lv-name"));
    if (urgent) names.append(label(12, y + 12, "urgent", "sn-lv-small"));
  });
  const tokens = blockHeight(rows) - 46;
  names.append(label(0, tokens, "tokens", "sn-lv-small"), label(0, tokens + 14, `of ${trace.token_budget}`, "sn-lv-small"));
  const base = blockHeight(rows) + ABOVE_CHART + CHART_HEIGHT;
  const limit = base - (trace.max_kv_tokens / most) * CHART_HEIGHT;
  names.append(label(0, limit + 4, `KV ${number(trace.max_kv_tokens)}`, "sn-lv-budget"), label(LABELS - 8, base, "0", "sn-lv-small", "end"));
  return names;
}

// The timeline's rows and the KV chart, drawn anew with every push.
function drawRun(rows, trace, alphabet, width) {
  const patterns = { waiting: freshId("waiting"), idle: freshId("idle"), recomputing: freshId("again") };
  const room = width - LABELS - 6;
  const scale = pixelsPerUnit([trace], "steps", room - TAIL);
  const columns = columnsOf(trace, "steps", scale).map((column) => ({ x: column.x + EDGE, width: column.width }));
  const [top, most] = [blockHeight(rows), mostHeld(trace)];
  const height = top + ABOVE_CHART + CHART_HEIGHT + 4;
  const total = Math.max(room, widthOf([columns]) + TAIL);
  const picture = svg("svg", { width: total, height, role: "img", "aria-label": `The newest ${count(trace.steps.length, "step")}.` });
  picture.append(
    svg("defs", {}, hatch(patterns.waiting, "sn-tl-hatch-waiting"), hatch(patterns.idle, "sn-tl-hatch-idle", 3), hatch(patterns.recomputing, "sn-kv-hatch-recomputing", 2.6)),
    drawBlock({ trace: rows, top: 0 }, columns, alphabet, patterns, total, mostTokens(trace)),
    drawChart(trace, kvSteps(trace), columns, top + ABOVE_CHART, most, patterns, total, CHART_HEIGHT),
  );
  return { names: drawNames(rows, trace, most, height), picture };
}

function createHeap(box) {
  let shown = null;
  return (queue, none, width) => {
    const { entries, frame } = heapFrame(queue);
    if (!queue.length) {
      shown = null;
      box.replaceChildren(node("p", { class: "sn-lv-empty" }, none));
    } else if (shown && shown.width === width && goesOn(shown.entries, entries)) shown.picture.point(frame);
    else {
      const picture = createHeapPicture([frame], entries);
      picture.draw(width);
      picture.point(frame);
      box.replaceChildren(picture.scroller);
      shown = { entries, picture, width };
    }
  };
}

// Puts the two pictures into `run` and `heap`, elements whose width is theirs. Returns push({ trace,
// rows, queue, none, alphabet }), which draws the newest records and returns their words; `none` is
// what stands for a queue that is empty.
export function createLiveTrace(run, heap) {
  const scroller = node("div", { class: "sn-lv-scroll" });
  const names = node("div", { class: "sn-lv-labels" });
  const showHeap = createHeap(heap);
  run.append(node("div", { class: "sn-lv-run" }, names, scroller));
  return ({ trace, rows, queue, none, alphabet }) => {
    const drawn = drawRun(withRows(trace, rows), trace, alphabet, run.clientWidth);
    names.replaceChildren(drawn.names);
    scroller.replaceChildren(drawn.picture);
    scroller.scrollLeft = scroller.scrollWidth;
    showHeap(queue, none, heap.clientWidth);
    const first = queue[0];
    return `${pushWords(trace, alphabet)}${first ? ` Request ${first.id} is first to start, key ${keyWords(first.key)}.` : ""}`;
  };
}
