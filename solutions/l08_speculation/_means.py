"""What expected_tokens and speedup share: means that may be a rounding away, and ideas of both."""

import math
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_number
from course.checks.comparing import a_kind
from course.checks.near import Near
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
    "It never ends.",
    "The answer is finite: one pass yields at most k + 1 tokens.",
    matches=lambda value: value in (math.inf, -math.inf),
    examples=(lambda *args: math.inf,),
)
# Key, belief and idea; what is written differs.
BONUS_FORGOTTEN = (
    "bonus_forgotten",
    "What is accepted is what comes out.",
    "These are the accepted drafts alone: in every pass the target adds one token of its own, in "
    "the place of the first rejected draft or after the last one.",
)
BONUS_AT_THE_END = (
    "The target adds a token after a rejection too, in the place of the rejected draft: every pass "
    "yields one more than is accepted."
)
AT_LEAST_ONE = ("at_least_one", "A pass yields at least one.", BONUS_AT_THE_END)
ONE_DRAFT_LESS = (
    "one_draft_less",
    "k terms for k drafts.",
    "There are k drafts and the target's own token, so k + 1 powers of p to add up, from p ** 0 to "
    "p ** k.",
)
ENDLESS = (
    "endless",
    "A geometric series is 1 / (1 - p).",
    "Only k tokens are drafted, so the series ends after p ** k: 1 / (1 - p) is what endlessly "
    "many drafts would give.",
)
EACH_ALONE = (
    "each_alone",
    "k drafts, each with probability p.",
    "A draft counts only if all those in front of it were accepted, so the second stays with "
    "probability p * p: the chances are powers of p, not p each.",
)
DIVIDES_BY_ZERO = (
    "divides_by_zero",
    "p is never 1.",
    "At p = 1 the closed form is 0 / 0, and the engine dies of its best draft: there the answer is "
    "k + 1, which the sum gives by itself.",
)


def nan_at_1(rule: Rule) -> Rule:
    """The rule with the nan that numpy and torch make of 0 / 0."""
    return lambda p, *rest: math.nan if p == 1 else rule(p, *rest)


def draw_number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else show(value)
