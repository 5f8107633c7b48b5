"""Judging functions whose answer is one value: compare, and name the mistake that explains it.

A known mistake is kept as a function: what it makes of the arguments. It is named when it gives
every result that the answer gave.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course.calling.plain_values import as_items, as_number, as_whole, kind_of
from course.calling.results import Opaque, with_article
from course.exercise import Function, Misconception
from course.format_values import expected_and_got, show
from course.harness import Ask, Check, Failure, Rows, returned_nothing
from course.same_values import like, same

Args = tuple[Any, ...]
Result = tuple[Args, Any]


class Judge:
    """A maker of checks: `judge` asks about some cases and says what is wrong with the answer."""

    __slots__ = ()

    def judge(self, ask: Ask, cases: Sequence[Any]) -> Failure | None:
        """Ask about each case; the first wrong result becomes the failure, smallest case first."""
        raise NotImplementedError

    def on(self, *cases: Any) -> Check:
        """The check that asks about these cases."""
        return lambda ask, rng: self.judge(ask, cases)

    def on_drawn(self, draw: Callable[[random.Random], Sequence[Any]]) -> Check:
        """The check that asks about cases drawn at random."""
        return lambda ask, rng: self.judge(ask, draw(rng))


@dataclass(frozen=True, slots=True)
class Comparison(Judge):
    """How to judge an exercise that returns one value.

    `reference` is the right answer as a function. `matches` looks at a result only and gives
    (key, idea) when it is not the kind of value that was asked for. `idea` is said when no known
    mistake explains the result. `evidence` are cases to ask about after a failure, for what they
    tell about its cause. `each` names what every entry of the answer's list stands for, if a list
    of another length is a mistake of its own. `near` are mistakes that a result shows beside what
    was wanted, by their `matches` of the two, where no other explains it.
    """

    reference: Function
    mistakes: Sequence[Misconception]
    idea: str
    matches: Callable[[Any], tuple[str, str] | None] = lambda value: None
    draw: Callable[[Any], str] = show
    evidence: Sequence[Args] = ()
    each: str = ""
    near: Sequence[Misconception] = ()

    def on_raising(
        self, idea: Misconception, errors: tuple[type[Exception], ...], *cases: Args
    ) -> Check:
        """The check that asks about these cases, where such an error comes of this idea."""

        def check(ask: Ask, rng: random.Random) -> Failure | None:
            for args in cases:
                called = ask.call(*args, may_raise=True)
                if called.error is not None and called.raised(*errors):
                    expected = self.draw(self.reference(*args))
                    return idea.failure(ask.example(expected, called.error.kind))
            return self.judge(ask, cases)

        return check

    def judge(self, ask: Ask, cases: Sequence[Args]) -> Failure | None:
        """Ask about each case; the first wrong result becomes the failure, smallest case first."""
        right: list[Result] = []
        for args in cases:
            returned = ask(*args)
            result = args, self.read(returned, args)
            if self._problem(*result):
                more = self._more(ask, cases, len(right) + 1)
                return self._failure(ask, returned, [result, *more, *right])
            right.append(result)
        return None

    def read(self, returned: Any, args: Args) -> Any:
        """The result, in the types of the reference's where they may stand for each other."""
        return like(returned, self.reference(*args))

    def _problem(self, args: Args, value: Any) -> bool:
        return self._ill_formed(value) is not None or not same(value, self.reference(*args))

    def _ill_formed(self, value: Any) -> tuple[str, str] | None:
        """(key, idea) for a value of the wrong kind."""
        for each in self.mistakes:
            if each.matches and each.matches(value):
                return each.key, each.sentence(value)
        return self.matches(value)

    def _more(self, ask: Ask, cases: Sequence[Args], start: int) -> list[Result]:
        """Further results, which tell more about the mistake."""
        more = [*cases[start : start + 20], *self.evidence]
        return [(args, self.read(got, args)) for args, got in those_of(ask, more)]

    def _failure(self, ask: Ask, returned: Any, results: list[Result]) -> Failure:
        """Explain the first result, which came as `returned`, in the light of the others."""
        args, got = results[0]
        rows: Rows = (
            ("input", ask.draw_call(ask.name, args)),
            *expected_and_got(self.reference(*args), returned, self.draw),
        )
        problem = self._ill_formed(got)
        if problem and returned is None and problem[0] != "no_return":
            problem = ("no_return", returned_nothing(ask.name))
        mistake = explaining(self.mistakes, self.reference, results)
        if mistake:  # never one of another form than the result: they would not be the same
            # What gives two answers to one question is none of them, whatever it looks like.
            return ask.asked_again() or Failure(mistake.sentence(got), rows, mistake.key)
        if problem:
            return Failure(problem[1], rows, problem[0])
        wanted = self.reference(*args)
        if self.each and len(got) != len(wanted):
            idea = (
                f"There is an entry for each {self.each}, so {len(wanted)} of them, not {len(got)}."
            )
            return Failure(idea, rows, "wrong_length")
        for near in self.near:
            if near.matches and near.matches(got, wanted):
                return near.failure(rows, got, wanted)
        return Failure(self.idea, rows)


def those_of(ask: Ask, cases: Sequence[Args]) -> list[Result]:
    """Each of these cases that the answer returns for, with its value; none ends the check.

    They are asked for what they tell about a failure.
    """
    found: list[Result] = []
    try:
        for args in cases:
            called = ask.call(*args, may_raise=True)
            if called.error is None:
                found.append((args, called.value))
    except Exception:  # out of time, or lost
        return found
    return found


def explaining(
    mistakes: Sequence[Misconception],
    reference: Function,
    results: Sequence[Result],
    matters: Callable[[Any, Args], Any] = lambda value, args: value,
    equal: Callable[[Any, Any], bool] = same,
) -> Misconception | None:
    """The first mistake that gives what `matters` in all of these results; the first is wrong.

    One that contradicts a single result would be a guess. A result that the mistake and the
    reference share speaks for neither of them.
    """
    first, _ = results[0]

    def gives(answer: Function, args: Args, value: Any) -> bool:
        return equal(matters(value, args), matters(answer(*args), args))

    for mistake in mistakes:
        for answer in mistake.answers:
            explains = all(gives(answer, args, got) for args, got in results)
            if explains and not gives(reference, first, answer(*first)):
                return mistake
    return None


def wrong_number(value: Any) -> str:
    """Say why a result is no number of tokens; "" if it is one."""
    if as_whole(value) is not None:
        return ""
    return f"The answer is a whole number of tokens (an int), not {a_kind(value)}."


def not_whole(belief: str, *ways: Function) -> Misconception:
    """Of answers that are a number of tokens: another number than a whole one."""
    return Misconception("not_int", belief, wrong_number, matches=wrong_number, examples=ways)


def wrong_list(value: Any) -> str:
    """Say why a result is no list of whole numbers; "" if it is one."""
    items = as_items(value)
    if items is None:
        even = ", even for one number" if as_number(value) is not None else ""
        return f"The answer is a list{even}; this is {a_kind(value)}."
    odd = [item for item in items if as_whole(item) is None]
    return f"The list holds whole numbers; one of these is {a_kind(odd[0])}." if odd else ""


def not_a_list(belief: str, *ways: Function) -> Misconception:
    """Of answers that are a list of whole numbers: something else than that."""
    return Misconception("not_a_list", belief, wrong_list, matches=wrong_list, examples=ways)


def a_kind(value: Any) -> str:
    """The value's kind with its article; a number that was refused for what it says, with that."""
    if isinstance(value, Opaque):
        return with_article(value.type_name)
    if type(value) in (int, float, bool):
        return f"the {kind_of(value)} {show(value)}"
    return "None" if value is None else with_article(kind_of(value))


def tokens(rng: random.Random, length: int) -> list[int]:
    """Random token ids of a text: some come back, as letters do, and each neighbour is another."""
    alphabet = rng.sample(range(10, 65), max(2, length // 2))
    text = [rng.choice(alphabet)]
    while len(text) < length:
        text.append(rng.choice([token for token in alphabet if token != text[-1]]))
    return text


class Near(float):
    """A float that equals every number within a millionth of it, or of `scale` if that is more."""

    scale: float

    def __new__(cls, value: float, scale: float = 0.0) -> "Near":
        """`scale` is how large the numbers are that this one was made from."""
        near = super().__new__(cls, value)
        near.scale = scale
        return near

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | float):
            return NotImplemented
        return math.isclose(self, other, rel_tol=1e-6, abs_tol=1e-6 * self.scale)

    def __hash__(self) -> int:
        return super().__hash__()
