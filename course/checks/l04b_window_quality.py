"""Checks of lesson 4b, what a window costs in text; its exercise keeps the id of lesson 4."""

import random
from collections.abc import Callable
from typing import Any

import torch

from course.checks.readings import draw_logits, judge_readings, readings
from course.judging import Ask, Check, Failure, run_checks
from course.registry import Exercise
from course.report import Report
from course.task import Task

_FULL = [[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [1.0, 0.0, 4.0], [2.0, 1.0, 0.0]]
_WINDOW = [[3.0, 0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [3.0, 1.0, 0.0]]


def _four_rows(ask: Ask, rng: random.Random) -> Failure | None:
    full, window = torch.tensor(_FULL), torch.tensor(_WINDOW)
    return judge_readings(ask, (full, window, torch.tensor([0, 1, 2, 1])))


def _window_helps(ask: Ask, rng: random.Random) -> Failure | None:
    full, window = torch.tensor(_WINDOW), torch.tensor(_FULL)
    return judge_readings(
        ask,
        (full, window, torch.tensor([2, 1, 2, 1])),
        (full[:1], window[:1], torch.tensor([2])),
        (full, full, torch.tensor([0, 0, 0, 0])),
    )


_SURE = [[120.0, 0.0, 30.0], [0.0, 150.0, 10.0]]
_SURE_OF_ELSE = [[100.0, 0.0, 30.0], [10.0, 0.0, 150.0]]


def _large_logits(ask: Ask, rng: random.Random) -> Failure | None:
    full, window = torch.tensor(_SURE), torch.tensor(_SURE_OF_ELSE)
    return judge_readings(ask, (full, window, torch.tensor([0, 0])))


def _any_readings(ask: Ask, rng: random.Random) -> Failure | None:
    cases = [readings(rng, length, vocab) for length, vocab in ((6, 4), (1, 2), (30, 10), (64, 65))]
    full, window, targets = readings(rng, 12, 5)
    return judge_readings(ask, *cases, (full.double(), window.double(), targets))


_MEASURE_CHECKS: tuple[tuple[str, Check], ...] = (
    ("four rows", _four_rows),
    ("a window that helps, and none at all", _window_helps),
    ("large logits", _large_logits),
    ("any logits", _any_readings),
)


def check_judge(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l04.judge."""
    return run_checks("l04.judge", function, _MEASURE_CHECKS, seed=seed, draw_call=draw_logits)


EXERCISES = (
    Exercise(
        id="l04.judge",
        lesson="l04b_window_quality",
        name="judge",
        title="What a window costs",
        minutes=9,
        points=2,
        part=None,
        hints=(
            "Which of the two numbers needs the text, and which only the two readings?",
            "Agreement: compare the argmax of each row. Loss: the cross entropy of logits and "
            "targets is the mean negative log likelihood.",
            "A mean of True and False, once they are numbers, is a share. cross_entropy of "
            "torch.nn.functional takes logits and targets as they are; take it twice, and think "
            "about which of the two is subtracted so that a cost is above 0.",
        ),
        check=check_judge,
        task=Task(
            signature="judge(full_logits: torch.Tensor, window_logits: torch.Tensor, targets: "
            "torch.Tensor) -> tuple[float, float]",
            rules=(
                "The model has read a text twice, with its full context and with a window. Row t "
                "of each logits (T, V), of any size, is what it expects next at one place; "
                "`targets` (T,) are the tokens that really came next there.",
                "`agreement` is the share of rows, from 0 to 1, in which both times the same token "
                "is the most likely one.",
                "`nll_delta` is how much the window adds to the mean negative log likelihood of "
                "`targets`, in nats per token; below 0 where the window helps.",
                "Returns `(agreement, nll_delta)`, two plain numbers.",
            ),
            args=(
                torch.tensor([[2.0, 0.0], [1.0, 0.0]]),
                torch.tensor([[0.0, 2.0], [1.0, 0.0]]),
                torch.tensor([0, 0]),
            ),
            result=(0.5, 1.0),
        ),
    ),
)
