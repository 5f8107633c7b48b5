"""The checks of lessons 0 and 1: slips that show in large cases alone, and what the cards show."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from course.registry import exercise
from solutions.l00_kv_cache.cached_attention import cached_attention
from solutions.l00_kv_cache.next_inputs import next_inputs
from solutions.l01_chunked_prefill.chunk_inputs import chunk_inputs
from solutions.l01_chunked_prefill.plan_step import plan_step

# --- slips in large cases ----------------------------------------------------------------------


def cut_short(tokens: list[int], num_cached: int) -> list[int]:
    return next_inputs(tokens, num_cached)[:256]


def cut_chunk(tokens: list[int], cursor: int, n: int) -> Any:
    return chunk_inputs(tokens, cursor, min(n, 256))


def same_object(tokens: list[int], cursor: int, n: int) -> Any:
    """Python keeps one object for each int up to 256."""
    end = cursor + n
    return tokens[cursor:end], list(range(cursor, end)), end is len(tokens)


def cheapest_tokens(cost: Callable[[int], int], num_decodes: int, limit: int) -> int:
    fitting = [n for n in range(num_decodes + 1, 4097) if cost(n) <= limit]
    return min(fitting, key=lambda n: (cost(n) / n, -n), default=num_decodes + 1)


def few_at_once(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Any:
    return plan_step(decodes[:8], prefilling[:8], waiting[:8], budget)


def three_at_once(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Any:
    return plan_step(decodes, prefilling, waiting[:3], budget)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("exercise_id", "slip"),
    [
        ("l00.next_inputs", cut_short),
        ("l01.chunk_inputs", cut_chunk),
        ("l01.chunk_inputs", same_object),
        ("l01.pick_budget", cheapest_tokens),
        ("l01.plan_step", few_at_once),
        ("l01.plan_step", three_at_once),
    ],
)
def test_a_slip_in_large_cases_alone_is_caught(exercise_id: str, slip: Any, seed: int) -> None:
    report = exercise(exercise_id).check(slip, seed=seed)
    assert report.status == "failed"
    assert all(len(text) <= 800 for _, text in report.example)


def test_many_requests_are_shrunk_to_the_few_that_show_the_slip() -> None:
    report = exercise("l01.plan_step").check(few_at_once)
    assert dict(report.example)["input"].count(",") <= 30, report.text()


# --- what the cards show -----------------------------------------------------------------------


@pytest.mark.parametrize("every", [2, 3, 5, 6, 7, 9, 11, 13])
def test_a_plan_that_is_wrong_now_and_then_is_shown_with_the_step_that_it_was_made_for(
    every: int,
) -> None:
    calls = itertools.count(1)

    def flips(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Any:
        if next(calls) % every == 0:
            prefilling, waiting = waiting, prefilling
        return plan_step(decodes, prefilling, waiting, budget)

    report = exercise("l01.plan_step").check(flips)
    rows = dict(report.example)
    assert report.status == "failed"
    assert rows["got"] != rows["expected"].removesuffix(" (in any order)")
    named = re.findall(r"request (\d+)", report.idea, re.IGNORECASE)
    assert named and all(f"({id}, " in rows["input"] for id in named), report.text()


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (lambda out, k, v: (out, k), "this is a tuple of 2."),
        (lambda out, k, v: [out, k, v, v], "this is a list of 4."),
        (lambda out, k, v: out, "this is a tensor."),
        (lambda out, k, v: out[0], "this is a tensor of 4."),
        (lambda out, k, v: (out, (k, v)), "this is a tuple of 2."),
    ],
)
def test_another_number_of_tensors_is_counted(results: Any, said: str) -> None:
    report = exercise("l00.cached_attention").check(lambda *args: results(*cached_attention(*args)))
    assert report.idea == f"Return three tensors, out, k and v; {said}"


@pytest.mark.parametrize(
    "nearly",
    [
        lambda scores: scores.exp() / (scores.exp().sum() + 1e-6),
        lambda scores: (scores / (1 + 1e-5)).softmax(-1),
        lambda scores: scores.float().softmax(-1).to(scores.dtype),
    ],
)
def test_an_output_that_is_nearly_right_is_told_of_both_ways_to_get_it(nearly: Any) -> None:
    def answer(q: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        _, k, v = cached_attention(q, *rest)
        return nearly(q @ k.T / q.shape[1] ** 0.5) @ v, k, v

    assert exercise("l00.cached_attention").check(answer).idea == (
        "out is right to a few digits only: use float64 throughout and add no epsilon."
    )
