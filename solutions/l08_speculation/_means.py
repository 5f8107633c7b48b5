"""What expected_tokens and speedup share: means that may be a rounding away, and ideas of both."""

import math
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_number
from course.checks.comparing import Near, a_kind
from course.exercise import Misconception
from course.format_values import show

Rule = Callable[..., float]


def near(rule: Rule) -> Callable[..., Any]:
    """The rule's value, to be compared to within a rounding; None where it divides by zero."""

    def answer(*args: Any) -> Any:
        try:
            return Near(rule(*args))
        except ZeroDivisionError:
            return None

    return answer


def mistaken(key: str, belief: str, idea: str, *rules: Rule) -> Misconception:
    """A wrong idea of a mean, and the rules that people who have it would write."""
    answer, *same_result = map(near, rules)
    return Misconception(key, belief, idea, answer, same_result=same_result)


def not_a_number(belief: str, way: Callable[..., Any]) -> Misconception:
    return Misconception(
        "not_a_number",
        belief,
        lambda value: f"The answer is a number, not {a_kind(value)}.",
        matches=lambda value: as_number(value) is None or value != value,
        examples=(way,),
    )


NOT_FINITE = Misconception(
    "not_finite",
    "At α = 1 the series never ends.",
    "The answer is finite: one pass yields at most k + 1 tokens.",
    matches=lambda value: value in (math.inf, -math.inf),
    examples=(lambda *args: math.inf,),
)
# Key, belief and idea; the formula differs.
BONUS_FORGOTTEN = (
    "bonus_forgotten",
    "A pass yields the accepted draft tokens.",
    "This counts only the accepted draft tokens: in every pass the target adds one token of its "
    "own, in place of the first rejected draft token or after the last one.",
)
EACH_ALONE = (
    "each_alone",
    "Each of the k draft tokens is accepted with probability α.",
    "A draft token counts only if all those before it were accepted, so the second one counts with "
    "probability α², not α, and the i-th one with αⁱ.",
)
DIVIDES_BY_ZERO = (
    "divides_by_zero",
    "α is never 1.",
    "At α = 1 the closed form is 0 / 0, so it has no value for a perfect draft model. The right "
    "answer is k + 1, which the sum gives without a special case.",
)


def nan_at_1(rule: Rule) -> Rule:
    """The rule with the nan that numpy and torch make of 0 / 0."""
    return lambda rate, *rest: math.nan if rate == 1 else rule(rate, *rest)


def draw_number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else show(value)
