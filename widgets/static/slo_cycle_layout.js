// Where the parts of the SLO cycle lie in time: pure functions of its events, spans and lanes.

import { laneScale } from "./lanes.js";
import { duration } from "./words.js";

const NARROW = 620;
const ROW = 44;
const DOT = 22;

// The times that are shown, in microseconds: all of them, or only from the arrival to the
// re-admission (or, where that is not known, to the last event).
export function timeRange({ events, spans }, zoomed) {
  const times = zoomed
    ? events.filter((event) => event.stage !== "first token" && event.stage !== "resume").flatMap((event) => event.points.map((point) => point.at_us))
    : [...events.map((event) => event.at_us), ...spans.flatMap((span) => [span.from_us, span.to_us])];
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const room = Math.max(1, to - from) * (zoomed ? 0.06 : 0.02);
  return { from: from - room, to: to + room };
}

// The scale of the lanes, and the middle of each lane's band.
export function cyclePlaces(lanes, range, width) {
  const narrow = width < NARROW;
  const row = ROW + (narrow ? 16 : 0);
  const top = 14;
  return {
    ...laneScale(range, narrow ? 8 : 118, width - 12),
    narrow, top, width,
    y: (lane) => top + lane * row + row - ROW / 2,
    base: top + lanes.length * row + 2,
    height: top + lanes.length * row + 40,
  };
}

// The dots of all events, those of one lane beside each other where their times are too close.
export function dotsOf(events, places) {
  const free = new Map();
  return events.map((event) => event.points.filter((point) => places.shows(point.at_us)).map((point) => {
    const exact = places.x(point.at_us);
    const x = Math.max(exact, free.get(point.lane) ?? -Infinity);
    free.set(point.lane, x + DOT);
    return { lane: point.lane, exact, x };
  }));
}

// The event that a press at `x`, `y` means: the one whose dot is nearest, within a finger's width.
export function eventAt(dots, places, x, y) {
  const near = dots.flatMap((points, index) => points.map((point) => ({
    index, distance: Math.hypot(point.x - x, places.y(point.lane) - y),
  }))).sort((one, other) => one.distance - other.distance)[0];
  return near && near.distance <= DOT ? near.index : null;
}

// One event in words: its number, its name, its time, and what happens.
export function eventWords(events, index) {
  const event = events[index];
  const when = event.at_us < 0 ? `${duration(-event.at_us)} before the pass` : `${duration(event.at_us)} into the pass`;
  return `${index + 1} of ${events.length}: ${event.stage}, ${when}.\n${event.words}`;
}
