"""An answer that fails because of another one beneath it is told so."""

import dataclasses
from typing import Any

from course.exercise import Exercise
from course.harness import Failure
from course.task import Task


def exercise_of(name: str, right: int) -> Exercise:
    def judged(ask: Any, rng: Any) -> Failure | None:
        got = ask(3)
        return None if got == right else Failure("Wrong.", ask.example(right, got), "mistaken")

    space: dict[str, Any] = {"__name__": "solutions.l99_x"}
    exec(f"def {name}(n): return {right}", space)
    return Exercise(
        number=1,
        title="",
        minutes=1,
        points=1,
        task=Task(f"{name}(n: int) -> int", (), (3,), right),
        hints=("a", "b", "c"),
        right=(space[name],),
        misconceptions=(),
        checks=(("three", judged),),
    )


def checked(source: str) -> Any:
    """The report on `outer`, which calls `inner`, both as defined in `source`."""
    inner, outer = exercise_of("inner", 6), exercise_of("outer", 7)
    outer = dataclasses.replace(outer, others=(inner,))
    space: dict[str, Any] = {}
    exec(source, space)
    return outer.check(space["outer"])


OUTER = "def outer(n): return inner(n) + 1\n"


def test_a_right_answer_on_a_right_one_passes():
    assert checked("def inner(n): return 2 * n\n" + OUTER).status == "passed"


def test_the_unwritten_one_is_named():
    report = checked("def inner(n): raise NotImplementedError\n" + OUTER)
    assert (report.status, report.misconception) == ("raised", None)
    assert report.idea == "`outer` calls `inner`, which is not written yet."


def test_the_wrong_one_is_named_and_the_example_kept():
    report = checked("def inner(n): return n\n" + OUTER)
    assert (report.status, report.misconception) == ("failed", None)
    assert report.idea == (
        "`outer` calls `inner`, which does not pass its own check yet: mend that one first."
    )
    assert dict(report.example)["got"] == "4"


def test_a_mistake_of_its_own_is_its_own():
    report = checked("def inner(n): return 2 * n\ndef outer(n): return inner(n) + 2\n")
    assert (report.idea, report.misconception) == ("Wrong.", "mistaken")


def test_an_untouched_stub_blames_no_other():
    report = checked("def inner(n): return n\ndef outer(n): raise NotImplementedError\n")
    assert report.status == "not_started"


def test_two_that_call_each_other_come_to_an_end():
    report = checked("def inner(n): return outer(n)\ndef outer(n): return inner(n)\n")
    assert report.idea.startswith("`outer` calls `inner`, which does not pass its own check yet")


def test_an_attribute_of_the_same_name_is_no_call():
    report = checked("def inner(n): raise NotImplementedError\ndef outer(n): return n.inner\n")
    assert report.status == "raised"
    assert "AttributeError" in report.idea, report.idea
