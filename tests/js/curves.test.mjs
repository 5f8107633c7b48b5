import assert from "node:assert/strict";
import test from "node:test";

import { fateWords, lawOf, missing, ruleWords, staying, stretches } from "../../widgets/static/accept_bars_layout.js";
import {
  apart, axesOf, curveNames, doublings, endWords, figure, placeOn, roundTicks, shownSeries, tableRows,
} from "../../widgets/static/curves_layout.js";

const line = (name, points, when = {}) => ({ name, points, when, style: "line" });

// ---- curves ---------------------------------------------------------------------------------

test("a series is shown while every slider that it names stands at its value", () => {
  const series = [line("a", [], { d: 1 }), line("a", [], { d: 2 }), line("b", [])];
  assert.deepEqual(shownSeries(series, { d: 2 }), [series[1], series[2]]);
  assert.deepEqual(curveNames(series), ["a", "b"]);
});

test("ticks are round, reach past both ends and below zero", () => {
  assert.deepEqual(roundTicks(-0.02, 0.92, 5), [-0.2, 0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(roundTicks(0, 64, 7), [0, 10, 20, 30, 40, 50, 60, 70]);
  assert.deepEqual(roundTicks(3, 3, 5), [3, 4]);
  assert.deepEqual(doublings(1, 100), [1, 2, 4, 8, 16, 32, 64, 128]);
  assert.deepEqual(doublings(4, 4), [4, 8]);
});

test("zero belongs to an axis unless all values are far from it", () => {
  const wanted = { x: 4, y: 4 };
  assert.equal(axesOf([line("a", [[1, 5], [9, 20]])], false, wanted).y[0], 0);
  assert.equal(axesOf([line("a", [[1, 95], [9, 100]])], false, wanted).y[0], 94);
  assert.deepEqual(axesOf([line("a", [[2, 5], [9, 20]])], true, wanted).x, [2, 4, 8, 16]);
});

test("values lie between the first and the last tick, doublings apart alike", () => {
  assert.equal(placeOn([0, 5, 10], 100, 200)(2), 120);
  assert.equal(placeOn([1, 2, 4], 0, 10, true)(2), 5);
});

test("names keep apart and stay inside, in their order", () => {
  assert.deepEqual(apart([10, 12, 50], 10, 0, 100), [10, 20, 50]);
  assert.deepEqual(apart([98, 99], 10, 0, 100), [90, 100]);
});

test("numbers are short, and the words say where every curve ends", () => {
  assert.deepEqual([0, 1234.56, -0.02, 2500000].map(figure), ["0", "1,235", "−0.02", "2.5e+6"]);
  assert.equal(endWords([line("a", [[1, 5], [9, 20]]), line("b", [[9, 3]])], ["W", ""], ["time", "ms"]),
    "At the end: a 20 ms at 9 and b 3 ms at 9.");
  assert.equal(endWords([], ["W", ""], ["time", ""]), "Nothing is drawn for these values.");
});

test("the table has a row for every x and says nothing where a series has no point", () => {
  assert.deepEqual(tableRows([line("a", [[1, 5], [9, 20]]), line("b", [[9, 3], [9, 4]])]),
    [{ x: 1, cells: ["5", ""] }, { x: 9, cells: ["20", "3, 4"] }]);
});

// ---- drafts ---------------------------------------------------------------------------------

const [p, q] = [[0.125, 0.25, 0.625], [0.625, 0.125, 0.25]];
const view = { tokens: ["a", "b", "c"], p, q, name: "yours" };

test("what is missing has the shares in which it is missing", () => {
  assert.deepEqual(missing(p, q), [0, 0.25, 0.75]);
  assert.deepEqual(missing(p, p), [0, 0, 0]);
  assert.deepEqual([0, 1, 2].map((token) => staying(p, q, token)), [0.2, 1, 1]);
  assert.deepEqual(stretches([0, 0.25, 0.75]), [{ from: 0, to: 0.25, token: 1 }, { from: 0.25, to: 1, token: 2 }]);
});

test("the law counts every draft as often as q says", () => {
  const always = [0, 1].map((token) => [[[true, token]]]);
  assert.deepEqual(lawOf([0.75, 0.25], always), [0.75, 0.25]);
  const mixed = [[[[true, 0], [false, 1]], [[false, 1], [false, 1]]], [[[true, 1], [true, 1]], [[true, 1], [true, 1]]]];
  assert.deepEqual(lawOf([1, 0], mixed), [0.25, 0.75]);
});

test("an outcome is said, and so is what the rule would have done", () => {
  assert.equal(fateWords(view, 0, 0.5, 0.1, [false, 1]),
    "The draft is a. p / q is 0.2, so it stays with probability 0.2. At u = 0.5 yours turns it down; at v = 0.1 b stands there.");
  assert.match(fateWords(view, 0, 0.1, 0.1, [true, 0]), /At u = 0\.1 yours keeps it: a stands there\.$/);
  assert.equal(ruleWords(view, 0, 0.5, 0.1, [false, 1]), "");
  assert.equal(ruleWords(view, 0, 0.5, 0.1, [false, 0]), "By the rule b would stand there.");
  assert.equal(ruleWords(view, 0, 0.5, 0.1, [true, 0]), "The rule would turn it down.");
  assert.equal(ruleWords(view, 1, 0.9, 0.1, [false, 2]), "The rule would keep it.");
});
