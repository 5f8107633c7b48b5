import assert from "node:assert/strict";
import test from "node:test";

import {
  batchCells, cellAfterKey, cellWords, hasPacked, packedCells, queryAfterKey, queryWordsOf, realCells,
  sightOfQuery, stretchOf, usefulWords, viewWords, viewsOf, widthOfBatch,
} from "../../widgets/static/batch_view_layout.js";

const rows = [{ id: 0, kind: "decode", label: "A" }, { id: 1, kind: "prefill", label: "B" }];
const numNew = [1, 3];
const right = { tokens: [[0, 0, 7], [1, 2, 3]], positions: [[0, 0, 2], [0, 1, 2]], texts: null, packed: null };
const stairs = { cu_seqlens_q: [0, 1, 4], cu_seqlens_k: [0, 3, 6], mask: [
  [true, true, true, false, false, false],
  [false, false, false, true, false, false],
  [false, false, false, true, true, false],
  [false, false, false, true, true, true],
] };
const cells = batchCells(right, numNew);

test("the last new cells of a row are real and the others padding", () => {
  assert.deepEqual(cells.map((row) => row.map((cell) => cell.real)), [[false, false, true], [true, true, true]]);
  assert.deepEqual(realCells(cells).map((cell) => cell.token), [7, 1, 2, 3]);
  assert.equal(usefulWords(cells, false), "4 useful of 6 computed");
  assert.equal(usefulWords(cells, true), "4 useful of 4 computed");
});

test("a cell says whose it is, what it holds and where", () => {
  assert.equal(cellWords(rows, cells[0][2], { row: 0, column: 2 }), "A (decode), row 0, column 2: token 7 at position 2.");
  assert.equal(cellWords(rows, cells[0][0], { row: 0, column: 0 }),
    "A (decode), row 0, column 0: padding, computed and thrown away.");
  const named = batchCells({ ...right, texts: [["", "", "\n"], ["a", "b", "c"]] }, numNew);
  assert.equal(cellWords(rows, named[0][2], { row: 0, column: 2 }),
    'A (decode), row 0, column 2: token "\\n" (id 7) at position 2.');
});

test("a right-padded row is drawn as it is and marked where it differs", () => {
  const wrong = { ...right, tokens: [[7, 0, 0], [1, 2, 3]], positions: [[3, 0, 0], [0, 1, 2]] };
  const drawn = batchCells(wrong, numNew, right);
  assert.deepEqual(drawn.map((row) => row.map((cell) => cell.differs)), [[true, false, true], [false, false, false]]);
  assert.deepEqual(drawn[0].map((cell) => cell.stray), [true, false, false]);
  assert.equal(cellWords(rows, drawn[0][0], { row: 0, column: 0 }),
    "A (decode), row 0, column 0: padding, and yet it holds token 7 at position 3. The reference holds token 0 at position 0.");
  assert.equal(cellWords(rows, drawn[0][2], { row: 0, column: 2 }),
    "A (decode), row 0, column 2: token 0 at position 0. The reference holds token 7 at position 2.");
});

test("rows of unequal length are drawn and called no tensor", () => {
  const ragged = { ...right, tokens: [[7], [1, 2, 3]], positions: [[2], [0, 1, 2]] };
  const drawn = batchCells(ragged, numNew, right);
  assert.equal(widthOfBatch(ragged), 3);
  assert.deepEqual(drawn[0].map((cell) => cell?.real ?? null), [true, null, null]);
  assert.equal(usefulWords(drawn, false), "no tensor: rows of unequal length");
  assert.match(viewWords("batch", rows, drawn, null), /^The rows have 1 and 3 cells: /);
  assert.match(cellWords(rows, null, { row: 0, column: 1 }), /no cell; this row ends before\.$/);
});

test("a token without a position and a cell that the reference lacks are said", () => {
  const odd = batchCells({ ...right, positions: [[0, 0], [0, 1, 2]] }, numNew, { ...right, tokens: [[0, 0], [1, 2, 3]], positions: [[0, 0], [0, 1, 2]] });
  assert.match(cellWords(rows, odd[0][2], { row: 0, column: 2 }),
    /token 7 without a position\. The reference has no such cell\.$/);
});

test("arrows move between cells and stop at the edges", () => {
  assert.deepEqual(cellAfterKey("ArrowRight", { row: 0, column: 2 }, 2, 3), { row: 0, column: 2 });
  assert.deepEqual(cellAfterKey("ArrowDown", { row: 0, column: 2 }, 2, 3), { row: 1, column: 2 });
  assert.deepEqual(cellAfterKey("ArrowUp", { row: 0, column: 2 }, 2, 3), { row: 0, column: 2 });
  assert.deepEqual(cellAfterKey("Home", { row: 1, column: 2 }, 2, 3), { row: 1, column: 0 });
  assert.equal(cellAfterKey("a", { row: 0, column: 0 }, 2, 3), null);
  assert.deepEqual(["ArrowLeft", "ArrowDown", "End", "Tab"].map((key) => queryAfterKey(key, 0, 4)), [0, 1, 3, null]);
});

test("a stretch is found by cumulative lengths, wrong ones too", () => {
  assert.deepEqual([-1, 0, 2, 3, 6].map((index) => stretchOf([0, 3, 6], index)), [null, 0, 0, 1, null]);
  assert.equal(stretchOf([], 0), null);
  assert.equal(stretchOf([0, 0, 2], 1), 1);
});

test("a block is bottom-right causal and closed to others", () => {
  assert.equal(hasPacked(stairs, null, (cell) => cell.wrong), false);
  assert.deepEqual(packedCells(stairs, 2).map((cell) => cell.own), [false, false, false, false, true, false]);
  assert.equal(sightOfQuery(rows, stairs, 3), "It sees its own keys 3 to 5.");
});

test("leaks, a look into the future and an empty row are said", () => {
  const mask = stairs.mask.map((row) => [...row]);
  mask[1] = [true, true, false, true, true, false];
  mask[2].fill(false);
  const leaky = { ...stairs, mask };
  assert.equal(sightOfQuery(rows, leaky, 1, stairs),
    "It sees its own keys 3 and 4 and keys 0 and 1 of another request, A. Key 4 lies in its future. " +
    "The reference differs at keys 0, 1 and 4.");
  assert.equal(sightOfQuery(rows, leaky, 2), "It sees no key at all: softmax makes this row NaN.");
  assert.equal(hasPacked(leaky, stairs, (cell) => cell.differs), true);
});

test("keys beyond cu_seqlens_k belong to no request", () => {
  assert.match(sightOfQuery(rows, { ...stairs, cu_seqlens_k: [0, 3, 4] }, 3), /and keys 4 and 5 of no request\.$/);
});

test("a query of the strip says its token, and in the mask what it sees", () => {
  const query = { rows, cell: cells[1][0], query: 1, packed: stairs, reference: null };
  assert.equal(queryWordsOf({ ...query, sees: false }), "B (prefill), query 1: token 1 at position 0.");
  assert.equal(queryWordsOf({ ...query, sees: true }), "B (prefill), query 1: token 1 at position 0. It sees its own key 3.");
  const wrong = { ...cells[1][0], position: 4, differs: true, wanted: cells[1][0] };
  assert.equal(queryWordsOf({ ...query, cell: wrong, sees: false }),
    "B (prefill), query 1: token 1 at position 4. The reference holds token 1 at position 0.");
  assert.match(queryWordsOf({ ...query, query: 9, sees: true }), /The mask has no such row\.$/);
});

test("the views and their words follow what there is", () => {
  assert.deepEqual([viewsOf(null), viewsOf(stairs)], [["batch"], ["batch", "strip", "mask"]]);
  assert.equal(viewWords("batch", rows, cells, stairs),
    "The padded batch: 2 rows of 3 cells, 4 of them real tokens. The other 2 are padding, 33 percent.");
  assert.match(viewWords("strip", rows, cells, stairs), /the same 4 tokens in one row/);
  assert.match(viewWords("mask", rows, cells, stairs), /4 queries by 6 keys/);
});
