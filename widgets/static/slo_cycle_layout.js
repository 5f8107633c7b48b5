// Where the parts of the SLO cycle lie in time: pure functions of its events, spans and lanes.

import { duration } from "./words.js";

const NARROW = 620;
const ROW = 44;
const DOT = 22;
const DIGIT = 7.2;

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

// Round times within the range, at most about `wanted`, in milliseconds.
export function timeTicks({ from, to }, wanted) {
  const rough = (to - from) / 1000 / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const first = Math.ceil(from / 1000 / step - 1e-9);
  const last = Math.floor(to / 1000 / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(9)));
}

export function cyclePlaces(lanes, range, width) {
  const narrow = width < NARROW;
  const left = narrow ? 8 : 118;
  const right = width - 12;
  const row = ROW + (narrow ? 16 : 0);
  const top = 14;
  return {
    narrow, left, right, row, top,
    x: (us) => left + ((us - range.from) / (range.to - range.from)) * (right - left),
    // Where the words of a tick at x have their middle: below it, and within the picture.
    middle: (x, words) => {
      const half = (words.length * DIGIT) / 2;
      return Math.max(half, Math.min(width - half, x));
    },
    // The middle of a lane's band.
    y: (lane) => top + lane * row + row - ROW / 2,
    base: top + lanes.length * row + 2,
    height: top + lanes.length * row + 40,
  };
}

// A stretch of time as pixels, cut to what is shown; null when it lies outside.
export function cut(span, range, places) {
  const [from, to] = [Math.max(span.from_us, range.from), Math.min(span.to_us, range.to)];
  return to < from ? null : { x: places.x(from), width: Math.max(1.5, places.x(to) - places.x(from)) };
}

// The dots of all events, those of one lane beside each other where their times are too close.
export function dotsOf(events, range, places) {
  const free = new Map();
  return events.map((event) => event.points.filter((point) => point.at_us >= range.from && point.at_us <= range.to).map((point) => {
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
