"""Who is to blame when one exercise's answer calls another's.

An answer that fails while a function of the same lesson that it calls is unfinished is told so.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from course.calling.answers import Answer
from course.report import Report


class Judged(Protocol):
    """An exercise, as far as this needs it."""

    @property
    def name(self) -> str:
        """Its function's."""
        ...

    @property
    def judge(self) -> Callable[..., Report]:
        """Its check."""
        ...


def name_callee(report: Report, answer: Answer, others: Sequence[Judged], *, seed: int) -> Report:
    """The report on an exercise's answer, which names the one among `others` that fails beneath it.

    `others` are those of the same lesson with checks that name none, so that two answers that call
    each other come to an end.
    """
    if report.status in ("passed", "not_started"):
        return report
    exercises = {other.name: other for other in others}
    for name, called in answer.callees(list(exercises)):
        beneath = exercises[name].judge(called, seed=seed)
        if beneath.status == "passed":
            continue
        what = (
            "is not written yet"
            if beneath.status == "not_started"
            else "does not pass its own check yet: mend that one first"
        )
        idea = f"`{report.name}` calls `{name}`, which {what}."
        return dataclasses.replace(report, idea=idea, misconception=None)
    return report
