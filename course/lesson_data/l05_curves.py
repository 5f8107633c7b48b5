"""Behind lesson 5's figures: SLO attainment against load, by the learner's policy and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from course.attempt import Attempt
from course.figure import Figure
from course.lesson_data import recorded
from course.lesson_data.l05_policy import simulated
from nanogpt.experiments.paired_statistics import Estimate
from nanogpt.experiments.slo_table import Cell
from nanogpt.figures.curves import attainment_by_load
from nanogpt.slo import policy
from nanogpt.slo.load import POST_COST, two_tier_load
from nanogpt.slo.variants import BATCHED, CONTROL, LADDER, SUSPENDED, UNPREEMPTED
from widgets import whose

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

RATES = (1.0, 2.0, 4.0, 6.0)
_SECONDS = 30

RUNGS = [variant.title for variant in LADDER if variant is not CONTROL]
"""What a rung of the ladder is called, from the second on."""


def your_policy_by_load(attempts: Mapping[str, Attempt]) -> Drawing | str:
    """Attainment by the learner's functions at four loads; the sentence of a run that failed."""
    parts: Any = {n: each.or_reference(getattr(policy, n)) for n, each in attempts.items()}
    cells: list[Cell] = []
    for rate in RATES:
        load = two_tier_load(seed=0, requests_per_s=rate, duration_s=_SECONDS)
        for variant in (UNPREEMPTED, BATCHED, SUSPENDED):
            run = simulated(load, variant, POST_COST, **parts)
            if isinstance(run, str):
                return f"{variant.title}, {rate:g} requests per second: {run}"
            in_time = [run.attainment(urgent=urgent) for urgent in (True, False)]
            found = [None if share is None else Estimate(100 * share, None) for share in in_time]
            cells.append(_cell(variant.name, variant.title, rate, 1, *found))
    mine = whose(any(each.started for each in attempts.values()))
    title = f"Requests in time against load, policy: {mine}"
    return attainment_by_load(cells, title, f"modelled: {POST_COST.name}, one seed, {_SECONDS} s")


def _cell(
    name: str,
    title: str,
    rate: float,
    trials: int,
    urgent: Estimate | None,
    generous: Estimate | None,
) -> Cell:
    return Cell(name, title, rate, trials, urgent, generous, None, None, 0.0, 0.0)


def rung_by_load(title: str) -> Figure:
    """A rung of the recorded ladder beside the first one, at every load, with its intervals."""
    cells = [
        _cell(
            each["variant"],
            each["title"],
            each["requests_per_s"],
            each["num_trials"],
            Estimate(**each["urgent"]),
            Estimate(**each["generous"]),
        )
        for each in recorded("slo_ladder")["cells"]
        if each["title"] in (CONTROL.title, title)
    ]
    chart = attainment_by_load(
        cells,
        "Requests in time against load",
        f"modelled: {POST_COST.name}; five paired seeds, bars are 95 % intervals",
    )
    return Figure(chart, "At which loads does this rung pay, and who pays for it?")
