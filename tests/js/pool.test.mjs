// What a pool's trace says of each step, the places of its tree, and the words for both.

import assert from "node:assert/strict";
import test from "node:test";

import { poolSizes, absence } from "../../widgets/static/block_pool_picture.js";
import {
  changedIn, copiedIn, copiesOf, faceOf, firstPoolDifference, kindOf, poolStates, shortHash,
} from "../../widgets/static/pool_states.js";
import {
  blocksNamed, poolStepOpening, poolStepWords, poolTablesWords, poolTotalsOf, poolTotalsWords,
} from "../../widgets/static/pool_words.js";
import {
  isReached, treeAt, treeOpening, treePlaces, treeStepWords, treeWords,
} from "../../widgets/static/prefix_tree_layout.js";
import { decode, prefill, step } from "./trace_fixture.mjs";

const NOTHING = { allocated: [], freed: [], evicted: [], published: [] };
const alphabet = ["a", "b", "c", "d", " ", "\n"];

function pool(tables, idle, more = {}) {
  return { block_size: 2, num_blocks: 5, tables, idle, ...NOTHING, ...more };
}

function held(...pairs) {
  return pairs.map(([id, tokens]) => ({ request_id: id, kv_tokens: tokens, kv_tokens_charged: tokens, live_bytes: 0 }));
}

// Blocks of two. Request 0 brings a b c and is given d; request 1 brings a b d d and finds a b.
function poolTrace() {
  const request = (id, tokens, arrival) => ({ id, prompt_tokens: tokens, max_new_tokens: 2, priority: 0, arrival_step: arrival, arrival_us: 0 });
  return {
    version: 2, clock: { name: "a large GPU", modelled: true }, token_budget: 8, max_kv_tokens: 10, error: null, alphabet,
    requests: [request(0, [0, 1, 2], 0), request(1, [0, 1, 3, 3], 1)],
    steps: [
      step(0, 0, 1, [prefill(0, 0, 3, 3)], {
        admitted: [0], kv: held([0, 3]),
        blocks: pool([[0, [0, 1]]], [], { allocated: [0, 1], published: [[0, "ab"]] }),
      }),
      step(1, 1, 2, [decode(0, 3, 2), prefill(1, 2, 4, 0)], {
        admitted: [1], prefix_hits: [{ request_id: 1, num_tokens: 2 }], finished: [0], kv: held([1, 4]),
        blocks: pool([[1, [0, 2]]], [1], { allocated: [2], freed: [1], published: [[1, "cd"], [2, "dd"]] }),
      }),
      step(2, 2, 3, [decode(1, 4, 0)], {
        kv: held([1, 5]), blocks: pool([[1, [0, 2, 3]]], [1], { allocated: [3] }),
      }),
      step(3, 3, 4, [decode(1, 5, 0)], {
        finished: [1], kv: [],
        blocks: pool([], [2, 0], { allocated: [1], evicted: [1], freed: [0, 2, 3] }),
      }),
      step(4, 4, 5, [], { kv: [], blocks: pool([], [2], { evicted: [0] }) }),
    ],
  };
}

test("tokens are characters that can be counted, and a strange one is a question mark", () => {
  assert.equal(faceOf([0, 4, 5, 9], alphabet), "a␣⏎?");
});

test("a hexadecimal hash is told by its own beginning, any other name by a digest of it", () => {
  assert.equal(shortHash("a3f19c0d22"), "a3f1");
  const [one, other] = [shortHash("('', '', [1, 2])"), shortHash("('', '', [1, 3])")];
  assert.match(one, /^[0-9a-f]{4}$/);
  assert.notEqual(one, other);
});

test("states say what lies in each block, by what it is found, and which tables name it", () => {
  const { states, nodes } = poolStates(poolTrace());
  assert.deepEqual(states[0].texts.get(1), [2]);
  assert.deepEqual([...states[0].hashes], [[0, "ab"]]);
  assert.deepEqual(states[1].texts.get(1), [2, 3], "of a request that has left, what it published");
  assert.deepEqual(states[1].found.get(1), 2);
  assert.deepEqual([...states[2].holders], [[0, [1]], [2, [1]], [3, [1]]]);
  assert.deepEqual([...states[3].hashes.keys()], [0, 2]);
  assert.deepEqual([...nodes], [
    ["ab", { parent: null, tokens: [0, 1], depth: 0, owner: 0 }],
    ["cd", { parent: "ab", tokens: [2, 3], depth: 1, owner: 0 }],
    ["dd", { parent: "ab", tokens: [3, 3], depth: 1, owner: 1 }],
  ]);
});

test("a hash that forgets its parent makes no circle of parents", () => {
  const trace = poolTrace();
  trace.requests[0].prompt_tokens = [0, 0, 0, 0, 1];
  trace.steps = [step(0, 0, 1, [prefill(0, 0, 5, 1)], {
    admitted: [0], kv: held([0, 5]),
    blocks: pool([[0, [0, 1, 2]]], [], { allocated: [0, 1, 2], published: [[0, "aa"], [1, "aa"]] }),
  })];
  const { states, nodes } = poolStates(trace);
  assert.deepEqual([...nodes.keys()], ["aa"]);
  assert.deepEqual(treeAt(states, nodes, 0).get("aa").blocks, [0, 1]);
});

test("a block is held, free but found, or empty", () => {
  const { states } = poolStates(poolTrace());
  assert.deepEqual([0, 1, 2, 3].map((block) => kindOf(states[1], block)), ["held", "cached", "held", "empty"]);
  assert.deepEqual(poolTotalsOf(states[1]), { empty: 2, cached: 1, held: 2, shared: 0 });
});

test("changed is what was taken, freed, evicted or published, and what another table names", () => {
  const { states } = poolStates(poolTrace());
  assert.deepEqual([...changedIn(states, 0)].sort(), [0, 1]);
  assert.deepEqual([...changedIn(states, 1)].sort(), [1, 2]);
  assert.deepEqual([...changedIn(states, 2)], [3]);
});

test("a step is told: who starts with what, what is computed, and what became of blocks", () => {
  const { states } = poolStates(poolTrace());
  assert.equal(
    poolStepWords(states, 1),
    "Request 1 starts and finds its first 2 tokens in 1 block; request 1 computes tokens 2 to 3; " +
      "request 0 decodes; request 0 is done. Block 2 is allocated; blocks 1 and 2 can be found from now on; " +
      "block 1 is freed.",
  );
  assert.equal(poolStepWords(states, 4), "Block 0 is evicted.");
  assert.equal(poolTotalsWords(states[1]), "2 blocks in tables; 1 free but cached; 2 empty.");
  assert.equal(poolTablesWords(states[1]), "Tables. request 1: 0, 2");
  assert.equal(poolTablesWords(states[4]), "No request has a table");
  assert.equal(blocksNamed([4, 2, 3]), "blocks 4, 2 and 3", "in the order in which they were taken");
});

test("runs that name the same differently do not differ, and others do where they first do", () => {
  const [mine, theirs] = [poolTrace(), poolTrace()];
  theirs.steps[0].blocks.published = [[0, "another name"]];
  assert.equal(firstPoolDifference(mine, theirs), null);
  theirs.steps[2].blocks.allocated = [4];
  assert.equal(firstPoolDifference(mine, theirs), 2);
  theirs.steps = theirs.steps.slice(0, 1);
  assert.equal(firstPoolDifference(mine, theirs), 1);
});

test("the pool opens where two tables first name one block, else where most are held", () => {
  const { states } = poolStates(poolTrace());
  assert.equal(poolStepOpening(states), 2);
  states[3].holders = new Map([[0, [0, 1]]]);
  assert.equal(poolStepOpening(states), 3);
});

test("a picture has room for every table of the run, and says why a request has none", () => {
  const trace = poolTrace();
  const { states } = poolStates(trace);
  const narrow = poolSizes(trace, 140);
  assert.equal(narrow.perLine, 2);
  assert.equal(narrow.tops[1] - narrow.tops[0], 34);
  assert.equal(narrow.pool - narrow.tops[1], 2 * 34 + 14, "three cells need two lines");
  assert.deepEqual([0, 1].map((index) => absence(trace, states, index, 1)), ["", "waits"]);
  assert.equal(absence(trace, states, 3, 1), "done");
});

test("a tree goes on to the right, and each further child begins a row of its own", () => {
  const { nodes } = poolStates(poolTrace());
  nodes.set("deep", { parent: "cd", tokens: [], depth: 2 });
  nodes.set("root", { parent: null, tokens: [], depth: 0 });
  const { places, rows, columns } = treePlaces(nodes);
  assert.deepEqual(Object.fromEntries(places), {
    ab: { column: 0, row: 0 }, cd: { column: 1, row: 0 }, deep: { column: 2, row: 0 },
    dd: { column: 1, row: 1 }, root: { column: 0, row: 2 },
  });
  assert.deepEqual([rows, columns], [3, 3]);
  assert.equal(treePlaces(new Map()).rows, 0);
});

test("what stands behind an evicted block is there, and no prompt gets to it", () => {
  const { states, nodes } = poolStates(poolTrace());
  const tree = treeAt(states, nodes, 4);
  assert.deepEqual([tree.get("ab").kind, tree.get("dd").kind], ["gone", "cached"]);
  assert.equal(isReached("dd", tree, nodes), false);
  assert.equal(
    treeWords(states, nodes, 4),
    "1 block can be found: 1 free. No prompt reaches 1 of them: their parents were evicted.",
  );
});

test("the tree is told: what is found, what is new, what is held", () => {
  const { states, nodes } = poolStates(poolTrace());
  assert.equal(treeStepWords(states, 1), "Request 1 follows the tree for 1 block. 2 blocks can be found from now on.");
  assert.equal(treeStepWords(states, 2), "Nothing new.");
  assert.equal(treeWords(states, nodes, 1), "3 blocks can be found: 2 in tables and 1 free.");
  assert.equal(treeOpening(states), 1);
  assert.equal(treeOpening(states.slice(2)), 0);
});

test("a host tier says what was copied, keeps the places of its copies and opens at the first load", () => {
  const trace = poolTrace();
  const host = (hashes, more = {}) => ({ num_blocks: 4, hashes, loaded: [], stored: [], dropped: [], ...more });
  const copies = [
    host(["ab"], { stored: ["ab"] }), host(["dd", "cd", "ab"], { stored: ["dd", "cd"] }),
    host(["cd", "ab"], { loaded: [[1, 3, "cd"]], dropped: ["dd"] }), host(["ab"]), host(["ab"]),
  ];
  trace.steps = trace.steps.map((each, at) => ({ ...each, host: copies[at] }));
  const { states } = poolStates(trace);
  assert.deepEqual(copiesOf(states[1]).map(({ hash, owner }) => [hash, owner]), [["ab", 0], ["cd", 0], ["dd", 1]]);
  assert.deepEqual([...copiedIn(states[2])], ["cd"]);
  assert.match(poolStepWords(states, 1), /2 blocks are copied to the host tier\.$/);
  assert.match(poolStepWords(states, 2), /1 block is loaded from the host tier; 1 block is dropped there\.$/);
  assert.match(poolTotalsWords(states[1]), /Copies in the host tier: 3\.$/);
  assert.equal(poolStepOpening(states), 2);
  assert.ok(poolSizes(trace, 700).height > poolSizes(poolTrace(), 700).height);
  assert.equal(firstPoolDifference(trace, poolTrace()), 0);
});
