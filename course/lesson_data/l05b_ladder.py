"""Behind lesson 5b: the recorded repair ladder as rows, percentages, a table and curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from course.lesson_data import recorded
from nanogpt.experiments.paired_statistics import Estimate
from nanogpt.experiments.slo_table import Cell
from nanogpt.figures.curves import attainment_by_load
from nanogpt.slo.load import POST_COST
from nanogpt.slo.variants import CONTROL, LADDER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUNGS = [variant.title for variant in LADDER if variant is not CONTROL]
"""The titles of the ladder's rungs, from the second on."""

_WORDS = {  # of a variant: what the repair does, and its exercise
    "control": "Arrival order, and all that fit 9,000 tokens share the pass. No preemption.",
    "order": (
        "The queue is ordered by edf_score (5.2). It is nearly always empty, because every waiting "
        "request joins the next pass."
    ),
    "fork": "The post's preemption as published (5.3). The monitor does not see a request that "
    "arrives during a pass.",
    "seen": "The monitor sees arrivals. After a preemption the pass is filled up again, with the "
    "urgent request in it.",
    "progress": (
        "The slack of a running request counts the work that is done (5.1), so that fewer requests "
        "are taken for doomed."
    ),
    "batched": "Only requests that the head can bear join its pass (5b.1). The urgent request at "
    "last runs alone, or nearly.",
    "suspended": "A pass is suspended instead of aborted. No Rule 1, but a bound on its sleep.",
    "unpreempted": "SLO-aware batches (5b.1) without any preemption.",
}


class Ladder:
    """The recorded table of `python -m nanogpt.slo`: attainment by variant and load."""

    def __init__(self) -> None:
        table = recorded("slo_ladder")
        self.seconds: float = table["seconds"]
        self._cells = {(each["variant"], each["requests_per_s"]): each for each in table["cells"]}
        self.rates: list[float] = sorted({rate for _, rate in self._cells})

    def cell(self, variant: str, rate: float = 4) -> dict[str, Any]:
        """What is known of a variant at a load of so many requests per second."""
        return self._cells[variant, rate]

    def percent(self, variant: str, tier: str, rate: float = 4) -> str:
        """Mean attainment of a tier, rounded."""
        return f"{self.cell(variant, rate)[tier]['mean']:.0f} %"

    def of_all(self, variant: str, rate: float) -> float:
        """Attainment of all requests in percent: one in five is urgent."""
        each = self.cell(variant, rate)
        return 0.2 * each["urgent"]["mean"] + 0.8 * each["generous"]["mean"]

    def rows(self) -> list[dict[str, Any]]:
        """The ladder as a RepairLadder takes it."""
        return [
            {
                "variant": variant.title,
                "words": _WORDS[variant.name],
                "loads": {f"{rate:g}": self._drawn(variant.name, rate) for rate in self.rates},
            }
            for variant in LADDER
        ]

    def _drawn(self, variant: str, rate: float) -> dict[str, Any]:
        each = self.cell(variant, rate)

        def interval(tier: str) -> list[float]:
            mean, half = each[tier]["mean"], each[tier]["half_width"]
            return [mean, mean - half, mean + half]

        return {
            "urgent": interval("urgent"),
            "generous": interval("generous"),
            "wasted_share": each["wasted_percent"] / 100,
            "preemptions": each["num_preemptions"],
        }

    def table(self, variants: Sequence[str]) -> str:
        """Urgent / generous and all together, at every load, in percent."""
        head = " | ".join(f"{rate:g} per s" for rate in self.rates)
        rows = [f"| urgent / generous, **all** (in %) | {head} |"]
        rows.append(f"|:--|{'--:|' * len(self.rates)}")
        for name in variants:
            cells = " | ".join(
                f"{self.cell(name, rate)['urgent']['mean']:.0f} / "
                f"{self.cell(name, rate)['generous']['mean']:.0f}, "
                f"**{self.of_all(name, rate):.0f}**"
                for rate in self.rates
            )
            rows.append(f"| {self.cell(name)['title']} | {cells} |")
        return "\n".join(rows)


def rung_by_load(title: str) -> Figure:
    """A rung of the recorded ladder beside the first one, at every load, with its intervals."""
    cells = [
        Cell(**each | {tier: Estimate(**each[tier]) for tier in ("urgent", "generous")})
        for each in recorded("slo_ladder")["cells"]
        if each["title"] in (CONTROL.title, title)
    ]
    return attainment_by_load(
        cells,
        "Requests in time against load",
        f"modelled: {POST_COST.name}; five paired seeds, bars are 95 % intervals",
    )
