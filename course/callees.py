"""Who is to blame when one exercise's answer calls another's.

An answer that fails while a function of the same lesson that it calls is unfinished is told so.
"""

import dataclasses
import dis
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any, Protocol

from course.report import Report
from nanogpt.parts.guard import code_inside


class Checked(Protocol):
    """An exercise, as far as this needs it."""

    @property
    def name(self) -> str:
        """Its function's."""
        ...

    @property
    def check(self) -> Callable[..., Report]:
        """Its check."""
        ...


def name_callee(
    report: Report,
    function: Callable[..., Any],
    others: Sequence["Checked"],
    *,
    seed: int,
) -> Report:
    """The report on an exercise's answer, which names the one among `others` that fails beneath it.

    `others` are those of the same lesson with checks that name none, so that two answers that call
    each other come to an end.
    """
    if report.status in ("passed", "not_started"):
        return report
    for other, called in _called(function, others):
        beneath = other.check(called, seed=seed)
        if beneath.status == "passed":
            continue
        what = (
            "is not written yet"
            if beneath.status == "not_started"
            else "does not pass its own check yet: mend that one first"
        )
        idea = f"`{report.name}` calls `{other.name}`, which {what}."
        return dataclasses.replace(report, idea=idea, misconception=None)
    return report


def _called(
    function: Callable[..., Any], others: Sequence["Checked"]
) -> Iterator[tuple["Checked", Callable[..., Any]]]:
    """The other exercises' functions that this one names among its globals."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return
    names = {
        each.argval
        for part in code_inside(code)
        for each in dis.get_instructions(part)
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")  # an attribute may have the same name
    }
    space: dict[str, Any] = getattr(function, "__globals__", {})
    for other in others:
        called = space.get(other.name)
        if other.name in names and callable(called) and called is not function:
            yield other, called
