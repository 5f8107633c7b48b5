"""Lesson 5b: the recorded repair ladder as rows and curves, and the learner's policy over loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.lesson_data import recorded
from nanogpt.experiments.paired_statistics import Estimate
from nanogpt.experiments.slo_table import Cell
from nanogpt.figures.curves import attainment_by_load, attainment_by_row
from nanogpt.slo import policy
from nanogpt.slo.load import POST_COST, two_tier_load
from nanogpt.slo.prefill_simulation import simulate
from nanogpt.slo.slo_policies import SloPolicies
from nanogpt.slo.slo_record import Variant
from nanogpt.slo.variants import CONTROL, LADDER, SUSPENDED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = [variant.title for variant in LADDER if variant is not CONTROL]
"""The titles of the variants that are compared with the first one."""

LOADS = (2, 4, 6, 8, 10)
_SOURCE = f"modelled: {POST_COST.model.name}; five paired seeds, bars are 95 % intervals"

# --- the recorded ladder --------------------------------------------------------------------------


def recorded_cells() -> list[Cell]:
    """The recorded table of `python -m nanogpt.slo`: attainment by variant and load."""
    return [
        Cell(**each | {tier: Estimate(**each[tier]) for tier in ("urgent", "generous")})
        for each in recorded("slo_ladder")["cells"]
    ]


def rows_at_load(requests_per_s: float) -> Figure:
    """Every row of the recorded ladder at one load: requests in time, and work thrown away."""
    at_load = {
        each.variant: each for each in recorded_cells() if each.requests_per_s == requests_per_s
    }
    return attainment_by_row(
        {row: at_load[variant.name] for row, variant in enumerate(LADDER, start=1)},
        f"The repair ladder at {requests_per_s:g} requests per second",
        _SOURCE,
    )


def variant_by_load(title: str) -> Figure:
    """A variant of the recorded ladder beside the first one, at every load, with its intervals."""
    shown = [each for each in recorded_cells() if each.title in (CONTROL.title, title)]
    return attainment_by_load(shown, "Requests in time against load", _SOURCE)


# --- the learner's policy -------------------------------------------------------------------------

_SECONDS = 20
_LIMIT_S = 30.0  # of computing


def yours_by_load(batch: Attempt, lesson_5: Mapping[str, Any]) -> Figure | str:
    """Requests in time at five loads: no preemption, the learner's functions, the reference's.

    A sentence instead when one of the learner's functions fails.
    """
    mine = SloPolicies(**lesson_5, slo_batch=batch.or_reference(policy.slo_batch))
    shown = [
        *_cells("without preemption", CONTROL, _attained(CONTROL, SloPolicies())),
        *_cells("the reference", SUSPENDED, _attained(SUSPENDED, SloPolicies())),
    ]
    if mine != SloPolicies():
        try:
            found = run(_attained, SUSPENDED, mine, limit_s=_LIMIT_S)
        except RunError as error:
            return f"The run with your functions stopped: {error}"
        shown += _cells("yours", SUSPENDED, found)
    source = (
        f"modelled: {POST_COST.model.name}; suspended passes, one seed, {_SECONDS} s of arrivals"
    )
    return attainment_by_load(shown, "Your policy against load", source)


def _attained(variant: Variant, policies: SloPolicies) -> list[tuple[float, float]]:
    """Percent of the urgent and of the generous requests in time, at each load."""
    runs = [
        simulate(two_tier_load(0, rate, _SECONDS), variant, POST_COST, policies) for rate in LOADS
    ]
    return [
        (100 * (run.attainment(urgent=True) or 0), 100 * (run.attainment(urgent=False) or 0))
        for run in runs
    ]


def _cells(title: str, variant: Variant, attained: list[tuple[float, float]]) -> list[Cell]:
    return [
        Cell(
            variant.name, title, rate, 1, Estimate(urgent, None), Estimate(generous, None),
            None, None, 0.0, 0.0,
        )
        for rate, (urgent, generous) in zip(LOADS, attained, strict=True)
    ]  # fmt: skip
