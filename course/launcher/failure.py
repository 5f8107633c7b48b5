"""The one error that the launcher reports: a sentence."""

from __future__ import annotations


class Failure(Exception):
    """One sentence about what went wrong that the learner can act on."""


def last_line(text: str) -> str:
    """Return the last line of a program's output that says something."""
    return ([line.strip() for line in text.splitlines() if line.strip()] or ["no output"])[-1]
