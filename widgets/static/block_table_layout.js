// What changed between two steps of a block pool, and how to say it: pure functions of the record.

import { count, number } from "./words.js";

// The requests of the whole story in the order of arrival, so that each keeps its row and colour.
export function requestsOf(steps) {
  return [...new Set(steps.flatMap((step) => Object.keys(step.tables)))];
}

// The longest table of a request in the story.
export function longestTable(steps) {
  return Math.max(1, ...steps.flatMap((step) => Object.values(step.tables).map((table) => table.length)));
}

// Blocks that changed their owner or their entries since the step before.
export function changedBlocks(steps, index) {
  if (index === 0) return [];
  const before = steps[index - 1].blocks;
  return steps[index].blocks.flatMap((block, at) => {
    const old = before[at];
    const same = old.owner === block.owner && old.filled === block.filled && old.outside.length === block.outside.length;
    return same ? [] : [at];
  });
}

// One state per entry of a block: seen, outside (stored, but no query will see it again), empty.
export function entriesOf(block, size) {
  return Array.from({ length: size }, (_, at) => {
    if (at >= block.filled) return "empty";
    return block.outside.includes(at) ? "outside" : "seen";
  });
}

// Where the picture opens: where an entry is first stored that no query will see again, else where
// the most entries are stored.
export function poolOpening(steps) {
  const first = steps.findIndex((step) => poolTotals(step).outside);
  if (first >= 0) return first;
  const stored = steps.map((step) => poolTotals(step).seen);
  return stored.indexOf(Math.max(...stored));
}

// The pool in numbers: free blocks, and entries that are stored, seen, and paid for.
export function poolTotals(step) {
  const used = step.blocks.filter((block) => block.owner !== null);
  const filled = used.reduce((total, block) => total + block.filled, 0);
  const outside = used.reduce((total, block) => total + block.outside.length, 0);
  return {
    free: step.blocks.length - used.length, used: used.length, seen: filled - outside, outside,
    empty: used.length * step.block_size - filled,
  };
}

export function poolWords(step) {
  const { free, used, seen, outside, empty } = poolTotals(step);
  if (!used) return "Every block is free.";
  const parts = [`${number(seen)} seen`];
  if (outside) parts.push(`${number(outside)} behind the window`);
  if (empty) parts.push(`${number(empty)} empty`);
  return `${number(free)} of ${count(step.blocks.length, "block")} ${free === 1 ? "is" : "are"} free; of the ${number(used * step.block_size)} entries lent, ${parts.join(", ")}.`;
}

// The tables for the drawing's label: "request 0: 0, given back, 3".
export function tablesWords(step) {
  const tables = Object.entries(step.tables).map(([id, table]) =>
    `request ${id}: ${table.map((block) => block ?? "given back").join(", ")}`);
  return tables.length ? `Tables. ${tables.join("; ")}` : "No request has a table";
}
