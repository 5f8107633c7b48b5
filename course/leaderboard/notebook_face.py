"""The contest in a notebook's cell: `mo.md(contest_table({"plan_step": plan_step}))`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course.leaderboard.own_parts import PLAYED, play_mine
from course.leaderboard.tables import markdown, sentence
from nanogpt.contest import NAMES


def contest_table(
    functions: Mapping[str, Callable[..., Any]], names: Sequence[str] = NAMES, seeds: int = 1
) -> str:
    """What these functions score as parts, beside the baselines and the bound, in Markdown.

    Under the first public seeds. Raises: ValueError for what is no part of the contest.
    """
    for part in functions:
        if part not in PLAYED:
            raise ValueError(f"the contest asks no part {part!r}; it asks {', '.join(PLAYED)}")
    labels = [f"seed {seed}" for seed in range(seeds)]
    played = [[play_mine(name, i, i, functions) for i in range(seeds)] for name in names]
    return "\n\n".join(f"{markdown(each, labels)}\n\n{sentence(each)}" for each in played)
