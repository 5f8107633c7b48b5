// Who holds which slot when, and how to say it: pure functions of the two sides.

import { count, listed, named } from "./words.js";

export function wholeLength(sides) {
  return Math.max(...sides.map((side) => side.length));
}

// The idle stretches of one slot between step 0 and the side's length.
export function idleSpans(side, slot) {
  const spans = side.spans.filter((span) => span.slot === slot).sort((a, b) => a.start - b.start);
  const idle = [];
  let free = 0;
  for (const span of [...spans, { start: side.length, end: side.length }]) {
    if (span.start > free) idle.push({ slot, start: free, end: span.start });
    free = Math.max(free, span.end);
  }
  return idle;
}

// Slot-steps without work, counted up to but not including step `until`.
export function idleBefore(side, until) {
  let idle = 0;
  for (let slot = 0; slot < side.slots; slot += 1) {
    for (const span of idleSpans(side, slot)) {
      idle += Math.max(0, Math.min(span.end, until) - span.start);
    }
  }
  return idle;
}

function idsAt(side, step) {
  return side.spans.filter((span) => span.start <= step && step < span.end)
    .map((span) => span.request).sort((a, b) => a - b);
}

function sideWords(side, step) {
  if (step >= side.length) return `${side.name} is done since step ${side.length}`;
  const ids = idsAt(side, step);
  const idle = side.slots - ids.length;
  const who = ids.length ? `runs ${named("request", ids)}` : "runs nothing";
  const left = idle ? `, ${count(idle, "slot")} idle` : ", every slot busy";
  const ended = side.spans.filter((span) => span.end === step + 1).map((span) => span.request);
  const done = ended.length ? `, ${named("request", ended)} done` : "";
  return `${side.name} ${who}${left}${done}`;
}

// One step of both sides in words, with the idle slot-steps so far.
export function stepWords(sides, step) {
  const idle = sides.map((side) => `${side.name} ${idleBefore(side, step + 1)}`);
  return `Step ${step}: ${sides.map((side) => sideWords(side, step)).join("; ")}. ` +
    `Idle slot-steps so far: ${listed(idle)}.`;
}

// What a side came to by step `step`, without what is still to come.
export function sideSummary(side, step) {
  const idle = count(idleBefore(side, Math.min(step + 1, side.length)), "idle slot-step");
  if (step + 1 < side.length) return `${idle} so far`;
  return `last request done after ${count(side.length, "step")}, ${idle}`;
}
