"""The harness of a check: runs named checks, easiest first, up to the first that fails.

A check asks the function through `Ask` and returns a `Failure` or None; it never sees the function.
"""

import random
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from course.calling.answers import RemoteAnswer
from course.calling.channel import LostError
from course.calling.errors import BACKSTOP, describe_timeout
from course.calling.results import CallResult, Opaque, Raised
from course.format_values import brief, cut, expected_and_got, show_call
from course.report import Report, Status
from course.same_values import same

_CALL_LIMIT_S = 1.0  # of computing, in one call
_ALL_CALLS_LIMIT_S = 10.0  # of computing, in all calls of one report together
_ALL_CALLS_WALL_S = 20.0  # from the first of them on, for what waits in every call
_REPORT_LIMIT_S = 30.0  # on the wall, with what the checks make of the results
_ASKED_AGAIN = 30  # of the first calls, at most: what draws may come to the same a few times
_MAX_PRINTED = 12  # lines
_MAX_IDEA, _MAX_ROW, _MAX_CHANGED = 500, 2500, 340  # characters, whatever an answer returns

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


def returned_nothing(name: str, result: str = "") -> str:
    """What is said of an answer that came to its end without a `return` of its `result`."""
    ending = f"return {result}".strip()
    return f"{name} returned nothing: end every way through it with `{ending}`."


class Ask:
    """Asks an answer. Raises, to end the check, when a call does not return.

    `ask(*args)` gives the value, `ask.call(*args)` the whole `CallResult` with `args_after`.
    `changed` is a Failure once a call has changed an argument, the first such call's; what calls
    have to do with each other, `asked_again` and `changed_result` tell.
    `shown` are rows for the report once all checks have passed, if one of them has any to show.
    `draw_call` shows a call, where its bare arguments would be too much or too little.
    """

    def __init__(
        self,
        name: str,
        answer: RemoteAnswer,
        *,
        seed: int,
        draw_call: Callable[[str, tuple[Any, ...]], str] = show_call,
    ) -> None:
        self.name = name
        self._draw_call = draw_call
        self.count = 0
        self.args: tuple[Any, ...] = ()
        self._first: list[tuple[tuple[Any, ...], Any]] = []
        self._calls: list[tuple[tuple[Any, ...], str]] = []  # with what each printed
        self._drawn: list[tuple[Any, ...]] = []
        self.changed: Failure | None = None
        self.shown: Rows = ()
        self._answer = answer
        self._seed = seed
        self._cpu_s = self._wall_s = 0.0

    def __call__(self, *args: Any) -> Any:
        """What the function returns for copies of `args`."""
        return self.call(*args).value

    def call(self, *args: Any, may_raise: bool = False) -> CallResult:
        """The whole outcome of a call; one that did not return ends the check.

        With `may_raise`, an error is an answer like any other, if it is not a stub's: it comes
        back in `CallResult.error`.
        """
        self._end_if_all_is_used_up()
        self.count, self.args = self.count + 1, args
        limit_s = min(_CALL_LIMIT_S, max(0.1, _ALL_CALLS_LIMIT_S - self._cpu_s))
        wall_s = min(BACKSTOP * _CALL_LIMIT_S, max(0.1, _ALL_CALLS_WALL_S - self._wall_s))
        began = time.perf_counter()
        try:
            # Another seed for each call: what is drawn in it is not the same one every time.
            seed = self._seed + self.count
            called = self._answer.call(args, limit_s=limit_s, wall_s=wall_s, seed=seed)
        except LostError as lost:
            raise _Ended(lost.status, f"Your `{self.name}` {lost.words}.") from None
        self._wall_s += time.perf_counter() - began
        self._cpu_s += called.cpu_s
        self._calls.append((args, called.stdout))
        if called.timed_out:
            self._end_if_all_is_used_up()
            slow = describe_timeout(called.cpu_s, _CALL_LIMIT_S, called.where)
            raise _Ended("timeout", f"Your `{self.name}` {slow}.")
        if called.error is not None and (called.error.is_stub or not may_raise):
            raise self._ended_by(called.error)
        if self.count <= _ASKED_AGAIN and called.error is None:
            self._first.append((args, called.value))
        if self.changed is None and called.error is None:
            self.changed = self._change(args, called.args_after)
        return called

    def draw_call(self, name: str, args: tuple[Any, ...]) -> str:
        """The call as text, for a row of the report: what it printed belongs to that row."""
        self._drawn.append(args)
        return self._draw_call(name, args)

    def plain_result(self, value: Any) -> Any:
        """What a report shows of a result."""
        return self._answer.plain_result(value)

    def printed(self, rows: Rows) -> str:
        """What the calls printed that these rows show; of the last call where they show none."""
        if not any(text for _, text in self._calls):
            return ""
        shown = "\n".join(text for label, text in rows if label.endswith("input"))
        texts: dict[str, str] = {}
        for args in self._drawn:
            drawn = self._draw_call(self.name, args)
            if drawn in shown or cut(drawn, _MAX_CHANGED) in shown:
                same_call = [text for asked, text in self._calls if _is_same_call(asked, args)]
                texts[drawn] = "".join(same_call[:1])
        if texts:  # each call that is shown, once
            return _few_lines("".join(texts.values()))
        args, text = self._calls[-1]
        asked = cut(self._draw_call(self.name, args), _MAX_CHANGED)
        return f"(in the last call, {asked})\n{_few_lines(text)}" if text else ""

    def asked_again(self, most: int = _ASKED_AGAIN) -> Failure | None:
        """What is wrong where one of the first calls, made once more, comes to something else."""
        began = time.perf_counter()
        for args, before in self._first[:most]:
            failure = self._again(args, before)
            if failure or time.perf_counter() - began > _CALL_LIMIT_S:
                return failure
        return None

    def _again(self, args: tuple[Any, ...], before: Any) -> Failure | None:
        try:
            limit_s = _CALL_LIMIT_S
            called = self._answer.call(args, limit_s=limit_s, wall_s=BACKSTOP * limit_s, seed=0)
        except LostError:
            return None
        if called.timed_out or (called.error is None and same(before, called.value)):
            return None
        now = self.plain_result(called.value) if called.error is None else called.error.kind
        idea = (
            f"Asked the same twice, `{self.name}` gives two answers: let each call depend "
            "only on its arguments, remember nothing from one to the next, and draw nothing."
        )
        rows = (
            ("input", self.draw_call(self.name, args)),
            *_once_and_later(self.plain_result(before), now),
        )
        return Failure(idea, rows, "remembers")

    def changed_result(self) -> Failure | None:
        """What is wrong where a call changed what an earlier one had returned."""
        pair = self._answer.changed_result()
        if pair is None:
            return None
        idea = (
            f"What `{self.name}` returned for one call was changed by a later call, and the caller "
            "still needs it as it was: return new values each time."
        )
        return Failure(idea, _once_and_later(*pair), "returned_again")

    def _end_if_all_is_used_up(self) -> None:
        """End the check if its calls have used up their common limit."""
        calls = f"{self.count} calls together"
        if self._cpu_s >= _ALL_CALLS_LIMIT_S:
            slow = f"computed for more than {_ALL_CALLS_LIMIT_S:g} s in {calls} and was stopped"
        elif self._wall_s >= _ALL_CALLS_WALL_S:
            used = f"{self._cpu_s:.1f} s of them computing and the rest waiting"
            slow = f"took more than {_ALL_CALLS_WALL_S:g} s for {calls}, {used}, and was given up"
        else:
            return
        raise _Ended("timeout", f"Your `{self.name}` {slow}.")

    def _change(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> "Failure | None":
        """The failure if the function changed its arguments."""
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if isinstance(new, Opaque) or same(old, new):
                continue
            name = self._answer.argument(index)
            idea = (
                f"The result is right, but `{name}` was changed on the way, and the caller "
                "still needs it as it was: build new values instead."
            )
            rows: Rows = (
                ("input", cut(self.draw_call(self.name, before), _MAX_CHANGED)),
                ("before", cut(f"{name} = {brief(old, new)}", _MAX_CHANGED)),
                ("after", cut(f"{name} = {brief(new, old)}", _MAX_CHANGED)),
            )
            return Failure(idea, rows, "in_place")
        return None

    def example(self, expected: Any, got: Any) -> Rows:
        """The rows input, expected, got for the last call. Strings are taken as they are."""
        return (("input", self.draw_call(self.name, self.args)), *expected_and_got(expected, got))

    def _ended_by(self, error: Raised) -> "_Ended":
        if error.stub is not None:
            return _Ended(
                "raised", f"`{self.name}` calls `{error.stub}`, which is not written yet."
            )
        if error.is_stub and self.count == 1:
            idea = f"Write `{self.name}` in its cell in place of `raise NotImplementedError`"
            return _Ended("not_started", f"{idea}, then run it.")
        return _Ended("raised", f"Your `{self.name}` {error.told}.")


def _is_same_call(args: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return len(args) == len(others) and all(a is b for a, b in zip(args, others, strict=True))


def _few_lines(text: str) -> str:
    """The first and the last lines, and how many were left out between them."""
    lines = [cut(line) for line in text.splitlines()]
    if left_out := max(0, len(lines) - _MAX_PRINTED):
        half = _MAX_PRINTED // 2
        lines[half:-half] = [f"... {left_out} lines left out ..."]
    return "\n".join(lines)


def _once_and_later(before: Any, now: Any) -> Rows:
    """Rows of a result at first and later, made to look different."""
    (_, first), (_, later) = expected_and_got(before, now)
    return ("first", cut(first, _MAX_CHANGED)), ("later", cut(later, _MAX_CHANGED))


class _Ended(Exception):
    def __init__(self, status: Status, idea: str) -> None:
        super().__init__(idea)
        self.status: Status = status
        self.idea = idea


Check = Callable[[Ask, random.Random], Failure | None]


def run_checks(
    exercise: str,
    answer: RemoteAnswer,
    checks: Sequence[tuple[str, Check]],
    *,
    seed: int = 0,
    draw_call: Callable[[str, tuple[Any, ...]], str] = show_call,
) -> Report:
    """Runs (name, check) pairs in order until one fails; never raises for what the answer does.

    A check in which all results were right fails all the same if an argument came back changed, and
    the last one if the calls have to do with each other. That is said too where a wrong result has
    no cause yet.

    Every check gets its own `random.Random`, drawn from `seed`, the exercise and the check's name,
    so that adding a check does not change the cases of another.
    """
    name = exercise.rpartition(".")[2]
    ask, began = Ask(name, answer, seed=seed, draw_call=draw_call), time.perf_counter()
    names = tuple(title for title, _ in checks)

    def report(status: Status, passed: int, idea: str, failure: Failure | None = None) -> Report:
        rows = failure.example if failure else ask.shown
        return Report(
            exercise=exercise,
            status=status,
            checks=names,
            passed=passed,
            idea=cut(idea, _MAX_IDEA),
            example=tuple((label, cut(text, _MAX_ROW)) for label, text in rows),
            misconception=failure.misconception if failure else None,
            stdout=ask.printed(rows),
            seconds=time.perf_counter() - began,
        )

    passed = 0
    try:
        with _alarm(name):
            for passed, (title, check) in enumerate(checks):
                status, failure = _judge(check, ask, random.Random(f"{seed} {exercise} {title}"))
                failure = failure or ask.changed
                if status == "failed" and failure and not failure.misconception:
                    failure = ask.asked_again() or failure
                elif failure is None and passed == len(checks) - 1:
                    failure = ask.asked_again(1) or ask.changed_result()
                if failure is not None:
                    return report(status, passed, failure.idea, failure)
    except _Ended as ended:
        return report(ended.status, passed, ended.idea)
    return report("passed", len(names), "")


@contextmanager
def _alarm(name: str) -> Generator[None]:
    """End a check that does not end, with the results so far, where Python can be interrupted."""
    if not hasattr(signal, "setitimer") or threading.current_thread() != threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        idea = f"The check came to no end in {_REPORT_LIMIT_S:g} s with what `{name}` returned."
        raise _Ended("timeout", idea)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, _REPORT_LIMIT_S, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _judge(check: Check, ask: Ask, rng: random.Random) -> tuple[Status, Failure | None]:
    """The failure of one check, and the status that it means."""
    try:
        return "failed", check(ask, rng)
    except _Ended as ended:
        rows = () if ended.status == "not_started" else _asked(ask)
        return ended.status, Failure(ended.idea, rows)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        idea = f"The check could not work with what `{ask.name}` returned ({why})."
        return "failed", Failure(idea, _asked(ask))


def _asked(ask: Ask) -> Rows:
    return (("input", ask.draw_call(ask.name, ask.args)),) if ask.count else ()
