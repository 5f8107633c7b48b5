// What lies in each block after every step of a run, and by what it is found: pure functions of the
// trace. A step says what changed; what it does not say stays as it was.

import { tokensOf } from "./work.js";

const FACES = { "\n": "⏎", " ": "␣" };

// Token ids as characters that can be seen and counted.
export function faceOf(tokens, alphabet) {
  return tokens.map((token) => FACES[alphabet[token]] ?? alphabet[token] ?? "?").join("");
}

// Four characters that stand for a hash: its own first ones, or, where it is no row of hexadecimal
// digits, those of a digest of it, so that long names that begin alike are told apart.
export function shortHash(hash) {
  if (/^[0-9a-f]{8,}$/.test(hash)) return hash.slice(0, 4);
  let digest = 0x811c9dc5; // FNV-1a, of 32 bits
  for (const mark of hash) digest = Math.imul(digest ^ mark.codePointAt(0), 0x01000193) >>> 0;
  return (digest >>> 16).toString(16).padStart(4, "0");
}

// Which tables name each block: Map(block -> request ids), in the order of the tables.
function holdersOf(tables) {
  const holders = new Map();
  for (const [id, table] of tables) {
    for (const block of table) holders.set(block, [...(holders.get(block) ?? []), id]);
  }
  return holders;
}

// Where a block stands in a table of this step, or of the one before for a request that has left.
function placeOf(block, tables, before) {
  for (const [id, table] of [...tables, ...before]) {
    const depth = table.indexOf(block);
    if (depth >= 0) return { id, table, depth };
  }
  return null;
}

// One state per step: { step, tables, holders, texts, hashes, found, nodes }, of which `texts` are the tokens in
// each block, `hashes` by what blocks are found, `found` how many tokens each running request found.
// `nodes` is one Map for the whole run: hash -> { parent, tokens, depth, owner }, parents before
// children; the owner is the request that computed it first.
export function poolStates(trace) {
  const known = new Map(trace.requests.map((each) => [each.id, [...each.prompt_tokens]]));
  const nodes = new Map();
  let [texts, hashes, found, before] = [new Map(), new Map(), new Map(), []];
  const states = trace.steps.map((step) => {
    const { block_size: size, tables, evicted, published } = step.blocks;
    for (const work of step.work) known.get(work.request_id).push(...tokensOf(work));
    [texts, hashes, found] = [new Map(texts), new Map(hashes), new Map(found)];
    evicted.forEach((block) => hashes.delete(block));
    step.admitted.forEach((id) => found.delete(id));
    for (const hit of step.prefix_hits ?? []) found.set(hit.request_id, hit.num_tokens);
    const lengths = new Map(step.kv.map((each) => [each.request_id, each.kv_tokens]));
    for (const [id, table] of tables) {
      table.forEach((block, depth) => {
        const held = Math.min((depth + 1) * size, lengths.get(id) ?? 0);
        texts.set(block, known.get(id).slice(depth * size, held));
      });
    }
    for (const [block, hash] of published) {
      const place = placeOf(block, tables, before);
      const tokens = place ? known.get(place.id).slice(place.depth * size, (place.depth + 1) * size) : [];
      const parent = place && place.depth ? hashes.get(place.table[place.depth - 1]) ?? null : null;
      hashes.set(block, hash);
      texts.set(block, tokens);
      if (!nodes.has(hash)) {
        const above = nodes.has(parent) ? parent : null;
        const depth = above === null ? 0 : nodes.get(above).depth + 1;
        nodes.set(hash, { parent: above, tokens, depth, owner: place?.id ?? null });
      }
    }
    before = tables;
    return { step, tables, holders: holdersOf(tables), texts, hashes, found, nodes };
  });
  return { states, nodes };
}

// "empty", "held", or "cached": free, and found by its hash.
export function kindOf(state, block) {
  if (state.holders.has(block)) return "held";
  return state.step.blocks.idle.includes(block) ? "cached" : "empty";
}

// Blocks that another block, or another count of tables, stands in since the step before.
export function changedIn(states, index) {
  const { allocated, freed, evicted, published } = states[index].step.blocks;
  const numbers = [...allocated, ...freed, ...evicted, ...published.map(([block]) => block)];
  const before = index ? states[index - 1].holders : new Map();
  for (const [block, ids] of states[index].holders) {
    if ((before.get(block) ?? []).length !== ids.length) numbers.push(block);
  }
  return new Set(numbers);
}

// What the host tier holds: { hash, tokens, owner } in the order in which they were first computed.
export function copiesOf({ step, nodes }) {
  const held = new Set(step.host.hashes);
  return [...nodes].filter(([hash]) => held.has(hash)).map(([hash, { tokens, owner }]) => ({ hash, tokens, owner }));
}

// The hashes that the step copied to the host tier or from it.
export function copiedIn({ step: { host } }) {
  return new Set(host ? [...host.stored, ...host.loaded.map(([, , hash]) => hash)] : []);
}

// The first step at which two runs did another thing to their pools: its index, or null. Hashes are
// names: runs that name alike what is alike are alike.
export function firstPoolDifference(mine, theirs) {
  const said = ({ blocks, host }) => JSON.stringify({
    ...blocks, published: blocks.published.map(([block]) => block),
    host: host && [host.hashes.length, host.stored.length, host.loaded.map(([id, block]) => [id, block])],
  });
  const length = Math.max(mine.steps.length, theirs.steps.length);
  for (let index = 0; index < length; index += 1) {
    const [one, other] = [mine.steps[index], theirs.steps[index]];
    if (!one || !other || said(one) !== said(other)) return index;
  }
  return null;
}
