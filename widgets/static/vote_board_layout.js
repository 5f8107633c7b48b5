// A pass's votes as cells, places and words: pure functions of a board.

import { laneScale } from "./lanes.js";
import { capital, count, duration, named } from "./words.js";

const FAR = 0.97;
const BESIDE = 0.34;

// ---- cells ----------------------------------------------------------------------------------

export function checkAt(board, rank, layer) {
  return board.record.checks[rank].find((check) => check.layer === layer) ?? null;
}

// What became of a rank at a layer: "ran", "left" (with all the others), "alone" (without them),
// "hangs", "crashed" or "never".
export function stateAt(board, rank, layer) {
  const ending = board.endings[rank];
  if (layer < ending.layer) return "ran";
  if (ending.how === "finished" || layer > ending.layer) return "never";
  return ending.how === "left" && !hasEnded(board) ? "alone" : ending.how;
}

// Where the picture opens: at the first layer at which a rank votes to leave.
export function boardOpening(board) {
  const layers = board.record.checks.flat().filter((check) => check.vote).map((check) => check.layer);
  return layers.length ? Math.min(...layers) : 0;
}

// Where the write lands in a rank's row, in layers: 7.25 is a quarter of the way from its look at
// layer 7 to its look at layer 8. null when nothing was written, or that rank never looked.
export function writeAt(board, rank) {
  const { written_us: written, checks } = board.record;
  const own = checks[rank];
  if (written === null || !own.length) return null;
  const before = own.filter((check) => check.reached_us <= written);
  if (!before.length) return own[0].layer - 1 + FAR;
  const last = before[before.length - 1];
  const next = own[own.indexOf(last) + 1];
  const typical = own.length > 1 ? (own[own.length - 1].reached_us - own[0].reached_us) / (own.length - 1) : 0;
  const whole = next ? next.reached_us - last.reached_us : typical;
  const part = whole > 0 ? Math.min(FAR, (written - last.reached_us) / whole) : FAR;
  return last.layer + part;
}

// How far the pass had come when the last rank ended, in layers.
export function layersRun(board) {
  return Math.max(...board.endings.map((ending) => ending.layer));
}

export function hasEnded(board) {
  return board.endings.every((ending) => ending.how === "left" || ending.how === "finished");
}

// The kind of the work of a pass: "wasted", "kept", "lost" or "finished".
export function workKind(board) {
  if (!hasEnded(board)) return "lost";
  if (board.endings.every((ending) => ending.how === "finished")) return "finished";
  return board.wasted_share === 0 && board.record.layer > 0 ? "kept" : "wasted";
}

export function workWords(board) {
  const { layer, num_layers: layers } = board.record;
  const done = `${layer} of ${count(layers, "layer")}`;
  return {
    wasted: `${done} computed for nothing: ${Math.round(100 * (board.wasted_share ?? 0))} percent of the pass.`,
    kept: `${done} kept: the pass goes on from there later.`,
    lost: "The pass never ends: only the time limit of the collective ends it, and all its ranks.",
    finished: `All ${count(layers, "layer")} are run.`,
  }[workKind(board)];
}

// ---- places ---------------------------------------------------------------------------------

const LABEL = 52;
const NARROWEST = 22.5;
const WIDEST = 80;

export function boardPlaces(board, width) {
  const layers = board.record.num_layers;
  const cell = Math.max(NARROWEST, Math.min(WIDEST, (width - LABEL - 2) / layers));
  const ranks = board.record.checks.length;
  const top = 40;
  const row = 36;
  const results = board.results.length ? 1 : 0;
  return {
    ...laneScale({ from: 0, to: layers }, LABEL, LABEL + cell * layers),
    cell, top, row, width: LABEL + cell * layers + 2,
    // A look at the target is the middle of its cell; what lies between two looks keeps off both.
    between: (at) => {
      const part = Math.max(BESIDE, Math.min(1 - BESIDE, at - Math.floor(at)));
      return LABEL + Math.min(layers - BESIDE / 2, Math.floor(at) + 0.5 + part) * cell;
    },
    y: (line) => top + line * row + (line >= ranks ? 8 : 0),
    work: top + (ranks + results) * row + 16,
    height: top + (ranks + results) * row + 30,
  };
}

// ---- words ----------------------------------------------------------------------------------

// "rank 0 votes 0, rank 1 votes 1", equal votes together.
export function votesWords(board, layer) {
  const voted = board.record.checks.map((_, rank) => ({ rank, check: checkAt(board, rank, layer) })).filter(({ check }) => check);
  const parts = [0, 1].map((vote) => ({ vote, ranks: voted.filter(({ check }) => check.vote === vote).map(({ rank }) => rank) }))
    .filter(({ ranks }) => ranks.length);
  return parts.map(({ vote, ranks }) => `${named("rank", ranks)} ${ranks.length > 1 ? "vote" : "votes"} ${vote}`).join(", ");
}

function resultWords(board, layer) {
  if (!board.results.length) return "";
  const result = board.results[layer];
  if (result === null) return hasEnded(board) ? "" : "; the collective never answers";
  return board.agreement === "carried" ? `; MAX is ${result}, known with the sum of this layer` : `; MAX is ${result}`;
}

function endingWords(board, layer) {
  const ended = board.endings.map((ending, rank) => ({ ...ending, rank })).filter((ending) => ending.layer === layer && ending.how !== "finished");
  if (!ended.length) return "";
  if (ended.length === board.endings.length && ended.every((ending) => ending.how === "left" && !ending.words)) {
    return " All ranks leave here, no rank by itself.";
  }
  const verbs = { left: "leaves here", hangs: "hangs here", crashed: "crashes here" };
  return ended.map((ending) => ` Rank ${ending.rank} ${verbs[ending.how]}${ending.words ? `: it ${ending.words}` : ""}.`).join("");
}

function writeWords(board, layer) {
  const places = board.record.checks.map((_, rank) => writeAt(board, rank));
  const known = places.filter((place) => place !== null).map(Math.floor);
  const target = `${capital(board.mark)} is written`;
  if (known.length && layer === 0 && Math.max(...known) < 0) return ` ${target} before any rank looks for the first time.`;
  if (!known.length || Math.max(...known) !== layer) return "";
  const layers = [...new Set(known)];
  if (layers.length === 1) return ` ${target} after every rank's look at layer ${layer}.`;
  const late = places.map((place, rank) => ({ place, rank })).filter(({ place }) => place !== null);
  const saw = late.filter(({ place }) => Math.floor(place) < layer).map(({ rank }) => rank);
  const missed = late.filter(({ place }) => Math.floor(place) === layer).map(({ rank }) => rank);
  return ` ${target} after ${named("rank", missed)} looked here, and before ${named("rank", saw)} did.`;
}

// One layer of the pass in words.
export function layerWords(board, layer) {
  const { num_layers: layers } = board.record;
  if (layer >= layers) return `This pass has ${count(layers, "layer")}.`;
  if (board.endings.every((ending) => ending.layer < layer)) {
    return `Layer ${layer} is never run. ${workWords(board)}`;
  }
  const votes = votesWords(board, layer);
  const head = votes ? `Layer ${layer}: ${votes}${resultWords(board, layer)}.` : `Layer ${layer}: no vote is on record.`;
  const over = layer === layers - 1 || board.endings.every((ending) => ending.layer <= layer);
  return `${head}${writeWords(board, layer)}${endingWords(board, layer)}${over ? ` ${workWords(board)}` : ""}`;
}

// The times of a pass, as far as they are known.
export function timesWords(board) {
  const { written_us: written, replied_us: replied, checks } = board.record;
  const agreed = checks.flat().map((check) => check.agree_us);
  const parts = [];
  if (written !== null) parts.push(`written ${duration(Math.abs(written))} ${written < 0 ? "before" : "into"} the pass`);
  if (written !== null && replied !== null && replied >= written) parts.push(`last reply ${duration(replied - written)} after the write`);
  if (agreed.length && hasEnded(board)) {
    parts.push(`agreeing took ${duration(agreed.reduce((sum, each) => sum + each, 0) / agreed.length)} per layer and rank, waiting for the others included`);
  }
  return parts.length ? `${capital(parts.join("; "))}.` : "";
}
