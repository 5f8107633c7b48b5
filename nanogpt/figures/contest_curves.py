"""The contest as a chart: what each entry scored, beside the bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nanogpt.figures.chart import Chart, Line, Panel

if TYPE_CHECKING:
    from nanogpt.contest.rounds import Round

BOUND = "no schedule beats"


def contest_scores(rounds: Sequence[Round], title: str) -> Chart:
    """Promises kept by seed, a panel for each workload. Raises: ValueError when none was played."""
    if not rounds:
        raise ValueError("no round was played, so there is nothing to draw")
    workloads = dict.fromkeys(each.workload for each in rounds)
    panels = [_panel([each for each in rounds if each.workload == name]) for name in workloads]
    return Chart(title, tuple(panels), "modelled")


def _panel(rounds: Sequence[Round]) -> Panel:
    names = [name for name, _ in rounds[0].scores]
    lines = [
        Line(name, tuple((each.number, each.points(name)) for each in rounds)) for name in names
    ]
    most = Line(BOUND, tuple((each.number, each.most) for each in rounds))
    what = f"{rounds[0].workload}: kept promises"
    return Panel(("seed", ""), (what, ""), (*lines, most))
