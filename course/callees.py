"""Who is to blame when one exercise's answer calls another's.

An answer that fails while a function of the same lesson that it calls is unfinished is told so.
"""

import dataclasses
import dis
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from course.report import Report
from nanogpt.guard import code_inside

if TYPE_CHECKING:
    from course.registry import CheckFunction, Exercise


def naming_callees(item: "Exercise", others: Sequence["Exercise"]) -> "CheckFunction":
    """The exercise's check, whose report names the exercise among `others` that fails beneath it.

    `others` are those of the same lesson with their plain checks, so that two answers that call
    each other come to an end.
    """
    plain = item.check

    def check(function: Callable[..., Any], *, seed: int = 0) -> Report:
        report = plain(function, seed=seed)
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
            idea = f"`{item.name}` calls `{other.name}`, which {what}."
            return dataclasses.replace(report, idea=idea, misconception=None)
        return report

    return check


def _called(
    function: Callable[..., Any], others: Sequence["Exercise"]
) -> Iterator[tuple["Exercise", Callable[..., Any]]]:
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
