"""Exercise 5.1: the line that predicts how long a prefill takes."""

import random
import statistics
from typing import Any

import numpy as np

from course.checks.comparing import Comparison
from course.exercise import Exercise
from course.format_values import show, show_call
from course.harness import Ask, Check, Failure, Rows
from course.task import Task
from solutions.l05_slo_policy._lines import (
    MISCONCEPTIONS,
    ONE_LENGTH,
    WRONG_ERROR,
    Points,
    are_two,
    near,
    wrong_part,
)

# --- right answers ------------------------------------------------------------------------------


def fit_ttft(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Return `(a, c)`: a prefill of n tokens is predicted to take a * n + c microseconds."""
    # The slope is how time and length vary together, over how much the length varies by itself.
    # The best line goes through the mean of the points, which leaves one value for c.
    lengths = {tokens for tokens, _ in points}
    if len(lengths) < 2:
        raise ValueError(f"a line needs 2 different prompt lengths; there are {len(lengths)}")
    mean_tokens = sum(tokens for tokens, _ in points) / len(points)
    mean_us = sum(time_us for _, time_us in points) / len(points)
    spread = sum((tokens - mean_tokens) ** 2 for tokens, _ in points)
    together = sum((tokens - mean_tokens) * (time_us - mean_us) for tokens, time_us in points)
    a = together / spread
    return a, mean_us - a * mean_tokens


def with_statistics(points: Points) -> Any:
    # Its StatisticsError for too few lengths is a ValueError.
    return statistics.linear_regression([n for n, _ in points], [time_us for _, time_us in points])


def with_lstsq(points: Points) -> Any:
    tokens = np.array([[n, 1.0] for n, _ in points])
    times_us = np.array([time_us for _, time_us in points])
    line, _, rank, _ = np.linalg.lstsq(tokens, times_us)
    if rank < 2:
        raise ValueError("all prompts are equally long")
    return line


# --- cases --------------------------------------------------------------------------------------


def draw_line(value: Any) -> str:
    if not are_two(value) or wrong_part(value):
        return show(value)
    return f"(a={value[0]:.6g}, c={value[1]:.6g})"


def any_sweep(rng: random.Random, count: int) -> Points:
    """Measured prefills with noise, in any order, most lengths once and some more often."""
    lengths = [64 * rng.randint(1, 40) for _ in range(count)]
    a, c = rng.choice((50, 100, 173)), rng.choice((0, 8000, 34000))
    noise = 4000 + 40 * max(lengths)
    sweep = [(n, float(a * n + c + rng.randint(0, noise))) for n in lengths]
    if len(set(lengths)) == 1:
        sweep.append((lengths[0] + 64, sweep[0][1] + 9000.0))
    return sweep


JUDGE = Comparison(
    near(fit_ttft),
    MISCONCEPTIONS,
    "Another line lies closer to these points: the sum of the squared errors, over all of them, "
    "can be smaller.",
    draw=draw_line,
    evidence=[
        *((any_sweep(random.Random(seed), 5),) for seed in range(4)),
        ([(100, 21037.0), (200, 28e3), (200, 28e3), (400, 55211.0), (200, 34e3), (300, 38713.0)],),
    ],
)


def on(*sweeps: Points) -> Check:
    """The check that asks about these sweeps."""
    return JUDGE.on(*((sweep,) for sweep in sweeps))


def one_length(ask: Ask, rng: random.Random) -> Failure | None:
    sweeps: list[Points] = [[(100, 20_000.0), (100, 24_000.0)], [(100, 20_000.0)], []]
    for points in sweeps:
        called = ask.call(points, may_raise=True)
        if called.raised(ValueError):
            continue
        rows: Rows = (("input", show_call(ask.name, ask.args)), ("expected", "ValueError"))
        if called.error is None:
            return ONE_LENGTH.failure((*rows, ("got", show(called.value))))
        got = called.error.kind
        return WRONG_ERROR.failure((*rows, ("got", got)), got)
    return None


DEVIATIONS = "deviations from a mean add up to 0"

EXERCISE = Exercise(
    number=1,
    title="How long a prefill takes",
    minutes=9,
    points=2,
    task=Task(
        signature="fit_ttft(points: list[tuple[int, float]]) -> tuple[float, float]",
        rules=(
            "`points` are measured prefills, (tokens, microseconds) each, in any order; a length "
            "may come more than once.",
            "Returns `(a, c)`: a prefill of n tokens is predicted to take a * n + c microseconds.",
            "The line is the one of least squared error: no other a and c make the sum of "
            "(a * tokens + c - microseconds) ** 2 over all points smaller.",
            "Fewer than 2 different lengths do not say how a line lies: raise a ValueError.",
            "`points` stay as they are.",
        ),
        args=([(100, 21_000.0), (200, 28_000.0), (300, 41_000.0)],),
        result=(100.0, 10_000.0),
    ),
    hints=(
        "A good line passes through the middle of the points. If you know its slope and one point "
        "on it, what is left to find?",
        "Move the middle of the points to zero: subtract the mean from the tokens and from the "
        "times. Each point now has a slope of its own, time over tokens. Which of these slopes "
        "should count more, those near the middle or those far from it?",
        "A point's slope counts by the square of its tokens from the middle: write the weighed "
        "mean of these slopes as one sum over another, and a factor cancels. The middle of the "
        "points then leaves one value for c. Count the different lengths before all that.",
    ),
    right=(fit_ttft, with_statistics, with_lstsq),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "points on a line",
            on(
                [(100, 20_000.0), (200, 30_000.0)],
                [(300, 40_000.0), (100, 20_000.0), (200, 30_000.0)],
                [(100, 5_000.0), (400, 20_000.0)],
                [(100, 9_000.0), (200, 8_000.0)],
            ),
        ),
        (
            "points around a line",
            on(
                [(100, 21_000.0), (200, 28_000.0), (400, 55_000.0)],
                [(400, 55_000.0), (100, 21_000.0), (800, 88_000.0), (200, 28_000.0)],
                [(100, 4_000.0), (800, 71_000.0), (300, 19_000.0)],
            ),
        ),
        (
            "a length measured twice",
            on(
                [(100, 20_000.0), (200, 36_000.0), (200, 30_000.0)],
                [(100, 20_000.0), (100, 20_000.0), (200, 33_000.0), (300, 40_000.0)],
            ),
        ),
        ("one length", one_length),
        (
            "any sweep",
            JUDGE.on_drawn(lambda rng: [(any_sweep(rng, n),) for n in (2, 3, 4, 6, 9, 12, 20, 40)]),
        ),
    ),
    equivalent_mutants={
        "points: reversed": "a sum does not mind the order",
        "together = sum((tokens * (time_us - mean_us) for tokens, time_us in points))": DEVIATIONS,
        "together = sum(((tokens - mean_tokens) * time_us for tokens, time_us in points))": (
            DEVIATIONS
        ),
        "fit_ttft(): together = sum(((tokens {- => +} mean_tokens) * (time_us - mean_us) "
        "for tokens, time_us in points))": DEVIATIONS,
        "fit_ttft(): together = sum(((tokens - mean_tokens) * (time_us {- => +} mean_us) "
        "for tokens, time_us in points))": DEVIATIONS,
    },
)
