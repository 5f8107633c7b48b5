// What a step did to the pool of blocks, in words: pure functions of the states.

import { kindOf } from "./pool_states.js";
import { count, named, number, ranges } from "./words.js";

const sorted = (numbers) => [...numbers].sort((a, b) => a - b);

export function blocksNamed(numbers) {
  return `block${numbers.length === 1 ? "" : "s"} ${ranges(numbers)}`;
}

function tokenRange({ start, end }) {
  return end - start === 1 ? `token ${start}` : `tokens ${start} to ${end - 1}`;
}

function startWords(id, hits, size) {
  const hit = hits.find((each) => each.request_id === id);
  if (!hit) return `request ${id} starts and finds nothing`;
  return `request ${id} starts and finds its first ${count(hit.num_tokens, "token")} in ${count(hit.num_tokens / size, "block")}`;
}

// What was computed and for which requests.
function workWords(step) {
  const hits = step.prefix_hits ?? [];
  const parts = step.preempted.map((id) => `request ${id} is preempted`);
  parts.push(...step.admitted.map((id) => startWords(id, hits, step.blocks.block_size)));
  for (const work of step.work.filter(({ kind }) => kind === "prefill")) {
    parts.push(`request ${work.request_id} computes ${tokenRange(work)}`);
  }
  const decodes = step.work.filter(({ kind }) => kind === "decode").map((work) => work.request_id);
  if (decodes.length) parts.push(`${named("request", decodes)} ${decodes.length === 1 ? "decodes" : "decode"}`);
  if (step.finished.length) parts.push(`${named("request", step.finished)} ${step.finished.length === 1 ? "is" : "are"} done`);
  return parts;
}

// What became of blocks.
function blockWords({ allocated, freed, evicted, published }) {
  const parts = [];
  if (evicted.length) parts.push(`${blocksNamed(evicted)} ${evicted.length === 1 ? "is" : "are"} evicted`);
  if (allocated.length) parts.push(`${blocksNamed(allocated)} ${allocated.length === 1 ? "is" : "are"} allocated`);
  if (published.length) parts.push(`${blocksNamed(sorted(published.map(([block]) => block)))} can be found from now on`);
  if (freed.length) parts.push(`${blocksNamed(sorted(freed))} ${freed.length === 1 ? "is" : "are"} freed`);
  return parts;
}

const sentence = (parts) => (parts.length ? `${parts.join("; ")}.` : "");

// What was copied between the pool and the host tier.
function copyWords(host) {
  if (!host) return [];
  const said = ({ length }, what) => (length ? [`${count(length, "block")} ${length === 1 ? "is" : "are"} ${what}`] : []);
  return [
    ...said(host.loaded, "loaded from the host tier"), ...said(host.stored, "copied to the host tier"),
    ...said(host.dropped, "dropped there"),
  ];
}

// Which blocks are empty, cached, held, and held by several.
export function poolTotalsOf(state) {
  const numbers = Array.from({ length: state.step.blocks.num_blocks }, (_, block) => block);
  const kinds = numbers.map((block) => kindOf(state, block));
  const amount = (kind) => kinds.filter((each) => each === kind).length;
  const shared = [...state.holders.values()].filter((ids) => ids.length > 1).length;
  return { empty: amount("empty"), cached: amount("cached"), held: amount("held"), shared };
}

export function poolTotalsWords(state) {
  const { empty, cached, held, shared } = poolTotalsOf(state);
  const some = shared ? ` (${number(shared)} in more than one)` : "";
  const { host } = state.step;
  const copies = host ? ` Copies in the host tier: ${number(host.hashes.length)}.` : "";
  return `${count(held, "block")} in tables${some}; ${number(cached)} free but cached; ${number(empty)} empty.${copies}`;
}

// One step in words, without its name.
export function poolStepWords(states, index) {
  const { step } = states[index];
  const parts = [workWords(step), blockWords(step.blocks), copyWords(step.host)];
  const said = parts.map(sentence).filter(Boolean);
  return said.map((each) => each.charAt(0).toUpperCase() + each.slice(1)).join(" ") || "Nothing runs.";
}

// Where the picture opens: where something is first loaded, else where a block is first in two tables,
// else where the most are held.
export function poolStepOpening(states) {
  const loaded = states.findIndex(({ step }) => step.host?.loaded.length > 0);
  if (loaded >= 0) return loaded;
  const first = states.findIndex((state) => poolTotalsOf(state).shared > 0);
  if (first >= 0) return first;
  const held = states.map((state) => poolTotalsOf(state).held);
  return Math.max(0, held.indexOf(Math.max(...held)));
}

// The tables, for the drawing's label: "request 0: 0, 1, 3".
export function poolTablesWords(state) {
  const tables = state.tables.map(([id, table]) => `request ${id}: ${table.join(", ") || "no block yet"}`);
  return tables.length ? `Tables. ${tables.join("; ")}` : "No request has a table";
}
