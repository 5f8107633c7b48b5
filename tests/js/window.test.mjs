import assert from "node:assert/strict";
import test from "node:test";

import {
  attentionWords, cutMap, headOf, percent, shareCut, windowFor,
} from "../../widgets/static/attention_by_distance_layout.js";
import { barPlaces, distanceAt } from "../../widgets/static/attention_by_distance_picture.js";
import {
  fieldSizes, fieldWords, layersOf, probeWords, reachOf, rowLabel, wayUp,
} from "../../widgets/static/receptive_field_layout.js";
import { isSliderKey } from "../../widgets/static/slider.js";

const close = (value, wanted) => assert.ok(Math.abs(value - wanted) < 1e-9, `${value} is not ${wanted}`);

// ---- attention by distance ------------------------------------------------------------------

const two = { weights: [[[0.5, 0.25, 0.25], [1, 0, 0]]], sinks: null };
const sunk = { weights: [[[0.4, 0.1, 0.1]]], sinks: [[[0.3, 0.1]]] };

test("distances above the window are cut, the window itself is not", () => {
  const head = headOf(two, 0, 0);
  close(shareCut(head, 0, true), 0.5);
  close(shareCut(head, 1, true), 0.25);
  close(shareCut(head, 2, true), 0);
  assert.equal(windowFor(head, 0.75, true), 1);
  assert.equal(windowFor(head, 0.9, true), 2);
});

test("kept sinks are never cut, others always, and both count as attention", () => {
  const head = headOf(sunk, 0, 0);
  close(shareCut(head, 1, true), 0.1);
  close(shareCut(head, 1, false), 0.5);
  assert.equal(windowFor(head, 0.9, false), null);
});

test("the mean is taken over a layer's heads", () => {
  assert.deepEqual(headOf(two, 0, null).weights, [0.75, 0.125, 0.125]);
  assert.deepEqual(cutMap(two, 1, true), [[0.25, 0]]);
});

test("a head under a window is told with its share and what it would need", () => {
  const words = (data, head, keepSinks, window) => attentionWords(data, { layer: 0, head, keepSinks }, window);
  assert.equal(words(two, 0, true, 1), "Layer 0, head 0: a window of 1 cuts off 25 percent of its " +
    "attention. To keep 90 percent it needs a window of 2.");
  assert.equal(words(two, 1, true, 1), "Layer 0, head 1: a window of 1 cuts off 0 percent of its " +
    "attention. The token itself has 90 percent.");
  assert.equal(words(sunk, null, false, 1), "Layer 0, mean of its heads: a window of 1 cuts off 50 " +
    "percent of its attention. No window here keeps 90 percent. The first 2 tokens have 40 percent " +
    "of it, and are cut as well.");
  assert.match(words(sunk, 0, true, 1), /have 40 percent of it, and stay\.$/);
});

test("small and nearly whole shares are not rounded to none and all", () => {
  assert.deepEqual([0, 0.001, 0.5, 0.999, 1].map(percent),
    ["0 percent", "less than 1 percent", "50 percent", "more than 99 percent", "100 percent"]);
});

test("the query's own bar lies at the right end, and a press finds its distance", () => {
  const head = headOf(two, 0, 0);
  const places = barPlaces(head, 350);
  close(places.distance(0) + places.bar, 344);
  close(places.cut(1), places.distance(1));
  assert.equal(distanceAt(places, head, 343), 0);
  assert.equal(distanceAt(places, head, places.distance(2) + 1), 2);
  assert.equal(distanceAt(places, head, 10), null);
});

// ---- the receptive field --------------------------------------------------------------------

const field = { window: 8, num_layers: 4, num_positions: 48, query: 47 };
const reached = (row) => row.flatMap((acts, position) => (acts ? [position] : []));

test("a query sees W + 1 positions, and no future", () => {
  assert.deepEqual(reached(reachOf({ ...field, window: 2, query: 5 })[1]), [3, 4, 5]);
});

test("each layer reaches W farther back, down to the first position", () => {
  const reach = reachOf(field).map(reached);
  assert.deepEqual(reach.map((row) => row[0]), [47, 39, 31, 23, 15]);
  assert.deepEqual(reach.map((row) => row.length), [1, 9, 17, 25, 33]);
  assert.equal(reached(reachOf({ ...field, query: 10 })[4])[0], 0);
});

test("a position 20 back acts through three layers, on its way from entry to entry", () => {
  assert.equal(layersOf(field)[27], 3);
  assert.deepEqual(wayUp(field, 27), [27, 35, 43, 47]);
  assert.equal(probeWords(field, 27), "Token 27 lies 20 back, and acts through 3 layers (27 → 35 → 43 → 47): it can " +
    "change the logits. Its own K/V is evicted by then, but the kept entries above were computed from it.");
});

test("what needs more layers than there are cannot act", () => {
  assert.equal(probeWords({ ...field, num_layers: 2 }, 27), "Token 27 lies 20 back; it would need 3 layers " +
    "(27 → 35 → 43 → 47), and there are 2: it cannot change the logits.");
  assert.equal(probeWords(field, 47), "Token 47 is the query itself.");
  assert.equal(probeWords(field, 39), "Token 39 lies 8 back: the query sees it directly.");
});

test("a step down says who can act, and how far back that is", () => {
  assert.equal(fieldWords(field, 0),
    "Start at the top: the logits of position 47. One layer shows it positions 39 to 47.");
  assert.equal(fieldWords(field, 4),
    "Through 4 layers, down to the tokens: positions 15 to 47 can act on the logits (4 × 8 = 32 back).");
  assert.match(fieldWords({ ...field, query: 10 }, 3), /output of layer 1: positions 0 to 10 .* 24 back, more than there is\)/);
  assert.deepEqual([0, 1, 4].map((depth) => rowLabel(field, depth)), ["logits", "layer 3", "tokens"]);
  assert.equal(fieldSizes(field, 2000).cell, 26);
  assert.equal(fieldSizes(field, 300).cell, 5.125);
});

// ---- the slider -----------------------------------------------------------------------------

test("a slider keeps the keys that move it and leaves the others to the player", () => {
  assert.deepEqual(["ArrowLeft", "ArrowRight", "Home", "End", "ArrowUp", " ", "a"].filter(isSliderKey),
    ["ArrowLeft", "ArrowRight", "Home", "End"]);
});
