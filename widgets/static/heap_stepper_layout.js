// The frames, places and words of a heap: pure functions of the recorded operations.

import { capital, count, listed, number } from "./words.js";

// ---- frames ---------------------------------------------------------------------------------

// What each step of the player shows, the empty heap first: the array's order, the move or the
// admission test, the ids that it is about, and who was taken out so far. A test comes before the
// moves of a push or a pop, and after a look.
export function framesOf(operations) {
  const frames = [{ operation: null, kind: "start", order: [], lit: [], move: null, taken: [] }];
  for (const operation of operations) {
    const { op, entry, admission } = operation;
    const test = () => {
      const { order, taken } = frames[frames.length - 1];
      frames.push({ operation, kind: "test", order, lit: [entry.id], move: null, taken });
    };
    if (admission && op !== "look") test();
    operation.moves.forEach((move, index) => {
      const order = operation.states[index];
      const { taken } = frames[frames.length - 1];
      const lit = move.kind === "take" ? order.slice(0, 1) : [order[move.from], order[move.to]];
      frames.push({
        operation, kind: move.kind, order, lit, move,
        taken: move.kind === "take" ? [...taken, entry.id] : taken,
      });
    });
    if (admission && op === "look") test();
  }
  return frames;
}

// Where the picture opens: at the first pop from the fullest heap, else at the fullest heap.
export function heapOpening(frames) {
  const fullest = (all) => all.reduce((best, at) => (frames[at].order.length > frames[best].order.length ? at : best), all[0]);
  const pops = frames.flatMap((frame, at) => (frame.operation?.op === "pop" ? [at] : []));
  return fullest(pops.length ? pops : [...frames.keys()]);
}

// Every entry that was ever shown, by its id, in the order of arrival.
export function entriesOf(operations) {
  return new Map(operations.map(({ entry }) => [entry.id, entry]));
}

export function mostEntries(frames) {
  return Math.max(1, ...frames.map((frame) => frame.order.length));
}

// ---- places ---------------------------------------------------------------------------------

// The depth of array cell `index` in the tree: 0 for the top.
export function levelOf(index) {
  return Math.floor(Math.log2(index + 1));
}

export function parentOf(index) {
  return index === 0 ? null : Math.floor((index - 1) / 2);
}

// The centre of every tree node, in units of the tree's width and of levels.
export function treePlace(index) {
  const level = levelOf(index);
  const row = 2 ** level;
  return { x: (index - row + 1 + 0.5) / row, level };
}

const KEY_PX = 7.6;
const LABEL_PX = 6.1;
const TREE_GAP = 10;
const WIDEST_GAP = 64;

// Widths in pixels for a heap of up to `most` entries in `available` pixels: nodes hold key and
// label, array cells the label only where there is room, or where they are as wide as nodes.
export function sizesFor(entries, most, available, wideCells = false) {
  const all = [...entries.values()];
  const keyWidth = Math.max(...all.map((entry) => keyMark(entry.key).length)) * KEY_PX + 8;
  const labelWidth = Math.max(...all.map((entry) => entry.label.length)) * LABEL_PX + 16;
  const node = Math.max(keyWidth, labelWidth, 44);
  const cell = Math.max(wideCells ? node : keyWidth, 40, Math.min(node, available / most));
  const bottom = 2 ** levelOf(most - 1);
  const tree = Math.max(bottom * (node + TREE_GAP), Math.min(available, bottom * (node + WIDEST_GAP)));
  return { node, cell, tree, width: Math.max(available, tree, most * cell), cellLabels: cell >= labelWidth };
}

// The admission bar in parts of 1: what is held, what the candidate adds, where the budget ends.
export function admissionBar({ held, candidate, budget }) {
  const top = Math.max(budget, held + candidate);
  return { held: held / top, candidate: candidate / top, budget: budget / top, over: held + candidate > budget };
}

// ---- words ----------------------------------------------------------------------------------

// A key of one number as that number, a longer one as a tuple.
export function keyWords(key) {
  return key.length === 1 ? String(key[0]) : `(${key.join(", ")})`;
}

// The same without spaces, for nodes and cells.
export function keyMark(key) {
  return keyWords(key).replaceAll(" ", "");
}

// The admission test in one or two sentences, with its numbers.
export function admissionWords(entry, admission) {
  const { held, candidate, budget, batch, max_batch: places, verdict } = admission;
  const needs = `${capital(entry.label)} needs ${count(candidate, "token")}`;
  if (budget !== null && candidate > budget) {
    const never = `${needs}, more than the whole KV budget of ${number(budget)}: it can never fit`;
    if (verdict === "refuse") return `${never} and is refused.`;
    return `${never}, and yet ${verdict === "wait" ? "it waits" : "it is admitted"}.`;
  }
  const sum = `${number(held)} + ${number(candidate)}`;
  const short = budget !== null && held + candidate > budget;
  const full = batch >= places;
  const parts = [budget === null ? `${needs}; there is no KV budget`
    : `${needs}; ${number(held)} of ${number(budget)} are held; ${sum} ${short ? ">" : "≤"} ${number(budget)}`];
  if (!short) parts.push(`${number(batch)} of ${count(places, "place")} in the batch ${batch === 1 ? "is" : "are"} taken`);
  return `${parts.join("; ")}: ${verdictWords(verdict, short || full)}`;
}

function verdictWords(verdict, blocked) {
  if (verdict === "wait") return blocked ? "it waits, and nothing overtakes it." : "it would fit, and yet it waits.";
  if (verdict === "admit") return blocked ? "it does not fit, and yet it is admitted." : "it is admitted.";
  return blocked ? "it would only have to wait, and yet it is refused." : "it would fit, and yet it is refused.";
}

function operationWords({ op, entry }) {
  if (op === "push") return `push ${entry.label}, key ${keyWords(entry.key)}`;
  return op === "pop" ? `pop ${entry.label}` : `look at the top`;
}

// One frame in words: which operation, which move of it, and what happens.
export function frameWords(frame, operations) {
  if (frame.kind === "start") return `The heap is empty; ${count(operations.length, "operation")} will change it.`;
  const which = operations.indexOf(frame.operation) + 1;
  const head = `Operation ${which} of ${operations.length}, ${operationWords(frame.operation)}`;
  if (frame.kind === "test") {
    return `${head}. Admission: ${admissionWords(frame.operation.entry, frame.operation.admission)}`;
  }
  return `${head}. ${frame.move.words}`;
}

// The array as it stands, for the drawing's label.
export function orderWords(order, entries) {
  if (!order.length) return "The heap is empty.";
  const cells = order.map((id) => `${entries.get(id).label} with key ${keyWords(entries.get(id).key)}`);
  return `The array from its first cell: ${listed(cells)}.`;
}
