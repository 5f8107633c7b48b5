"""Judging the choice of a token budget: the largest whose step keeps a limit."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course.checks.comparing import whole_number
from course.judging import Ask, Check, Failure, Rows, run_checks
from course.report import Report
from course.showing import show
from nanogpt.plain_values import as_whole

_LARGEST = 4096


@dataclass(frozen=True, slots=True)
class _Case:
    """A step cost in words and as a function, the decodes, and the limit."""

    words: str
    cost: Callable[[int], int]
    num_decodes: int
    limit_us: int

    def answer(self) -> int:
        """By trying every budget."""
        smallest = self.num_decodes + 1
        fitting = [b for b in range(smallest, _LARGEST + 1) if self.cost(b) <= self.limit_us]
        return max(fitting, default=smallest)


@dataclass(frozen=True, slots=True)
class Line:
    """A step's cost as a straight line, which writes itself down as Python does."""

    fixed: int
    each: int

    def __call__(self, tokens: int) -> int:
        """Microseconds of a step of so many tokens."""
        return self.fixed + self.each * tokens

    def __repr__(self) -> str:
        return f"lambda tokens: {self.fixed} + {self.each} * tokens"


def _line(fixed: int, each: int) -> tuple[str, Callable[[int], int]]:
    return f"{fixed} µs + {each} µs per token", Line(fixed, each)


def _floor(least: int, each: int) -> tuple[str, Callable[[int], int]]:
    return f"{each} µs per token, but at least {least} µs", lambda n: max(least, each * n)


def _stairs(fixed: int, each: int, width: int) -> tuple[str, Callable[[int], int]]:
    words = f"{fixed} µs + {each} µs for each block of {width} tokens, begun ones included"
    return words, lambda n: fixed + each * -(-n // width)


def _wrong_budget(results: list[tuple[_Case, int]]) -> tuple[str | None, str]:
    """(key, idea) for the first of these budgets, in the light of the others."""
    case, got = results[0]
    smallest, limit, wanted = case.num_decodes + 1, case.limit_us, case.answer()
    if got < smallest:
        return (
            "no_room_for_prefill",
            f"With {case.num_decodes} decodes, a budget of {got} leaves prompts nothing and they "
            f"never get on: the smallest useful budget is {smallest}.",
        )
    if got > _LARGEST:
        return "above_the_range", f"Consider budgets up to {_LARGEST}; this is {got}."
    known = [_known_budgets(case) for case, _ in results]
    for mistakes in zip(*known, strict=True):
        if [budget for _, budget in results] == [mistaken for _, _, mistaken in mistakes]:
            return mistakes[0][:2]
    if got > wanted:
        took = case.cost(got)
        return None, f"A step of {got} tokens takes {took} µs, more than the limit of {limit} µs."
    took = case.cost(got + 1)
    idea = f"{got + 1} tokens take {took} µs, still within {limit} µs: the largest budget is asked."
    return None, idea


def _known_budgets(case: _Case) -> list[tuple[str, str, int]]:
    """(key, idea, the budget that this mistake gives), for each known mistake."""
    cost, smallest, limit = case.cost, case.num_decodes + 1, case.limit_us
    slope, per_token = (cost(_LARGEST) - cost(1)) / (_LARGEST - 1), cost(2) - cost(1)
    line = (
        "The cost is not a straight line here, so two of its points do not tell where the limit "
        "is: ask step_cost_us about the budgets themselves."
    )
    power = 1
    while power < _LARGEST and cost(2 * power) <= limit:
        power *= 2
    below = max((b for b in range(smallest, _LARGEST + 1) if cost(b) < limit), default=smallest)

    def clamp(budget: int) -> int:
        return min(_LARGEST, max(smallest, budget))

    known = [
        (
            "stays_below",
            "A step may take exactly the limit: within means at most, not less than.",
            below,
        ),
        (
            "decodes_on_top",
            "The decodes are part of the budget: a step computes the budget's tokens, not that "
            "many and the decodes besides.",
            clamp(case.answer() - case.num_decodes),
        ),
        (
            "powers_of_two",
            "A larger budget than this power of two still keeps the limit, and every token of it "
            "saves steps.",
            clamp(power),
        ),
    ]
    start = _LARGEST if per_token == 0 else 1 + (limit - cost(1)) // per_token
    known += [
        ("straight_line", line, clamp(1 + int((limit - cost(1)) / slope))),
        ("straight_line", line, clamp(start)),
        (
            "per_token",
            "A step has a fixed cost besides the cost of its tokens: so many tokens do not cost so "
            "many times what one costs.",
            clamp(limit // cost(1)),
        ),
        (
            "smallest",
            "Smaller is not always better: every step has a fixed cost and small steps pay it more "
            "often, so take the largest budget that keeps the limit.",
            smallest,
        ),
        (
            "largest",
            f"A step of {_LARGEST} tokens takes {cost(_LARGEST)} µs and every reader would wait "
            f"that long: the limit is {limit} µs.",
            _LARGEST,
        ),
    ]
    return known


def _judge_budgets(ask: Ask, *cases: _Case) -> Failure | None:
    results: list[tuple[_Case, int]] = []
    for case in cases:
        got, asked = _asked(ask, case)
        whole, wanted = as_whole(got), case.answer()
        if whole is not None:
            results.insert(0, (case, whole))
        if whole == wanted:
            continue
        rows: Rows = (
            ("input", f"pick_budget(step_cost_us, {case.num_decodes}, {case.limit_us})"),
            ("step_cost_us", f"{case.words} (you asked it {asked}×)"),
            ("expected", f"{wanted} (a step of {case.cost(wanted)} µs)"),
            ("got", show(got)),
        )
        if got is None:
            return Failure("pick_budget returned nothing: end it with `return`.", rows, "no_return")
        form = whole_number(got)
        key, idea = form if form else _wrong_budget(results + _more(ask))
        return Failure(idea, rows, key)
    return None


def _asked(ask: Ask, case: _Case) -> tuple[Any, int]:
    """The answer, and how often it asked what a step costs."""
    asked = 0

    def step_cost_us(tokens: int) -> int:
        nonlocal asked
        asked += 1
        return case.cost(tokens)

    return ask(step_cost_us, case.num_decodes, case.limit_us), asked


def _more(ask: Ask) -> list[tuple[_Case, int]]:
    """More results tell more about the mistake; an answer that breaks off has said enough."""
    results: list[tuple[_Case, int]] = []
    try:
        for case in _EVIDENCE:
            whole = as_whole(_asked(ask, case)[0])
            results += [] if whole is None else [(case, whole)]
    except Exception:
        return results
    return results


_EVIDENCE = (
    _Case(*_line(500, 10), 5, 1777),
    _Case(*_stairs(100, 150, 32), 3, 1300),
    _Case(*_floor(700, 15), 7, 900),
)


def _straight_costs(ask: Ask, rng: random.Random) -> Failure | None:
    line = _line(500, 10)
    return _judge_budgets(ask, _Case(*line, 0, 2005), _Case(*line, 4, 1500))


def _edges(ask: Ask, rng: random.Random) -> Failure | None:
    line = _line(500, 10)
    limits = ((30, 700), (4, 100), (4, 540), (4, 560), (4, 1_000_000), (0, 100), (0, 0))
    return _judge_budgets(ask, *(_Case(*line, decodes, limit) for decodes, limit in limits))


def _crooked_costs(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_budgets(
        ask, _Case(*_floor(900, 20), 4, 1000), _Case(*_stairs(300, 200, 64), 4, 1000)
    )


def _any_costs(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[_Case] = []
    for _ in range(4):
        shapes = (
            _line(rng.randint(0, 900), rng.randint(1, 30)),
            _floor(rng.randint(100, 2000), rng.randint(1, 30)),
            _stairs(rng.randint(0, 900), rng.randint(50, 400), rng.choice((8, 32, 100))),
        )
        cases += [_Case(*shape, rng.randint(0, 40), rng.randint(50, 4000)) for shape in shapes]
    return _judge_budgets(ask, *cases)


_BUDGET_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a cost that is a straight line", _straight_costs),
    ("limits too tight and too wide", _edges),
    ("costs with a floor and with steps", _crooked_costs),
    ("any cost that never falls", _any_costs),
)


def check_pick_budget(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l01.pick_budget."""
    return run_checks("l01.pick_budget", function, _BUDGET_CHECKS, seed=seed)
