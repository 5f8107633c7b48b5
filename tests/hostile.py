"""Submissions that cheat, break things or are right in odd ways: what a grader has to stand.

They lie in hostile.txt. Below "## group: statuses" stand the submissions that may come to these
statuses, each below "### name" as a body of l01.chunk_size; below "### name @ exercise: statuses"
stands a whole file.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RIGHT = "return max(0, min(remaining, budget - num_decodes))"
HEAD = "def chunk_size(budget, num_decodes, remaining):"


@dataclass(frozen=True, slots=True)
class Hostile:
    """A submission, and the statuses that it may come to."""

    group: str
    name: str
    text: str
    statuses: frozenset[str]
    exercise: str = "l01.chunk_size"

    @property
    def id(self) -> str:
        return f"{self.group}: {self.name}"


def body(lines: str) -> str:
    """A file with this body of chunk_size."""
    return f"{HEAD}\n{textwrap.indent(textwrap.dedent(lines), '    ')}\n"


def catalogue() -> Iterator[Hostile]:
    for part in Path(__file__).with_suffix(".txt").read_text().split("\n## ")[1:]:
        first, *each = part.split("\n### ")
        group, _, statuses = first.partition(": ")
        for text in each:
            title, _, lines = text.partition("\n")
            name, _, whole = title.partition(" @ ")
            exercise, _, own = (whole or f"l01.chunk_size: {statuses}").partition(": ")
            text = lines.rstrip() + "\n" if whole else body(lines.rstrip())
            yield Hostile(group, name, text, frozenset(own.split()), exercise)
    windows = body(RIGHT).replace("\n", "\r\n")
    yield Hostile("odd", "Windows line ends", windows, frozenset({"passed"}))


CATALOGUE = [*catalogue()]
RESOURCE = [each for each in CATALOGUE if each.group == "resource"]
