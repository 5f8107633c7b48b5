"""The contest as a chart: the promises that each entry kept, below the bound."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from nanogpt.figures.chart import Chart, Line, Mark, Panel

if TYPE_CHECKING:
    from nanogpt.contest.rounds import Round
    from nanogpt.contest.scoring import Score


def contest_scores(rounds: Sequence[Round], title: str) -> Chart:
    """Promises kept among the requests so far, a panel for each workload: its first round.

    Raises: ValueError when none was played.
    """
    if not rounds:
        raise ValueError("no round was played, so there is nothing to draw")
    firsts = {each.workload: each for each in reversed(rounds)}
    panels = [_panel(firsts[name]) for name in dict.fromkeys(each.workload for each in rounds)]
    return Chart(title, tuple(panels), "modelled; the first seed")


def _panel(each: Round) -> Panel:
    lines = [Line(name, _kept_so_far(score), "steps") for name, score in each.scores]
    return Panel(
        ("requests, in order of arrival", ""),
        (f"{each.workload}: promises kept", ""),
        tuple(lines),
        (Mark("y", each.most, f"no schedule keeps more than {each.most}"),),
    )


def _kept_so_far(score: Score) -> tuple[tuple[float, float], ...]:
    kept = set(score.kept)
    counts = accumulate((request_id in kept for request_id in range(score.num_calls)), initial=0)
    return tuple(enumerate(counts))
