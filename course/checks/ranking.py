"""Judging functions that rank: any keys will do that put the requests in the right order.

A known mistake is kept as a ranking of its own. It is named when it puts every pair in the order
that the answer gave it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course.calling.plain_values import as_items, as_number
from course.checks.comparing import Args, Judge, a_kind, same, those_of
from course.checks.requests import draw_request
from course.exercise import Misconception
from course.format_values import expected_and_got, show
from course.harness import Ask, Failure, Rows, returned_nothing
from nanogpt.views.request_view import RequestView

Ranked = list[tuple[Args, Any]]
_LONGEST_ITEM = 60  # characters of what is not a number, in a sentence


@dataclass(frozen=True, slots=True)
class Ranking(Judge):
    """How to judge an exercise that returns a key.

    `reference` ranks by the rules; where it ranks two alike, either may go first. `idea` is said
    when no known mistake explains the order; a sentence that is a function is made of the answer
    that does. `evidence` are groups to ask about after a failure, for what they tell about its
    cause.
    """

    reference: Callable[..., Any]
    mistakes: Sequence[Misconception]
    idea: str
    evidence: Sequence[Sequence[Args]]

    def judge(self, ask: Ask, cases: Sequence[Sequence[Args]]) -> Failure | None:
        """Ask for the keys of each group and compare within it; the first wrong order fails."""
        for index, group in enumerate(cases):
            ranked: Ranked = []
            for args in group:
                ranked.append((args, _plain_rank(ask(*args))))
                problem = self._form(ask, *ranked[-1])
                if problem:
                    return problem
            pair = self._wrong_pair(ranked)
            if pair:
                return self._failure(ask, pair, [ranked, *self._more(ask, cases[index + 1 :])])
        return None

    def _form(self, ask: Ask, args: Args, got: Any) -> Failure | None:
        problem = _rank_form(ask.name, got)
        if problem is None:
            return None
        rows: Rows = (
            ("input", ask.draw_call(ask.name, args)),
            *expected_and_got(self.reference(*args), got),
        )
        for mistake in self.mistakes:
            for answer in mistake.answers:
                if same(got, answer(*args)):
                    return mistake.failure(rows, answer)
        return Failure(problem[1], rows, problem[0])

    def _wrong_pair(self, ranked: Ranked) -> tuple[int, int] | None:
        """The first two indices that the answer ranks in the wrong order."""
        for i, (args, key) in enumerate(ranked):
            for j, (other_args, other_rank) in enumerate(ranked):
                if self.reference(*args) < self.reference(*other_args) and not key < other_rank:
                    return i, j
        return None

    def _more(self, ask: Ask, groups: Sequence[Sequence[Args]]) -> list[Ranked]:
        """Further keys of the right form."""
        groups = [*groups[:4], *self.evidence]
        found = [[(args, _plain_rank(got)) for args, got in those_of(ask, each)] for each in groups]
        return [
            ranked
            for ranked in found
            if all(_rank_form(ask.name, key) is None for _, key in ranked)
        ]

    def _failure(self, ask: Ask, pair: tuple[int, int], groups: list[Ranked]) -> Failure:
        (first, key), (second, other) = groups[0][pair[0]], groups[0][pair[1]]
        order = "both alike" if key == other else "the second one first"
        rows: Rows = (
            ("input", f"{ask.draw_call(ask.name, first)}\n{ask.draw_call(ask.name, second)}"),
            ("expected", "the first one first"),
            ("got", f"{show(key)}\n{show(other)}\n{order}"),
        )
        for mistake in self.mistakes:
            for answer in mistake.answers:
                if _orders_as(answer, groups):
                    return mistake.failure(rows, answer)
        return Failure(self.idea, rows)


def draw_ranked(name: str, args: Args) -> str:
    """A call as the learner would write it, with the fields of the request that decide."""
    fields = ("id", "priority", "arrival_time", "admitted_at")
    shown = [
        draw_request(arg, fields) if isinstance(arg, RequestView) else show(arg) for arg in args
    ]
    return f"{name}({', '.join(shown)})"


def _orders_as(mistaken: Callable[..., Any], groups: list[Ranked]) -> bool:
    """Whether the mistake puts every pair within a group in the same order as the answer does."""
    for ranked in groups:
        for i, (args, key) in enumerate(ranked):
            for other_args, other in ranked[:i]:
                if _order(mistaken(*args), mistaken(*other_args)) != _order(key, other):
                    return False
    return True


def _plain_rank(value: Any) -> Any:
    """A tuple of numbers where the rule lets the value stand for one; else the value itself."""
    items = as_items(value)
    if items is None:
        return value
    return tuple(item if as_number(item) is None else as_number(item) for item in items)


def _order(key: Any, other: Any) -> int | None:
    """-1, 0 or 1 as `key` goes before, with or after `other`; None if they do not compare."""
    try:
        return (key > other) - (key < other)
    except TypeError:
        return None


def _rank_form(name: str, value: Any) -> tuple[str, str] | None:
    if value is None:
        return "no_return", returned_nothing(name)
    if type(value) is not tuple:
        return (
            "not_a_tuple",
            f"A key is a tuple, even of one number: `(number,)`; this is {a_kind(value)}.",
        )
    if not value:
        return "not_numbers", "A key holds at least one number; this tuple is empty."
    for item in value:
        if as_number(item) is None or item != item:
            text = show(item)
            held = text if len(text) <= _LONGEST_ITEM else a_kind(item)
            return (
                "not_numbers",
                f"A key holds only numbers, so that any two can be compared; this one holds "
                f"{held}.",
            )
    return None
