"""A run that is known by its parts' answers is the one that the engine would have made."""

import functools
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from generated import examples
from golden_runs import TIGHT, arrivals_of, engine_of, runs
from hypothesis import given
from hypothesis import strategies as st

from course.known_run import KnownRun
from course.registry import exercises
from course.replay import replay, replays
from nanogpt import Parts

OF_PARTS = [each for each in exercises() if each.part in Parts.__dataclass_fields__]
ANSWERS = [
    (each.part, answer)
    for each in OF_PARTS
    for answer in (*each.right, *(a for idea in each.misconceptions for a in idea.written))
]
MOST_STEPS = 60


@functools.cache
def known(name: str) -> KnownRun[Parts, Any]:
    load, settings = runs()[name]
    return replays(lambda parts: engine_of(settings, parts), lambda: arrivals_of(load), MOST_STEPS)


def told(trace: Any) -> str:
    return json.dumps(trace.to_json(), sort_keys=True)


def computed(name: str, parts: Parts) -> str:
    load, settings = runs()[name]
    return told(replay(engine_of(settings, parts), arrivals_of(load), MOST_STEPS))


ONE_OF_EACH = [
    "tight, padded",
    "urgent, fused",
    "evict with sinks, strip",
    "ring with sinks, packed",
    "blocks, burst",
    "drafts, sampled, blocks, trickle",
]
"""Between them they ask every part."""


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_the_references_run_is_what_an_engine_without_exchanged_parts_does(name: str) -> None:
    assert told(known(name).reference) == computed(name, Parts())


@examples(200)
@given(st.sampled_from(sorted(runs())), st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=3))
def test_right_and_wrong_answers_run_as_they_do_in_the_engine(
    name: str, answers: list[tuple[str, Callable[..., Any]]]
) -> None:
    parts = Parts(**dict(answers))
    assert told(known(name)(parts)) == computed(name, parts)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_worked_answers_are_not_computed_again(name: str) -> None:
    load, settings = runs()[name]
    computed_with: list[Parts] = []

    def run(parts: Parts) -> str:
        computed_with.append(parts)
        return told(replay(engine_of(settings, parts), arrivals_of(load), MOST_STEPS))

    run_with = KnownRun(run, Parts())
    worked = Parts(**{str(each.part): each.right[0] for each in OF_PARTS})
    assert run_with(worked) == run_with.reference
    assert len(computed_with) == 1


def parts_asked() -> set[str]:
    """The parts that some run of `ONE_OF_EACH` calls."""
    asked: set[str] = set()
    for name in ONE_OF_EACH:
        for each in OF_PARTS:
            part = str(each.part)

            def fails(*_: Any, part: str = part) -> Any:
                asked.add(part)
                raise ValueError(part)

            known(name)(Parts(**{part: fails}))
    return asked


def test_these_runs_ask_every_part() -> None:
    assert parts_asked() == {each.part for each in OF_PARTS}


# --- what a function may do besides answering ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sums:
    """A part that gets a number and one that gets a list and a tensor."""

    double: Callable[[int], Any] = lambda number: 2 * number
    total: Callable[[list[int], torch.Tensor], Any] = lambda items, row: sum(items) + int(row.sum())


class Counted:
    """A run that asks both parts three times, and counts how often it was made."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, parts: Sums) -> list[Any]:
        self.times += 1
        answers: list[Any] = []
        for number in range(3):
            answers.append(parts.double(number))
            with torch.inference_mode():
                answers.append(parts.total([number, 1], torch.ones(2)))
        return answers


def times_run(**parts: Any) -> int:
    """How often the run was made for these parts, beside the reference's."""
    run = Counted()
    run_with = KnownRun(run, Sums())
    assert run_with.reference == [0, 3, 2, 4, 4, 5]
    try:
        run_with(Sums(**parts))
    except ZeroDivisionError:
        assert run.times == 2  # the run itself said so
    return run.times - 1


def test_parts_that_answer_alike_are_not_run() -> None:
    assert times_run() == 0
    assert times_run(double=lambda n: n + n) == 0
    assert times_run(double=lambda n: n + n, total=lambda items, row: items[0] + 3) == 0


@pytest.mark.parametrize(
    "double", [lambda n: np.int64(2 * n), lambda n: torch.tensor(2 * n), lambda n: 2.0 * n]
)
def test_the_same_number_in_another_type_is_the_same_answer(double: Callable[..., Any]) -> None:
    assert times_run(double=double) == 0


def changing(items: list[int], row: torch.Tensor) -> int:
    total = sum(items) + int(row.sum())
    items.append(0)
    return total


def changing_tensor(items: list[int], row: torch.Tensor) -> int:
    total = sum(items) + int(row.sum())
    row.zero_()
    return total


def printing(number: int) -> int:
    print(end=" ")  # noqa: T201
    return 2 * number


def wrong_from_the_third_call_on() -> Callable[[int], int]:
    calls = itertools.count()
    return lambda number: 2 * number if next(calls) < 2 else 0


def told_apart_by_mode(items: list[int], row: torch.Tensor) -> int:
    return sum(items) + int(row.sum()) if torch.is_inference_mode_enabled() else 0


@pytest.mark.parametrize(
    "parts",
    [
        {"double": lambda number: 2 * number + (number == 2)},
        {"double": lambda number: bool(number)},
        {"double": lambda number: 2 / (2 - number)},
        {"double": printing},
        {"double": wrong_from_the_third_call_on()},
        {"total": changing},
        {"total": changing_tensor},
        {"total": lambda items, row: None},
        {"total": lambda items, row: lambda: 3},
        {"double": lambda n: n + n, "total": lambda items, row: 3},
        {"double": lambda n: 0, "total": lambda items, row: items[0] + 3},
    ],
)
def test_parts_that_answer_or_do_otherwise_are_run(parts: dict[str, Any]) -> None:
    assert times_run(**parts) == 1


def test_a_part_is_asked_in_the_mode_and_with_the_arguments_of_the_run() -> None:
    assert times_run(total=told_apart_by_mode) == 0
    given: list[Any] = []

    def total(items: list[int], row: torch.Tensor) -> int:
        given.append((type(items), items.copy(), row.tolist()))
        return sum(items) + int(row.sum())

    assert times_run(total=total) == 0
    assert given == [(list, [number, 1], [1.0, 1.0]) for number in range(3)]


def test_what_a_caller_does_with_the_value_of_a_call_changes_no_kept_one() -> None:
    """The run itself may change what it gives; its calls are kept as they were made."""

    def run(parts: Sums) -> list[Any]:
        items = [1]
        first = parts.total(items, torch.ones(2))
        items.append(5)
        return [first, parts.total(items, torch.ones(2))]

    run_with = KnownRun(run, Sums())
    assert run_with.reference == [3, 8]
    assert run_with(Sums(total=lambda items, row: 3 if items == [1] else 8)) == [3, 8]
    assert run_with(Sums(total=lambda items, row: 8)) == [8, 8]


def test_calls_that_do_not_end_are_left_to_the_run() -> None:
    def endless(number: int) -> int:
        while True:
            time.sleep(0.001)

    asked: list[Sums] = []

    def run(parts: Sums) -> Any:
        asked.append(parts)
        return parts.double(1) if len(asked) == 1 else "stopped"

    run_with = KnownRun(run, Sums())
    assert run_with(Sums(double=endless)) == "stopped"
    assert len(asked) == 2


def test_a_run_without_a_change_asks_nothing() -> None:
    asked: list[int] = []
    ours = Sums(double=lambda number: asked.append(number) or 2 * number)
    run_with = KnownRun(Counted(), ours)
    value = run_with.reference
    assert run_with(Sums(double=ours.double, total=ours.total)) is value
    assert asked == [0, 1, 2]


def test_an_endless_part_in_an_engine_ends_in_its_sentence() -> None:
    def plan_step(*_: Any) -> Any:
        while True:
            pass

    run_with = replays(lambda parts: engine_of(TIGHT, parts), lambda: arrivals_of("burst"))
    assert "was stopped" in run_with(Parts(plan_step=plan_step)).error
