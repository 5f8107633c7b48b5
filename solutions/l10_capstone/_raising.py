"""A check of cases in which a wrong idea may show as an error."""

from typing import Any

from course.checks.comparing import Args, Comparison
from course.exercise import Misconception
from course.harness import Ask, Check, Failure


def or_raises(
    judge: Comparison[Any],
    idea: Misconception,
    errors: tuple[type[Exception], ...],
    *cases: Args,
) -> Check:
    """The check that asks about these cases, where one of the errors tells the idea."""

    def check(ask: Ask, rng: object) -> Failure | None:
        for args in cases:
            called = ask.call(*args, may_raise=True)
            if called.raised(*errors):
                expected = judge.draw(judge.reference(*args))
                return idea.failure(
                    (
                        ("input", judge.draw_call(ask.name, args)),
                        ("expected", expected),
                        ("got", called.error.kind if called.error else ""),
                    )
                )
            if failure := judge.judge(ask, [args]):
                return failure
        return None

    return check
