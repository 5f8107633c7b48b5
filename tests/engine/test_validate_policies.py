"""What a policy may answer: a worse answer acts, an illegal one is refused in a sentence."""

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nanogpt import Policies, planning
from nanogpt.planning import Candidates, plan_problem
from nanogpt.policies.fusing import full_mask, pack, prepare_inputs, split_kv
from nanogpt.policies.queueing import ResumeState
from nanogpt.policies.sliding_window import visible, window_mask
from nanogpt.policies.validate_policies import ANSWERS
from nanogpt.validate import PolicyError, validated
from nanogpt.views.grammar_state import GrammarState
from nanogpt.views.request_view import CachedBlock, RequestView
from nanogpt.views.step_cost import Link, StepCost
from nanogpt.window.window_store import mask_of_pairs
from nanogpt.window.windowed_kv_cache import indices_of

VIEW = RequestView(3, 0, 5, 6, (1, 2), (7, 8), 4, 3)
"""Request 3: prompt [1, 2], generated [7, 8], arrived at step 5."""
PAST, NEW = [2, 0, 3], [1, 4, 1]
KNOWN = [[7, 8, 9], [1, 2, 3, 4, 5], [6, 6, 6, 6]]
K = torch.arange(3 * 7 * 2, dtype=torch.float64).view(3, 7, 2)
HELD = torch.arange(2 * 6 * 3, dtype=torch.float64).view(2, 6, 3)
COUNTS = [1, 2, 1, 0]
CACHED = [CachedBlock(0, 0, 1, 0), CachedBlock(1, 2, 0, 1), CachedBlock(2, 0, 3, 0)]
TOKENS, POSITIONS = prepare_inputs(KNOWN, PAST, NEW)
FULL, OWN = full_mask(PAST, NEW), split_kv(K, PAST, NEW)
CU_Q, CU_K, MASK = pack(PAST, NEW)
HALVES = [0.5, 0.5]
STATE = GrammarState([{"a": 1}, {}], 0)

# A call of each policy, an answer that is legal and worse than the reference's, and what the engine
# makes of it.
WORSE: dict[str, tuple[tuple[Any, ...], Any, Any]] = {
    "plan_step": (([], [(3, 9)], [], 8), ([3, 2.0],), [(3, 2)]),
    "chunk_inputs": (([5, 6, 7, 8], 1, 2), [(1, 1), [0, 0], True], ([1, 1], [0, 0], True)),
    "chunk_mask": ((2, 3), torch.ones(3, 5).bool(), torch.ones(3, 5).bool()),
    "sort_key": (("fcfs", VIEW), [2.5, -1], (2.5, -1)),
    "admit": ((VIEW, 6, 10, 1, 8), "refuse", "refuse"),
    "choose_victim": (([VIEW],), 3.0, 3),
    "requeue": ((VIEW,), ([1, 2], 0, 9, 0), ResumeState([1, 2], 0, 9, 0)),
    "assign_tokens": (([4, 5], [4], [50, 60]), {4: 60, 5: 60}, {4: 60, 5: 60}),
    "prepare_inputs": ((KNOWN, PAST, NEW), [TOKENS, TOKENS], [TOKENS, TOKENS]),
    "full_mask": ((PAST, NEW), ~FULL, ~FULL),
    "split_kv": ((K, PAST, NEW), tuple(kv * 0 for kv in OWN), [kv * 0 for kv in OWN]),
    "pack": (
        (PAST, NEW), [torch.tensor([0, 2, 5, 6]), CU_K, ~MASK], ([0, 2, 5, 6], CU_K, ~MASK),
    ),
    "evict": ((HELD, -HELD, 3, 1), [HELD, -HELD], (HELD, -HELD)),
    "kv_usage": ((4, 3, 5, 1), [900, 0.0], (900, 0)),
    "visible": (([4], [9], 3, 1), True, torch.tensor([[True]])),
    "rolling_buffer_index": (([7, 8], 3, 1), 0, [0, 0]),
    "rejection_sample": ((HALVES, HALVES, 1, 0.1, 0.1), [False, 1.0], (False, 1)),
    "roll_back_kv": ((7, 3, 1), 3.0, 3),
    "allocate": ((1, 17, 8, [4, 2, 9]), (9, 4), [9, 4]),
    "free_table": ((COUNTS, [0, 1]), (), []),
    "block_hashes": (([1, 2, 3], 2, ""), ["the same for all"], ["the same for all"]),
    "longest_match": ((["a", "b"], {"a": 3, "b": 4}, 9, 2), [[4], 2], ([4], 2)),
    "evict_order": ((CACHED,), [2], [2]),
    "match_tiers": ((["a", "b"], {"a": 3}, {"b"}, 9, 2), [(3.0, None), 4], ([3, None], 4)),
    "load_or_compute": ((8, 4096, Link(20, 8000), StepCost(464, 29)), "compute", "compute"),
    "spill": ((["b", "c"], ["a"], 2), ("c", "a"), ["c", "a"]),
    "allowed": ((STATE, ["a", "b"]), (True, True), [True, True]),
    "advance": ((STATE, ["a"]), 0.0, 0),
    "draft_masks": ((STATE, ["a"]), (None, 0), [None, 0]),
    "must_close": ((3, 4), True, True),
}  # fmt: skip
ASKED_FOR_MANY = {"visible": mask_of_pairs, "rolling_buffer_index": indices_of}


def asked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    part = getattr(validated(Policies(**{name: function}), ANSWERS), name)
    return ASKED_FOR_MANY[name](part) if name in ASKED_FOR_MANY else part


def refusal(name: str, answer: Any, *args: Any) -> str:
    with pytest.raises(PolicyError, match=rf"^{name}\b") as refused:
        asked(name, lambda *_: answer)(*(args or WORSE[name][0]))
    assert "\n" not in str(refused.value)
    return str(refused.value)


class EqualsAnything:
    """A policy that would pass for the reference."""

    def __eq__(self, other: object) -> bool:
        return True

    def __call__(self, *arguments: object) -> list[Any]:
        raise RuntimeError("called")


def test_each_part_defaults_to_the_reference_of_its_name_and_only_others_are_validated():
    assert WORSE.keys() == {field.name for field in dataclasses.fields(Policies)}, "a case for each"
    for field in dataclasses.fields(Policies):
        part = getattr(Policies(), field.name)
        assert getattr(part, "function", part).__name__ == field.name
    assert ANSWERS.keys() == WORSE.keys()
    with pytest.raises(KeyError, match="plan_step"):
        validated(Policies(plan_step=lambda *_: []), {})
    assert validated(Policies(), ANSWERS) == Policies()
    changed = validated(Policies(plan_step=lambda *_: [(1, 1)]), ANSWERS)
    assert changed.plan_step([1], [], [], 4) == [(1, 1)]
    assert dataclasses.replace(changed, plan_step=planning.plan_step) == Policies()
    with pytest.raises(RuntimeError, match="called"):
        asked("plan_step", EqualsAnything())()


@pytest.mark.parametrize("name", WORSE)
def test_an_answer_that_is_legal_and_worse_reaches_the_engine(name: str):
    args, answer, taken = WORSE[name]
    assert repr(asked(name, lambda *_: answer)(*args)) == repr(taken)


@pytest.mark.parametrize("name", WORSE)
def test_a_policy_that_empties_the_lists_it_is_given_changes_nothing_outside(name: str):
    args, answer, _ = WORSE[name]
    own = copy.deepcopy(args)

    def greedy(*given: Any) -> Any:
        for each in given:
            if isinstance(each, list | dict):
                each.clear()
        return answer

    asked(name, greedy)(*own)
    assert repr(own) == repr(args)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("chunk_mask", None, "(2, 3) returned None; it must be a torch.bool tensor of (3, 5)"),
        ("chunk_mask", torch.zeros(3, 5).bool(), "lets query 0 see no key"),
        ("chunk_inputs", None, "it must be (2 ids, 2 positions, sample)"),
        ("chunk_inputs", ([6, "7"], [1, 2], False), "whole numbers from 0"),
        ("sort_key", 3, "for request 3 returned 3; it must be a tuple of numbers"),
        ("sort_key", (math.nan,), "it must be a tuple of numbers"),
        ("admit", True, "for request 3 returned True; it must be 'admit', 'wait' or 'refuse'"),
        ("choose_victim", 99, "returned 99; it must be one of the running requests [3]"),
        ("requeue", ([1, 2, 7, 8], 3, 5, 2), "it must be 0 computed tokens"),
        ("requeue", ([1, 2, 7, 8], 0, 5, 3), "at most 2 generated tokens"),
        ("requeue", ([1, 2], 0, 5, 2), "its prompt and the 2 generated tokens that it keeps"),
        ("assign_tokens", {4: 50, 5: 60, 9: 60}, "for each of the requests [4, 5]"),
        ("prepare_inputs", (TOKENS, [[-1, *row[1:]] for row in POSITIONS]), "whole numbers from 0"),
        ("full_mask", FULL[:, :, 1:], "returned a torch.bool tensor of (3, 4, 6); it must be"),
        ("split_kv", [*OWN[:2], OWN[2][1:]], "of row 2 returned a torch.float64 tensor of (3, 2)"),
        ("pack", (CU_Q, [0, 9, 2, 11], MASK), "cu_seqlens_k returned [0, 9, 2, 11]; it must be 4"),
        ("evict", (HELD[:, 1:], HELD), "evict's v returned"),
        ("evict", (HELD.repeat(1, 2, 1), HELD.repeat(1, 2, 1)), "at most 6 entries"),
        ("kv_usage", (7, -1), "(4, 3, 5, 1) returned (7, -1); it must be (peak, end), whole"),
        ("visible", "yes", "(4, 9, 3, 1) returned 'yes'; it must be True or False"),
        ("rolling_buffer_index", 4, "(7, 3, 1) returned 4; it must be one of the slots 0..3"),
        ("rejection_sample", (True, 0), "it must be (True, 1)"),
        ("rejection_sample", (False, 2), "a token of 0..1"),
        ("roll_back_kv", 6, "K/V of rejected drafts goes"),
        ("roll_back_kv", 2, "K/V from before the pass stays"),
        ("allocate", [4, 4], "it must be 2 different blocks out of [4, 2, 9]"),
        ("free_table", [0, 1], "different blocks out of [0], which no other table names"),
        ("block_hashes", [8], "it must be 1 strings"),
        ("longest_match", ([3, 3], 4), "different cached blocks"),
        ("longest_match", ([3], 1), "2 each, fewer than 9 in all"),
        ("evict_order", [1], "which no table names"),
        ("match_tiers", ([None, None], 4), "None for those of the host"),
        ("match_tiers", ([3, 3], 4), "different blocks of the pool"),
        ("match_tiers", [3], "fewer than 9 in all"),
        ("load_or_compute", True, "must be 'load' or 'compute'"),
        ("spill", ["a", "a"], "different hashes out of published and host"),
        ("spill", ["a", "b", "c"], "at most 2 hashes; it has 3"),
        ("allowed", [True], "in state 0 returned [True]; it must be 2 bools, one for each token"),
        ("advance", 2, "from state 0 returned 2; it must be a state of 0..1, or None for no state"),
        ("draft_masks", [0], "it must be 2 states, one for each row of logits"),
        ("must_close", 1, "(3, 4) returned 1; it must be True or False"),
    ],
)  # fmt: skip
def test_an_illegal_answer_is_refused_with_the_policy_the_value_and_the_limit(name, answer, words):
    assert words in refusal(name, answer)


@pytest.mark.parametrize(
    ("name", "answer", "args", "words"),
    [
        ("chunk_inputs", ([7, 8], [2, 3], False), ([5, 6, 7, 8], 2, 2), "True at the last known"),
        ("admit", "admit", (VIEW, 0, None, 8, 8), "the batch is full (8 of 8)"),
        ("admit", "admit", (VIEW, 7, 10, 1, 8), "7 KV tokens in use + 4 to compute > 10"),
        ("longest_match", ([3], 2), (["a"], {"a": 3}, 2, 2), "fewer than 2 in all"),
    ],
)
def test_an_answer_that_is_illegal_for_this_call_is_refused(name, answer, args, words):
    assert words in refusal(name, answer, *args)


def test_rules_of_single_positions_are_asked_for_many():
    mask_of = mask_of_pairs(lambda q, k, w, s: visible(q, k, w, s))
    pairs = [4, 5], [0, 2, 3, 4, 5]
    for rule in [(3, 1), (None, 0)]:
        assert torch.equal(mask_of(*pairs, *rule), window_mask(*pairs, *rule))
    assert mask_of_pairs(Policies().visible) is window_mask
    assert indices_of(lambda p, window, sinks: p % 4)([0, 5, 6, 7], 3, 1) == [0, 1, 2, 3]


# ---------------------------------------------------------------- plans


OFFER = Candidates(decodes=(4, 2), prefilling=((7, 5),), waiting=((9, 3),))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (None, "returned None; it must be a list"),
        ([(4, True)], "it must be an (id"),
        ([(5, 1)], "planned request 5; only [2, 4, 7, 9] could run"),
        ([(4, 1), (4, 1)], "planned request 4 twice"),
        ([(4, 2)], "planned 2 tokens of request 4; it has 1 left"),
        ([], "planned nothing although requests [2, 4, 7, 9] could run"),
    ],
)
def test_an_illegal_plan_is_described_by_value_and_limit(plan: object, words: str):
    problem = plan_problem(plan, OFFER)
    assert problem is not None
    assert words in problem


ANYTHING = st.none() | st.integers(-3, 12) | st.floats() | st.text(max_size=2) | st.booleans()
ENTRIES = st.tuples(ANYTHING, ANYTHING) | st.tuples(st.integers(0, 9), st.integers(-1, 6))


@given(ANYTHING | st.lists(ANYTHING | ENTRIES, max_size=4))
def test_whatever_a_plan_is_it_is_legal_or_described(plan: object):
    problem = plan_problem(plan, OFFER)
    if problem is None:
        assert isinstance(plan, list) and plan
        left = {4: 1, 2: 1, 7: 5, 9: 3}
        assert all(1 <= num_tokens <= left.pop(request_id) for request_id, num_tokens in plan)
