"""What a part may answer: everything else is refused in one sentence, before it counts."""

import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from nanogpt.parts import Parts, masks
from nanogpt.parts.part_checks import checked_key, guard_parts
from nanogpt.parts.request_view import RequestView
from nanogpt.policies import Resumed
from nanogpt.validate import PartError

PREEMPTED = RequestView(3, 0, 5, 6, (1, 2), (7, 8), 4, 3)
"""Request 3: prompt [1, 2], generated [7, 8], arrived at step 5."""


def part(name: str, answer: Any) -> Callable[..., Any]:
    """A part that always gives the same answer, guarded."""
    return getattr(guard_parts(Parts(**{name: lambda *_: answer})), name)


# ---------------------------------------------------------------- chunk_mask and chunk_inputs


def mask_part(mask: Any) -> Callable[[int, int], Any]:
    return guard_parts(Parts(chunk_mask=lambda num_past, num_new: mask)).chunk_mask


@pytest.mark.parametrize(
    ("mask", "got"),
    [
        (None, "NoneType"),
        ([[True] * 5] * 3, "list"),
        (torch.ones(3, 5), r"torch.float32 \(3, 5\)"),
        (torch.ones(3, 3).bool(), r"torch.bool \(3, 3\)"),
        (torch.ones(1, 3, 5).bool(), r"torch.bool \(1, 3, 5\)"),
    ],
)
def test_a_mask_of_the_wrong_kind_is_refused_with_what_it_should_be(mask: Any, got: str):
    with pytest.raises(PartError, match=rf"chunk_mask\(2, 3\) returned {got}; .* \(3, 5\)"):
        mask_part(mask)(2, 3)


def test_a_mask_that_blinds_a_query_is_refused_with_the_query():
    blind = masks.chunk_mask(2, 3).clone()
    blind[1] = False
    with pytest.raises(PartError, match="lets query 1 see no key at all"):
        mask_part(blind)(2, 3)


def test_a_wrong_mask_of_the_right_kind_passes_since_it_is_the_lessons_subject():
    everything = torch.ones(3, 5).bool()
    assert mask_part(everything)(2, 3) is everything


def inputs_part(answer: Any) -> Callable[..., Any]:
    return guard_parts(Parts(chunk_inputs=lambda *_: answer)).chunk_inputs


def test_right_inputs_pass_unchanged():
    assert inputs_part(([6, 7], [1, 2], False))([5, 6, 7, 8], 1, 2) == ([6, 7], [1, 2], False)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, r"returned None; it must be \(ids, positions, sample\)"),
        (([6, 7], [1, 2]), "it must be"),
        ((torch.tensor([[6, 7]]), [1, 2], False), "it must be"),
        (([6, 7], [1, 2], 0), "it must be"),
        (([6], [1, 2], False), "returned 1 ids and 2 positions; both must be 2 long"),
        (([6, 7], [1, 2, 3], False), "returned 2 ids and 3 positions"),
        (([6, 7.5], [1, 2], False), "integers from 0 up"),
        (([6, 7], [-1, 2], False), "integers from 0 up"),
        (([6, "7"], [1, 2], False), "integers from 0 up"),
        (([6, 7], [1, True], False), "integers from 0 up"),
    ],
)
def test_wrong_inputs_are_refused_with_the_call_and_the_reason(answer: Any, words: str):
    with pytest.raises(PartError, match=words) as refused:
        inputs_part(answer)([5, 6, 7, 8], 1, 2)
    assert "chunk_inputs(tokens, 1, 2)" in str(refused.value)


def test_the_last_chunk_must_sample():
    with pytest.raises(PartError, match="does not sample although it ends at the last known"):
        inputs_part(([7, 8], [2, 3], False))([5, 6, 7, 8], 2, 2)


def test_the_parts_own_copy_of_the_tokens_is_all_that_it_can_change():
    def greedy_hands(tokens: list[int], cursor: int, num_tokens: int) -> Any:
        answer = tokens[cursor : cursor + num_tokens], list(range(cursor, cursor + num_tokens))
        tokens.clear()
        return *answer, True

    tokens = [5, 6, 7]
    assert guard_parts(Parts(chunk_inputs=greedy_hands)).chunk_inputs(tokens, 0, 3)[2]
    assert tokens == [5, 6, 7]


# ---------------------------------------------------------------- sort_key


@pytest.mark.parametrize("key", [(), (3,), (0, -1.5), (math.inf, 2)])
def test_any_tuple_of_numbers_is_a_rank(key: tuple[float, ...]):
    assert part("sort_key", key)("fcfs", PREEMPTED) == key


@pytest.mark.parametrize(
    "key", [None, 3, [None], "first", ("x",), (None,), (math.nan,), (1, math.nan), (True,), ((1,),)]
)
def test_what_a_heap_could_not_compare_is_no_rank(key: Any):
    with pytest.raises(PartError) as refused:
        part("sort_key", key)("fcfs", PREEMPTED)
    said = f"your sort_key returned {key!r} for request 3; it must be a tuple of numbers"
    assert str(refused.value) == said
    with pytest.raises(PartError, match="your policy returned"):
        checked_key("policy", key, 3)


# ---------------------------------------------------------------- admit


@pytest.mark.parametrize("verdict", ["admit", "wait"])
def test_a_right_verdict_passes(verdict: str):
    assert part("admit", verdict)(PREEMPTED, 6, 10, 7, 8) == verdict


def test_what_can_never_run_may_be_refused():
    assert part("admit", "refuse")(PREEMPTED, 0, 4, 0, 8) == "refuse"


@pytest.mark.parametrize("verdict", [None, True, "yes", "Admit", 1, ["admit"]])
def test_a_verdict_is_one_of_three_words(verdict: Any):
    with pytest.raises(PartError, match="for request 3; it must be 'admit', 'wait' or 'refuse'"):
        part("admit", verdict)(PREEMPTED, 0, 22, 0, 8)


def test_nobody_is_let_into_a_full_batch():
    with pytest.raises(PartError, match=r"request 3 into a full batch \(8 of 8\)"):
        part("admit", "admit")(PREEMPTED, 0, None, 8, 8)


def test_nobody_is_let_in_beyond_the_kv_budget():
    with pytest.raises(PartError, match=r"although 7 KV tokens in use \+ 4 to compute > 10"):
        part("admit", "admit")(PREEMPTED, 7, 10, 1, 8)
    assert part("admit", "admit")(PREEMPTED, 6, 10, 1, 8) == "admit"


@pytest.mark.parametrize("budget", [None, 5, 100])
def test_never_is_not_said_of_what_fits_alone(budget: int | None):
    """5 = 2 + 4 - 1 KV tokens fit; that others hold the budget right now means "wait"."""
    with pytest.raises(PartError, match="your admit refused request 3"):
        part("admit", "refuse")(PREEMPTED, 4, budget, 8, 8)


# ---------------------------------------------------------------- choose_victim


@pytest.mark.parametrize("chosen", [99, None, "3", 3.5, True, PREEMPTED, [3]])
def test_a_victim_is_named_by_the_id_of_a_runner(chosen: Any):
    runner = RequestView(1, 0, 5, 6, (1, 2), (7, 8), 4, 3)
    with pytest.raises(PartError, match=r"your choose_victim named .*; only \[3, 1\] are running"):
        part("choose_victim", chosen)([PREEMPTED, runner])


def test_emptying_the_list_it_was_given_changes_nothing():
    active = [PREEMPTED]

    def greedy(given: list[RequestView]) -> int:
        return given.pop().id

    assert guard_parts(Parts(choose_victim=greedy)).choose_victim(active) == 3
    assert active == [PREEMPTED]


# ---------------------------------------------------------------- resume


@pytest.mark.parametrize(
    "answer",
    [
        ([1, 2, 7, 8], 0, 5, 2),  # all kept
        ([1, 2, 7], 0, 5, 1),
        ([1, 2], 0, 5, 0),  # the posts' restart
        ([1, 2, 7, 8], 0, 60, 2),  # to the back of the queue
    ],
)
def test_a_way_back_on_which_every_token_is_computed_passes(answer: Any):
    assert part("resume", answer)(PREEMPTED) == Resumed(*answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "returned None; it must be \\(tokens, cursor, arrival, num_generated\\)"),
        (([1, 2, 7, 8], 0, 5), "it must be"),
        ((4, 0, 5, 2), "with a list of tokens"),
        (([1, 2, 7, 8], 0, 5.5, 2), "the last three are whole numbers from 0"),
        (([1, 2, 7, 8], 0, -1, 2), "the last three are whole numbers from 0"),
        (([1, 2, 7, 8], 0, 5, True), "the last three are whole numbers from 0"),
        (([1, 2, 7, 8], None, 5, 2), "the last three are whole numbers from 0"),
        (([1, 2, 7, 8], 3, 5, 2), "starts at token 3; its K/V was released"),
        (([1, 2, 7, 8], 0, 5, 3), "keeps 3 generated tokens; it has 2"),
        (([1, 2, 7, 8], 0, 5, -1), "keeps -1 generated tokens; it has 2"),
        (([1, 2], 0, 5, 2), "recomputes 2 tokens and keeps 2 generated ones; .* all 4 known"),
        (([1, 2, 7, 8], 0, 5, 0), "recomputes 4 tokens and keeps 0"),
        (([1, 2, 8, 7], 0, 5, 2), "recomputes 4 tokens"),
        (([], 0, 5, 0), "recomputes 0 tokens"),
    ],
)
def test_a_way_back_that_orphans_tokens_or_has_no_place_is_refused(answer: Any, words: str):
    with pytest.raises(PartError, match=f"your resume of request 3 .*{words}".replace("  ", " ")):
        part("resume", answer)(PREEMPTED)


# ---------------------------------------------------------------- record


@pytest.mark.parametrize("answer", [{4: 50, 7: 60}, {7: 60, 4: 50}, {4: 60, 7: 50}])
def test_every_row_with_a_token_passes_even_when_they_cross_over(answer: dict[int, int]):
    """Whose token is whose is the lesson's subject; the texts show it."""
    assert part("record", answer)([4, 7], [7, 4], [50, 60]) == answer


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [(4, 50), (7, 60)],
        {},
        {4: 50},
        {4: 50, 9: 60},
        {4: 50, 7: 60, 9: 60},
        {"4": 50, 7: 60},
        {4.5: 50, 7: 60},
    ],
)
def test_everyone_who_was_forwarded_needs_a_token(answer: Any):
    with pytest.raises(PartError, match=r"your record returned .*requests \[4, 7\] were forwarded"):
        part("record", answer)([4, 7], [4, 7], [50, 60])


@pytest.mark.parametrize(
    "tokens", [(50, 50), (50, 61), (None, None), (50.5, 60), ("50", 60), (torch.ones(2), 60)]
)
def test_the_tokens_are_those_that_were_sampled(tokens: tuple[Any, Any]):
    with pytest.raises(PartError, match="your record returned"):
        part("record", dict(zip([4, 7], tokens, strict=True)))([4, 7], [4, 7], [50, 60])


@pytest.mark.parametrize("answer", [{True: 1}, {1: True}])
def test_true_is_no_request_and_no_token(answer: Any):
    with pytest.raises(PartError, match="your record returned"):
        part("record", answer)([1], [1], [1])


# ---------------------------------------------------------------- the same values in other types


class Span(NamedTuple):
    tokens: Any
    cursor: Any
    arrival: Any
    kept: Any


@pytest.mark.parametrize(
    ("name", "answer", "args", "plainly"),
    [
        ("plan_step", ([3, np.int64(2)],), ([], [(3, 9)], [], 8), [(3, 2)]),
        (
            "chunk_inputs",
            [np.array([6, 7]), range(1, 3), torch.tensor(False)],
            ([5, 6, 7, 8], 1, 2),
            None,
        ),
        (
            "chunk_inputs",
            [np.array([6, 7]), (1.0, torch.tensor(2)), np.bool_(False)],
            ([5, 6, 7, 8], 1, 2),
            ([6, 7], [1, 2], False),
        ),
        ("sort_key", [np.float64(2.5), Fraction(1, 2)], ("fcfs", PREEMPTED), (2.5, 0.5)),
        ("choose_victim", torch.tensor(3.0), ([PREEMPTED],), 3),
        (
            "resume",
            Span(np.array([1, 2, 7, 8]), 0.0, np.int64(5), torch.tensor(2)),
            (PREEMPTED,),
            Resumed([1, 2, 7, 8], 0, 5, 2),
        ),
        ("record", defaultdict(int, {4.0: np.int64(50)}), ([4], [4], [50]), {4: 50}),
        ("accept", [np.bool_(True), 1.0], ([0.5, 0.5], [0.5, 0.5], 1, 0.1, 0.1), (True, 1)),
        ("roll_back_kv", np.float64(5), (7, 3, 1), 5),
    ],
)
def test_the_engine_gets_plain_values_whatever_the_part_computed_with(
    name: str, answer: Any, args: Any, plainly: Any
):
    if plainly is None:
        with pytest.raises(PartError, match="it must be"):
            part(name, answer)(*args)
    else:
        assert repr(part(name, answer)(*args)) == repr(plainly)


def test_a_mask_of_another_class_of_tensors_is_the_mask_beneath_it():
    mask = torch.nn.Parameter(masks.chunk_mask(2, 3), requires_grad=False)
    assert type(mask_part(mask)(2, 3)) is torch.Tensor


def test_a_mask_without_cells_to_look_at_is_named():
    with pytest.raises(PartError, match="returned sparse tensor; it must be"):
        mask_part(masks.chunk_mask(2, 3).to_sparse())(2, 3)
