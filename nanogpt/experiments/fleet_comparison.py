"""Two fleets on the identical loads, seed by seed: what differs, and what may be noise.

Everything is modelled. A comparison holds several intervals; each by itself misses the true
difference once in twenty, so that among ten metrics a lone verdict may be luck.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from nanogpt.experiments.paired_statistics import Paired, paired
from nanogpt.fleet.costs import CostModel
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_parts import FleetParts
from nanogpt.fleet.fleet_record import FleetRun
from nanogpt.fleet.metrics import Metrics
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import Scenario, make_workload

VERSION = 1
Better = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True)
class Summary:
    """What is kept of one run. `end_s`: when its last request was done, on the virtual clock.

    `queue_depth_most` and `workers_busy_mean` are over its virtual seconds, None before the first.
    """

    policy: str
    seed: int
    end_s: float
    stopped: bool
    totals: Metrics
    queue_depth_most: int | None
    workers_busy_mean: float | None

    def to_json(self) -> dict[str, Any]:
        """Dicts, numbers, strings and None."""
        return dataclasses.asdict(self)


def title(config: FleetConfig) -> str:
    """What a fleet is called before people: "FIFO", "adaptive"."""
    return config.name.replace("fifo", "FIFO")


def summarise(run: FleetRun) -> Summary:
    """The figures of a run, without its requests."""
    rolling = [sample.rolling for sample in run.samples]
    return Summary(
        policy=title(run.config),
        seed=run.workload.seed,
        end_s=run.end_us / 1e6,
        stopped=run.stopped,
        totals=run.totals,
        queue_depth_most=max((each.queue_depth for each in rolling), default=None),
        workers_busy_mean=fmean(each.workers_busy for each in rolling) if rolling else None,
    )


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a run that policies are compared by; `better` says which way is good."""

    metric: str
    label: str
    unit: str
    better: Better
    value: Callable[[Metrics], float | None]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


MEASURES = (
    Measure("throughput", "Throughput", "tok/s", "higher", lambda m: m.throughput_tokens_per_s),
    Measure("ttft_p50_ms", "TTFT P50", "ms", "lower", lambda m: m.ttft_p50_ms),
    Measure("ttft_p99_ms", "TTFT P99", "ms", "lower", lambda m: m.ttft_p99_ms),
    Measure("itl_mean_ms", "ITL mean", "ms", "lower", lambda m: m.itl_mean_ms),
    Measure("itl_p99_ms", "ITL P99", "ms", "lower", lambda m: m.itl_p99_ms),
    Measure(
        "slo_violations", "SLO violations", "%", "lower", lambda m: _percent(m.slo_violation_share)
    ),
    Measure("kv_hits", "KV hit rate", "%", "higher", lambda m: _percent(m.kv_hit_share)),
    Measure("preemptions", "Preemptions", "", "lower", lambda m: m.preemptions),
    Measure("completed", "Completed", "", "higher", lambda m: m.completed),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """One seed's two values of a metric."""

    seed: int
    baseline: float
    other: float


@dataclass(frozen=True, slots=True)
class Row:
    """A metric over all seeds: `difference` is other minus baseline."""

    measure: Measure
    pairs: tuple[Pair, ...]
    difference: Paired

    @property
    def verdict(self) -> str:
        """The difference in words: "equal", "within noise", "better" or "worse"."""
        if all(pair.baseline == pair.other for pair in self.pairs):
            return "equal"
        if self.difference.within_noise:
            return "within noise"
        rises = self.difference.mean > 0
        return "better" if rises == (self.measure.better == "higher") else "worse"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Another fleet against a baseline on the same loads.

    A metric that some run has no value of (no token came, say) has no row.
    """

    scenario: str
    cost: str
    modelled: bool
    baseline: str
    other: str
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, Any]:
        """Dicts, lists, numbers, strings and None, with the schema's version."""
        return {
            "version": VERSION,
            "scenario": self.scenario,
            "cost": self.cost,
            "modelled": self.modelled,
            "baseline": self.baseline,
            "other": self.other,
            "rows": [
                {
                    "metric": row.measure.metric,
                    "label": row.measure.label,
                    "unit": row.measure.unit,
                    "better": row.measure.better,
                    "pairs": [dataclasses.asdict(pair) for pair in row.pairs],
                    "mean": row.difference.mean,
                    "low": row.difference.low,
                    "high": row.difference.high,
                    "verdict": row.verdict,
                }
                for row in self.rows
            ],
        }


def run_seed(
    configs: Sequence[FleetConfig],
    scenario: Scenario,
    rps: float,
    duration_s: float,
    seed: int,
    parts: FleetParts | None = None,
) -> tuple[Summary, ...]:
    """Every fleet on the one load of a seed. `parts` are the first one's.

    Raises: ValueError for a load that cannot be made; PartError for an illegal answer of
    a part, and whatever a part raises.
    """
    load = make_workload(scenario, rps, duration_s, seed)
    first, *others = configs
    runs = [simulate(first, load, parts or FleetParts())]
    runs += [simulate(config, load) for config in others]
    return tuple(map(summarise, runs))


def comparison(
    trials: Iterable[tuple[Summary, Summary]], scenario: str, cost: CostModel
) -> Comparison:
    """Sums up (baseline, other) runs, one pair per seed, in any order.

    Raises: ValueError without a pair, or for a pair of different seeds.
    """
    pairs = sorted(trials, key=lambda both: both[0].seed)
    if not pairs:
        raise ValueError("there are 0 pairs of runs; a comparison needs at least 1")
    for baseline, other in pairs:
        if baseline.seed != other.seed:
            raise ValueError(
                f"a pair of runs has seeds {baseline.seed} and {other.seed}; it must be one"
            )
    rows = (_row(measure, pairs) for measure in MEASURES)
    return Comparison(
        scenario=scenario,
        cost=cost.name,
        modelled=cost.modelled,
        baseline=pairs[0][0].policy,
        other=pairs[0][1].policy,
        rows=tuple(row for row in rows if row),
    )


def compare(
    configs: tuple[FleetConfig, FleetConfig],
    scenario: Scenario,
    rps: float,
    duration_s: float,
    seeds: Iterable[int],
    cost: CostModel,
    parts: FleetParts | None = None,
) -> Comparison:
    """Runs (baseline, other) on the load of every seed, one after the other, in this process.

    `cost` takes the place of the configs' own. `parts` are the other's.
    Raises: ValueError without a seed; PartError for an illegal answer of
    a part, and whatever a part raises.
    """
    baseline, other = (dataclasses.replace(config, cost=cost) for config in configs)
    trials: list[tuple[Summary, Summary]] = []
    for seed in seeds:
        theirs, ours = run_seed((other, baseline), scenario, rps, duration_s, seed, parts)
        trials.append((ours, theirs))
    return comparison(trials, scenario, cost)


def _row(measure: Measure, trials: Sequence[tuple[Summary, Summary]]) -> Row | None:
    pairs: list[Pair] = []
    for baseline, other in trials:
        ours, theirs = measure.value(baseline.totals), measure.value(other.totals)
        if ours is None or theirs is None:
            return None
        pairs.append(Pair(baseline.seed, ours, theirs))
    difference = paired([pair.baseline for pair in pairs], [pair.other for pair in pairs])
    return Row(measure, tuple(pairs), difference)
