"""Judging functions that may not change what they are given, not even on the way to a right answer.

Knows no lesson: only how to compare, and which argument was changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from course.checks.comparing import Answer, Args, Comparison, same
from course.judging import Ask, Failure, Rows
from course.showing import show


@dataclass(frozen=True, slots=True)
class Unchanged(Comparison[Answer]):
    """A comparison that also looks at every argument after the call.

    `names` are the arguments' own, in order; `kept` says who else still needs them.
    """

    names: tuple[str, ...] = ()
    kept: str = ""

    def judge(self, ask: Ask, cases: Sequence[Args]) -> Failure | None:
        """Ask about each case; the first wrong result, or argument changed, is the failure."""
        results: list[tuple[Args, Any]] = []
        for args in cases:
            called = ask.call(*args)
            results.append((args, called.value))
            if self._problem(called.value, args):
                more = self._more(ask, cases, len(results))
                return self._failure(ask.name, [results[-1], *more, *results[:-1]])
            for name, before, after in zip(self.names, args, called.args_after, strict=False):
                if not same(before, after):
                    return self._changed(ask.name, args, (name, before, after))
        return None

    def _changed(self, name: str, args: Args, what: tuple[str, Any, Any]) -> Failure:
        argument, before, after = what
        rows: Rows = (
            ("input", self.draw_call(name, args)),
            ("before", f"{argument} = {show(before)}"),
            ("after", f"{argument} = {show(after)}"),
        )
        idea = (
            f"The result is right, but `{argument}` was changed on the way, and {self.kept} still "
            "needs it as it was: work on a copy."
        )
        return Failure(idea, rows, "in_place")
