import assert from "node:assert/strict";
import test from "node:test";

import { arrayWords, counters, counterWords, eventMark, lazyFrames, lazyWords, requestsOf, shapesOf, stateOf } from "../../widgets/static/lazy_heap_layout.js";
import {
  automatonWords, barPlaces, chance, draftState, followsRule, keepChance, passWords, ruleWords, standing, statePlaces, statesOf, tokenMark, totals,
} from "../../widgets/static/speculation_strip_layout.js";

// ---- a heap with lazy deletion --------------------------------------------------------------

const entry = (id, generation, live, key = [1, 2]) => ({ id, key, generation, live });
const step = (event, entries, generations, popped = null, words = "So.") => ({ event, entries, generations, popped, words });
const push = (id) => ({ kind: "push", id, key: [1, 2] });
const steps = [
  step(push(3), [entry(3, 1, true)], { 3: 1 }),
  step({ kind: "remove", id: 3, key: null }, [entry(3, 1, false)], {}),
  step(push(3), [entry(3, 1, true), entry(3, 1, false)], { 3: 1 }),
  step({ kind: "pop", id: null, key: null }, [entry(3, 1, false)], { 3: 1 }, 3),
  step({ kind: "pop", id: null, key: null }, [], { 3: 1 }, 3),
];
const frames = lazyFrames(steps);

test("an entry is live, stale, revived or lost", () => {
  assert.deepEqual([entry(3, 1, true), entry(3, 1, false), entry(3, 2, true), entry(3, 2, false)].map((each) => stateOf(each, { 3: 1 })),
    ["live", "revived", "lost", "stale"]);
  assert.equal(stateOf(entry(3, 1, false), {}), "stale");
});

test("equal entries are drawn twice, and each keeps its shape", () => {
  assert.deepEqual(frames.map((frame) => frame.order), [
    [], ["3 (1,2) 1 0"], ["3 (1,2) 1 0"], ["3 (1,2) 1 0", "3 (1,2) 1 1"], ["3 (1,2) 1 0"], [],
  ]);
  assert.deepEqual([...shapesOf(steps, frames).values()].map((shape) => shape.label), ["#3 gen 1", "#3 gen 1"]);
});

test("popping somebody who does not wait is found out", () => {
  assert.deepEqual(frames[5].popped, [{ id: 3, right: true }, { id: 3, right: false }]);
});

test("a counter that is gone was forgotten; one that was never there is none", () => {
  assert.deepEqual(requestsOf(steps), [3]);
  const at = (index) => counters(frames, index, [3]).map(counterWords);
  assert.deepEqual([0, 1, 2, 3].map(at), [[], ["gen 1"], ["forgotten"], ["gen 1"]]);
  assert.deepEqual(counters(frames, 3, [3])[0].changed, true);
  const removed = lazyFrames([step({ kind: "remove", id: 4, key: null }, [], {})]);
  assert.deepEqual(counters(removed, 1, [4]).map(counterWords), ["none"]);
});

test("a step is told with its event, its words and how the entries stand", () => {
  assert.equal(lazyWords(frames, 0), "The heap is empty; 5 events will change it.");
  assert.equal(lazyWords(frames, 3), "Event 3 of 5, push #3 (1, 2). So. In the heap: 1 live and 1 revived.");
  assert.equal(lazyWords(frames, 5), "Event 5 of 5, pop. So. The heap is empty.");
  assert.equal(eventMark(steps[1].event), "remove #3");
  assert.equal(arrayWords(frames[3], shapesOf(steps, frames)),
    "The array from its first cell: request 3 with key (1, 2), generation 1, live; request 3 with key (1, 2), generation 1, revived.");
});

// ---- speculation ----------------------------------------------------------------------------

const draft = (kept, p, q, u, text = "e") => ({ text, token: 1, kept, p, q, u });
const last = (kind, text) => ({ text, token: 2, kind });
const story = {
  prompt: "ROMEO:", num_draft_tokens: 2, temperature: 1,
  passes: [
    { drafts: [draft(true, 0.5, 0.4, 0.9, "\n"), draft(true, 0.2, 0.4, 0.3, "W")], last: last("bonus", "h") },
    { drafts: [draft(false, 0.1, 0.5, 0.6, "x"), draft(false, 0.1, 0.5, null, "y")], last: last("resampled", "a") },
    { drafts: [], last: last("plain", "t") },
  ],
};

test("white space of a token is seen", () => {
  assert.deepEqual([" to", "\n", "", "a"].map(tokenMark), ["␣to", "↵", "∅", "a"]);
});

test("after the first rejected draft nothing is read", () => {
  const { drafts } = story.passes[1];
  assert.deepEqual(drafts.map((_, at) => draftState(drafts, at)), ["rejected", "unread"]);
  const mixed = [draft(true, 0.5, 0.4, 0.1), draft(false, 0.1, 0.4, 0.9), draft(false, 0.1, 0.4, null)];
  assert.deepEqual(mixed.map((_, at) => draftState(mixed, at)), ["kept", "rejected", "unread"]);
});

test("a draft is kept exactly when u is below p / q", () => {
  assert.deepEqual([draft(true, 0.5, 0.4, 0.9), draft(true, 0.1, 0.4, 0.25), draft(true, 0.1, 0, null)].map(keepChance), [1, 0.25, 1]);
  assert.deepEqual([draft(true, 0.1, 0.4, 0.24), draft(true, 0.1, 0.4, 0.26), draft(false, 0.1, 0.4, 0.26), draft(false, 0.1, 0.4, 0.2)].map(followsRule),
    [true, false, true, false]);
  assert.equal(followsRule(draft(true, 0, 1, null)), true);
});

test("the text that stands holds kept drafts and each pass's last token", () => {
  assert.deepEqual([0, 1, 2].map((index) => standing(story, index)), ["ROMEO:\nWh", "ROMEO:\nWha", "ROMEO:\nWhat"]);
  assert.deepEqual(totals(story, 2), { passes: 3, kept: 2, drafted: 4, tokens: 5 });
});

test("bars stay in their picture, and a press finds its pass", () => {
  const many = { ...story, passes: Array.from({ length: 80 }, () => story.passes[0]) };
  for (const [each, width] of [[story, 900], [many, 330]]) {
    const places = barPlaces(each, width);
    assert.ok(places.x(each.passes.length - 1) + places.bar <= width);
    assert.equal(places.passAt(places.x(2) + places.bar / 2), 2);
    assert.deepEqual([places.passAt(-5), places.passAt(9999)], [0, each.passes.length - 1]);
    assert.ok(places.y(places.most) >= places.top - 0.001);
  }
});

test("numbers and decisions of a draft are told", () => {
  assert.deepEqual([0, 1, 0.0421, 0.00003, 0.99999].map(chance), ["0", "1", "0.042", "3e-5", "0.99999"]);
  assert.equal(ruleWords(draft(true, 0.1, 0.4, 0.2), "kept"), "u 0.200 < 0.250");
  assert.equal(ruleWords(draft(false, 0.1, 0.4, 0.25), "rejected"), "u 0.250 ≥ 0.250");
  assert.equal(ruleWords(draft(true, 0.1, 0.4, null), "kept"), "p / q 0.250, no draw");
  assert.equal(ruleWords(draft(false, 0.1, 0.4, null), "unread"), "not read");
});

test("a pass is told with what it brought, and all so far", () => {
  assert.equal(passWords(story, 0), "Pass 1 of 3: the draft proposes 2 tokens, all are kept, and a bonus token “h” follows: 3 tokens from one pass.\n" +
    "3 tokens in 1 pass so far: 3.00 per pass, 2 of 2 drafts kept.");
  assert.match(passWords(story, 1), /proposes 2 tokens, 0 are kept, and a resampled token “a” follows: 1 token from one pass\.\n4 tokens in 2 passes so far: 2\.00 /);
  assert.match(passWords(story, 2), /nothing is drafted, and the model's token “t” follows/);
  const wrong = { ...story, passes: [{ ...story.passes[0], drafts: [draft(true, 0.1, 0.5, 0.9)] }] };
  assert.match(passWords(wrong, 0), /A decision in it is not the rule's\./);
});

test("the automaton goes back with the text where drafts are rejected", () => {
  const automaton = [[0, 1, "n"], [0, 2, "y"], [1, 3, "a"], [2, 3, "e"], [3, 0, " "]];
  const draft = (state, kept) => ({ text: "x", token: 1, kept, p: 1, q: 1, u: 0, state });
  const last = (state) => ({ text: "x", token: 1, kind: "resampled", state });
  const votes = { automaton, passes: [{ drafts: [], last: last(1) }, { drafts: [draft(3, true), draft(0, false), draft(null, false)], last: last(0) }] };
  assert.deepEqual(statesOf(votes, 1), { from: 1, through: [3], back: [0, null], to: 0 });
  assert.match(automatonWords(votes, 1), /from state 1 to state 0\. Rejected draft tokens led to state 0, no state;/);
  const { places } = statePlaces(automaton, 400);
  assert.deepEqual([0, 1, 2, 3].map((state) => places.get(state).x), [20, 200, 200, 380]);
  assert.equal(places.get(2).y - places.get(1).y, 64);
});
