// The tokens, numbers and words of speculative decoding: pure functions of a story.

import { count, number } from "./words.js";

// ---- tokens ---------------------------------------------------------------------------------

// A token's text with its white space made visible: " to" -> "␣to", "\n" -> "↵"
export function tokenMark(text) {
  return text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥") || "∅";
}

// What became of draft `at`: "kept", "rejected" (the first that was not), or "unread" (after it).
export function draftState(drafts, at) {
  if (drafts[at].kept) return "kept";
  return at === 0 || drafts[at - 1].kept ? "rejected" : "unread";
}

// Where the picture opens: at the first pass in which a draft is rejected.
export function stripOpening(story) {
  return Math.max(0, story.passes.findIndex((pass) => pass.drafts.some((draft) => !draft.kept)));
}

export function numKept(pass) {
  return pass.drafts.filter((draft) => draft.kept).length;
}

// The chance that a draft is kept: min(1, p / q).
export function keepChance({ p, q }) {
  return q > 0 ? Math.min(1, p / q) : 1;
}

// Whether the decision is the rule's: kept exactly when u is below p / q. Without a u none is told.
export function followsRule({ p, q, u, kept }) {
  return u === null || (u * q < p) === kept;
}

// The text that stands after pass `index`.
export function standing(story, index) {
  const tokens = story.passes.slice(0, index + 1).flatMap((pass) => [...pass.drafts.filter((draft) => draft.kept), pass.last]);
  return story.prompt + tokens.map((token) => token.text).join("");
}

// Passes and tokens up to and with pass `index`, and how many drafts were proposed and kept.
export function totals(story, index) {
  const passes = story.passes.slice(0, index + 1);
  const kept = passes.reduce((sum, pass) => sum + numKept(pass), 0);
  const drafted = passes.reduce((sum, pass) => sum + pass.drafts.length, 0);
  return { passes: passes.length, kept, drafted, tokens: kept + passes.length };
}

// ---- places ---------------------------------------------------------------------------------

// The passes as bars beside each other, as high as their tokens, at most one more than the drafts.
export function barPlaces(story, width) {
  const [left, right, top, base] = [26, width - 4, 8, 48];
  const most = story.num_draft_tokens + 1;
  const pitch = Math.min(26, (right - left) / story.passes.length);
  return {
    left, right, top, base, height: 58, pitch, most,
    bar: Math.max(1, pitch - (pitch > 5 ? 2 : 0.5)),
    x: (index) => left + index * pitch,
    y: (tokens) => base - (tokens / most) * (base - top),
    passAt: (x) => Math.max(0, Math.min(story.passes.length - 1, Math.floor((x - left) / pitch))),
  };
}

// ---- the automaton of a grammar ---------------------------------------------------------------

// Its states by their distance from the start, column by column: { x, y } of each, and the size.
export function statePlaces(edges, width) {
  const depth = new Map([[0, 0]]);
  for (const from of depth.keys()) {
    for (const [start, to] of edges) if (start === from && !depth.has(to)) depth.set(to, depth.get(from) + 1);
  }
  const columns = Math.max(...depth.values());
  const rows = Array.from({ length: columns + 1 }, () => []);
  for (const [state, column] of depth) rows[column].push(state);
  const gap = (Math.min(width, 640) - 40) / Math.max(1, columns);
  const height = 64 * Math.max(...rows.map((column) => column.length)) + 50;
  const places = new Map([...depth].map(([state, column]) => {
    const own = rows[column];
    return [state, { x: 20 + column * gap, y: (height - 40) / 2 + 64 * (own.indexOf(state) - (own.length - 1) / 2) }];
  }));
  return { places, height };
}

// The states that pass `index` touched: where it began and ended, and those that were taken back.
export function statesOf(story, index) {
  const pass = story.passes[index];
  const from = index ? story.passes[index - 1].last.state : 0;
  const through = pass.drafts.filter((draft) => draft.kept).map((draft) => draft.state);
  const back = pass.drafts.filter((draft) => !draft.kept).map((draft) => draft.state);
  return { from, through, back, to: pass.last.state };
}

const stateName = (state) => (state == null ? "no state" : `state ${state}`);

export function automatonWords(story, index) {
  const { from, back, to } = statesOf(story, index);
  const dropped = back.length ? ` Rejected draft tokens led to ${back.map(stateName).join(", ")}; the automaton goes back with the text.` : "";
  return `The automaton goes from ${stateName(from)} to ${stateName(to)}.${dropped}`;
}

// ---- words ----------------------------------------------------------------------------------

// A probability or a uniform number, three digits: 0.0421 -> "0.042", 0.00003 -> "0.00003"
export function chance(value) {
  if (value === 0 || value === 1) return String(value);
  if (value < 0.001) return value.toExponential(0);
  return value > 0.9995 ? value.toFixed(5).replace(/0+$/, "") : value.toFixed(3);
}

// The comparison that decided a draft: "u 0.310 < 0.850", or that none was made.
export function ruleWords(draft, state) {
  if (state === "unread") return "not read";
  const limit = chance(keepChance(draft));
  if (draft.u === null) return `p / q ${limit}, no draw`;
  return `u ${chance(draft.u)} ${draft.u < keepChance(draft) ? "<" : "≥"} ${limit}`;
}

const FROM = {
  bonus: "a bonus token: the model's own draw behind the last kept draft",
  resampled: "a resampled token, drawn from the positive part of p − q in the place of the rejected draft",
  plain: "a plain decode: nothing was drafted",
};

export function lastWords(last) {
  return FROM[last.kind];
}

// One pass in words: what was proposed, what stayed, what it brought; and all passes so far.
export function passWords(story, index) {
  const pass = story.passes[index];
  const kept = numKept(pass);
  const proposed = pass.drafts.length
    ? `the draft proposes ${count(pass.drafts.length, "token")}, ${kept === pass.drafts.length ? "all are" : `${kept} ${kept === 1 ? "is" : "are"}`} kept`
    : "nothing is drafted";
  const added = { bonus: "a bonus token", resampled: "a resampled token", plain: "the model's token" }[pass.last.kind];
  const sums = totals(story, index);
  const share = sums.drafted ? `, ${sums.kept} of ${count(sums.drafted, "draft")} kept` : "";
  const wrong = pass.drafts.some((draft, at) => draftState(pass.drafts, at) !== "unread" && !followsRule(draft))
    ? " A decision in it is not the rule's." : "";
  return `Pass ${index + 1} of ${story.passes.length}: ${proposed}, and ${added} “${tokenMark(pass.last.text)}” follows: ` +
    `${count(kept + 1, "token")} from one pass.${wrong}\n` +
    `${count(sums.tokens, "token")} in ${number(sums.passes)} ${sums.passes === 1 ? "pass" : "passes"} so far: ` +
    `${number((sums.tokens / sums.passes).toFixed(2))} per pass${share}.`;
}
