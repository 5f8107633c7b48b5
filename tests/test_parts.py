"""Parts: the reference by default; anything else runs guarded and is not believed unchecked."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from nanogpt import masks, planning, scheduler
from nanogpt.guard import PartError
from nanogpt.parts import Parts, guard_parts


def test_every_part_defaults_to_the_reference():
    parts = Parts()
    assert parts.plan_step is planning.plan_step
    assert parts.chunk_inputs is planning.chunk_inputs
    assert parts.chunk_mask is masks.chunk_mask
    assert parts.sort_key is scheduler.fcfs_key
    assert parts.choose_victim is scheduler.choose_victim


def test_the_reference_runs_unwrapped():
    assert guard_parts(Parts()) == Parts()


def test_only_what_was_exchanged_is_wrapped():
    def plan_step(*_: Any) -> planning.Plan:
        return [(1, 1)]

    guarded = guard_parts(Parts(plan_step=plan_step))
    assert guarded.plan_step is not plan_step
    assert guarded.plan_step([1], [], [], 4) == [(1, 1)]
    assert dataclasses.replace(guarded, plan_step=planning.plan_step) == Parts()


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("plan_step", ([1], [], [], 4)),
        ("chunk_inputs", ([1, 2, 3], 0, 3)),
        ("chunk_mask", (2, 3)),
        ("sort_key", (None,)),
        ("choose_victim", ([],)),
    ],
)
def test_an_error_in_any_part_names_the_part_and_the_line(name: str, args: tuple[Any, ...]):
    def broken(*_: Any) -> Any:
        return 1 // 0

    part = getattr(guard_parts(Parts(**{name: broken})), name)
    with pytest.raises(PartError, match=rf"your {name} raised ZeroDivisionError on its line 2"):
        part(*args)


def test_the_error_cases_cover_every_part():
    names = {field.name for field in dataclasses.fields(Parts)}
    assert names == {"plan_step", "chunk_inputs", "chunk_mask", "sort_key", "choose_victim"}


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
        ((torch.tensor([6, 7]), [1, 2], False), "it must be"),
        (([6, 7], [1, 2], 0), "it must be"),
        (([6], [1, 2], False), "returned 1 ids and 2 positions; both must be 2 long"),
        (([6, 7], [1, 2, 3], False), "returned 2 ids and 3 positions"),
        (([6, 7.0], [1, 2], False), "integers from 0 up"),
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
