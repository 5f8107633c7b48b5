"""An answer that fails because of another one beneath it is told so."""

import dataclasses
from typing import Any

import pytest

from course.exercise import Exercise
from course.harness import Failure
from course.registry import exercise


def exercise_of(name: str, right: int) -> Exercise:
    def judged(ask: Any, rng: Any) -> Failure | None:
        got = ask(3)
        return None if got == right else Failure("Wrong.", ask.example(right, got), "mistaken")

    space: dict[str, Any] = {"__name__": "solutions.l99_x"}
    exec(f"def {name}(n): return {right}", space)
    return dataclasses.replace(
        exercise("l00.next_inputs"), right=(space[name],), checks=(("three", judged),), others={}
    )


WRONG = "`outer` calls `inner`, which does not pass its own check yet: mend that one first."
OUTER = "def outer(n): return inner(n) + 1\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("source", "status", "idea", "key"),
    [
        ("def inner(n): return 2 * n\n" + OUTER, "passed", "", None),
        ("def inner(n): raise NotImplementedError\n" + OUTER, "raised",
         "`outer` calls `inner`, which is not written yet.", None),
        ("def inner(n): return n\n" + OUTER, "failed", WRONG, None),
        ("def inner(n): return 2 * n\ndef outer(n): return inner(n) + 2\n", "failed", "Wrong.",
         "mistaken"),
        ("def inner(n): return n\ndef outer(n): raise NotImplementedError\n", "not_started",
         "Write `outer`", None),
        ("def inner(n): return outer(n)\ndef outer(n): return inner(n)\n", "raised", WRONG, None),
        ("def inner(n): raise NotImplementedError\ndef outer(n): return n.inner\n", "raised",
         "Your `outer` raised AttributeError", None),
    ],
    ids=["right", "unwritten", "wrong", "its own", "stub", "each other", "an attribute"],
)  # fmt: skip
def test_the_one_beneath_is_named_if_it_is_to_blame(
    source: str, status: str, idea: str, key: str | None
) -> None:
    inner, outer = exercise_of("inner", 6), exercise_of("outer", 7)
    space: dict[str, Any] = {}
    exec(source, space)
    report = dataclasses.replace(outer, others={"inner": lambda: inner}).check(space["outer"])
    assert (report.status, report.misconception) == (status, key)
    assert report.idea.startswith(idea) and bool(report.idea) == bool(idea)
