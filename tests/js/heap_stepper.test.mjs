import assert from "node:assert/strict";
import test from "node:test";

import {
  admissionBar, admissionWords, entriesOf, frameWords, framesOf, keyMark, keyWords, mostEntries,
  orderWords, parentOf, sizesFor, treePlace,
} from "../../widgets/static/heap_stepper_layout.js";

const entry = (id, ...key) => ({ id, key, label: `request ${id}` });
const move = (kind, from, to, words = "words") => ({ kind, from, to, words });
const test22 = (held, candidate, verdict, more = {}) =>
  ({ held, candidate, budget: 22, batch: 1, max_batch: 4, verdict, ...more });

// 5 with key 9, then 6 with key 7, which rises; a look that waits; a pop that admits 6.
const operations = [
  { op: "push", entry: entry(5, 9), moves: [move("append", 0, 0), move("settle", 0, 0)],
    states: [[5], [5]], admission: null },
  { op: "push", entry: entry(6, 7), moves: [move("append", 1, 1), move("swap", 1, 0), move("settle", 0, 0)],
    states: [[5, 6], [6, 5], [6, 5]], admission: null },
  { op: "look", entry: entry(6, 7), moves: [move("settle", 0, 0)], states: [[6, 5]],
    admission: test22(14, 10, "wait") },
  { op: "pop", entry: entry(6, 7), moves: [move("take", 1, 0), move("settle", 0, 0)],
    states: [[5], [5]], admission: test22(4, 10, "admit") },
];

test("every move is one frame, after one with the empty heap", () => {
  const kinds = framesOf(operations).map((frame) => frame.kind);
  assert.deepEqual(kinds, ["start", "append", "settle", "append", "swap", "settle", "settle", "test",
    "test", "take", "settle"]);
});

test("a test comes after a look and before a pop moves anything", () => {
  const frames = framesOf(operations);
  assert.deepEqual([frames[7].order, frames[7].lit], [[6, 5], [6]]);
  assert.equal(frames[7].operation.op, "look");
  assert.deepEqual([frames[8].order, frames[8].taken], [[6, 5], []]);
  assert.deepEqual([frames[9].order, frames[9].taken, frames[9].lit], [[5], [6], [5]]);
});

test("a swap lights the two entries that changed places", () => {
  const frame = framesOf(operations)[4];
  assert.deepEqual(frame.lit, [5, 6]);
  assert.deepEqual(frame.order, [6, 5]);
});

test("a refused push shows its test and leaves the heap as it was", () => {
  const refused = { op: "push", entry: entry(7, 1), moves: [], states: [], admission: test22(0, 30, "refuse") };
  const frames = framesOf([operations[0], refused]);
  assert.deepEqual([frames[3].kind, frames[3].order], ["test", [5]]);
  assert.equal(frames.length, 4);
});

test("the entries are known by their ids and the largest heap counts", () => {
  const frames = framesOf(operations);
  assert.equal(mostEntries(frames), 2);
  assert.deepEqual([...entriesOf(operations).keys()], [5, 6]);
  assert.equal(orderWords([6, 5], entriesOf(operations)),
    "The array from its first cell: request 6 with key 7 and request 5 with key 9.");
  assert.equal(orderWords([], entriesOf(operations)), "The heap is empty.");
});

test("cell i lies in the tree below cell (i - 1) // 2", () => {
  assert.deepEqual([0, 1, 2, 3, 6].map(parentOf), [null, 0, 0, 1, 2]);
  assert.deepEqual(treePlace(0), { x: 0.5, level: 0 });
  assert.deepEqual(treePlace(1), { x: 0.25, level: 1 });
  assert.deepEqual(treePlace(6), { x: 0.875, level: 2 });
  for (const index of [3, 4, 5, 6]) {
    const [child, parent] = [treePlace(index), treePlace(parentOf(index))];
    assert.equal(Math.abs(child.x - parent.x), 0.125);
  }
});

test("nodes never overlap, and array cells give up their labels first", () => {
  const entries = new Map([[0, entry(0, 0, 3)]]);
  for (const available of [300, 900]) {
    const { node, tree, cell, width } = sizesFor(entries, 7, available);
    assert.ok(tree / 4 >= node + 9.9, `${tree / 4} per node of ${node}`);
    assert.ok(width >= tree && width >= 7 * cell);
  }
  assert.equal(sizesFor(entries, 7, 330).cellLabels, false);
  assert.equal(sizesFor(entries, 7, 900).cellLabels, true);
});

test("keys are numbers or tuples", () => {
  assert.equal(keyWords([7]), "7");
  assert.equal(keyWords([0, 3]), "(0, 3)");
  assert.equal(keyMark([0, 3]), "(0,3)");
});

test("the admission test is said with its numbers and its verdict", () => {
  assert.equal(admissionWords(entry(3, 0), test22(14, 10, "wait")),
    "Request 3 needs 10 tokens; 14 of 22 are held; 14 + 10 > 22: it waits, and nothing overtakes it.");
  assert.equal(admissionWords(entry(3, 0), test22(12, 10, "admit")),
    "Request 3 needs 10 tokens; 12 of 22 are held; 12 + 10 ≤ 22; 1 of 4 places in the batch is taken: it is admitted.");
  assert.equal(admissionWords(entry(3, 0), test22(0, 23, "refuse")),
    "Request 3 needs 23 tokens, more than the whole KV budget of 22: it can never fit and is refused.");
  assert.equal(admissionWords(entry(3, 0), test22(2, 10, "wait", { batch: 4 })),
    "Request 3 needs 10 tokens; 2 of 22 are held; 2 + 10 ≤ 22; 4 of 4 places in the batch are taken: it waits, and nothing overtakes it.");
  assert.equal(admissionWords(entry(3, 0), test22(2, 1, "admit", { budget: null })),
    "Request 3 needs 1 token; there is no KV budget; 1 of 4 places in the batch is taken: it is admitted.");
});

test("a verdict that contradicts the numbers is called so", () => {
  const words = (held, candidate, verdict) => admissionWords(entry(3, 0), test22(held, candidate, verdict));
  assert.match(words(14, 10, "admit"), /14 \+ 10 > 22: it does not fit, and yet it is admitted\.$/);
  assert.match(words(12, 10, "wait"), /: it would fit, and yet it waits\.$/);
  assert.match(words(12, 10, "refuse"), /: it would fit, and yet it is refused\.$/);
  assert.match(words(14, 10, "refuse"), /: it would only have to wait, and yet it is refused\.$/);
  assert.match(words(0, 23, "wait"), /it can never fit, and yet it waits\.$/);
});

test("every frame says its operation and its move", () => {
  const frames = framesOf(operations);
  assert.equal(frameWords(frames[0], operations), "The heap is empty; 4 operations will change it.");
  assert.equal(frameWords(frames[4], operations), "Operation 2 of 4, push request 6, key 7. words");
  assert.match(frameWords(frames[7], operations), /^Operation 3 of 4, look at the top\. Admission: Request 6 needs/);
  assert.match(frameWords(frames[9], operations), /^Operation 4 of 4, pop request 6\. /);
});

test("the admission bar is scaled to the budget, or past it", () => {
  assert.deepEqual(admissionBar(test22(11, 5.5, "admit")), { held: 0.5, candidate: 0.25, budget: 1, over: false });
  assert.deepEqual(admissionBar(test22(22, 22, "wait")), { held: 0.5, candidate: 0.5, budget: 0.5, over: true });
});
