"""The table of the repair ladder: variants by load, over paired seeds, with confidence intervals.

Paired: every variant runs the very same loads, so that a difference between two of them is not
blurred by one having drawn the easier load.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from nanogpt.experiments.paired_statistics import student_t
from nanogpt.slo.load import two_tier_load
from nanogpt.slo.prefill_simulation import simulate
from nanogpt.slo.slo_record import Variant
from nanogpt.slo.variants import CONTROL, LADDER, WITHOUT_A_RULE

VARIANTS = (*LADDER, *WITHOUT_A_RULE)
MOST_TRIALS = 20


@dataclass(frozen=True, slots=True)
class Trial:
    """One variant on one load. Attainment in percent, None for a tier without a request."""

    variant: str
    requests_per_s: float
    seed: int
    urgent: float | None
    generous: float | None
    num_preemptions: int
    wasted_percent: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds and half the width of its 95 % interval, None with fewer than two."""

    mean: float
    half_width: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One variant at one rate: means over seeds, and the paired difference from the control.

    Attainment in percent, differences in percentage points. None where there is no trial yet.
    """

    variant: str
    title: str
    requests_per_s: float
    num_trials: int
    urgent: Estimate | None
    generous: Estimate | None
    urgent_gain: Estimate | None
    generous_gain: Estimate | None
    num_preemptions: float
    wasted_percent: float


def run_trial(variant: Variant, requests_per_s: float, seed: int, duration_s: float) -> Trial:
    """Runs one variant on the load of one seed."""
    run = simulate(two_tier_load(seed, requests_per_s, duration_s), variant)
    urgent, generous = run.attainment(urgent=True), run.attainment(urgent=False)
    return Trial(
        variant=variant.name,
        requests_per_s=requests_per_s,
        seed=seed,
        urgent=None if urgent is None else 100 * urgent,
        generous=None if generous is None else 100 * generous,
        num_preemptions=run.num_preemptions,
        wasted_percent=100 * run.wasted_share,
    )


def cells(trials: Iterable[Trial], variants: Sequence[Variant] = VARIANTS) -> list[Cell]:
    """Sums up the trials, variant by variant and rate by rate; their order does not matter."""
    found = {(trial.variant, trial.requests_per_s, trial.seed): trial for trial in trials}
    rates = sorted({rate for _, rate, _ in found})
    seeds = sorted({seed for _, _, seed in found})
    table: list[Cell] = []
    for variant in variants:
        for rate in rates:
            own = [found.get((variant.name, rate, seed)) for seed in seeds]
            control = [found.get((CONTROL.name, rate, seed)) for seed in seeds]
            table.append(_cell(variant, rate, own, control))
    return table


def estimate(values: Sequence[float]) -> Estimate | None:
    """Mean and 95 % interval of independent values."""
    if not values:
        return None
    if len(values) == 1:
        return Estimate(values[0], None)
    spread = stdev(values) / math.sqrt(len(values))
    return Estimate(fmean(values), student_t(len(values) - 1) * spread)


def in_the_noise(table: Sequence[Cell]) -> tuple[int, int]:
    """Of the differences in urgent attainment, those narrower than their interval, and all."""
    gains = [cell.urgent_gain for cell in table if cell.variant != CONTROL.name]
    known = [(gain.mean, gain.half_width) for gain in gains if gain is not None]
    wider = [half > abs(mean) for mean, half in known if half is not None]
    return sum(wider), len(wider)


def _cell(
    variant: Variant, rate: float, own: Sequence[Trial | None], control: Sequence[Trial | None]
) -> Cell:
    pairs = [(mine, other) for mine, other in zip(own, control, strict=True) if mine and other]
    done = [trial for trial in own if trial]
    return Cell(
        variant=variant.name,
        title=variant.title,
        requests_per_s=rate,
        num_trials=len(done),
        urgent=estimate(_known(trial.urgent for trial in done)),
        generous=estimate(_known(trial.generous for trial in done)),
        urgent_gain=estimate(_known(_minus(mine.urgent, other.urgent) for mine, other in pairs)),
        generous_gain=estimate(
            _known(_minus(mine.generous, other.generous) for mine, other in pairs)
        ),
        num_preemptions=fmean(trial.num_preemptions for trial in done) if done else 0.0,
        wasted_percent=fmean(trial.wasted_percent for trial in done) if done else 0.0,
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _minus(mine: float | None, other: float | None) -> float | None:
    return None if mine is None or other is None else mine - other


# ---------------------------------------------------------------- as text


def render(table: Sequence[Cell]) -> str:
    """The table as text: attainment, then what changed against the control, then the cost."""
    return "\n\n".join(
        (
            "Attainment in percent, urgent/generous\n" + _grid(table, _attainment),
            "Urgent attainment against the control, percentage points, 95 % interval of "
            "paired seeds\n" + _grid(table, lambda cell: _signed(cell.urgent_gain)),
            "Generous attainment against the control, the same\n"
            + _grid(table, lambda cell: _signed(cell.generous_gain)),
            "Preemptions per run, and the share of the computing time thrown away\n"
            + _grid(table, lambda cell: f"{cell.num_preemptions:.0f}, {cell.wasted_percent:.0f} %"),
        )
    )


def _grid(table: Sequence[Cell], text: Callable[[Cell], str]) -> str:
    rates = sorted({cell.requests_per_s for cell in table})
    rows = [["", *(f"{rate:g}/s" for rate in rates)]]
    for title in dict.fromkeys(cell.title for cell in table):
        own = {cell.requests_per_s: cell for cell in table if cell.title == title}
        rows.append([title, *(text(own[rate]) if own[rate].num_trials else "-" for rate in rates)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rates) + 1)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _attainment(cell: Cell) -> str:
    return "/".join("-" if e is None else f"{e.mean:.0f}" for e in (cell.urgent, cell.generous))


def _signed(value: Estimate | None) -> str:
    if value is None:
        return "-"
    half = "" if value.half_width is None else f" ±{value.half_width:.1f}"
    return f"{value.mean:+.1f}{half}"
