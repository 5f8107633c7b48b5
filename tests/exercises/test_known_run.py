"""A run that is known by its parts' answers is the one that the engine would have made."""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from answers import IDS
from golden_runs import arrivals_of, engine_of, runs
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from course.known_run import KnownRun
from course.registry import exercise
from course.replay import replay, replays
from nanogpt import Parts

MOST_STEPS = 60
ONE_OF_EACH = ["tight, padded", "urgent, fused", "ring with sinks, packed", "blocks, burst"]
"""Between them they ask every part."""


@functools.cache
def of_parts() -> list[Any]:
    """The exercises whose answers are parts of the engine."""
    return [e for e in map(exercise, IDS) if e.part in Parts.__dataclass_fields__]


@functools.cache
def known(name: str) -> KnownRun[Parts, Any]:
    load, settings = runs()[name]
    return replays(lambda parts: engine_of(settings, parts), lambda: arrivals_of(load), MOST_STEPS)


def told(trace: Any) -> str:
    return json.dumps(trace.to_json(), sort_keys=True)


def computed(name: str, parts: Parts) -> str:
    load, settings = runs()[name]
    return told(replay(engine_of(settings, parts), arrivals_of(load), MOST_STEPS))


@examples(0.5)
@given(st.sampled_from(sorted(runs())), st.data())
def test_right_and_wrong_answers_run_as_they_do_in_the_engine(
    name: str, data: st.DataObject
) -> None:
    answers = [
        (item.part, answer)
        for item in of_parts()
        for answer in (*item.right, *(way for idea in item.misconceptions for way in idea.written))
    ]
    parts = Parts(**dict(data.draw(st.lists(st.sampled_from(answers), min_size=1, max_size=3))))
    assert told(known(name)(parts)) == computed(name, parts)


@functools.cache
def texts(name: str, parts: Parts = Parts()) -> list[list[int]]:
    load, settings = runs()[name]
    arrivals = arrivals_of(load)
    engine_of(settings, parts).run(arrivals)
    return [request.generated_tokens for _, request in arrivals]


@examples(0.25)
@given(st.sampled_from(sorted(runs())), st.data())
def test_an_engine_with_right_answers_writes_the_reference_s_texts(
    name: str, data: st.DataObject
) -> None:
    parts = {item.part: data.draw(st.sampled_from(list(item.right))) for item in of_parts()}
    assert texts(name, Parts(**parts)) == texts(name)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_worked_answers_are_not_computed_again(name: str) -> None:
    computed_with: list[Parts] = []

    def run(parts: Parts) -> str:
        computed_with.append(parts)
        return computed(name, parts)

    run_with = KnownRun(run, Parts())
    worked = Parts(**{item.part: item.right[0] for item in of_parts()})
    assert run_with(worked) == run_with.reference == computed(name, Parts())
    assert len(computed_with) == 1


# --- what a function may do besides answering -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sums:
    """A part that gets a number and one that gets a list and a tensor."""

    double: Callable[[int], Any] = lambda number: 2 * number
    total: Callable[[list[int], torch.Tensor], Any] = lambda items, row: sum(items) + int(row.sum())


def times_run(**parts: Any) -> int:
    """How often a run that asks both parts three times was made, beside the reference's."""
    asked: list[Sums] = []

    def run(parts: Sums) -> list[Any]:
        asked.append(parts)
        answers: list[Any] = []
        for number in range(3):
            answers.append(parts.double(number))
            with torch.inference_mode():
                answers.append(parts.total([number, 1], torch.ones(2)))
        return answers

    run_with = KnownRun(run, Sums())
    assert run_with.reference == [0, 3, 2, 4, 4, 5]
    try:
        run_with(Sums(**parts))
    except ZeroDivisionError:
        assert len(asked) == 2  # the run itself said so
    return len(asked) - 1


def changing(items: list[int], row: torch.Tensor) -> int:
    total = sum(items) + int(row.sum())
    items.append(0)
    return total


def printing(number: int) -> int:
    print(end=" ")  # noqa: T201
    return 2 * number


@pytest.mark.parametrize(
    ("parts", "times"),
    [
        ({"double": lambda n: n + n, "total": lambda items, row: items[0] + 3}, 0),
        ({"double": lambda n: np.int64(2 * n)}, 0),
        ({"double": lambda n: torch.tensor(2 * n)}, 0),
        ({"double": lambda number: 2 * number + (number == 2)}, 1),
        ({"double": lambda number: bool(number)}, 1),
        ({"double": lambda number: 2 / (2 - number)}, 1),
        ({"double": printing}, 1),
        ({"total": changing}, 1),
        ({"total": lambda items, row: lambda: 3}, 1),
        ({"double": lambda n: 0, "total": lambda items, row: items[0] + 3}, 1),
    ],
)
def test_parts_are_run_if_they_answer_or_do_otherwise(parts: dict[str, Any], times: int) -> None:
    assert times_run(**parts) == times


def test_calls_that_do_not_end_are_left_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.known_run._LIMIT_S", 0.05)

    def endless(*_: Any) -> Any:
        while True:
            pass

    asked: list[Sums] = []

    def run(parts: Sums) -> Any:
        asked.append(parts)
        return parts.double(1) if len(asked) == 1 else "stopped"

    assert KnownRun(run, Sums())(Sums(double=endless)) == "stopped"
