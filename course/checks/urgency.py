"""Judging the numbers of the SLO policy: the fitted line, the slack, the urgency, and mistakes."""

import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from course.checks.comparing import Comparison, Mistake, a_kind, alike
from course.showing import named
from nanogpt.parts.plain_values import as_number
from nanogpt.slo import predictor

Points = list[tuple[int, float]]
_Line = tuple[float, float]


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


def _number_form(what: str) -> Callable[[Any], tuple[str, str] | None]:
    """A form for results that are one finite number."""

    def form(value: Any) -> tuple[str, str] | None:
        if as_number(value) is None:
            return "not_a_number", f"The {what} is a number, not {a_kind(value)}."
        if not math.isfinite(value):
            return "not_finite", f"The {what} is a finite number, so that it can be compared."
        return None

    return form


# --- fit -------------------------------------------------------------------------------------


def _near_line(points: Points, line: Sequence[float]) -> _Line:
    """The line to compare with: to within a millionth of the longest time."""
    time_us = max(abs(time_us) for _, time_us in points)
    tokens = max(tokens for tokens, _ in points)
    return Near(line[0], time_us / tokens), Near(line[1], time_us)


def _fitted(points: Points) -> _Line:
    return _near_line(points, predictor.fit(points))


def _wrong_line(
    key: str, idea: str, rule: Callable[[Points], Sequence[float]]
) -> Mistake[Callable[[Points], Any]]:
    """A known wrong way to fit; None where it cannot be computed."""

    def answer(points: Points) -> Any:
        try:
            return _near_line(points, rule(points))
        except (ValueError, ZeroDivisionError):
            return None

    return Mistake(key, idea, answer)


def _through_means(a: float, points: Points) -> _Line:
    """The line with this slope through the mean of the points."""
    tokens, times_us = zip(*points, strict=True)
    return a, statistics.fmean(times_us) - a * statistics.fmean(tokens)


def _through(first: tuple[int, float], last: tuple[int, float]) -> _Line:
    a = (last[1] - first[1]) / (last[0] - first[0])
    return a, first[1] - a * first[0]


def _origin(points: Points) -> _Line:
    return sum(n * time_us for n, time_us in points) / sum(n * n for n, _ in points), 0.0


def _total_ratio(points: Points) -> _Line:
    return sum(time_us for _, time_us in points) / sum(n for n, _ in points), 0.0


def _mean_ratio(points: Points) -> float:
    return statistics.fmean(time_us / n for n, time_us in points)


def _mean_slope(points: Points) -> float:
    pairs = pairwise(sorted(points))
    return statistics.fmean(_through(*pair)[0] for pair in pairs if pair[0][0] != pair[1][0])


def _other_way_round(points: Points) -> _Line:
    """The line that predicts tokens from time, turned round."""
    a, c = statistics.linear_regression([t for _, t in points], [n for n, _ in points])
    return 1 / a, -c / a


def _draw_line(value: Any) -> str:
    if _line_form(value):
        return repr(value)
    return f"(a={value[0]:.6g}, c={value[1]:.6g})"


def _line_form(value: Any) -> tuple[str, str] | None:
    if type(value) is not tuple or len(value) != 2:
        return "not_two", "Return two numbers: `return a, c`."
    for name, part in zip("ac", value, strict=True):
        if as_number(part) is None:
            return "not_numbers", f"{name} is a number, not {a_kind(part)}."
        if not math.isfinite(part):
            return "not_numbers", f"{name} is a finite number, not {part}."
    return None


def any_sweep(rng: random.Random, count: int) -> Points:
    """Measured prefills with noise, in any order, most lengths once and some more often."""
    lengths = [64 * rng.randint(1, 40) for _ in range(count)]
    a, c = rng.choice((50, 100, 173)), rng.choice((0, 8000, 34000))
    noise = 4000 + 40 * max(lengths)
    sweep = [(n, float(a * n + c + rng.randint(0, noise))) for n in lengths]
    if len(set(lengths)) == 1:
        sweep.append((lengths[0] + 64, sweep[0][1] + 9000.0))
    return sweep


_ORIGIN = (
    "Even a short pass costs its fixed time c, so the line does not begin at 0: let the points "
    "decide about a and c together."
)
_TWO_POINTS = (
    "Two points say nothing about the noise in them: least squares weigh every point, and the "
    "first and the last count no more than the others."
)
_RATIOS = (
    "Time over tokens has the fixed cost in it, spread over few tokens in a short prompt and over "
    "many in a long one: the slope is how time grows *with* the tokens."
)
_REPEATS = "A length that was measured twice has two points, and both of them count."
_ROUNDED = (
    "This is the right line with its numbers rounded: over thousands of tokens a small part of a "
    "microsecond per token adds up, so return them as they come out."
)


_ROUNDINGS: tuple[Callable[[float], float], ...] = (
    int, round, lambda value: round(value, 1), lambda value: round(value, 2),
    lambda value: round(value, 3),
)  # fmt: skip


def _rounded_lines(points: Points) -> Iterator[_Line]:
    """The right line with one or both of its numbers rounded, or c made from a rounded a."""
    a, c = predictor.fit(points)
    for how in _ROUNDINGS:
        yield how(a), c
        yield a, how(c)
        yield how(a), how(c)
        yield _through_means(how(a), points)


def _rounded(index: int) -> Callable[[Points], _Line]:
    return lambda points: [*_rounded_lines(points)][index]


def _with_c(c: Callable[[float, Points], float]) -> Callable[[Points], _Line]:
    """The right slope, and a constant of its own, c(a, points)."""

    def line(points: Points) -> _Line:
        a = predictor.fit(points)[0]
        return a, c(a, points)

    return line


def _steeper(factor: Callable[[int], float]) -> Callable[[Points], Sequence[float]]:
    """The line through the means whose slope is off by a factor that depends on their number."""
    return lambda points: _through_means(predictor.fit(points)[0] * factor(len(points)), points)


_CONSTANTS: tuple[Callable[[float, Points], float], ...] = (
    lambda a, points: points[0][1] - a * points[0][0],
    lambda a, points: points[-1][1] - a * points[-1][0],
    lambda a, points: min(points)[1] - a * min(points)[0],
    lambda a, points: min(time_us for _, time_us in points),
    lambda a, points: statistics.fmean(time_us for _, time_us in points),
    lambda a, points: min(time_us - a * n for n, time_us in points),
)

_FACTORS: tuple[Callable[[int], float], ...] = (
    lambda n: n,
    lambda n: 1 / n,
    lambda n: (n - 1) / n,
    lambda n: n / (n - 1),
    lambda n: n - 1,
)

FIT: Comparison[Callable[[Points], _Line]] = Comparison(
    reference=_fitted,
    mistakes=(
        _wrong_line(
            "changed_places",
            "The two numbers changed places: first a, the time per token, then c, the fixed time.",
            lambda points: predictor.fit(points)[::-1],
        ),
        _wrong_line("through_the_origin", _ORIGIN, _origin),
        _wrong_line("through_the_origin", _ORIGIN, _total_ratio),
        _wrong_line("through_the_origin", _ORIGIN, lambda points: (predictor.fit(points)[0], 0.0)),
        _wrong_line("two_points", _TWO_POINTS, lambda points: _through(points[0], points[-1])),
        _wrong_line("two_points", _TWO_POINTS, lambda points: _through(min(points), max(points))),
        _wrong_line("mean_of_ratios", _RATIOS, lambda points: (_mean_ratio(points), 0.0)),
        _wrong_line(
            "mean_of_ratios", _RATIOS, lambda points: _through_means(_mean_ratio(points), points)
        ),
        _wrong_line(
            "mean_of_slopes",
            "A slope between two neighbours is mostly noise when their lengths are alike; least "
            "squares weigh a point by how far from the mean its length is.",
            lambda points: _through_means(_mean_slope(points), points),
        ),
        _wrong_line(
            "other_way_round",
            "This is the best line for guessing tokens from a time; here times are predicted, so "
            "divide by how much the *tokens* vary.",
            _other_way_round,
        ),
        _wrong_line(
            "drops_repeats", _REPEATS, lambda points: predictor.fit(list(dict(points).items()))
        ),
        _wrong_line("drops_repeats", _REPEATS, lambda points: predictor.fit([*{*points}])),
        *(
            _wrong_line(
                "other_units",
                "The points are in microseconds, and so are a and c.",
                lambda points, unit=unit: [part / unit for part in predictor.fit(points)],
            )
            for unit in (1e3, 1e6)
        ),
        *(
            _wrong_line("rounded", _ROUNDED, _rounded(index))
            for index in range(4 * len(_ROUNDINGS))
        ),
        _wrong_line(
            "never_negative",
            "Where long prompts cost more per token than short ones, the best line meets the axis "
            "below 0: that is no error, so leave c as it is.",
            _with_c(lambda a, points: max(0.0, _through_means(a, points)[1])),
        ),
        *(
            _wrong_line(
                "c_of_some",
                "The slope is right, but c does not fit it: the line has to lie as close as it can "
                "to all of the points, not to one of them.",
                _with_c(c),
            )
            for c in _CONSTANTS
        ),
        *(
            _wrong_line(
                "sum_or_mean",
                "The slope is one thing over another, and here one of the two is a sum and the "
                "other a mean over the points (or one divides by n and the other by n - 1).",
                _steeper(factor),
            )
            for factor in _FACTORS
        ),
    ),
    idea="Another line lies closer to these points: the sum of the squared errors, over all of "
    "them, can be smaller.",
    form=_line_form,
    draw=_draw_line,
    evidence=[
        *((any_sweep(random.Random(seed), 5),) for seed in range(4)),
        ([(100, 21037.0), (200, 28e3), (200, 28e3), (400, 55211.0), (200, 34e3), (300, 38713.0)],),
    ],
)


# --- slack -----------------------------------------------------------------------------------

_Slack = Callable[[int, int, int, int, float, float], float]


def _slack(now: int, deadline: int, total: int, done: int, a: float, c: float) -> float:
    return deadline - now - _work(total - done, a, c)


def _work(left: float, a: float, c: float) -> float:
    return a * left + c if left > 0 else 0


def _charging(work: Callable[[int, int, float, float], float]) -> _Slack:
    """The slack with another idea of what is paid for: work(total, done, a, c)."""
    return lambda now, deadline, total, done, a, c: deadline - now - work(total, done, a, c)


_TWICE = (
    "What is done leaves less to compute, and that is all it changes: it was taken off twice here."
)

SLACK: Comparison[_Slack] = Comparison(
    reference=_slack,
    mistakes=(
        Mistake(
            "ignores_progress",
            "Charged for its whole prompt, a runner looks doomed although it is about to finish: "
            "only total - done tokens are still to be computed.",
            _charging(lambda total, done, a, c: _work(total, a, c)),
        ),
        Mistake(
            "forgets_c",
            "A pass costs c before its first token: short prompts look as if they had time "
            "although they have none.",
            _charging(lambda total, done, a, c: a * (total - done)),
        ),
        Mistake(
            "forgets_now",
            "The deadline is a point in time; how long there is until then depends on `now`.",
            lambda now, deadline, total, done, a, c: deadline - _work(total - done, a, c),
        ),
        Mistake(
            "sign",
            "The sign is turned round: time to spare counts above 0, and a request that is short "
            "of time has less than 0.",
            lambda now, deadline, total, done, a, c: -_slack(now, deadline, total, done, a, c),
        ),
        Mistake(
            "done_twice",
            _TWICE,
            _charging(lambda total, done, a, c: _work(total - done, a, c) - a * done),
        ),
        Mistake(
            "done_twice",
            _TWICE,
            _charging(lambda total, done, a, c: _work(total - 2 * done, a, c)),
        ),
        Mistake(
            "empty_pass",
            "When nothing is left to compute there is no pass, so its fixed cost c is not paid.",
            _charging(lambda total, done, a, c: a * (total - done) + c),
        ),
        Mistake(
            "c_for_each_token",
            "A pass costs c once, however many tokens it computes; here it was paid for each of "
            "them.",
            _charging(lambda total, done, a, c: (a + c) * (total - done)),
        ),
        Mistake(
            "c_of_the_first_pass",
            "c is the fixed cost of the pass that computes what is left, so it is still to be paid "
            "however much is done.",
            _charging(lambda total, done, a, c: a * (total - done) + (c if done == 0 else 0)),
        ),
        *alike(
            "adds_c",
            "The fixed cost c takes time as well: it was added to the slack here (a minus counts "
            "for what stands right behind it).",
            _charging(lambda total, done, a, c: a * (total - done) - c),
            _charging(lambda total, done, a, c: a * (total - done) - c if total > done else 0),
        ),
        Mistake(
            "a_and_c",
            "a and c changed places: a is what a token costs, c what the pass costs on top.",
            _charging(lambda total, done, a, c: _work(total - done, c, a)),
        ),
        *alike(
            "milliseconds",
            "All times here are in microseconds, and so is the slack.",
            lambda now, deadline, total, done, a, c: (
                _slack(now, deadline, total, done, a, c) / 1000
            ),
            lambda now, deadline, total, done, a, c: (
                _slack(now, deadline, total, done, a, c) // 1000
            ),
        ),
        Mistake(
            "no_sign",
            "Below 0 the slack says that the request is doomed: keep the sign.",
            lambda now, deadline, total, done, a, c: abs(
                _slack(now, deadline, total, done, a, c)
            ),
        ),
        Mistake(
            "c_in_proportion",
            "The fixed cost c is paid in full by any pass that still has a token to compute, not "
            "in proportion to the tokens.",
            _charging(lambda total, done, a, c: (a * total + c) * (total - done) / total),
        ),
        Mistake(
            "charges_what_is_done",
            "What is done has been paid for; the slack has to pay for the total - done tokens that "
            "are left.",
            _charging(lambda total, done, a, c: _work(done, a, c)),
        ),
        Mistake(
            "adds_the_work",
            "Work that is still to do takes from the time that is left: subtract it.",
            _charging(lambda total, done, a, c: -_work(total - done, a, c)),
        ),
        Mistake(
            "no_work",
            "This is the time to the deadline; the slack is what remains of it once the tokens "
            "that are left are computed.",
            _charging(lambda total, done, a, c: 0),
        ),
        Mistake(
            "never_negative",
            "Below 0 the slack says that the request is doomed, and the policy needs to know: do "
            "not cut it off at 0.",
            lambda now, deadline, total, done, a, c: max(
                0, _slack(now, deadline, total, done, a, c)
            ),
        ),
    ),
    idea="The slack is what is left of the time until the deadline once the work that is still to "
    "do has had its share.",
    form=_number_form("slack"),
    draw_call=named("now", "deadline", "total", "done", "a", "c"),
    evidence=[
        (0, 90_000, 400, 0, 100.0, 10_000.0), (70_000, 90_000, 400, 300, 100.0, 10_000.0),
        (40_000, 90_000, 400, 100, 100.0, 10_000.0), (5_000, 90_000, 400, 400, 100.0, 10_000.0),
        (0, 20_000, 400, 100, 100.0, 10_000.0),
    ],
)  # fmt: skip


# --- urgency ---------------------------------------------------------------------------------

_Urgency = Callable[[float, int], float]


def _sized(
    size: Callable[[float, int], float],
    is_up: Callable[[float, int], bool] = lambda slack, left: slack >= 0,
) -> _Urgency:
    """A score of size(slack, left), above 0 where `is_up`; infinite where it divides by zero."""

    def answer(slack: float, left: int) -> float:
        try:
            score = size(slack, left)
        except ZeroDivisionError:
            score = math.inf
        return Near(score if is_up(slack, left) else -score)

    return answer


def _size(slack: float, left: int) -> float:
    return 1 / max(abs(left) / 1000, 1)


def _rounded_to(digits: int) -> _Urgency:
    return _sized(lambda slack, left: round(_size(slack, left), digits))


def _with_sign_of_time(slack: float, left: int) -> float:
    """A size that is negative once the deadline is past."""
    return math.copysign(_size(slack, left), left)


def _doomed_get(score: Callable[[int], float]) -> _Urgency:
    """The right score, but for the doomed."""
    return lambda slack, left: Near(_size(slack, left) if slack >= 0 else score(left))


_UNCLAMPED = (
    "At the deadline the time left is 0 and just around it next to nothing, so the score would "
    "grow beyond all bounds: count a time as at least 1 ms."
)
_ORDER = (
    "Among the doomed, too, the score has the size 1 / time in milliseconds: the nearer the "
    "deadline, missed or not, the further down."
)
_SIGN = (
    "A deadline that is still ahead does not mean that it can be met: the sign comes from the "
    "slack, which has the work in it."
)

_PAST_SIGN = (
    "A deadline that is past makes the time negative, and a minus over a minus is a plus: the "
    "doomed would come first, so the size has to be positive before it gets the slack's sign."
)
_WHOLE = (
    "Parts of a millisecond count as well: divide the time without cutting it to whole "
    "milliseconds."
)

_PAST_SIZES: tuple[Callable[[float, int], float], ...] = (
    _with_sign_of_time,
    lambda slack, left: 1000 / (left or 1000),
    lambda slack, left: 1000 / (left if abs(left) >= 1000 else 1000),
)

_WHOLE_SIZES: tuple[Callable[[float, int], float], ...] = (
    lambda slack, left: 1 / max(abs(left) // 1000, 1),
    lambda slack, left: 1 / max(abs(left // 1000), 1),
    lambda slack, left: 1 / max(round(abs(left) / 1000), 1),
    lambda slack, left: 1 / max(math.ceil(abs(left) / 1000), 1),
)

URGENCY: Comparison[_Urgency] = Comparison(
    reference=_sized(_size),
    mistakes=(
        Mistake("not_clamped", _UNCLAMPED, _sized(lambda slack, left: 1 / abs(left / 1000))),
        Mistake(
            "not_clamped",
            _UNCLAMPED,
            _sized(lambda slack, left: 1 / abs(left / 1000) if left else 0.0),
        ),
        Mistake(
            "not_clamped",
            _UNCLAMPED,
            _sized(lambda slack, left: 1 / abs(left / 1000) if left else 1.0),
        ),
        Mistake(
            "clamp_of_1_us",
            "A time counts as at least 1 ms, which is 1000 us; with 1 us, a request at its "
            "deadline would beat all others by any margin.",
            _sized(lambda slack, left: 1000 / max(abs(left), 1)),
        ),
        Mistake(
            "clamp_in_seconds",
            "A time counts as at least 1 ms, not 1 s: within the last second the order matters "
            "most.",
            _sized(lambda slack, left: 1 / max(abs(left) / 1e6, 1)),
        ),
        Mistake(
            "clamp_in_seconds",
            "A time counts as at least 1 ms, not 1 s: within the last second the order matters "
            "most.",
            _sized(lambda slack, left: 1000 / max(abs(left), 1_000_000)),
        ),
        Mistake(
            "per_us",
            "The time comes in microseconds and the score is per millisecond: divide the time by "
            "1000 before you divide by it.",
            _sized(lambda slack, left: 1 / max(abs(left), 1)),
        ),
        Mistake(
            "per_us",
            "The time comes in microseconds and the score is per millisecond: divide the time by "
            "1000 before you divide by it.",
            _sized(lambda slack, left: 1 / max(abs(left), 1000)),
        ),
        Mistake(
            "per_second",
            "The score is per millisecond, and from -1 to 1; here the time is in seconds.",
            _sized(lambda slack, left: 1000 * _size(slack, left)),
        ),
        *(
            Mistake(
                "rounded",
                "Far from their deadlines the scores are small, and rounded ones are all alike: "
                "return the score as it comes out.",
                _rounded_to(digits),
            )
            for digits in range(5)
        ),
        Mistake("sign_of_the_time", _SIGN, _sized(_size, lambda slack, left: left >= 0)),
        Mistake("sign_of_the_time", _SIGN, _sized(_size, lambda slack, left: left > 0)),
        Mistake(
            "ignores_slack",
            "Without a sign the doomed are as urgent as requests that can be saved: below a slack "
            "of 0 the score is negative.",
            _sized(_size, lambda slack, left: True),
        ),
        Mistake(
            "sign",
            "The sign is turned round: a slack of 0 or more makes it positive.",
            _sized(_size, lambda slack, left: slack < 0),
        ),
        Mistake(
            "slack_for_time",
            "The size comes from the time to the deadline; the slack gives the sign alone.",
            _sized(lambda slack, left: 1 / max(abs(slack) / 1000, 1)),
        ),
        Mistake(
            "slack_over_time",
            "The slack gives its sign alone: a request that has little of it would look less "
            "urgent.",
            lambda slack, left: Near(slack / max(abs(left), 1000)),
        ),
        Mistake(
            "time_for_size",
            "The nearer deadline is the more urgent: the size is 1 divided by the time, not the "
            "time.",
            _sized(lambda slack, left: max(abs(left) / 1000, 1)),
        ),
        Mistake("order_of_the_doomed", _ORDER, _doomed_get(lambda left: -1.0)),
        Mistake("order_of_the_doomed", _ORDER, _doomed_get(lambda left: 0.0)),
        Mistake("order_of_the_doomed", _ORDER, _doomed_get(lambda left: -math.inf)),
        Mistake(
            "order_of_the_doomed", _ORDER, _doomed_get(lambda left: -max(abs(left) / 1000, 1))
        ),
        Mistake("order_of_the_doomed", _ORDER, _doomed_get(lambda left: _size(0, left) - 1)),
        Mistake(
            "past_is_now",
            "Time since a missed deadline counts like time until one: take it without its sign "
            "before you compare it with 1 ms.",
            _sized(lambda slack, left: 1 / max(left / 1000, 1)),
        ),
        *(
            Mistake("past_turns_the_sign", _PAST_SIGN, _sized(size))
            for size in _PAST_SIZES
        ),
        *(
            Mistake("whole_milliseconds", _WHOLE, _sized(size))
            for size in _WHOLE_SIZES
        ),
        Mistake(
            "zero_is_doomed",
            "With a slack of exactly 0 the request still makes it: that counts as positive.",
            _sized(_size, lambda slack, left: slack > 0),
        ),
        Mistake(
            "zero_scores_zero",
            "With a slack of exactly 0 the request still makes it, and it is as urgent as its "
            "deadline is near, not 0.",
            lambda slack, left: Near(math.copysign(_size(slack, left), slack) if slack else 0.0),
        ),
        Mistake(
            "adds_one",
            "At least 1 ms means the larger of the two; adding 1 ms changes every score.",
            _sized(lambda slack, left: 1 / (abs(left) / 1000 + 1)),
        ),
    ),
    idea="The sign says whether the request can still make it, the size how near its deadline is "
    "in milliseconds.",
    form=_number_form("urgency"),
    draw=lambda value: f"{value:.6g}" if type(value) in (float, Near) else repr(value),
    draw_call=named("slack", "time_to_deadline"),
    evidence=[
        (5_000, 80_000), (-5_000, 80_000), (-90_000, -30_000), (0, 40_000), (300, 500),
        (-20_000, 400), (-20_000, -300), (0, 0), (-7_000, 2_000_000), (7_000, 3_000_000),
    ],
)  # fmt: skip
