"""Parts: the reference by default; what a learner's may answer, all else refused in a sentence."""

import copy
import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from nanogpt import planning
from nanogpt.parts import Parts
from nanogpt.parts.blocks import CachedBlock
from nanogpt.parts.fusing import full_mask, fused_rows, pack, split_kv
from nanogpt.parts.layout_checks import mask_of_pairs, slots_of_all
from nanogpt.parts.masks import chunk_mask
from nanogpt.parts.part_checks import guard_parts
from nanogpt.parts.request_view import RequestView
from nanogpt.parts.sliding_window import evict, visible, window_mask
from nanogpt.policies import Resumed
from nanogpt.validate import PartError

VIEW = RequestView(3, 0, 5, 6, (1, 2), (7, 8), 4, 3)
"""Request 3: prompt [1, 2], generated [7, 8], arrived at step 5."""
PAST, NEW = [2, 0, 3], [1, 4, 1]
KNOWN = [[7, 8, 9], [1, 2, 3, 4, 5], [6, 6, 6, 6]]
K = torch.arange(3 * 7 * 2, dtype=torch.float64).view(3, 7, 2)
HELD = torch.arange(2 * 6 * 3, dtype=torch.float64).view(2, 6, 3)
COUNTS = [1, 2, 1, 0]
CACHED = [CachedBlock(0, 0, 1, 0), CachedBlock(1, 2, 0, 1), CachedBlock(2, 0, 3, 0)]
TOKENS, POSITIONS = fused_rows(KNOWN, PAST, NEW)
FULL, OWN, EVICTED = full_mask(PAST, NEW), split_kv(K, PAST, NEW), evict(HELD, -HELD, 3, 1)
CU_Q, CU_K, MASK = pack(PAST, NEW)
HALVES = [0.5, 0.5]

# A call of each part, a right answer in other types, and what the engine gets: plain values.
RIGHT: dict[str, tuple[tuple[Any, ...], Any, Any]] = {
    "plan_step": (([], [(3, 9)], [], 8), ([3, np.int64(2)],), [(3, 2)]),
    "chunk_inputs": (
        ([5, 6, 7, 8], 1, 2), [np.array([6, 7]), (1.0, torch.tensor(2)), np.bool_(False)],
        ([6, 7], [1, 2], False),
    ),
    "chunk_mask": (
        (2, 3), torch.nn.Parameter(chunk_mask(2, 3), requires_grad=False), chunk_mask(2, 3),
    ),
    "sort_key": (("fcfs", VIEW), [np.float64(2.5), Fraction(1, 2)], (2.5, 0.5)),
    "admit": ((VIEW, 6, 10, 1, 8), "admit", "admit"),
    "choose_victim": (([VIEW],), torch.tensor(3.0), 3),
    "resume": (
        (VIEW,), Resumed(np.array([1, 2, 7, 8]), 0.0, np.int64(5), torch.tensor(2)),
        Resumed([1, 2, 7, 8], 0, 5, 2),
    ),
    "record": (([4], [4], [50]), defaultdict(int, {4.0: np.int64(50)}), {4: 50}),
    "fused_rows": (
        (KNOWN, PAST, NEW), [[np.array(row) for row in TOKENS], tuple(map(tuple, POSITIONS))],
        (TOKENS, POSITIONS),
    ),
    "full_mask": ((PAST, NEW), FULL, FULL),
    "split_kv": ((K, PAST, NEW), tuple(OWN), OWN),
    "pack": ((PAST, NEW), [torch.tensor(CU_Q), np.array(CU_K), MASK], (CU_Q, CU_K, MASK)),
    "evict": ((HELD, -HELD, 3, 1), list(EVICTED), EVICTED),
    "held": ((4, 3, 5, 1), [np.int64(7), 6.0], (7, 6)),
    "visible": (([4], [4], 3, 1), np.bool_(True), torch.tensor([[True]])),
    "ring_slot": (([7], 3, 1), torch.tensor(2.0), [2]),
    "accept": ((HALVES, HALVES, 1, 0.1, 0.1), [np.bool_(True), 1.0], (True, 1)),
    "roll_back_kv": ((7, 3, 1), np.float64(5), 5),
    "allocate": ((1, 17, 8, [4, 2, 9]), (4.0, 2.0), [4, 2]),
    "release": ((COUNTS, [0, 1]), (0.0,), [0]),
    "block_hashes": (([1, 2, 3], 2, ""), [np.str_("a")], ["a"]),
    "longest_match": ((["a", "b"], {"a": 3}, 9, 2), [[3.0], 2], ([3], 2)),
    "writable": (([0, 1], COUNTS, 1, [3]), [[0, 3], [1, 3]], ([0, 3], (1, 3))),
    "evict_order": ((CACHED,), (2.0, 0.0), [2, 0]),
}  # fmt: skip
ASKED_FOR_MANY = {"visible": mask_of_pairs, "ring_slot": slots_of_all}


def guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    part = getattr(guard_parts(Parts(**{name: function})), name)
    return ASKED_FOR_MANY[name](part) if name in ASKED_FOR_MANY else part


def refusal(name: str, answer: Any, *args: Any) -> str:
    with pytest.raises(PartError, match=f"your {name}") as refused:
        guarded(name, lambda *_: answer)(*(args or RIGHT[name][0]))
    assert "\n" not in str(refused.value)
    return str(refused.value)


class EqualsAnything:
    """A part that would pass for the reference."""

    def __eq__(self, other: object) -> bool:
        return True

    def __call__(self, *arguments: object) -> list[Any]:
        raise RuntimeError("called")


def test_each_part_defaults_to_the_reference_of_its_name_and_only_others_are_wrapped():
    assert RIGHT.keys() == {field.name for field in dataclasses.fields(Parts)}, "a case for each"
    for field in dataclasses.fields(Parts):
        part = getattr(Parts(), field.name)
        assert getattr(part, "function", part).__name__ == field.name
    assert guard_parts(Parts()) == Parts()
    changed = guard_parts(Parts(plan_step=lambda *_: [(1, 1)]))
    assert changed.plan_step([1], [], [], 4) == [(1, 1)]
    assert dataclasses.replace(changed, plan_step=planning.plan_step) == Parts()
    with pytest.raises(PartError, match="your plan_step raised RuntimeError: called"):
        guarded("plan_step", EqualsAnything())()


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_reaches_the_engine_as_plain_values(name: str):
    args, answer, plain = RIGHT[name]
    assert repr(guarded(name, lambda *_: answer)(*args)) == repr(plain)


@pytest.mark.parametrize("name", RIGHT)
def test_an_error_in_any_part_names_the_part_and_the_line(name: str):
    def broken(*_: Any) -> Any:
        return 1 // 0

    with pytest.raises(PartError, match=rf"your {name} raised ZeroDivisionError on its line 2"):
        guarded(name, broken)(*RIGHT[name][0])


@pytest.mark.parametrize(
    "name", sorted(RIGHT.keys() - {"plan_step"})
)  # the engine copies its offer
def test_a_part_that_empties_the_lists_it_is_given_changes_nothing_outside(name: str):
    args, answer, _ = RIGHT[name]
    own = copy.deepcopy(args)

    def greedy(*given: Any) -> Any:
        for each in given:
            if isinstance(each, list | dict):
                each.clear()
        return answer

    guarded(name, greedy)(*own)
    assert repr(own) == repr(args)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("chunk_mask", None, "(2, 3) returned NoneType; it must be a torch.bool tensor of shape"),
        ("chunk_mask", torch.ones(3, 5), "returned torch.float32 (3, 5)"),
        ("chunk_mask", chunk_mask(2, 3).to_sparse(), "returned sparse tensor"),
        ("chunk_mask", torch.zeros(3, 5).bool(), "lets query 0 see no key at all"),
        ("chunk_inputs", ([6, 7], [1, 2]), "it must be (ids, positions, sample)"),
        ("chunk_inputs", ([6], [1, 2], False), "1 ids and 2 positions; both must be 2 long"),
        ("chunk_inputs", ([6, "7"], [1, 2], False), "integers from 0 up"),
        ("sort_key", 3, "returned 3 for request 3; it must be a tuple of numbers"),
        ("sort_key", (math.nan,), "it must be a tuple of numbers"),
        ("admit", True, "for request 3; it must be 'admit', 'wait' or 'refuse'"),
        ("admit", "refuse", "refused request 3 for good; it needs at most 5"),
        ("choose_victim", 99, "named 99; only [3] are running"),
        ("resume", None, "it must be (tokens, cursor, arrival, num_generated)"),
        ("resume", (4, 0, 5, 2), "with a list of tokens"),
        ("resume", ([1, 2, 7, 8], 0, -1, 2), "the last three are whole numbers from 0"),
        ("resume", ([1, 2, 7, 8], 3, 5, 2), "starts at token 3; its K/V was released"),
        ("resume", ([1, 2, 7, 8], 0, 5, 3), "keeps 3 generated tokens; it has 2"),
        ("resume", ([1, 2], 0, 5, 2), "recomputes 2 tokens and keeps 2 generated ones"),
        ("record", [(4, 50)], "requests [4] were forwarded and each of them needs its token"),
        ("record", {4: 50, 9: 60}, "requests [4] were forwarded"),
        ("record", {4: 51}, "the tokens were [50]"),
        ("fused_rows", None, "returned None; it must be (tokens, positions), each 3 rows of 4"),
        ("fused_rows", (TOKENS, [[-1, *row[1:]] for row in POSITIONS]), "whole numbers from 0"),
        ("full_mask", FULL[:, :, 1:], "a torch.bool tensor of (3, 4, 6); it must be"),
        ("split_kv", OWN[:2], "it must be a list of 3 tensors"),
        ("split_kv", [*OWN[:2], OWN[2][1:]], "for row 2 returned a torch.float64 tensor of (3, 2)"),
        ("pack", (CU_Q, CU_K), "it must be (cu_q, cu_k, mask)"),
        ("pack", (CU_Q[1:], CU_K, MASK), "cu_q = [1, 5, 6]; with rows of [1, 4, 1]"),
        ("pack", (CU_Q, [0, 2, 2, 5], MASK), "cu_k = [0, 2, 2, 5]; with rows of [3, 4, 4]"),
        ("pack", (CU_Q, CU_K, MASK.int()), "your pack's mask returned a torch.int32"),
        ("evict", HELD, "it must be (k, v)"),
        ("evict", (HELD[:, 1:], HELD), "your evict's v returned"),
        ("held", (7, -1), "it must be (peak, end), whole numbers from 0"),
        ("visible", "yes", "(4, 4, 3, 1) returned 'yes'; it must be True or False"),
        ("ring_slot", 4, "(7, 3, 1) returned 4; there are slots 0..3"),
        ("accept", (True,), "it must be (kept, token) with a token of 0..1"),
        ("accept", (True, 0), "keeps the draft and puts token 0 in its place"),
        ("roll_back_kv", 2.5, "must be a whole number of 0..7"),
        ("roll_back_kv", 7, "keeps 7 KV tokens; the last 2 belong to rejected drafts"),
        ("roll_back_kv", 4, "the last 1 that it drops belong to tokens that stand in the text"),
        ("allocate", [4, 4], "need 2 different blocks more out of"),
        ("allocate", None, "need 2 different blocks more out of"),
        ("release", [0, 1], "frees block 1; with this one, 2 tables name it"),
        ("release", [], "keeps block 0; with this one, 1 table names it"),
        ("release", [2], "different blocks out of"),
        ("block_hashes", [8], "need 1 string"),
        ("longest_match", [1], "it must be (blocks, num_cached)"),
        ("longest_match", ([3, 4], 4), "without a gap"),
        ("longest_match", ([3], 1), "found 1 tokens in 1 blocks of 2"),
        ("writable", ([0, 1], None), "2 tables name block 1"),
        ("evict_order", [0], "no table names"),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_refused_with_what_came_back_and_what_was_wanted(name, answer, words):
    assert words in refusal(name, answer)


@pytest.mark.parametrize(
    ("name", "answer", "args", "words"),
    [
        ("chunk_inputs", ([7, 8], [2, 3], False), ([5, 6, 7, 8], 2, 2), "does not sample although"),
        ("admit", "admit", (VIEW, 0, None, 8, 8), "request 3 into a full batch (8 of 8)"),
        ("admit", "admit", (VIEW, 7, 10, 1, 8), "although 7 KV tokens in use + 4 to compute > 10"),
        ("longest_match", ([3], 2), (["a"], {"a": 3}, 2, 2), "at least one has to be computed"),
        ("writable", ([3], (0, 3)), ([0], COUNTS, 0, [3]), "1 table names block 0"),
    ],
)
def test_an_answer_that_is_wrong_for_this_call_is_refused(name, answer, args, words):
    assert words in refusal(name, answer, *args)


def test_rules_of_single_positions_are_asked_for_many_in_one_call():
    mask_of = mask_of_pairs(lambda q, k, w, s: visible(q, k, w, s))
    pairs = [4, 5], [0, 2, 3, 4, 5]
    for rule in [(3, 1), (None, 0)]:
        assert torch.equal(mask_of(*pairs, *rule), window_mask(*pairs, *rule))
    assert mask_of_pairs(Parts().visible) is window_mask
    assert slots_of_all(lambda p, window, sinks: p % 4)([0, 5, 6, 7], 3, 1) == [0, 1, 2, 3]
