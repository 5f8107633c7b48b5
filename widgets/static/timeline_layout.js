// Where everything of a trace lies: pure functions of the trace's JSON.

import { ticks } from "./chart.js";
import { tokensOf } from "./work.js";

// ---- states ---------------------------------------------------------------------------------

// Known tokens of a request before its first sample of step `index`: prompt and generated so far.
export function knownBefore(trace, id, index) {
  const request = trace.requests.find((each) => each.id === id);
  let given = 0;
  for (const step of trace.steps.slice(0, index)) {
    for (const work of step.work) if (work.request_id === id) given += tokensOf(work).length;
  }
  return request.prompt_tokens.length + given;
}

// One state per step for one request:
// before, waiting, prefill, decode, idle (started, got nothing), done, each with what it shows.
export function cellsOf(trace, request) {
  let started = false;
  let done = false;
  return trace.steps.map((step, index) => {
    const work = step.work.find((each) => each.request_id === request.id);
    const wait = step.waits.find((each) => each.request_id === request.id);
    const finishedBefore = done;
    if (step.preempted.includes(request.id)) started = false;
    if (step.finished.includes(request.id)) done = true;
    if (work) {
      started = true;
      return { state: work.kind, start: work.start, end: work.end, sampled: work.sampled,
        tokens: tokensOf(work), total: knownBefore(trace, request.id, index), reason: null };
    }
    const empty = { start: 0, end: 0, sampled: null, tokens: [], total: 0, reason: wait ? wait.reason : null };
    if (finishedBefore) return { ...empty, state: "done" };
    if (!wait && request.arrival_step > step.step) return { ...empty, state: "before" };
    const idle = wait ? wait.status !== "waiting" : started;
    return { ...empty, state: idle ? "idle" : "waiting" };
  });
}

// Neighbouring cells in which nothing is computed drawn as one band; work stays one cell per step.
export function bandsOf(cells) {
  const bands = [];
  cells.forEach((cell, index) => {
    const last = bands[bands.length - 1];
    const works = cell.state === "prefill" || cell.state === "decode";
    if (last && !works && last.cell.state === cell.state) last.to = index + 1;
    else bands.push({ from: index, to: index + 1, cell });
  });
  return bands;
}

// ---- places ---------------------------------------------------------------------------------

export const CHARACTER_PX = 6.4;
const NARROWEST_STEP_PX = 30;
const STEP_GAP_PX = 3;
const WIDEST_STEP_PX = 58;
const NARROWEST_TIME_PX = 5;
const MOST_SCREENS = 4;

// When a trace begins: a wall clock does not start at 0.
export function originOf(trace) {
  const starts = trace.steps.map((step) => step.start_us);
  const times = [...starts, ...trace.requests.map((request) => request.arrival_us)];
  return times.length ? Math.min(...times) : 0;
}

// A chunk as the lines of its label: "4-9" where that is as wide as `room`, else "4-" above "9".
export function chunkLines({ start, end }, room = 0) {
  const whole = start === end - 1 ? `${start}` : `${start}-${end - 1}`;
  return start === end - 1 || whole.length * CHARACTER_PX <= room - 4 ? [whole] : [`${start}-`, `${end - 1}`];
}

// The least width of a step's column: every chunk has room for its label.
function narrowestStep(traces) {
  const chunks = traces.flatMap((trace) => trace.steps).flatMap((step) => step.work).filter((work) => work.kind === "prefill");
  const longest = chunks.flatMap((work) => chunkLines(work)).reduce((most, line) => Math.max(most, line.length), 0);
  return Math.max(NARROWEST_STEP_PX, Math.ceil(longest * CHARACTER_PX) + STEP_GAP_PX);
}

// Pixels per step, or per microsecond, that let all traces share one axis of `available` pixels.
export function pixelsPerUnit(traces, axis, available) {
  if (axis === "steps") {
    const longest = Math.max(1, ...traces.map((trace) => trace.steps.length));
    return Math.max(narrowestStep(traces), Math.min(WIDEST_STEP_PX, available / longest));
  }
  const ends = traces.flatMap((trace) => trace.steps.map((step) => step.end_us - originOf(trace)));
  const whole = Math.max(1, ...ends);
  // A step that only preempts takes no time; it must not blow up all the others.
  const durations = traces.flatMap((trace) => trace.steps.map((step) => step.end_us - step.start_us))
    .filter((duration) => duration > 0);
  const shortest = Math.max(1, Math.min(...durations, whole));
  const wanted = Math.max(available / whole, NARROWEST_TIME_PX / shortest);
  return Math.min(wanted, (available * MOST_SCREENS) / whole);
}

// The x and width of every step's column. On the time axis a column is as wide as the step is long.
export function columnsOf(trace, axis, scale) {
  const origin = originOf(trace);
  return trace.steps.map((step, index) =>
    axis === "steps"
      ? { x: index * scale, width: scale }
      : { x: (step.start_us - origin) * scale, width: (step.end_us - step.start_us) * scale },
  );
}

// Round times along the axis, at most one per 80 pixels, as { x, us }.
export function timeTicks(width, scale) {
  if (!(width > 0)) return [];
  const times = ticks(width / scale / 1000, Math.max(1, Math.floor(width / 80)));
  return times.map((ms) => ({ x: ms * 1000 * scale, ms })).filter((tick) => tick.x <= width);
}

export function widthOf(columnLists) {
  return Math.max(0, ...columnLists.flat().map((column) => column.x + column.width));
}

// The most tokens that a budget row must show: the largest budget or the largest step.
export function mostTokens(trace) {
  return Math.max(1, trace.token_budget, ...trace.steps.flatMap((step) => [step.token_budget, usedBy(step)]));
}

function usedBy(step) {
  return step.work.reduce((sum, work) => sum + work.end - work.start, 0);
}

// Used tokens per step against the budget; heights as parts of 1, where 1 is `top` tokens.
export function budgetBars(trace, top = mostTokens(trace)) {
  return trace.steps.map((step) => ({
    used: usedBy(step),
    budget: step.token_budget,
    within: Math.min(usedBy(step), step.token_budget) / top,
    over: Math.max(0, usedBy(step) - step.token_budget) / top,
    limit: step.token_budget / top,
  }));
}

// A scroll offset that shows [x, x + width), moved no further than needed.
export function scrollFor(column, view, offset) {
  const margin = Math.min(40, view / 4);
  if (column.x - margin < offset) return Math.max(0, column.x - margin);
  const right = column.x + column.width + margin;
  return right > offset + view ? right - view : offset;
}

// The first step of the traces in which something is preempted, or 0.
export function firstPreemption(traces) {
  const found = traces.map((trace) => trace.steps.findIndex((step) => step.preempted.length))
    .filter((index) => index >= 0);
  return found.length ? Math.min(...found) : 0;
}

// Where a timeline opens: at the first preemption, else where a request first finds K/V that is there.
export function timelineOpening(traces) {
  const hit = traces[0].steps.findIndex((step) => (step.prefix_hits ?? []).length > 0);
  return firstPreemption(traces) || Math.max(0, hit);
}

// ---- tokens and gaps ------------------------------------------------------------------------

// Tokens given to each request up to and including step `index`, by request id.
export function generatedAt(trace, index) {
  const texts = new Map(trace.requests.map((request) => [request.id, []]));
  for (const step of trace.steps.slice(0, index + 1)) {
    for (const work of step.work) texts.get(work.request_id).push(...tokensOf(work));
  }
  return texts;
}

// Per request: its TTFT and its longest ITL up to and with step `last`. A token leaves when its
// step ends.
export function gapsOf(trace, last = trace.steps.length - 1) {
  return trace.requests.map((request) => {
    let previous = null;
    const result = { id: request.id, firstUs: null, worstUs: null };
    trace.steps.slice(0, last + 1).forEach((step) => {
      const samples = step.work.some(
        (work) => work.request_id === request.id && work.sampled !== null,
      );
      if (!samples) return;
      if (previous === null) result.firstUs = step.end_us - request.arrival_us;
      else if (result.worstUs === null || step.end_us - previous > result.worstUs) {
        result.worstUs = step.end_us - previous;
      }
      previous = step.end_us;
    });
    return result;
  });
}
