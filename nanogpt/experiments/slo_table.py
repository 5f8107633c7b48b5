"""The repair ladder's table: variants by load, over paired seeds, with confidence intervals.

Every variant runs the same loads, so a difference between two does not depend on their luck.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from nanogpt.experiments.paired_statistics import Estimate, estimate
from nanogpt.experiments.text_tables import text_table
from nanogpt.slo.load import two_tier_load
from nanogpt.slo.prefill_simulation import simulate
from nanogpt.slo.slo_record import Variant
from nanogpt.slo.variants import BATCHED_WITHOUT_RULE_1, CONTROL, LADDER

VARIANTS = (*LADDER, BATCHED_WITHOUT_RULE_1)
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
class Cell:
    """One variant at one rate: means over seeds, and the paired difference from the control.

    Attainment in percent, differences in percentage points; None without a trial.
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
    """Run one variant on the load of one seed."""
    run = simulate(two_tier_load(seed, requests_per_s, duration_s), variant)
    urgent, generous = (run.attainment(urgent=each) for each in (True, False))
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
    """Sum up the trials, given in any order, by variant and rate."""
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


def in_the_noise(table: Sequence[Cell]) -> tuple[int, int]:
    """Count the differences in urgent attainment narrower than their interval, and all."""
    gains = [cell.urgent_gain for cell in table if cell.variant != CONTROL.name]
    known = [gain for gain in gains if gain is not None and gain.half_width is not None]
    return sum(gain.within_noise for gain in known), len(known)


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
        urgent=_known(trial.urgent for trial in done),
        generous=_known(trial.generous for trial in done),
        urgent_gain=_known(_minus(mine.urgent, other.urgent) for mine, other in pairs),
        generous_gain=_known(_minus(mine.generous, other.generous) for mine, other in pairs),
        num_preemptions=fmean(trial.num_preemptions for trial in done) if done else 0.0,
        wasted_percent=fmean(trial.wasted_percent for trial in done) if done else 0.0,
    )


def _known(values: Iterable[float | None]) -> Estimate | None:
    known = [value for value in values if value is not None]
    return estimate(known) if known else None


def _minus(mine: float | None, other: float | None) -> float | None:
    return None if mine is None or other is None else mine - other


# ---- as text -------------------------------------------------------------------------------------


def render(table: Sequence[Cell]) -> str:
    """The table as text: attainment, then the change against the control, then the cost."""
    parts: dict[str, Callable[[Cell], str]] = {
        "Attainment in percent, urgent/generous": lambda cell: "/".join(
            "-" if each is None else f"{each.mean:.0f}" for each in (cell.urgent, cell.generous)
        ),
        "Urgent attainment against the control, percentage points, 95 % interval of paired "
        "seeds": lambda cell: _signed(cell.urgent_gain),
        "Generous attainment against the control, the same": lambda cell: _signed(
            cell.generous_gain
        ),
        "Preemptions per run, and the share of the computing time thrown away": lambda cell: (
            f"{cell.num_preemptions:.0f}, {cell.wasted_percent:.0f} %"
        ),
    }
    return "\n\n".join(f"{title}\n{_grid(table, text)}" for title, text in parts.items())


def _grid(table: Sequence[Cell], text: Callable[[Cell], str]) -> str:
    rates = sorted({cell.requests_per_s for cell in table})
    rows = [["", *(f"{rate:g}/s" for rate in rates)]]
    for title in dict.fromkeys(cell.title for cell in table):
        own = {cell.requests_per_s: cell for cell in table if cell.title == title}
        rows.append([title, *(text(own[rate]) if own[rate].num_trials else "-" for rate in rates)])
    return text_table(rows)


def _signed(value: Estimate | None) -> str:
    if value is None:
        return "-"
    half = "" if value.half_width is None else f" ±{value.half_width:.1f}"
    return f"{value.mean:+.1f}{half}"
