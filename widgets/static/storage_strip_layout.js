// Where the cells of storage, the views into it and the slots of a ring lie, and what a step says.

import { count, listed, number, ranges } from "./words.js";

const MOST_CELLS = 64;

// ---- bytes ----------------------------------------------------------------------------------

export function isRing(steps) {
  return steps[0].slots !== undefined;
}

function gcd(one, other) {
  return other === 0 ? one : gcd(other, one % other);
}

// What one cell stands for: as wide as lets every view and storage begin and end with a cell, or,
// if that would be too many cells, a power of two that is few enough.
export function cellBytes(steps) {
  const storages = steps.flatMap((step) => step.storages.map((each) => each.nbytes));
  const views = steps.flatMap((step) => step.views.flatMap((view) => [view.offset_bytes, view.nbytes]));
  const widest = Math.max(1, ...storages);
  const exact = [...storages, ...views].reduce(gcd, 0) || 1;
  let cell = exact;
  while (widest / cell > MOST_CELLS) cell *= 2;
  return cell;
}

// Every storage of the story, in the order of appearance: each keeps its row when others go.
export function rowsOf(steps) {
  const rows = new Map();
  steps.forEach((step, index) => step.storages.forEach(({ label, nbytes }) => {
    const known = rows.get(label);
    rows.set(label, { label, nbytes: Math.max(nbytes, known?.nbytes ?? 0), from: known?.from ?? index });
  }));
  return [...rows.values()];
}

// "alive", "freed" or "later" (not there yet) in step `index`.
export function stateOf(steps, row, index) {
  if (steps[index].storages.some((each) => each.label === row.label)) return "alive";
  return row.from > index ? "later" : "freed";
}

// The views of one storage with the lane that each is drawn in: no two of a lane overlap.
export function lanesOf(step, label) {
  const ends = [];
  return step.views
    .filter((view) => step.storages[view.storage].label === label)
    .sort((one, other) => one.offset_bytes - other.offset_bytes || other.nbytes - one.nbytes)
    .map((view) => {
      const free = ends.findIndex((end) => end <= view.offset_bytes);
      const lane = free < 0 ? ends.length : free;
      ends[lane] = view.offset_bytes + view.nbytes;
      return { ...view, lane };
    });
}

export function mostLanes(steps, label) {
  const lanes = steps.flatMap((step) => lanesOf(step, label).map((view) => view.lane + 1));
  return Math.max(1, ...lanes);
}

// For every cell of a storage: the view that lies in it (the first that does), or null.
export function cellsOf(step, row, cell) {
  const views = lanesOf(step, row.label);
  return Array.from({ length: Math.ceil(row.nbytes / cell) }, (_, index) => {
    const [from, to] = [index * cell, Math.min(row.nbytes, (index + 1) * cell)];
    return views.find((view) => view.offset_bytes < to && view.offset_bytes + view.nbytes > from) ?? null;
  });
}

// Bytes that are alive although no view shows them.
export function unseenBytes(step) {
  return step.storages.reduce((total, { label, nbytes }) => {
    let end = 0;
    let seen = 0;
    for (const view of lanesOf(step, label)) {
      const to = view.offset_bytes + view.nbytes;
      seen += Math.max(0, to - Math.max(end, view.offset_bytes));
      end = Math.max(end, to);
    }
    return total + nbytes - seen;
  }, 0);
}

// The views' labels in the order of appearance: each keeps its colour.
export function viewLabels(steps) {
  return [...new Set(steps.flatMap((step) => step.views.map((view) => view.label)))];
}

export function bytesWords(step) {
  const { live_bytes: held, counted_bytes: counted } = step;
  const unseen = unseenBytes(step);
  const hidden = unseen ? ` No view shows ${number(unseen)} of the bytes held.` : "";
  return `${step.words} Held: ${count(held, "byte")}; counted: ${number(counted)}.${hidden}`;
}

// A strip's contents for its label: "batch buffer, 12,800 bytes: request 1 at byte 640, 640 long".
export function stripWords(steps, row, index) {
  const state = stateOf(steps, row, index);
  const name = `${row.label}, ${count(row.nbytes, "byte")}`;
  if (state !== "alive") return `${name}: ${state === "freed" ? "freed" : "not there yet"}`;
  const views = lanesOf(steps[index], row.label)
    .map((view) => `${view.label} at byte ${number(view.offset_bytes)}, ${number(view.nbytes)} long`);
  return `${name}: ${views.length ? listed(views) : "no view"}`;
}

// ---- slots ----------------------------------------------------------------------------------

// Where the picture opens: where a full ring first overwrites a position, or bytes first are held
// that no view shows; else at the fullest ring, or the first step.
export function stripOpening(steps) {
  if (!isRing(steps)) return Math.max(0, steps.findIndex(unseenBytes));
  const first = steps.findIndex((_, index) => overwritten(steps, index).length);
  if (first >= 0) return first;
  const held = steps.map((step) => step.slots.filter((slot) => slot.position !== null).length);
  return held.indexOf(Math.max(...held));
}

// What a slot holds: empty, sink, kept or new.
export function slotState(step, index) {
  const { position, new: fresh } = step.slots[index];
  if (position === null) return "empty";
  if (fresh) return "new";
  return index < step.sinks ? "sink" : "kept";
}

// The positions whose K/V changed place or vanished since the step before.
export function overwritten(steps, index) {
  if (index === 0) return [];
  const now = new Set(steps[index].slots.map((slot) => slot.position));
  return steps[index - 1].slots.map((slot) => slot.position)
    .filter((position) => position !== null && !now.has(position));
}

export function slotsWords(steps, index) {
  const step = steps[index];
  const held = step.slots.flatMap(({ position }) => (position === null ? [] : [position])).sort((a, b) => a - b);
  const gone = overwritten(steps, index).sort((a, b) => a - b);
  const has = held.length ? `Held: ${held.length === 1 ? "position" : "positions"} ${ranges(held)}` : "Nothing is held";
  const lost = gone.length ? ` Overwritten: ${ranges(gone)}.` : "";
  return `${step.words} ${has}, in ${count(step.slots.length, "slot")}.${lost}`;
}
