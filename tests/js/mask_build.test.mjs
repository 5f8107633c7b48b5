import assert from "node:assert/strict";
import test from "node:test";

import {
  buildCells, buildWords, cellsOfQuery, columnLabel, columnsWords, comparedMask, countCells, isRealKey,
  isRealQuery, matrixRoom, matrixWords, positionOf, queriesOf, queryLabel, queryName, queryWords,
} from "../../widgets/static/mask_build_layout.js";

const names = ["yours", "the reference"];
const bits = (...rows) => rows.map((row) => [...row].map((each) => each === "1"));
const mask = (label, rows, sizes = {}) =>
  ({ label, mask: bits(...rows), key_labels: null, context_len: null, num_scheduled_tokens: null, ...sizes });
const step = (name, numPast, masks, compare = null) => ({ name, words: "Words.", context_columns: numPast, masks, compare });

// Two rows: one token held of two, two new ones; two held, one new one.
const [a, b] = [{ context_len: 1, num_scheduled_tokens: 2 }, { context_len: 2, num_scheduled_tokens: 1 }];
const causal = ["1110", "1111"];
const steps = [
  step("All true", 2, [mask("every row", ["1111", "1111"])]),
  step("The triangle", 0, [mask("new", ["10", "11"])]),
  step("Pasted", 2, [mask("every row", causal)]),
  step("Expanded", 2, [mask("A", causal, a), mask("B", causal, b)]),
  step("The padding", 2, [mask("A", ["0111"], a), mask("B", ["1101"], b)]),
  step("AND", 2, [mask("A", ["0110", "0111"], a), mask("B", ["1100", "1101"], b)]),
];
const last = steps[5];

test("padding lies in front of the past and again in front of the new", () => {
  const [first, second] = last.masks;
  assert.deepEqual([0, 1, 2, 3].map((key) => isRealKey(first, 2, key)), [false, true, true, true]);
  assert.deepEqual([0, 1, 2, 3].map((key) => isRealKey(second, 2, key)), [true, true, false, true]);
  assert.deepEqual([0, 1, 2, 3].map((key) => positionOf(first, 2, key)), [null, 0, 1, 2]);
  assert.deepEqual([0, 1].map((row) => isRealQuery(second, 2, row)), [false, true]);
  assert.deepEqual([0, 1, 2, 3].map((key) => columnLabel(second, 2, key)), ["0", "1", "·", "2"]);
  assert.deepEqual([0, 1].map((row) => queryLabel(second, 2, row)), ["·", "2"]);
});

test("without counts every column is real and named by its place in its part", () => {
  const [plain] = steps[2].masks;
  assert.deepEqual([0, 1, 2, 3].map((key) => columnLabel(plain, 2, key)), ["0", "1", "0", "1"]);
  assert.equal(columnLabel({ ...plain, key_labels: ["w", "x", "y", "z"] }, 2, 3), "z");
  assert.equal(queryLabel(steps[4].masks[0], 2, 0), "all");
});

test("a step shows what it hid, against the last step of its shape", () => {
  const hidden = (at) => countCells(steps, at, (cell) => cell.changed);
  assert.deepEqual([0, 1, 2, 3, 4, 5].map(hidden), [0, 0, 1, 0, 0, 4]);
  assert.equal(buildWords(steps, 2), "Pasted. Words. 1 cell is hidden by this step.");
  assert.equal(buildWords(steps, 5), "AND. Words. 4 cells are hidden by this step.");
});

test("seen padding is wrong for a real query alone, and only where padding is known", () => {
  const wrong = (at) => countCells(steps, at, (cell) => cell.wrong);
  assert.deepEqual([2, 3, 4, 5].map(wrong), [0, 3, 0, 0]);
  assert.deepEqual(buildCells(steps, 3, 1, 1).map((cell) => cell.wrong), [false, false, true, false]);
  assert.deepEqual(cellsOfQuery(mask("F", ["0111", "0111"], a), 2, 0).map((cell) => cell.wrong), [false, false, false, true]);
});

test("a query is said by its position and what it sees", () => {
  assert.equal(queryWords(last, { index: 0, row: 1 }, names),
    "A, query 1 at position 2. It sees positions 0 to 2 (1 of 1 past, 2 of 2 new).");
  assert.equal(queryWords(steps[3], { index: 0, row: 0 }, names),
    "A, query 0 at position 1. It sees positions 0 and 1 (1 of 1 past, 1 of 2 new), and it should " +
    "not see padding: past column 0.");
  assert.equal(queryWords(last, { index: 1, row: 0 }, names),
    "B, query 0, a padding row whose output is thrown away. It sees past columns 0 and 1.");
  assert.equal(queryWords(steps[4], { index: 1, row: 0 }, names), "B, laid over every query. It hides new column 0.");
  assert.equal(queryWords(steps[0], { index: 0, row: 0 }, names),
    "Every row, query 0. It sees past columns 0 and 1 and new columns 0 and 1.");
});

test("a row that sees nothing and one that sees its future are said", () => {
  const odd = step("odd", 2, [mask("A", ["0000", "0111"], a), mask("C", ["1111", "1111"], { context_len: 2, num_scheduled_tokens: 2 })]);
  assert.match(queryWords(odd, { index: 0, row: 0 }, names), /It sees no key at all: softmax makes this row NaN\.$/);
  assert.match(queryWords(odd, { index: 1, row: 0 }, names), /should not see its own future: position 3\.$/);
});

test("two masks are compared cell by cell and in words", () => {
  const both = step("Beside", 2, [steps[3].masks[1]], [last.masks[1].mask]);
  assert.equal(countCells([both], 0, (cell) => cell.differs), 2);
  assert.equal(buildWords([both], 0), "Beside. Words. 2 cells differ.");
  assert.match(queryWords(both, { index: 0, row: 1 }, names), /Against the reference, yours also shows new column 0\.$/);
  assert.match(queryWords({ ...both, compare: [both.masks[0].mask] }, { index: 0, row: 1 }, names),
    /Yours and the reference agree in this row\.$/);
  assert.equal(buildWords([{ ...both, compare: [both.masks[0].mask] }], 0), "Beside. Words. No cell differs.");
  assert.equal(comparedMask(both, 0).num_scheduled_tokens, 1);
});

test("a mask of another shape is compared without its padding", () => {
  const both = step("Short", 2, [last.masks[0]], [bits("011")]);
  assert.equal(comparedMask(both, 0).context_len, null);
  assert.equal(countCells([both], 0, (cell) => cell.differs), 5);
  assert.match(queryWords(both, { index: 0, row: 1 }, names), /The reference has no such row\.$/);
});

test("queries of all masks are one list, and all decodes have a row each", () => {
  assert.deepEqual(queriesOf(last).map(({ index, row }) => [index, row]), [[0, 0], [0, 1], [1, 0], [1, 1]]);
  const decode = mask("A", ["0111"], { context_len: 2, num_scheduled_tokens: 1 });
  assert.equal(queryName(decode, 3, 0), "A, query 0 at position 2");
  assert.equal(matrixWords(last, 0), "A: 2 rows by 4 columns, 2 of them past");
  assert.equal(columnsWords([0, 1, 4], 4), "past columns 0 and 1 and new column 0");
});

test("two matrices share a line where their cells stay large enough", () => {
  assert.deepEqual([400, 150].map((room) => matrixRoom(last, room, 40, 20)), [190, 150]);
  assert.equal(matrixRoom(steps[0], 400, 40, 20), 400);
});
