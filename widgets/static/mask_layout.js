// Sizes and words of attention masks: pure functions of the mask records.

import { count, listed, ranges } from "./words.js";

// The side of a cell when a mask of `keys` columns has `available` pixels.
export function cellSize(keys, available) {
  return Math.max(13, Math.min(30, Math.floor(available / keys)));
}

export function numRows(masks) {
  return Math.max(...masks.map((mask) => mask.mask.length));
}

// For every cell: visible, future (behind the query's own position), own, differs from `other`.
export function cellsOfRow(mask, row, other = null) {
  const keys = mask.mask[row] ?? [];
  return keys.map((visible, key) => ({
    visible,
    future: key > mask.context_columns + row,
    own: key === mask.context_columns + row,
    differs: other !== null && other.mask[row]?.[key] !== visible,
  }));
}

export function differingCells(mask, other) {
  const rows = mask.mask.map((_, row) => cellsOfRow(mask, row, other));
  return rows.flat().filter((cell) => cell.differs).length;
}

function visibleKeys(mask, row) {
  return (mask.mask[row] ?? []).flatMap((visible, key) => (visible ? [key] : []));
}

function keysWords(keys) {
  return `${keys.length === 1 ? "key" : "keys"} ${ranges(keys)}`;
}

// What one query row of one mask sees.
export function rowWords(mask, row) {
  if (!mask.mask[row]) return `${mask.name} has no row ${row}`;
  const keys = visibleKeys(mask, row);
  if (!keys.length) return `${mask.name} sees no key at all`;
  const past = keys.filter((key) => key < mask.context_columns).length;
  const fresh = keys.length - past;
  const parts = [];
  if (mask.context_columns) parts.push(`${past} of ${mask.context_columns} past`);
  parts.push(`${fresh} new`);
  const future = keys.filter((key) => key > mask.context_columns + row);
  const warning = future.length
    ? `, and ${keysWords(future)} ${future.length === 1 ? "lies" : "lie"} in its future` : "";
  return `${mask.name} sees ${keysWords(keys)} (${listed(parts)})${warning}`;
}

function differenceWords(mask, other, row) {
  const mine = visibleKeys(mask, row);
  const theirs = visibleKeys(other, row);
  const more = mine.filter((key) => !theirs.includes(key));
  const less = theirs.filter((key) => !mine.includes(key));
  if (!more.length && !less.length) return `They agree in this row.`;
  const parts = [];
  if (more.length) parts.push(`also sees ${keysWords(more)}`);
  if (less.length) parts.push(`misses ${keysWords(less)}`);
  return `Against ${other.name}, ${mask.name} ${parts.join(" and ")}.`;
}

// One query row in words, over all masks; the first is compared with the second.
export function stepWords(masks, row) {
  const position = masks[0].context_columns + row;
  const sentences = [`Query row ${row}, position ${position}: ${masks.map((mask) => rowWords(mask, row)).join("; ")}.`];
  if (masks.length > 1) sentences.push(differenceWords(masks[0], masks[1], row));
  return sentences.join(" ");
}

export function maskWords(mask) {
  return `Mask ${mask.name}: ${count(mask.mask.length, "query row")} by ${count(mask.mask[0].length, "key")}, ${mask.context_columns} of them past`;
}
