"""Misconceptions about results that are one finite number."""

import math
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_number
from course.checks.comparing import a_kind
from course.exercise import Misconception


def not_a_number(what: str, belief: str, *ways: Callable[..., Any]) -> Misconception:
    """A result that is not a number."""
    return Misconception(
        "not_a_number",
        belief,
        lambda value: f"The {what} is a number, not {a_kind(value)}.",
        matches=lambda value: as_number(value) is None,
        examples=ways,
    )


def not_finite(what: str, belief: str, *ways: Callable[..., Any]) -> Misconception:
    """An infinite number or NaN."""
    return Misconception(
        "not_finite",
        belief,
        f"The {what} has to be a finite number, so that it can be compared.",
        matches=lambda value: as_number(value) is not None and not math.isfinite(value),
        examples=ways,
    )
