// The places of published blocks in a tree by their parents, and its words: pure functions.

import { kindOf } from "./pool_states.js";
import { count, listed, number } from "./words.js";

// Where each node stands: { column, row }, its first child right of it and the others below that.
// Places hold for the whole run, so nothing moves from step to step.
export function treePlaces(nodes) {
  const children = new Map([[null, []]]);
  for (const [hash, { parent }] of nodes) {
    children.set(hash, []);
    children.get(parent).push(hash);
  }
  const places = new Map();
  let row = 0;
  const place = (hash) => {
    places.set(hash, { column: nodes.get(hash).depth, row });
    children.get(hash).forEach((child, at) => {
      if (at) row += 1;
      place(child);
    });
  };
  children.get(null).forEach((root, at) => {
    if (at) row += 1;
    place(root);
  });
  return { places, rows: places.size ? row + 1 : 0, columns: 1 + Math.max(-1, ...[...nodes.values()].map(({ depth }) => depth)) };
}

// What can be found after a step, by hash: { blocks, ids, kind } with "held" or "cached", and with
// "gone" the evicted ones above it, so that nothing behind them can be found any more.
export function treeAt(states, nodes, index) {
  const state = states[index];
  const found = new Map();
  for (const [block, hash] of state.hashes) {
    const known = found.get(hash) ?? { blocks: [], ids: [], kind: "cached", fresh: false };
    const fresh = state.step.blocks.published.some(([each]) => each === block);
    found.set(hash, {
      blocks: [...known.blocks, block],
      ids: [...known.ids, ...(state.holders.get(block) ?? [])],
      kind: kindOf(state, block) === "held" ? "held" : known.kind,
      fresh: known.fresh || fresh,
    });
  }
  for (const hash of [...found.keys()]) {
    for (let above = nodes.get(hash).parent; above !== null && !found.has(above); above = nodes.get(above).parent) {
      found.set(above, { blocks: [], ids: [], kind: "gone", fresh: false });
    }
  }
  return found;
}

// Whether everything above a node can still be found, so that a prompt gets there.
export function isReached(hash, tree, nodes) {
  for (let at = hash; at !== null; at = nodes.get(at).parent) if (tree.get(at)?.kind === "gone") return false;
  return true;
}

// The tree after a step in words.
export function treeWords(states, nodes, index) {
  const tree = treeAt(states, nodes, index);
  const there = [...tree].filter(([, node]) => node.kind !== "gone");
  if (!there.length) return "Nothing can be found yet.";
  const held = there.filter(([, node]) => node.kind === "held").length;
  const shared = there.filter(([, node]) => new Set(node.ids).size > 1).length;
  const lost = there.filter(([hash]) => !isReached(hash, tree, nodes)).length;
  const parts = [];
  if (held) parts.push(`${number(held)} in tables${shared ? ` (${number(shared)} in more than one)` : ""}`);
  if (there.length > held) parts.push(`${number(there.length - held)} free`);
  const behind = lost ? ` No prompt reaches ${number(lost)} of them: their parents were evicted.` : "";
  return `${count(there.length, "block")} can be found: ${listed(parts)}.${behind}`;
}

// What the step found and what it made findable.
export function treeStepWords(states, index) {
  const { step } = states[index];
  const hits = (step.prefix_hits ?? []).map((hit) =>
    `Request ${hit.request_id} follows the tree for ${count(hit.num_tokens / step.blocks.block_size, "block")}.`);
  const { published, evicted } = step.blocks;
  if (published.length) hits.push(`${count(published.length, "block")} can be found from now on.`);
  if (evicted.length) hits.push(`${count(evicted.length, "block")} can no longer be found.`);
  return hits.join(" ") || "Nothing new.";
}

// Where the picture opens: at the first step in which a request finds something, else at the fullest.
export function treeOpening(states) {
  const first = states.findIndex(({ step }) => (step.prefix_hits ?? []).length > 0);
  if (first >= 0) return first;
  const sizes = states.map(({ hashes }) => hashes.size);
  return Math.max(0, sizes.indexOf(Math.max(...sizes)));
}
