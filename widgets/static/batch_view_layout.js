// The cells of a padded batch, the packed strip, its mask, and their words: pure functions.

import { capital, count, listed, number, ranges } from "./words.js";

// ---- the padded batch -----------------------------------------------------------------------

export function widthOfBatch({ tokens, positions }) {
  return Math.max(...tokens.map((row) => row.length), ...positions.map((row) => row.length));
}

function cellAt(batch, row, column) {
  const token = batch.tokens[row]?.[column] ?? null;
  const position = batch.positions[row]?.[column] ?? null;
  if (token === null && position === null) return null;
  return { token, position, text: batch.texts?.[row]?.[column] || String(token ?? "") };
}

// Every cell, row by row: { row, column, real, token, position, text, stray, differs, wanted }, or
// null where a row is shorter than the others. A stray is a padding cell that holds something;
// `wanted` is what the reference holds there.
export function batchCells(batch, numNew, reference = null) {
  const width = Math.max(widthOfBatch(batch), reference ? widthOfBatch(reference) : 0);
  return batch.tokens.map((tokens, row) => {
    const length = Math.max(tokens.length, batch.positions[row].length);
    return Array.from({ length: width }, (_, column) => {
      const held = cellAt(batch, row, column);
      const wanted = reference ? cellAt(reference, row, column) : null;
      if (held === null) return null;
      const real = column >= length - numNew[row];
      const differs = reference !== null && (wanted?.token !== held.token || wanted?.position !== held.position);
      return { row, column, real, ...held, stray: !real && Boolean(held.token || held.position), differs, wanted };
    });
  });
}

export function realCells(cells) {
  return cells.flat().filter((cell) => cell?.real);
}

// How many cells each row has.
export function lengthsOf(cells) {
  return cells.map((row) => row.filter(Boolean).length);
}

function isRagged(cells) {
  return new Set(lengthsOf(cells)).size > 1;
}

// "11 useful of 32 computed"
export function usefulWords(cells, packed) {
  const useful = realCells(cells).length;
  if (!packed && isRagged(cells)) return "no tensor: rows of unequal length";
  const computed = packed ? useful : cells.flat().filter(Boolean).length;
  return `${number(useful)} useful of ${number(computed)} computed`;
}

// The cell that a key leads to from { row, column } in the grid, or null when it does not move.
export function cellAfterKey(key, { row, column }, rows, columns) {
  const last = columns - 1;
  if (key === "ArrowRight") return { row, column: Math.min(column + 1, last) };
  if (key === "ArrowLeft") return { row, column: Math.max(column - 1, 0) };
  if (key === "ArrowDown") return { row: Math.min(row + 1, rows - 1), column };
  if (key === "ArrowUp") return { row: Math.max(row - 1, 0), column };
  if (key === "Home") return { row, column: 0 };
  return key === "End" ? { row, column: last } : null;
}

// The query that a key leads to in the strip, where rows are queries too; or null.
export function queryAfterKey(key, query, queries) {
  if (key === "ArrowRight" || key === "ArrowDown") return Math.min(query + 1, queries - 1);
  if (key === "ArrowLeft" || key === "ArrowUp") return Math.max(query - 1, 0);
  if (key === "Home") return 0;
  return key === "End" ? queries - 1 : null;
}

// ---- the packed strip -----------------------------------------------------------------------

// Which stretch of [0, 3, 5] an index lies in: 0, 1, or null when in none.
export function stretchOf(boundaries, index) {
  const found = boundaries.findIndex((from, at) => from <= index && index < boundaries[at + 1]);
  return found < 0 ? null : found;
}

// For every key of one query: visible, leak (another request's), future (bottom-right causal
// within its own stretch), own, wrong, differs from the reference's mask.
export function packedCells({ cu_seqlens_q: cuQ, cu_seqlens_k: cuK, mask }, query, reference = null) {
  const mine = stretchOf(cuQ, query);
  const own = mine === null || cuK[mine + 1] === undefined ? null : cuK[mine + 1] - (cuQ[mine + 1] - query);
  return mask[query].map((visible, key) => {
    const leak = mine === null || stretchOf(cuK, key) !== mine;
    const future = !leak && key > own;
    return {
      visible, leak, future, own: !leak && key === own, wrong: visible && (leak || future),
      differs: reference !== null && reference.mask[query]?.[key] !== visible,
    };
  });
}

export function hasPacked(packed, reference, test) {
  return packed.mask.some((_, query) => packedCells(packed, query, reference).some(test));
}

// What kind of view each step of the player is.
export function viewsOf(packed) {
  return packed ? ["batch", "strip", "mask"] : ["batch"];
}

// ---- words ----------------------------------------------------------------------------------

export function tokenWords({ token, text }) {
  if (token === null) return "no token";
  if (text === String(token)) return `token ${token}`;
  return `token ${JSON.stringify(text)} (id ${token})`;
}

function heldWords(cell) {
  return `${tokenWords(cell)} ${cell.position === null ? "without a position" : `at position ${cell.position}`}`;
}

function wantedWords(cell) {
  if (!cell.differs) return "";
  return ` The reference ${cell.wanted ? `holds ${heldWords(cell.wanted)}` : "has no such cell"}.`;
}

function rowName({ label, kind }) {
  return `${label} (${kind})`;
}

// One cell of the padded batch in words.
export function cellWords(rows, cell, { row, column }) {
  const place = `${rowName(rows[row])}, row ${row}, column ${column}`;
  if (!cell) return `${place}: no cell; this row ends before.`;
  if (cell.real) return `${place}: ${heldWords(cell)}.${wantedWords(cell)}`;
  const holds = cell.stray ? `, and yet it holds ${heldWords(cell)}` : ", computed and thrown away";
  return `${place}: padding${holds}.${wantedWords(cell)}`;
}

function keysOf(keys) {
  return `${keys.length === 1 ? "key" : "keys"} ${ranges(keys)}`;
}

// What one query of the staircase mask sees, by whose keys they are.
export function sightOfQuery(rows, packed, query, reference = null) {
  const cells = packedCells(packed, query, reference);
  const seen = cells.flatMap((cell, key) => (cell.visible ? [key] : []));
  if (!seen.length) return "It sees no key at all: softmax makes this row NaN.";
  const own = seen.filter((key) => !cells[key].leak);
  const parts = own.length ? [`its own ${keysOf(own)}`] : [];
  for (const stretch of [...rows.keys(), null]) {
    const theirs = seen.filter((key) => cells[key].leak && stretchOf(packed.cu_seqlens_k, key) === stretch);
    if (theirs.length) parts.push(`${keysOf(theirs)} of ${stretch === null ? "no request" : `another request, ${rows[stretch].label}`}`);
  }
  const sentences = [`It sees ${listed(parts)}.`];
  const future = seen.filter((key) => cells[key].future);
  if (future.length) sentences.push(`${capital(keysOf(future))} ${future.length === 1 ? "lies" : "lie"} in its future.`);
  const differing = cells.flatMap((cell, key) => (cell.differs ? [key] : []));
  if (differing.length) sentences.push(`The reference differs at ${keysOf(differing)}.`);
  return sentences.join(" ");
}

// One token of the strip in words, and in the mask what it sees.
export function queryWordsOf({ rows, cell, query, packed, reference, sees }) {
  const whose = cell ? `${rowName(rows[cell.row])}, query ${query}: ${heldWords(cell)}` : `Query ${query}: no token of the batch`;
  const sentences = [`${whose}.${cell ? wantedWords(cell) : ""}`];
  if (sees) sentences.push(packed.mask[query] ? sightOfQuery(rows, packed, query, reference) : "The mask has no such row.");
  return sentences.join(" ");
}

// One step of the player in words; without the counts of real tokens and padding if `uncounted`.
export function viewWords(view, rows, cells, packed, uncounted = false) {
  const useful = realCells(cells).length;
  const computed = cells.flat().filter(Boolean).length;
  if (view === "batch") {
    if (isRagged(cells)) return `The rows have ${listed(lengthsOf(cells))} cells: rows of unequal length are no tensor.`;
    const shape = `The padded batch: ${count(rows.length, "row")} of ${count(cells[0].length, "cell")}`;
    if (uncounted) return `${shape}. Every cell is computed, whether it holds a token or not.`;
    const waste = computed - useful;
    const padding = waste ? `The other ${number(waste)} are padding, ${Math.round((waste / computed) * 100)} percent.` : "There is no padding.";
    return `${shape}, ${number(useful)} of them real tokens. ${padding}`;
  }
  if (view === "strip") {
    return `The packed strip: the same ${count(useful, "token")} in one row, and none of the ${number(computed - useful)} cells of padding. cu_seqlens_q says where each request's queries begin.`;
  }
  return `The staircase mask: ${count(packed.mask.length, "query").replace("querys", "queries")} by ${count(packed.mask[0].length, "key")}. cu_seqlens_k says where each request's keys begin; outside its own block, a query sees nothing.`;
}
