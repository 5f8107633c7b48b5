"""A check's way to an answer in its own process: a call in a thread of its own, under a limit."""

import copy
from collections.abc import Callable
from typing import Any

import torch

from course.called import Called
from course.observed_call import Printed, observe, plain, raised
from nanogpt.parts.limits import run_limited


def call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    limit_s: float = 2.0,
    wall_s: float | None = None,
    seed: int = 0,
    copied: Callable[[Any], Any] = plain,
) -> Called:
    """Calls `function` on copies of `args`, with `random` and torch seeded.

    Plain data is numbers, strings, lists, tuples, dicts, sets, tensors and the course's own records
    of these, which `copied` makes of the result. Never raises for what the function does; see
    `run_limited` for the limits.
    """
    given = copy.deepcopy(args)
    grad = torch.is_grad_enabled()
    printed = Printed()

    def run() -> tuple[Any, tuple[Any, ...]]:
        torch.set_grad_enabled(grad)  # per thread, and this is another one than the caller's
        value = observe(function, given, seed, printed, copied)
        return value, tuple(plain(item) for item in given)

    outcome = run_limited(run, (), limit_s=limit_s, wall_s=wall_s)
    value, args_after = (None, ()) if outcome.value is None else outcome.value
    error = None if outcome.error is None else raised(outcome.error, function)
    return Called(value, args_after, error, outcome.timed_out, printed.text(), outcome.cpu_s)
