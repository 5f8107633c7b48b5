"""Two fleets on the identical loads, seed by seed: differences, and what may be noise.

Each interval misses the true difference once in twenty, so one verdict among ten may be luck.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from nanogpt.experiments.paired_statistics import paired
from nanogpt.fleet.costs import CostModel
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_record import FleetRun
from nanogpt.fleet.metrics import Metrics
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import Scenario, make_workload

VERSION = 1
Better = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True)
class Summary:
    """One run without its requests. `end_s`: when the last one was done, on the virtual clock.

    `queue_depth_most` and `workers_busy_mean` are over its virtual seconds, None before the first.
    """

    policy: str
    seed: int
    end_s: float
    stopped: bool
    totals: Metrics
    queue_depth_most: int | None
    workers_busy_mean: float | None


def summarise(run: FleetRun) -> Summary:
    """The figures of a run, without its requests."""
    return Summary(
        policy=run.config.name.replace("fifo", "FIFO"),
        seed=run.workload.seed,
        end_s=run.end_us / 1e6,
        stopped=run.stopped,
        totals=run.totals,
        queue_depth_most=max((each.queue_depth for each in run.samples), default=None),
        workers_busy_mean=fmean(each.workers_busy for each in run.samples) if run.samples else None,
    )


MEASURES: tuple[tuple[str, str, str, Better, str], ...] = (
    ("throughput", "Throughput", "tok/s", "higher", "throughput_tokens_per_s"),
    ("ttft_p50_ms", "TTFT P50", "ms", "lower", "ttft_p50_ms"),
    ("ttft_p99_ms", "TTFT P99", "ms", "lower", "ttft_p99_ms"),
    ("itl_mean_ms", "ITL mean", "ms", "lower", "itl_mean_ms"),
    ("itl_p99_ms", "ITL P99", "ms", "lower", "itl_p99_ms"),
    ("slo_violations", "SLO violations", "%", "lower", "slo_violation_share"),
    ("kv_hits", "KV hit rate", "%", "higher", "kv_hit_share"),
    ("preemptions", "Preemptions", "", "lower", "preemptions"),
    ("completed", "Completed", "", "higher", "completed"),
)
"""The compared figures: metric, label, unit, which way is good, field of `Metrics`."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One seed's two values of a metric."""

    seed: int
    baseline: float
    other: float


@dataclass(frozen=True, slots=True)
class Row:
    """A metric over all seeds: the mean of other minus baseline, and its 95 % interval.

    `verdict` is "equal", "within noise", "better" or "worse".
    """

    metric: str
    label: str
    unit: str
    better: Better
    pairs: list[Pair]
    mean: float
    low: float | None
    high: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Another fleet against a baseline on the same loads.

    A metric without a value in some run (no token came, say) has no row.
    """

    scenario: str
    cost: str
    baseline: str
    other: str
    rows: list[Row]

    def to_json(self) -> dict[str, Any]:
        """Dicts, lists, numbers, strings and None, with the schema's version."""
        return {"version": VERSION, "modelled": True, **dataclasses.asdict(self)}


def run_seed(
    configs: Sequence[FleetConfig], scenario: Scenario, rps: float, duration_s: float, seed: int
) -> tuple[Summary, ...]:
    """Run every fleet on one seed's load. Raises: ValueError for an impossible load."""
    load = make_workload(scenario, rps, duration_s, seed)
    return tuple(summarise(simulate(config, load)) for config in configs)


def comparison(
    trials: Iterable[tuple[Summary, Summary]], scenario: str, cost: CostModel
) -> Comparison:
    """Sum up pairs of (baseline, other) runs of one seed, in any order.

    Raises: ValueError without a pair.
    """
    pairs = sorted(trials, key=lambda both: both[0].seed)
    if not pairs:
        raise ValueError("there are 0 pairs of runs; a comparison needs at least 1")
    return Comparison(
        scenario=scenario,
        cost=cost.name,
        baseline=pairs[0][0].policy,
        other=pairs[0][1].policy,
        rows=[row for measure in MEASURES if (row := _row(*measure, pairs)) is not None],
    )


def compare(
    configs: tuple[FleetConfig, FleetConfig],
    scenario: Scenario,
    rps: float,
    duration_s: float,
    seeds: Iterable[int],
    cost: CostModel,
) -> Comparison:
    """Run (baseline, other) at `cost` on every seed's load. Raises: ValueError without a seed."""
    at_cost = [dataclasses.replace(config, cost=cost) for config in configs]
    trials = [run_seed(at_cost, scenario, rps, duration_s, seed) for seed in seeds]
    return comparison([(baseline, other) for baseline, other in trials], scenario, cost)


def _row(
    metric: str,
    label: str,
    unit: str,
    better: Better,
    field: str,
    trials: Sequence[tuple[Summary, Summary]],
) -> Row | None:
    scale = 100 if unit == "%" else 1
    found = [[getattr(each.totals, field) for each in both] for both in trials]
    if any(value is None for both in found for value in both):
        return None
    pairs = [
        Pair(both[0].seed, scale * ours, scale * theirs)
        for both, (ours, theirs) in zip(trials, found, strict=True)
    ]
    difference = paired([pair.baseline for pair in pairs], [pair.other for pair in pairs])
    if all(pair.baseline == pair.other for pair in pairs):
        verdict = "equal"
    elif difference.within_noise:
        verdict = "within noise"
    else:
        verdict = "better" if (difference.mean > 0) == (better == "higher") else "worse"
    return Row(
        metric, label, unit, better, pairs,
        difference.mean, difference.low, difference.high, verdict,
    )  # fmt: skip
