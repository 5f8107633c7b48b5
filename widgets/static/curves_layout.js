// Which curves are shown, where they lie, and what they say: pure functions of the series.

import { listed, number } from "./words.js";

// ---- series ---------------------------------------------------------------------------------

// `chosen` holds the value of every slider by its name.
export function shownSeries(series, chosen) {
  return series.filter(({ when }) => Object.entries(when).every(([name, value]) => chosen[name] === value));
}

// The names in the order of appearance: each keeps its colour and its dashes.
export function curveNames(series) {
  return [...new Set(series.map(({ name }) => name))];
}

// ---- axes -----------------------------------------------------------------------------------

// Round values from `low` or below to `high` or above, about `wanted` of them.
export function roundTicks(low, high, wanted) {
  const rough = (high - low || Math.abs(high) || 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  return Array.from({ length: Math.max(2, last - first + 1) }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

// 1, 2, 4, ... from `low` or below to `high` or above.
export function doublings(low, high) {
  const [first, last] = [Math.floor(Math.log2(low) + 1e-9), Math.ceil(Math.log2(high) - 1e-9)];
  return Array.from({ length: Math.max(2, last - first + 1) }, (_, index) => 2 ** (first + index));
}

// The ticks of both axes: those of all series, so that no slider moves an axis. 0 belongs to y
// where no value is far from it.
export function axesOf(series, logX, wanted) {
  const points = series.flatMap((each) => each.points);
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const floor = low > 0 && low < high * 0.6 ? 0 : low;
  const start = left > 0 && left < right * 0.3 ? 0 : left;
  return {
    x: logX ? doublings(left, right) : roundTicks(start, right, wanted.x),
    y: roundTicks(floor, high, wanted.y),
  };
}

// value -> pixels between `from` and `to`.
export function placeOn(ticks, from, to, log = false) {
  const at = log ? Math.log2 : (value) => value;
  const [low, high] = [at(ticks[0]), at(ticks[ticks.length - 1])];
  return (value) => from + ((at(value) - low) / (high - low)) * (to - from);
}

// Heights for labels that stand at `wanted`, in its order, none nearer to another than `gap`.
export function apart(wanted, gap, low, high) {
  const order = wanted.map((y, index) => ({ y, index })).sort((one, other) => one.y - other.y);
  let free = low;
  for (const each of order) {
    each.y = Math.max(each.y, free);
    free = each.y + gap;
  }
  let ceiling = high;
  for (const each of [...order].reverse()) {
    each.y = Math.min(each.y, ceiling);
    ceiling = each.y - gap;
  }
  return order.sort((one, other) => one.index - other.index).map(({ y }) => y);
}

// ---- words ----------------------------------------------------------------------------------

// A number as an axis or a table says it: at most four digits that matter.
export function figure(value) {
  const short = Number(value.toPrecision(4));
  return Math.abs(short) >= 1e6 ? short.toExponential() : (short < 0 ? "−" : "") + number(Math.abs(short));
}

export function withUnit(value, unit) {
  return unit ? `${figure(value)} ${unit}` : figure(value);
}

// "chunk length, tokens"
export function axisWords([name, unit]) {
  return unit ? `${name}, ${unit}` : name;
}

// Where every shown series ends: "padded 9.8 ms at 64 tokens".
export function endWords(shown, x, y) {
  if (!shown.length) return "Nothing is drawn for these values.";
  const ends = shown.map(({ name, points }) => {
    const [at, value] = points[points.length - 1];
    return `${name} ${withUnit(value, y[1])} at ${withUnit(at, x[1])}`;
  });
  return `At the end: ${listed(ends)}.`;
}

// The numbers as rows: one for every x, one cell for every shown series; "" where it has no point.
export function tableRows(shown) {
  const xs = [...new Set(shown.flatMap(({ points }) => points.map(([x]) => x)))].sort((one, other) => one - other);
  return xs.map((x) => ({
    x, cells: shown.map(({ points }) => points.filter(([at]) => at === x).map(([, y]) => figure(y)).join(", ")),
  }));
}
