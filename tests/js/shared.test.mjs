import assert from "node:assert/strict";
import test from "node:test";

import { answeredKeys } from "../../widgets/static/answered.js";
import { declaredTheme, parseRich } from "../../widgets/static/dom.js";
import { focusAfterKey, stayMs, stepAfterKey } from "../../widgets/static/player.js";
import { parsedNumber, verdictOf, verdictWords } from "../../widgets/static/prediction_words.js";
import { clockWords, count, duration, listed, number, ranges } from "../../widgets/static/words.js";

test("arrows step within the run, Home and End jump, other keys do not step", () => {
  assert.equal(stepAfterKey("ArrowRight", 3, 10), 4);
  assert.equal(stepAfterKey("ArrowRight", 9, 10), 9);
  assert.equal(stepAfterKey("ArrowLeft", 0, 10), 0);
  assert.equal(stepAfterKey("Home", 5, 10), 0);
  assert.equal(stepAfterKey("End", 5, 10), 9);
  assert.equal(stepAfterKey("a", 5, 10), null);
});

test("where motion is to be reduced, play stays a second on every step", () => {
  assert.deepEqual([[90, false], [90, true], [2000, true]].map(([wanted, calm]) => stayMs(wanted, calm)), [90, 1000, 2000]);
});

test("up and down move between the buttons and go round", () => {
  assert.equal(focusAfterKey("ArrowDown", 6, 7), 0);
  assert.equal(focusAfterKey("ArrowUp", 0, 7), 6);
  assert.equal(focusAfterKey("ArrowRight", 0, 7), null);
});

test("rich text knows code, bold and line breaks, and leaves markup as text", () => {
  assert.deepEqual(parseRich("a `b*c` **d**\n<b>e</b>"), [
    { kind: "text", text: "a " }, { kind: "code", text: "b*c" }, { kind: "text", text: " " },
    { kind: "strong", text: "d" }, { kind: "br", text: "" }, { kind: "text", text: "<b>e</b>" },
  ]);
  assert.deepEqual(parseRich("2 ** 3 and `open"), [{ kind: "text", text: "2 ** 3 and `open" }]);
});

test("the theme is what marimo or Jupyter declare, else nobody's", () => {
  assert.equal(declaredTheme(["dark"], undefined), "dark");
  assert.equal(declaredTheme(["light"], undefined), "light");
  assert.equal(declaredTheme([], "false"), "dark");
  assert.equal(declaredTheme([], "true"), "light");
  assert.equal(declaredTheme(["prose"], undefined), null);
});

test("numbers, lists, ranges and times read as words", () => {
  assert.equal(number(1234567), "1,234,567");
  assert.equal(number("12345.25"), "12,345.25");
  assert.equal(count(1, "token"), "1 token");
  assert.equal(count(0, "token"), "0 tokens");
  assert.equal(listed(["a", "b", "c"]), "a, b and c");
  assert.equal(ranges([0, 1, 2, 5, 7, 8]), "0 to 2, 5, 7 and 8");
  assert.deepEqual([0, 31, 850, 6100, 123400, 1234567].map(duration),
    ["0 ms", "0.031 ms", "0.85 ms", "6.1 ms", "123 ms", "1.23 s"]);
  assert.equal(clockWords({ name: "x", modelled: false }), "measured: x");
});

test("a typed number may have commas and spaces, and must be a number", () => {
  assert.equal(parsedNumber(" 1,190 "), 1190);
  assert.equal(parsedNumber("-2.5"), -2.5);
  assert.deepEqual(["", "ten", "1e3", "5x", "."].map(parsedNumber), [null, null, null, null, null]);
});

test("a prediction is right, wrong, or has nothing to match", () => {
  assert.equal(verdictOf(1, 1), "right");
  assert.equal(verdictOf(0, 1), "wrong");
  assert.equal(verdictOf(0, null), "open");
  assert.equal(verdictWords(30, 1190, []), "You said 30; it is 1,190.");
  assert.equal(verdictWords(0, 1, ["yes", "no"]), "Not this time. The answer: no");
  assert.equal(verdictWords(1, 1, ["yes", "no"]), "You predicted it.");
});

test("an answer that was asked for is no prediction, right or wrong", () => {
  assert.equal(verdictOf(null, 1), "shown");
  assert.equal(verdictWords(null, 1, ["yes", "no"]), "The answer: no");
  assert.equal(verdictWords(null, 1190, []), "The answer: 1,190");
  assert.equal(verdictWords(null, null, []), "Shown without a prediction.");
});

test("the keys of answered predictions stand between spaces; none stand on a fresh page", () => {
  assert.deepEqual(answeredKeys(undefined), []);
  assert.deepEqual(answeredKeys("l00.a l00.ab"), ["l00.a", "l00.ab"]);
});
