"""The harness of a check: runs named checks, easiest first, up to the first that fails.

A check asks the function through `Ask` and returns a `Failure` or None; it never sees the function.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course.calling import Called, call
from course.report import Report, Status
from course.showing import show, show_call
from nanogpt.guard import describe_error, describe_timeout, run_limited

_CALL_LIMIT_S = 1.0
_ALL_CALLS_LIMIT_S = 10.0
_CHECK_LIMIT_S = 15.0  # of the check itself, in case an answer leads it round in circles

Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an answer is wrong: the idea in one sentence, and the smallest case that shows it.

    `example` are rows for the report, as `Ask.example` makes them; `misconception` names the
    known wrong idea, where the check recognised one.
    """

    idea: str
    example: Rows = ()
    misconception: str | None = None


class Ask:
    """Asks the learner's function. Raises, to end the check, when a call does not return.

    `ask(*args)` gives the value, `ask.call(*args)` the whole `Called` with `args_after`.
    """

    def __init__(self, name: str, function: Callable[..., Any], *, seed: int) -> None:
        self.name = name
        self.count = 0
        self.args: tuple[Any, ...] = ()
        self.first_stdout = self.last_stdout = ""
        self._function = function
        self._seed = seed
        self._left_s = _ALL_CALLS_LIMIT_S

    def __call__(self, *args: Any) -> Any:
        """What the function returns for copies of `args`."""
        return self.call(*args).value

    def call(self, *args: Any, may_raise: bool = False) -> Called:
        """The whole outcome of a call; one that did not return ends the check.

        With `may_raise`, an error is an answer like any other: it comes back in `Called.error`.
        """
        if self._left_s <= 0:
            total = f"{_ALL_CALLS_LIMIT_S:g} s of computing for {self.count} calls"
            raise _Ended("timeout", f"Your `{self.name}` used {total} and was stopped.")
        self.count, self.args = self.count + 1, args
        limit_s = max(0.1, min(_CALL_LIMIT_S, self._left_s))
        called = call(self._function, args, limit_s=limit_s, seed=self._seed)
        self._left_s -= called.cpu_s
        self.last_stdout = called.stdout
        if self.count == 1:
            self.first_stdout = called.stdout
        if called.timed_out:
            raise _Ended(
                "timeout", f"Your `{self.name}` {describe_timeout(called.cpu_s, limit_s)}."
            )
        if called.error is not None and not may_raise:
            raise self._ended_by(called.error)
        return called

    def example(self, expected: Any, got: Any) -> Rows:
        """The rows input, expected, got for the last call. Strings are taken as they are."""
        return (
            ("input", show_call(self.name, self.args)),
            ("expected", expected if isinstance(expected, str) else show(expected)),
            ("got", got if isinstance(got, str) else show(got)),
        )

    def _ended_by(self, error: BaseException) -> "_Ended":
        if isinstance(error, NotImplementedError) and self.count == 1:
            return _Ended("not_started", not_started_idea(self.name))
        return _Ended("raised", f"Your `{self.name}` {describe_error(error, self._function)}.")


class _Ended(Exception):
    """Ends a check because the call did not return."""

    def __init__(self, status: Status, idea: str) -> None:
        super().__init__(idea)
        self.status: Status = status
        self.idea = idea


Check = Callable[[Ask, random.Random], Failure | None]


def not_started_idea(name: str) -> str:
    """What to do about an untouched stub."""
    return f"Write `{name}` in its cell in place of `raise NotImplementedError`, then run it."


def run_checks(
    exercise: str,
    function: Callable[..., Any],
    checks: Sequence[tuple[str, Check]],
    *,
    seed: int = 0,
) -> Report:
    """Runs (name, check) pairs in order until one fails; never raises for what the answer does.

    Every check gets its own `random.Random`, drawn from `seed`, the exercise and the check's name,
    so that adding a check does not change the cases of another.
    """
    name = exercise.rpartition(".")[2]
    ask, began = Ask(name, function, seed=seed), time.perf_counter()
    names = tuple(title for title, _ in checks)

    def report(status: Status, passed: int, idea: str, failure: Failure | None = None) -> Report:
        return Report(
            exercise=exercise,
            status=status,
            checks=names,
            passed=passed,
            idea=idea,
            example=failure.example if failure else (),
            misconception=failure.misconception if failure else None,
            stdout=ask.first_stdout if status == "passed" else ask.last_stdout,
            seconds=time.perf_counter() - began,
        )

    state = random.getstate()  # calls are seeded; the notebook's own draws go on as before
    try:
        for passed, (title, check) in enumerate(checks):
            rng = random.Random(f"{seed} {exercise} {title}")
            status, failure = _judge(check, ask, rng)
            if failure is not None:
                return report(status, passed, failure.idea, failure)
    finally:
        random.setstate(state)
    return report("passed", len(names), "")


def _judge(check: Check, ask: Ask, rng: random.Random) -> tuple[Status, Failure | None]:
    """One check, under a limit of its own; the failure, and the status that it means."""
    outcome = run_limited(check, (ask, rng), limit_s=_CHECK_LIMIT_S)
    asked: Rows = (("input", show_call(ask.name, ask.args)),)
    if outcome.timed_out:
        idea = f"What `{ask.name}` returned kept the check from coming to an end."
        return "timeout", Failure(idea, asked)
    if isinstance(outcome.error, _Ended):
        rows = () if outcome.error.status == "not_started" else asked
        return outcome.error.status, Failure(outcome.error.idea, rows)
    if outcome.error is not None:
        why = f"{type(outcome.error).__name__}: {outcome.error}"
        idea = f"The check could not work with what `{ask.name}` returned ({why})."
        return "failed", Failure(idea, asked)
    return "failed", outcome.value
