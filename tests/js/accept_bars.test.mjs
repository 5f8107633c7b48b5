import assert from "node:assert/strict";
import test from "node:test";

import { fateWords, lawOf, missing, ruleWords, staying, stretches } from "../../widgets/static/accept_bars_layout.js";

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
