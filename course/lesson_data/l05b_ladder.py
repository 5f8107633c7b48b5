"""Lesson 5b: the recorded repair ladder as rows and curves, and the learner's policy over loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.lesson_data import recorded
from nanogpt.experiments.paired_statistics import Estimate
from nanogpt.experiments.slo_table import Cell
from nanogpt.figures.curves import attainment_by_load
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

_WORDS = {  # of a variant: what the repair does, and its exercise
    "control": "Arrival order. All requests that fit 9,000 tokens share the pass. No preemption.",
    "order": "edf_score (5.2) orders the queue. The queue is nearly always empty, because every "
    "waiting request joins the next pass.",
    "fork": "Preemption as published (5.3). The monitor does not see a request that arrives during "
    "a pass.",
    "seen": "The monitor sees arrivals. After a preemption the engine fills the pass again, with "
    "the urgent request and the preempted one in it.",
    "progress": "The slack of a running request counts the work that is done (5.1), so fewer "
    "requests look doomed.",
    "batched": "Requests join a pass only if the candidate still meets its deadline (5b.1). The "
    "candidate runs by itself, or nearly.",
    "suspended": "A pass is suspended instead of aborted. A bound on the suspension replaces "
    "Rule 1.",
    "unpreempted": "SLO-aware batches (5b.1) without any preemption.",
}

# --- the recorded ladder --------------------------------------------------------------------------


def cells() -> list[dict[str, Any]]:
    """The recorded table of `python -m nanogpt.slo`: attainment by variant and load."""
    return recorded("slo_ladder")["cells"]


def ladder_rows() -> list[dict[str, Any]]:
    """The ladder as a RepairLadder takes it."""
    loads: dict[str, dict[str, Any]] = {}
    for each in cells():
        loads.setdefault(each["variant"], {})[f"{each['requests_per_s']:g}"] = {
            "urgent": _interval(each["urgent"]),
            "generous": _interval(each["generous"]),
            "wasted_share": each["wasted_percent"] / 100,
            "preemptions": each["num_preemptions"],
        }
    return [
        {"variant": each.title, "words": _WORDS[each.name], "loads": loads[each.name]}
        for each in LADDER
    ]


def _interval(estimate: Mapping[str, float]) -> list[float]:
    mean, half = estimate["mean"], estimate["half_width"]
    return [mean, mean - half, mean + half]


def variant_by_load(title: str) -> Figure:
    """A variant of the recorded ladder beside the first one, at every load, with its intervals."""
    shown: list[Cell] = []
    for each in cells():
        if each["title"] in (CONTROL.title, title):
            tiers: dict[str, Any] = {
                tier: Estimate(**each[tier]) for tier in ("urgent", "generous")
            }
            shown.append(Cell(**each | tiers))
    return attainment_by_load(
        shown,
        "Requests in time against load",
        f"modelled: {POST_COST.model.name}; five paired seeds, bars are 95 % intervals",
    )


# --- the learner's policy -------------------------------------------------------------------------

_RATES, _SECONDS = (2, 4, 6, 8, 10), 20
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
        simulate(two_tier_load(0, rate, _SECONDS), variant, POST_COST, policies) for rate in _RATES
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
        for rate, (urgent, generous) in zip(_RATES, attained, strict=True)
    ]  # fmt: skip
