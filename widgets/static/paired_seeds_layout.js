// Scales, places, verdicts and words of paired differences: pure functions of a comparison.

import { ticks } from "./chart.js";
import { capital, count, listed, number } from "./words.js";

const FAR_APART = 20;

// ---- numbers --------------------------------------------------------------------------------

// Three digits that count, never fewer than the whole part: 8.84 -> "8.84", 3964.2 -> "3,964"
export function shortNumber(value) {
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  const text = size.toFixed(digits);
  const tidy = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return `${value < 0 && tidy !== "0" ? "−" : ""}${number(tidy)}`;
}

export function signedNumber(value) {
  const text = shortNumber(value);
  return value > 0 && text !== "0" ? `+${text}` : text;
}

const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);

export function meanPair(row) {
  const mean = (side) => row.pairs.reduce((sum, pair) => sum + pair[side], 0) / row.pairs.length;
  return { baseline: mean("baseline"), other: mean("other") };
}

// ---- verdicts -------------------------------------------------------------------------------

// Whether a difference (other minus baseline) is "better", "worse" or "equal".
export function sideOf(row, difference) {
  if (difference === 0) return "equal";
  return (difference < 0) === (row.better === "lower") ? "better" : "worse";
}

// "equal" on every seed, "better", "worse", or "noise": the interval holds 0, or there is none.
export function verdict(row) {
  if (row.pairs.every((pair) => pair.baseline === pair.other)) return "equal";
  if (row.low === null || (row.low <= 0 && row.high >= 0)) return "noise";
  return sideOf(row, row.mean);
}

export function verdictMark(row) {
  return { better: "✓ better", worse: "✗ worse", noise: "within noise", equal: "equal" }[verdict(row)];
}

// ---- scales ---------------------------------------------------------------------------------

const family = (row) => `${row.metric.split("_")[0]} ${row.unit}`;

// One scale for all metrics of a family: from 0, or logarithmic where values lie far apart.
export function scaleFor(row, rows) {
  const values = rows.filter((each) => family(each) === family(row)).flatMap((each) => each.pairs.flatMap((pair) => [pair.baseline, pair.other]));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (low > 0 && high / low > FAR_APART) {
    const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const marks = Array.from({ length: to - from + 1 }, (_, index) => Number((10 ** (from + index)).toPrecision(6)));
    return { log: true, marks, part: (value) => (Math.log10(value) - from) / (to - from) };
  }
  const marks = ticks(high, 4);
  const top = marks[marks.length - 1];
  return { log: false, marks, part: (value) => value / top };
}

// The panels of the same scale, whose heights may be compared with this one's.
export function sharedWith(row, rows) {
  return rows.filter((each) => each !== row && family(each) === family(row)).map((each) => each.label);
}

// The scale of the differences: it holds 0, every seed and the interval.
export function differenceScale(row) {
  const all = [0, row.mean, ...row.pairs.map((pair) => pair.other - pair.baseline), row.low ?? 0, row.high ?? 0];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  if (low === high) return { marks: [-1, 0, 1], part: (value) => (value + 1) / 2 };
  const step = ticks(high - low, 3)[1];
  const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  const marks = Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(9)));
  const [from, to] = [first * step, last * step];
  return { marks, part: (value) => (value - from) / (to - from) };
}

// What stands below the differences.
export const PER_SEED = "per seed, mean";

// Where the parts of a panel lie: the pairs to the left, their differences to the right.
export function panelPlaces(width) {
  const [top, base, left] = [30, 196, 50];
  const right = width - 58;
  const pairsEnd = Math.round(left + (right - left) * 0.58);
  const spread = { from: pairsEnd + 44, to: right - 20 };
  return {
    width, top, base, left, right, height: base + 30,
    columns: [left + 34, pairsEnd - 28], pairsEnd, differences: pairsEnd + 30,
    y: (part) => base - part * (base - top),
    // The seeds' differences lie beside each other, their mean after the last.
    dot: (index, of) => spread.from + ((index + 0.5) / of) * (spread.to - spread.from - 26),
    mean: spread.to,
  };
}

// How far below the first name the second has to stand so that none is drawn over another.
export function nameDrop(names, places) {
  const half = (words) => words.length * 3.4 + 4;
  const between = places.columns[1] - places.columns[0];
  const behind = (places.differences + places.right) / 2 - places.columns[1];
  const crowded = half(names[0]) + half(names[1]) > between || half(names[1]) + half(PER_SEED) > behind;
  return crowded ? 15 : 0;
}

// Which pair lies nearest to a place among the pairs or their differences; null where none does.
export function pairAt(row, scale, differences, places, x, y) {
  const [from, to] = places.columns;
  const near = (part) => Math.abs(places.y(part) - y);
  const along = Math.max(0, Math.min(1, (x - from) / (to - from)));
  const distance = (pair, index) => (x <= places.pairsEnd
    ? Math.abs(places.y(scale.part(pair.baseline)) * (1 - along) + places.y(scale.part(pair.other)) * along - y)
    : Math.hypot(near(differences.part(pair.other - pair.baseline)), places.dot(index, row.pairs.length) - x));
  const found = row.pairs.map((pair, index) => ({ index, far: distance(pair, index) })).sort((one, other) => one.far - other.far)[0];
  return found.far <= 16 ? found.index : null;
}

// ---- words ----------------------------------------------------------------------------------

// The mean difference with its interval and what it says.
export function differenceWords(row) {
  if (verdict(row) === "equal") return `the same with ${row.pairs.length > 1 ? "every seed" : "this seed"}`;
  const mean = `mean difference ${withUnit(signedNumber(row.mean), row.unit)}`;
  if (row.low === null) return `${mean}; one seed has no interval: within noise`;
  const interval = `95 % interval ${signedNumber(row.low)} to ${signedNumber(row.high)}`;
  const said = { better: "better", worse: "worse", noise: "within noise, the interval holds 0" }[verdict(row)];
  return `${mean}, ${interval}: ${said}`;
}

// How many seeds are better, where not all are equal.
export function seedsWords(row) {
  if (verdict(row) === "equal") return "";
  const better = row.pairs.filter((pair) => sideOf(row, pair.other - pair.baseline) === "better").length;
  return `; better in ${better} of ${count(row.pairs.length, "seed")}`;
}

// A pair: what the baseline had, what the other had.
export function pairWords(row, pair) {
  const difference = pair.other - pair.baseline;
  const said = { better: ", better", worse: ", worse", equal: "" }[sideOf(row, difference)];
  return `${row.label} ${shortNumber(pair.baseline)} → ${withUnit(shortNumber(pair.other), row.unit)} (${signedNumber(difference)}${said})`;
}

// One step in words: step 0 is all seeds, each further one a seed.
export function comparisonWords(comparison, step) {
  const { rows, baseline, other, scenario, modelled } = comparison;
  if (step > 0) {
    const { seed } = rows[0].pairs[step - 1];
    return `Seed ${seed}, ${baseline} → ${other}: ${rows.map((row) => pairWords(row, row.pairs[step - 1])).join("; ")}.`;
  }
  const seeds = count(rows[0].pairs.length, "seed");
  const groups = [["better", "better"], ["worse", "worse"], ["noise", "within noise"], ["equal", "equal"]].map(([kind, words]) => {
    const labels = rows.filter((row) => verdict(row) === kind).map((row) => row.label);
    return labels.length ? ` ${capital(words)}: ${listed(labels)}.` : "";
  });
  return `${capital(other)} against ${baseline}, ${scenario}, ${seeds}${modelled ? ", modelled" : ""}.${groups.join("")}`;
}
