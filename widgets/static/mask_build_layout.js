// What the cells of a fused mask are, and its words: pure functions of the step records.

import { capital, count, listed, ranges } from "./words.js";

// ---- real and padding -----------------------------------------------------------------------

function columnsOf(mask) {
  return mask.mask[0].length;
}

// Whether the matrix has one row per new column, so that its row t is the query of new column t.
function hasQueries(mask, numPast) {
  return mask.mask.length === columnsOf(mask) - numPast;
}

// Whether a column holds a real key; every column does where nothing is said about padding.
export function isRealKey(mask, numPast, key) {
  if (mask.context_len === null) return true;
  const end = key < numPast ? numPast : columnsOf(mask);
  return key >= end - (key < numPast ? mask.context_len : mask.num_scheduled_tokens);
}

export function isRealQuery(mask, numPast, row) {
  return !hasQueries(mask, numPast) || isRealKey(mask, numPast, numPast + row);
}

// The position of a real key in its request's text, or null.
export function positionOf(mask, numPast, key) {
  if (mask.context_len === null || !isRealKey(mask, numPast, key)) return null;
  const first = key < numPast ? numPast - mask.context_len : columnsOf(mask) - mask.num_scheduled_tokens - mask.context_len;
  return key - first;
}

// What stands over a column: its label, its position, "·" for padding, or its place in its part.
export function columnLabel(mask, numPast, key) {
  if (mask.key_labels) return mask.key_labels[key];
  if (mask.context_len === null) return String(key < numPast ? key : key - numPast);
  return isRealKey(mask, numPast, key) ? String(positionOf(mask, numPast, key)) : "·";
}

// What stands before a row.
export function queryLabel(mask, numPast, row) {
  if (!hasQueries(mask, numPast)) return "all";
  const position = positionOf(mask, numPast, numPast + row);
  if (position !== null) return String(position);
  return mask.context_len === null ? String(row) : "·";
}

// ---- cells ----------------------------------------------------------------------------------

// The same mask as it was in the last earlier step of the same shape, or null.
function before(steps, step, index) {
  const { mask } = steps[step].masks[index];
  for (let at = step - 1; at >= 0; at -= 1) {
    const { masks } = steps[at];
    if (masks.length !== 1 && masks.length !== steps[step].masks.length) continue;
    const earlier = masks[Math.min(index, masks.length - 1)].mask;
    if (earlier.length === mask.length && earlier[0].length === mask[0].length) return earlier;
  }
  return null;
}

// For every cell of one row: visible, padding, own, wrong (a real query sees padding or its future,
// said only where the padding is known), changed (hidden since `earlier`), differs from `other`.
export function cellsOfQuery(mask, numPast, row, other = null, earlier = null) {
  const own = hasQueries(mask, numPast) ? numPast + row : null;
  const judged = own !== null && mask.context_len !== null && isRealQuery(mask, numPast, row);
  return mask.mask[row].map((visible, key) => {
    const padding = !isRealKey(mask, numPast, key);
    return {
      visible, padding, own: key === own,
      wrong: judged && visible && (padding || key > own),
      changed: !visible && Boolean(earlier?.[row][key]),
      differs: other !== null && other[row]?.[key] !== visible,
    };
  });
}

export function buildCells(steps, step, index, row) {
  const { context_columns: numPast, masks, compare } = steps[step];
  return cellsOfQuery(masks[index], numPast, row, compare?.[index] ?? null, before(steps, step, index));
}

// What a mask is compared with, as a mask: it has the same padding where it has the same shape.
export function comparedMask(step, index) {
  const mine = step.masks[index];
  const mask = step.compare[index];
  if (mask.length === mine.mask.length && mask[0].length === mine.mask[0].length) return { ...mine, mask };
  return { label: mine.label, mask, key_labels: null, context_len: null, num_scheduled_tokens: null };
}

// All cells of one step that `test` holds for.
export function countCells(steps, step, test) {
  return steps[step].masks.reduce((sum, mask, index) =>
    sum + mask.mask.reduce((rows, _, row) =>
      rows + buildCells(steps, step, index, row).filter(test).length, 0), 0);
}

const LEAST_BESIDE = 13;

// The pixels of one matrix: two share a line where their cells stay large enough.
export function matrixRoom(step, room, fixed, gap) {
  const widths = [...step.masks.map(({ mask }) => mask), ...(step.compare ?? [])].map((rows) => rows[0].length);
  const half = Math.floor((room - gap) / 2);
  const pairs = step.compare !== null || step.masks.length > 1;
  return pairs && half >= fixed + LEAST_BESIDE * Math.max(...widths) ? half : room;
}

// The rows that can be chosen in a step, from the first mask's first to the last one's last.
export function queriesOf(step) {
  return step.masks.flatMap((mask, index) => mask.mask.map((_, row) => ({ index, row })));
}

// ---- words ----------------------------------------------------------------------------------

// [0, 1, 5] with 4 past columns -> "past columns 0 and 1 and new column 1"
export function columnsWords(keys, numPast) {
  const part = (name, found) => {
    if (!found.length) return [];
    return [`${name} ${found.length === 1 ? "column" : "columns"} ${ranges(found)}`];
  };
  const past = keys.filter((key) => key < numPast);
  const fresh = keys.filter((key) => key >= numPast).map((key) => key - numPast);
  return listed([...part("past", past), ...part("new", fresh)]);
}

function seenKeys(row) {
  return row.flatMap((visible, key) => (visible ? [key] : []));
}

// What a query with a known position sees: positions, and what it should not see.
function positionsWords(mask, numPast, row, keys) {
  const own = numPast + row;
  const real = keys.filter((key) => isRealKey(mask, numPast, key));
  const past = real.filter((key) => key < numPast).length;
  const positions = real.map((key) => positionOf(mask, numPast, key));
  const parts = [`${past} of ${mask.context_len} past`, `${real.length - past} of ${mask.num_scheduled_tokens} new`];
  const sees = real.length
    ? `It sees ${positions.length === 1 ? "position" : "positions"} ${ranges(positions)} (${parts.join(", ")})`
    : "It sees no real key";
  const padding = keys.filter((key) => !isRealKey(mask, numPast, key));
  const future = real.filter((key) => key > own).map((key) => positionOf(mask, numPast, key));
  const wrong = [];
  if (padding.length) wrong.push(`padding: ${columnsWords(padding, numPast)}`);
  if (future.length) wrong.push(`its own future: ${future.length === 1 ? "position" : "positions"} ${ranges(future)}`);
  return wrong.length ? `${sees}, and it should not see ${listed(wrong)}.` : `${sees}.`;
}

function sightWords(mask, numPast, row) {
  const keys = seenKeys(mask.mask[row]);
  if (!keys.length) return "It sees no key at all: softmax makes this row NaN.";
  if (mask.context_len !== null && hasQueries(mask, numPast) && isRealQuery(mask, numPast, row)) {
    return positionsWords(mask, numPast, row, keys);
  }
  if (hasQueries(mask, numPast)) return `It sees ${columnsWords(keys, numPast)}.`;
  const hidden = mask.mask[row].flatMap((visible, key) => (visible ? [] : [key]));
  return hidden.length ? `It hides ${columnsWords(hidden, numPast)}.` : "It hides nothing.";
}

export function queryName(mask, numPast, row) {
  if (!hasQueries(mask, numPast)) return `${mask.label}, laid over every query`;
  const position = positionOf(mask, numPast, numPast + row);
  if (position !== null) return `${mask.label}, query ${row} at position ${position}`;
  const padding = mask.context_len === null ? "" : ", a padding row whose output is thrown away";
  return `${mask.label}, query ${row}${padding}`;
}

function comparisonWords(mask, other, numPast, row, names) {
  if (!other[row]) return `${capital(names[1])} has no such row.`;
  const [mine, theirs] = [seenKeys(mask.mask[row]), seenKeys(other[row])];
  const more = mine.filter((key) => !theirs.includes(key));
  const less = theirs.filter((key) => !mine.includes(key));
  const parts = [];
  if (more.length) parts.push(`also shows ${columnsWords(more, numPast)}`);
  if (less.length) parts.push(`also hides ${columnsWords(less, numPast)}`);
  if (!parts.length) return `${capital(names[0])} and ${names[1]} agree in this row.`;
  return `Against ${names[1]}, ${names[0]} ${listed(parts)}.`;
}

// One query of one step in words.
export function queryWords(step, { index, row }, names) {
  const mask = step.masks[index];
  const sentences = [`${capital(queryName(mask, step.context_columns, row))}.`, sightWords(mask, step.context_columns, row)];
  if (step.compare) sentences.push(comparisonWords(mask, step.compare[index], step.context_columns, row, names));
  return sentences.join(" ");
}

// A step in words: its name, what its author says, and how many cells it hid.
export function buildWords(steps, index) {
  const { name, words } = steps[index];
  const hidden = countCells(steps, index, (cell) => cell.changed);
  const differing = countCells(steps, index, (cell) => cell.differs);
  const sentences = [`${name}.`, words];
  if (hidden) sentences.push(`${count(hidden, "cell")} ${hidden === 1 ? "is" : "are"} hidden by this step.`);
  if (steps[index].compare) sentences.push(differing ? `${count(differing, "cell")} ${differing === 1 ? "differs" : "differ"}.` : "No cell differs.");
  return sentences.filter(Boolean).join(" ");
}

export function matrixWords(step, index) {
  const mask = step.masks[index];
  return `${mask.label}: ${count(mask.mask.length, "row")} by ${count(columnsOf(mask), "column")}, ${step.context_columns} of them past`;
}
