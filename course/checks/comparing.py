"""Judging functions whose answer is one value: compare, and name the mistake that explains it.

A known mistake is kept as a function: what somebody who makes it would answer. The mistake that
agrees with the most of an answer's results is the one to talk about.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from course.judging import Ask, Failure, Rows
from course.showing import show, show_call

Args = tuple[Any, ...]
Answer = TypeVar("Answer", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Mistake(Generic[Answer]):
    """A known wrong idea: its key, the sentence that puts it right, and what it would answer."""

    key: str
    idea: str
    answer: Answer


def alike(key: str, idea: str, *answers: Answer) -> tuple[Mistake[Answer], ...]:
    """One wrong idea and the several things that somebody who has it would answer."""
    return tuple(Mistake(key, idea, answer) for answer in answers)


@dataclass(frozen=True, slots=True)
class Comparison(Generic[Answer]):
    """How to judge an exercise that returns one value.

    `reference` is the right answer as a function. `form` looks at a result alone and gives
    (key, idea) when it is not the kind of value that was asked for. `idea` is said when no known
    mistake explains the result. `untouched` names an argument, by index, that must stay as it is.
    `evidence` are cases to ask about after a failure, for what they tell about its cause.
    """

    reference: Answer
    mistakes: Sequence[Mistake[Answer]]
    idea: str
    form: Callable[[Any], tuple[str, str] | None]
    untouched: int | None = None
    draw: Callable[[Any], str] = show
    draw_call: Callable[[str, Args], str] = show_call
    evidence: Sequence[Args] = ()

    def judge(self, ask: Ask, cases: Sequence[Args]) -> Failure | None:
        """Ask about each case; the first wrong result becomes the failure, smallest case first."""
        results: list[tuple[Args, Any]] = []
        for args in cases:
            called = ask.call(*args)
            results.append((args, called.value))
            if self._problem(called.value, args):
                right, wrong = results[:-1], results[-1]
                return self._failure(
                    ask.name, [wrong, *self._more(ask, cases, len(results)), *right]
                )
            if self.untouched is not None:
                before, after = args[self.untouched], called.args_after[self.untouched]
                if not same(before, after):
                    return _touched(ask.name, args, before, after)
        return None

    def _problem(self, value: Any, args: Args) -> bool:
        return self.form(value) is not None or not same(value, self.reference(*args))

    def _more(self, ask: Ask, cases: Sequence[Args], start: int) -> list[tuple[Args, Any]]:
        """More results tell more about the mistake; an answer that breaks off has said enough."""
        results: list[tuple[Args, Any]] = []
        try:
            for args in [*cases[start : start + 20], *self.evidence]:
                results.append((args, ask(*args)))
        except Exception:
            return results
        return results

    def _failure(self, name: str, results: list[tuple[Args, Any]]) -> Failure:
        """Explain the first result in the light of the others."""
        args, got = results[0]
        rows: Rows = (
            ("input", self.draw_call(name, args)),
            ("expected", self.draw(self.reference(*args))),
            ("got", self.draw(got)),
        )
        if got is None and self.form(got):
            return Failure(f"{name} returned nothing: end it with `return`.", rows, "no_return")
        guilty = [m for m in self.mistakes if same(got, m.answer(*args))]
        if guilty:
            mistake = max(guilty, key=lambda m: _agreement(m, results))
            return Failure(mistake.idea, rows, mistake.key)
        problem = self.form(got)
        if problem:
            return Failure(problem[1], rows, problem[0])
        return Failure(self.idea, rows)


def _agreement(mistake: Mistake[Any], results: Sequence[tuple[Args, Any]]) -> int:
    """How many results are what somebody with this mistake would have answered."""
    return sum(same(got, mistake.answer(*args)) for args, got in results)


def _touched(name: str, args: Args, before: Any, after: Any) -> Failure:
    rows: Rows = (
        ("input", show_call(name, args)),
        ("before", show(before)),
        ("after", show(after)),
    )
    idea = (
        "The result is right, but the list that came in was changed on the way, and the engine "
        "still needs it: build a new one."
    )
    return Failure(idea, rows, "in_place")


def same(a: Any, b: Any) -> bool:
    """Equality that a tensor cannot confuse: same dtype, same shape, same cells."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
            return False
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if type(a) is not type(b) or len(a) != len(b):
            return False
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def whole_number(value: Any) -> tuple[str, str] | None:
    """A form for results that are a number of tokens."""
    if type(value) is int:
        return None
    return "not_int", f"The answer is a whole number of tokens (an int), not {a_kind(value)}."


def list_of_ints(value: Any) -> tuple[str, str] | None:
    """A form for results that are a list of whole numbers."""
    if type(value) is not list:
        return "not_a_list", f"The answer is a list, even for one number; this is {a_kind(value)}."
    for item in value:
        if type(item) is not int:
            return "not_a_list", f"The list holds whole numbers; one of these is {a_kind(item)}."
    return None


def a_kind(value: Any) -> str:
    """The type's name as a learner knows it, with its article."""
    name = getattr(value, "type_name", type(value).__name__)
    if isinstance(value, Tensor):
        name = "tensor"
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def tokens(rng: random.Random, length: int) -> list[int]:
    """Random token ids, all different, so that a misplaced one shows."""
    return rng.sample(range(10, 65), length)
