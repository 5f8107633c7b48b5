"""Lines that are wrong in one way or another, and the wrong ideas behind them."""

import math
import statistics
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from course.calling.plain_values import as_number
from course.checks.comparing import a_kind
from course.checks.near import Near
from course.exercise import Misconception
from nanogpt.slo.predictor import fit_ttft

Points: TypeAlias = list[tuple[int, float]]
Line: TypeAlias = tuple[float, float]


def near(rule: Callable[[Points], Iterable[float]]) -> Callable[[Points], Any]:
    """A rule's line to within a millionth of the longest time; None where it has none."""

    def answer(points: Points) -> Line | None:
        try:
            a, c = rule(points)
        except (ValueError, ZeroDivisionError):
            return None
        time_us = max(abs(time_us) for _, time_us in points)
        return Near(a, time_us / max(tokens for tokens, _ in points)), Near(c, time_us)

    return answer


def through_means(a: float, points: Points) -> Line:
    """The line with this slope through the mean of the points."""
    tokens, times_us = zip(*points, strict=True)
    return a, statistics.fmean(times_us) - a * statistics.fmean(tokens)


def with_slope(slope: Callable[[Points], float]) -> Callable[[Points], Any]:
    """A slope of its own, through the mean of the points."""
    return near(lambda points: through_means(slope(points), points))


def steeper(factor: Callable[[int], float]) -> Callable[[Points], Any]:
    """A slope that is off by a factor that depends on the number of points."""
    return with_slope(lambda points: fit_ttft(points)[0] * factor(len(points)))


def through(first: tuple[int, float], last: tuple[int, float]) -> Line:
    a = (last[1] - first[1]) / (last[0] - first[0])
    return a, first[1] - a * first[0]


def mean_ratio(points: Points) -> float:
    return statistics.fmean(time_us / n for n, time_us in points)


def divides_by_the_spread(points: Points) -> Line:
    mean = sum(n for n, _ in points) / len(points)
    spread = sum((n - mean) ** 2 for n, _ in points)
    a = sum((n - mean) * time_us for n, time_us in points) / spread
    return a, sum(time_us for _, time_us in points) / len(points) - a * mean


def are_two(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2


def wrong_part(value: Any) -> str:
    """What is wrong with one of the two numbers; "" if nothing is."""
    for name, part in zip("ac", value, strict=True):
        if as_number(part) is None:
            return f"{name} is a number, not {a_kind(part)}."
        if not math.isfinite(part):
            return f"{name} is a finite number, not {part}."
    return ""


NOT_TWO = Misconception(
    "not_two",
    "What counts is the slope.",
    "Return two numbers: `return a, c`.",
    matches=lambda value: not are_two(value),
    examples=(lambda points: fit_ttft(points)[0],),
)
ONE_LENGTH = Misconception(
    "one_length",
    "One length: then c is all there is.",
    "Any slope fits a single length, so what comes out is made up: raise a ValueError, or requests "
    "are scheduled by it.",
    examples=(lambda points: fit_ttft(points) if len(dict(points)) > 1 else (0.0, points[0][1]),),
)
WRONG_ERROR = Misconception(
    "wrong_error",
    "The division will complain.",
    lambda got: (
        f"Too few lengths are a wrong value and deserve a ValueError that says so; `{got}` looks "
        "like a mistake in your own code."
    ),
    examples=(divides_by_the_spread,),
)
MISCONCEPTIONS = (
    NOT_TWO,
    Misconception(
        "not_numbers",
        "Text is exact.",
        wrong_part,
        matches=lambda value: wrong_part(value) != "",
        examples=(lambda points: tuple(map(str, fit_ttft(points))),),
    ),
    Misconception(
        "changed_places",
        "A line is written c + a * n.",
        "The two numbers changed places: first a, the time per token, then c, the fixed time.",
        near(lambda points: fit_ttft(points)[::-1]),
    ),
    Misconception(
        "through_the_origin",
        "No tokens, no time.",
        "Even a short pass costs its fixed time c, so the line does not begin at 0: let the points "
        "decide about a and c together.",
        near(lambda points: (sum(n * us for n, us in points) / sum(n * n for n, _ in points), 0.0)),
    ),
    Misconception(
        "two_points",
        "Two points make a line.",
        "Two points say nothing about the noise in them: least squares weigh every point, and the "
        "first and the last count no more than the others.",
        near(lambda points: through(points[0], points[-1])),
    ),
    Misconception(
        "mean_of_ratios",
        "The time of a token, on average.",
        "Time over tokens has the fixed cost in it, spread over few tokens in a short prompt and "
        "over many in a long one: the slope is how time grows *with* the tokens.",
        near(lambda points: (mean_ratio(points), 0.0)),
    ),
    Misconception(
        "other_units",
        "Times are in milliseconds.",
        "The points are in microseconds, and so are a and c.",
        near(lambda points: (part / 1e3 for part in fit_ttft(points))),
    ),
    Misconception(
        "rounded",
        "Two digits are exact enough.",
        "This is the right line with its numbers rounded: over thousands of tokens a small part of "
        "a microsecond per token adds up, so return them as they come out.",
        near(lambda points: (round(part, 2) for part in fit_ttft(points))),
    ),
    Misconception(
        "sum_or_mean",
        "Covariance over variance.",
        "The slope is one thing over another, and here one of the two is a sum and the other a "
        "mean over the points (or one divides by n and the other by n - 1).",
        steeper(lambda n: n / (n - 1)),
    ),
    ONE_LENGTH,
    WRONG_ERROR,
    Misconception(
        "in_place", "Points are best in order.", examples=(lambda p: (fit_ttft(p), p.sort())[0],)
    ),
)
