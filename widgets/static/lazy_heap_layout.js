// The states, frames and words of a heap with lazy deletion: pure functions of its story.

import { keyMark, keyWords } from "./heap_stepper_layout.js";
import { count, listed } from "./words.js";

// ---- states ---------------------------------------------------------------------------------

// What the function makes of an entry against what is right: "live" and "stale" are in order,
// "revived" counts and should not, "lost" should count and does not.
export function stateOf(entry, generations) {
  const counts = generations[String(entry.id)] === entry.generation;
  if (entry.live) return counts ? "live" : "lost";
  return counts ? "revived" : "stale";
}

// ---- frames ---------------------------------------------------------------------------------

// What each step of the player shows, the empty heap first. `order` holds shapes (see shapesOf),
// `states` what each of them is, `popped` all so far, with whether a live one was popped.
export function lazyFrames(steps) {
  const frames = [{ event: null, order: [], states: [], generations: {}, popped: [], live: [], words: "" }];
  for (const step of steps) {
    const before = frames[frames.length - 1];
    const seen = new Map();
    const order = step.entries.map((entry) => {
      const name = shapeName(entry);
      const copy = seen.get(name) ?? 0;
      seen.set(name, copy + 1);
      return `${name} ${copy}`;
    });
    const right = before.order.some((shape, at) => shape.startsWith(`${step.popped} `) && before.live[at]);
    frames.push({
      event: step.event, order, words: step.words, generations: step.generations,
      states: step.entries.map((entry) => stateOf(entry, step.generations)),
      live: step.entries.map((entry) => entry.live),
      popped: step.popped === null ? before.popped : [...before.popped, { id: step.popped, right }],
    });
  }
  return frames;
}

// Where the picture opens: at the first entry that is stale, else where the heap is fullest.
export function lazyOpening(frames) {
  const stale = frames.findIndex((frame) => frame.states.includes("stale"));
  if (stale >= 0) return stale;
  return frames.reduce((best, frame, at) => (frame.order.length > frames[best].order.length ? at : best), 0);
}

const shapeName = (entry) => `${entry.id} ${keyMark(entry.key)} ${entry.generation}`;

// Every entry that is ever drawn, by the name of its shape: one that moves keeps it.
export function shapesOf(steps, frames) {
  const shapes = new Map();
  steps.forEach((step, index) => step.entries.forEach((entry, at) => {
    const { id, key, generation } = entry;
    shapes.set(frames[index + 1].order[at], { id, key, generation, label: `#${id} gen ${generation}` });
  }));
  return shapes;
}

// The requests in the order in which the story first names them.
export function requestsOf(steps) {
  return [...new Set(steps.flatMap(({ event, entries }) => [
    ...(event.id === null ? [] : [event.id]), ...entries.map((entry) => entry.id),
  ]))];
}

// ---- words ----------------------------------------------------------------------------------

export function eventMark(event) {
  if (event.kind === "pop") return "pop";
  return event.kind === "push" ? `push #${event.id} ${keyWords(event.key)}` : `remove #${event.id}`;
}

// The counter of every request named so far: its generation, or none where it is missing; and
// whether it was there before (then it was forgotten).
export function counters(frames, index, requests) {
  const past = frames.slice(0, index + 1);
  const named = (id) => past.some((frame) => frame.event?.id === id || String(id) in frame.generations);
  return requests.filter(named).map((id) => {
    const generation = frames[index].generations[String(id)] ?? null;
    const forgotten = generation === null && past.some((frame) => String(id) in frame.generations);
    const changed = index > 0 && generation !== (frames[index - 1].generations[String(id)] ?? null);
    return { id, generation, forgotten, changed };
  });
}

export function counterWords({ generation, forgotten }) {
  if (generation !== null) return `gen ${generation}`;
  return forgotten ? "forgotten" : "none";
}

// The array as it stands: every cell with its state.
export function arrayWords(frame, shapes) {
  if (!frame.order.length) return "The heap is empty.";
  const cells = frame.order.map((name, at) => {
    const { id, key, generation } = shapes.get(name);
    return `request ${id} with key ${keyWords(key)}, generation ${generation}, ${frame.states[at]}`;
  });
  return `The array from its first cell: ${cells.join("; ")}.`;
}

// One step in words: the event, what the story says of it, and how the entries stand.
export function lazyWords(frames, index) {
  const frame = frames[index];
  if (!frame.event) return `The heap is empty; ${count(frames.length - 1, "event")} will change it.`;
  const kinds = ["live", "stale", "revived", "lost"];
  const told = kinds.map((kind) => ({ kind, found: frame.states.filter((state) => state === kind).length }))
    .filter(({ found }) => found).map(({ kind, found }) => `${found} ${kind}`);
  const held = told.length ? `In the heap: ${listed(told)}.` : "The heap is empty.";
  return `Event ${index} of ${frames.length - 1}, ${eventMark(frame.event)}. ${frame.words} ${held}`;
}
