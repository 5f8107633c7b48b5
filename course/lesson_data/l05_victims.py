"""Lesson 5: decisions of `select_victim`, small loads, and runs under load."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from course.attempt import Attempt
from course.calling.jobs import RunError
from course.calling.plain_values import as_whole
from course.lesson_data.l05_policy import REPORT_AND_VOICE, SelectVictim, simulated
from course.lesson_data.texts import table, whose_policies
from course.replay import Rerun
from nanogpt.slo import policy
from nanogpt.slo.load import POST_COST, Arrival
from nanogpt.slo.prefill_simulation import simulate
from nanogpt.slo.slo_record import Run, Variant
from nanogpt.slo.variants import BATCHED, CONTROL, FORK, doomed_pair, starved
from nanogpt.views.slo_view import SloView

AS_PUBLISHED = (
    replace(CONTROL, title="without preemption"),
    replace(FORK, title="with preemption, as the post built it"),
)

# --- the choice of a victim -----------------------------------------------------------------------


def moment(request_id: int, spare_ms: int, left_ms: int, preempted: int = 0) -> SloView:
    """A request with `spare_ms` of slack and `left_ms` to its deadline, as the policy sees it."""
    spare, left = 1000 * spare_ms, 1000 * left_ms
    tokens = max(1, 10 * (left_ms - spare_ms) - 100)
    return SloView(
        request_id, tokens, spare, left, policy.edf_score(spare, left), 500_000, preempted
    )


def _scenes() -> list[tuple[SloView, list[SloView], str]]:
    """Candidate, running requests, and a sentence on the moment."""
    calm, two = [moment(1, 300, 400)], [moment(1, 30, 65), moment(2, 700, 900)]
    return [
        (moment(9, 20, 50), calm, "The candidate is far more urgent."),
        (moment(9, 20, 50), [moment(1, 20, 55)], "The candidate is slightly more urgent."),
        (moment(9, -10, 50), calm, "The candidate is doomed."),
        (moment(9, 200, 400), [moment(1, -30, 50)], "The running request is doomed."),
        (moment(9, -10, 91), [moment(1, -30, 100)], "Both are doomed."),
        (moment(9, 20, 60), two, "Two requests run, one of them urgent as well."),
        (moment(9, 20, 40), two, "The same two, and a more urgent candidate."),
        (moment(9, 20, 50), [moment(1, 300, 400, 1)], "The running request was preempted before."),
    ]


def victim_decisions(attempt: Attempt) -> list[dict[str, Any]] | None:
    """Eight moments for a GatePicture, by the learner's function; None if a result is unusable."""
    try:
        return Rerun(_decisions, policy.select_victim)(attempt.or_reference(policy.select_victim))
    except RunError:
        return None


def _decisions(select_victim: SelectVictim) -> list[dict[str, Any]]:
    return [_decision(select_victim, *scene) for scene in _scenes()]


def _decision(
    select_victim: SelectVictim, candidate: SloView, running: list[SloView], words: str
) -> dict[str, Any]:
    order = policy.by_urgency(each for each in running if not each.num_preemptions)
    named = select_victim(candidate, [*running], policy.MARGIN)
    victim = as_whole(named)
    if named is not None and victim not in [each.id for each in running]:
        raise ValueError("select_victim named a request that does not run")

    def scored(view: SloView) -> dict[str, Any]:
        return {"id": view.id, "slack_us": view.slack_us, "edf_score": view.edf_score}

    return {
        "candidate": scored(candidate),
        "running": [{**scored(each), "immune": each.num_preemptions > 0} for each in running],
        "incumbent": order[0].id if order else None,
        "victim": victim,
        "margin": policy.MARGIN,
        "words": words,
    }


# --- three small loads ----------------------------------------------------------------------------

SMALL_LOADS = {  # by question
    "A report, and a voice request": REPORT_AND_VOICE,
    "Two doomed requests, and a third after 10 s": doomed_pair(),
    "A report, and an urgent request every 300 ms": starved(12),
}
SHARED_PASS = (  # a report, a request with time, and an urgent one
    Arrival(0, 0, 4000, False, 5_000_000),
    Arrival(1, 50_000, 1000, False, 900_000),
    Arrival(2, 200_000, 200, True, 100_000),
)


def small_loads(select_victim: Attempt) -> str:
    """Three small loads by the learner's `select_victim` or the reference's; Markdown."""
    rule = select_victim.or_reference(policy.select_victim)
    rows: list[str] = []
    for name, load in SMALL_LOADS.items():
        found = simulated(load, BATCHED, select_victim=rule)
        if isinstance(found, str):
            rows.append(f"| {name} | {found} | | |")
            continue
        late = sum(not each.attained for each in found.results)
        rows.append(
            f"| {name} | {found.num_preemptions} | {found.wasted_share:.0%} "
            f"| {late} of {len(load)} |"
        )
    head = "| modelled, round numbers | preemptions | work thrown away | late |"
    whose = whose_policies({"select_victim": select_victim}, "these runs")
    return f"{whose}\n\n{table(head, 'lrrr', rows)}"


# --- under load -----------------------------------------------------------------------------------


def under_load(
    load: Sequence[Arrival],
    attempts: Mapping[str, Attempt],
    variants: Sequence[Variant],
    earlier: Mapping[str, Any] | None = None,
) -> str:
    """A table of runs by the learner's functions, one for each variant, beside the reference's.

    `earlier` are saved functions of an earlier lesson, None for a lesson without one.
    """
    mine: Any = {n: each.or_reference(getattr(policy, n)) for n, each in attempts.items()}
    mine |= earlier or {}
    saved = ""
    if earlier is not None:
        names = ", ".join(f"`{name}`" for name in earlier) or "none, so the reference's run"
        saved = f" Your saved functions of lesson 5: {names}."
    rows: list[str] = []
    for variant in variants:
        found = simulated(load, variant, POST_COST, **mine)
        if isinstance(found, str):
            rows.append(f"| {variant.title} | | | {found} |")
            continue
        numbers = (
            f"{found.attainment(urgent=True):.0%} / {found.attainment(urgent=False):.0%} "
            f"| {found.num_preemptions}, {found.wasted_share:.0%}"
        )
        difference = _difference(found, simulate(tuple(load), variant))
        rows.append(f"| {variant.title} | {numbers} | {difference} |")
    head = "| policy | in time: urgent / relaxed | preemptions, work thrown away | pass by pass |"
    said = f"{whose_policies(attempts, 'these runs')}{saved} {len(load)} requests, modelled:"
    return f"{said}\n\n{table(head, 'lrrl', rows)}"


def _difference(mine: Run, right: Run) -> str:
    """The first pass in which two runs differ, in words."""
    for number, (one, other) in enumerate(zip(mine.passes, right.passes, strict=False)):
        if one != other:
            return (
                f"differs first in pass {number}, at {one.start_us / 1000:,.0f} ms: "
                f"yours with requests {list(one.ids)} is {one.ending}, "
                f"the reference's with {list(other.ids)} is {other.ending}"
            )
    same = mine.passes == right.passes
    return "like the reference" if same else "one stops earlier than the other"
