"""Lesson 5: its requests, runs under a policy, the fitted line, and cases of slack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from course.attempt import Attempt
from course.calling.jobs import RunError, run
from course.calling.plain_values import as_number
from course.lesson_data import recorded
from course.lesson_data.texts import table
from nanogpt.figures.curves import step_cost
from nanogpt.slo import policy, predictor
from nanogpt.slo.load import Arrival, PrefillCost
from nanogpt.slo.prefill_simulation import simulate
from nanogpt.slo.slo_policies import SloPolicies
from nanogpt.slo.slo_record import Run, Variant
from nanogpt.slo.variants import ROUND_COST
from widgets import bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SelectVictim = Callable[..., int | None]

REPORT_AND_VOICE = (  # id, arrival, tokens, urgent, promised within: times in µs
    Arrival(0, 0, 4000, False, 5_000_000),
    Arrival(1, 50_000, 200, True, 100_000),
)

# --- runs ---------------------------------------------------------------------------------------


def simulated(
    load: Sequence[Arrival],
    variant: Variant,
    cost: PrefillCost = ROUND_COST,
    most: int = 300,
    **policies: Any,
) -> Run | str:
    """A run with these functions in the policy; a sentence when one of them fails.

    It is stopped after `most` preemptions, since two requests may preempt each other for ever.
    """
    wanted = SloPolicies(**policies)
    if wanted == SloPolicies():
        return simulate(tuple(load), variant, cost)
    try:
        return run(_bounded, tuple(load), variant, cost, most, wanted)
    except RunError as error:
        return f"**The run stopped:** {error}"


def _bounded(
    load: Sequence[Arrival], variant: Variant, cost: PrefillCost, most: int, policies: SloPolicies
) -> Run | str:
    """The run, or a sentence once it has had more than `most` preemptions."""
    granted: list[int] = []

    def select_victim(*moment: Any) -> int | None:
        victim = policies.select_victim(*moment)
        if victim is not None:
            granted.append(victim)
        if len(granted) > most:
            raise RuntimeError("too many preemptions")
        return victim

    try:
        return simulate(load, variant, cost, replace(policies, select_victim=select_victim))
    except Exception:
        if len(granted) > most:
            return f"**The run was stopped** after {most} preemptions, with hardly a request done."
        raise


def passes(run: Run | str, most: int = 8) -> str:
    """The first passes of a run, and the TTFT of its first requests, as two Markdown tables."""
    if isinstance(run, str):
        return run
    layers = run.cost.num_layers
    lines: list[str] = []
    for each in run.passes[:most]:
        before, after = each.layers
        end = "" if each.ending == "finished" else f", **{each.ending}**"
        drawn = bar([(after - before) / layers, before / layers], f"{after - before} of {layers}")
        who = " + ".join(str(i) for i in each.ids)
        span = f"{each.start_us / 1000:,.0f} to {each.end_us / 1000:,.0f}"
        lines.append(f"| {span} | {who} | {drawn}{end} |")
    if len(run.passes) > most:
        lines.append(f"| … | … | {len(run.passes) - most} more passes |")
    rows: list[str] = []
    for arrival, result in list(zip(run.arrivals, run.results, strict=True))[:4]:
        first = "never"
        if result.first_token_us is not None:
            first = f"{result.first_token_us / 1000:,.0f} ms"
        verdict = "in time" if result.attained else "**missed**"
        rows.append(
            f"| {arrival.id} | {arrival.arrival_us / 1000:,.0f} "
            f"| {arrival.deadline_us / 1000:,.0f} ms | {first}, {verdict} |"
        )
    first_passes = table("| ms | requests in the pass | layers computed |", "rll", lines)
    first_tokens = table("| request | arrives | deadline | first token |", "rrrl", rows)
    return f"{first_passes}\n\n{first_tokens}"


# --- the line -----------------------------------------------------------------------------------


def sweep() -> list[tuple[int, float]]:
    """(tokens, µs) of one prefill each: our model on a CPU, measured once."""
    points = recorded("step_costs")["points"]
    return [(each["tokens"], each["us"]) for each in points if each["tokens"] >= 16]


def fitted() -> Figure:
    """The measured points, with a line and a cubic fitted to them."""
    points = sweep()
    fits = {
        "the line": predictor.fit_polynomial(points, 1),
        "a cubic": predictor.fit_polynomial(points, 3),
    }
    curves = {
        name: [(tokens, fit.predict_us(tokens)) for tokens, _ in points]
        for name, fit in fits.items()
    }
    return step_cost(points, curves, "Our model on a CPU, measured once")


# --- slack -------------------------------------------------------------------------------------


def slack_case(
    label: str, deadline: int, rate: float = 0.0, slack: Callable[..., float] = policy.slack
) -> dict[str, Any]:
    """A request of 500 tokens every 10 ms, for a SlackTimeline; `rate`: tokens computed per µs."""
    a, c = ROUND_COST.a_us, ROUND_COST.c_us
    moments: list[dict[str, Any]] = []
    for now in range(0, 40_001, 10_000):
        done = int(now * rate)
        spare = as_number(slack(now, deadline, 500, done, a, c))
        if spare is None:
            raise ValueError("slack gave no number")
        moments.append(
            {
                "now_us": now,
                "done_tokens": done,
                "predicted_us": policy.predict(500 - done, a, c),
                "slack_us": spare,
                "edf_score": policy.edf_score(round(spare), deadline - now),
            }
        )
    return {
        "label": label,
        "arrival_us": 0,
        "deadline_us": deadline,
        "total_tokens": 500,
        "a": a,
        "c": c,
        "moments": moments,
    }


def your_slack(attempt: Attempt) -> list[dict[str, Any]] | str:
    """A running and a waiting request by the learner's `slack`, or a sentence instead."""
    if not attempt.started:
        return "Once you have written `slack`, this shows it for a running and a waiting request."

    def cases(slack: Callable[..., float]) -> list[dict[str, Any]]:
        return [
            slack_case("it runs", 80_000, rate=1 / ROUND_COST.a_us, slack=slack),
            slack_case("it waits", 80_000, slack=slack),
        ]

    try:
        return run(cases, attempt.or_reference(policy.slack))
    except RunError:
        return "The results of `slack` cannot be drawn; the check above says why."
