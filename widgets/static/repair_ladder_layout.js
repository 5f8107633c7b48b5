// The repair ladder as places and words: pure functions of its rows.

import { capital, count, number } from "./words.js";

export const TIERS = ["urgent", "generous"];

export function percent(value) {
  return `${Math.round(value)} %`;
}

// A mean with its interval, where there is one: "58 % (50 to 66)".
export function intervalWords([mean, low, high]) {
  if (low === null) return percent(mean);
  return `${percent(mean)} (${Math.round(low)} to ${Math.round(high)})`;
}

// What a tier has gained against the row before, in words; nothing for the first row.
export function changeWords(rows, at, load, tier) {
  if (at === 0) return "";
  const points = Math.round(rows[at].loads[load][tier][0]) - Math.round(rows[at - 1].loads[load][tier][0]);
  if (points === 0) return ", as before";
  return `, ${count(Math.abs(points), "point")} ${points > 0 ? "more" : "less"} than before`;
}

export function wasteWords({ wasted_share: share, preemptions }) {
  if (!preemptions) return "Nothing is preempted.";
  const calls = count(Number(preemptions.toFixed(preemptions < 10 ? 1 : 0)), "preemption");
  if (!share) return `${calls}, and no work is thrown away.`;
  return `${calls} throw away ${percent(100 * share)} of the computing time.`;
}

// The same in few words, for the picture.
export function wasteMark({ wasted_share: share, preemptions }) {
  if (!preemptions) return "no preemption";
  return `thrown away: ${percent(100 * share)}, ${count(Math.round(preemptions), "preemption")}`;
}

// Words in lines of at most so many characters, where they can be parted.
export function wrapped(words, characters) {
  const lines = [];
  for (const word of words.split(" ")) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && longer.length <= characters) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

// One row at one load, told in full.
export function rowWords(rows, at, load) {
  const { variant, words, loads } = rows[at];
  const tiers = TIERS.map((tier) => `${tier} ${intervalWords(loads[load][tier])}${changeWords(rows, at, load, tier)}`);
  const told = `${capital(variant)}, at ${number(load)} requests/s. In time: ${tiers.join("; ")}. ${wasteWords(loads[load])}`;
  return words ? `${told}\n${words}` : told;
}

const LETTER = 8;

// Places for rows of these names in a width: names beside the bars, or above them where it is
// narrow, in lines of at most `letters`.
export function ladderPlaces(width, names) {
  const wide = width >= 680;
  const letters = wide ? 27 : Math.floor((width - 12) / LETTER);
  const lines = Math.max(...names.map((name) => wrapped(name, letters).length));
  const waste = wide ? 132 : 0;
  const left = wide ? 232 : 6;
  const above = wide ? 0 : 6 + 16 * lines;
  const numbers = 38;
  return {
    wide, letters, left, above, right: width - waste - numbers, waste: width - waste + 16,
    top: 26, step: 48 + above + (wide ? 0 : 18), bar: 15,
  };
}
