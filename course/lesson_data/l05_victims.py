"""Lesson 5: eight decisions of `select_victim`, two exhibits, and runs under load."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from course.attempt import Attempt
from course.calling.jobs import RunError
from course.calling.plain_values import as_whole
from course.lesson_data.l05_policy import SelectVictim, simulated
from course.lesson_data.texts import table, whose_policies
from course.replay import Rerun
from nanogpt.slo import policy
from nanogpt.slo.load import POST_COST, Arrival
from nanogpt.slo.prefill_simulation import simulate
from nanogpt.slo.slo_record import Run, Variant
from nanogpt.slo.variants import BATCHED, CONTROL, FORK, starved
from nanogpt.views.slo_view import SloView

Outranks = Callable[[float, float, float], bool]

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


def _scenes() -> list[tuple[SloView, list[SloView], str, str]]:
    """Candidate, running requests, mode, and a sentence on the moment."""
    calm, two = [moment(1, 300, 400)], [moment(1, 30, 65), moment(2, 700, 900)]
    usual = "conservative"
    return [
        (
            moment(9, 20, 50),
            calm,
            usual,
            "Both can meet their deadlines, and the candidate is far more urgent.",
        ),
        (
            moment(9, 20, 50),
            [moment(1, 20, 55)],
            usual,
            "The candidate is more urgent, but not 1.2 times: 0.02 against 1.2 × 0.0182 = 0.0218.",
        ),
        (moment(9, -10, 50), calm, usual, "The candidate is doomed. Nothing is preempted for it."),
        (moment(9, 200, 400), [moment(1, -30, 50)], usual, "The incumbent is doomed."),
        (
            moment(9, -10, 91),
            [moment(1, -30, 100)],
            usual,
            "Both are doomed, with -0.0110 against -0.0100.",
        ),
        (moment(9, 20, 60), two, usual, "The incumbent is the more urgent of the two."),
        (
            moment(9, 20, 60),
            two,
            "aggressive",
            "The same moment; the incumbent is the less urgent one.",
        ),
        (
            moment(9, 20, 50),
            [moment(1, 300, 400, 1)],
            usual,
            "The only running request was preempted before: Rule 1.",
        ),
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
    select_victim: SelectVictim, candidate: SloView, running: list[SloView], mode: str, words: str
) -> dict[str, Any]:
    order = policy.by_urgency(each for each in running if not each.num_preemptions)
    incumbent = None if not order else order[0] if mode == "conservative" else order[-1]
    named = select_victim(candidate, [*running], policy.MARGIN, mode)
    victim = as_whole(named)
    if named is not None and victim not in [each.id for each in running]:
        raise ValueError("select_victim named a request that does not run")

    def scored(view: SloView) -> dict[str, Any]:
        return {"id": view.id, "slack_us": view.slack_us, "edf_score": view.edf_score}

    return {
        "candidate": scored(candidate),
        "running": [{**scored(each), "immune": each.num_preemptions > 0} for each in running],
        "incumbent": incumbent and incumbent.id,
        "victim": victim,
        "margin": policy.MARGIN,
        "mode": mode,
        "words": words,
    }


# --- exhibits -------------------------------------------------------------------------------------


def victims_by(outranks: Outranks) -> SelectVictim:
    """A policy in which exhibit A decides whether the candidate outranks the incumbent."""

    def select_victim(
        candidate: SloView, running: Sequence[SloView], margin: float, mode: str
    ) -> int | None:
        order = policy.by_urgency(each for each in running if not each.num_preemptions)
        if not order:
            return None
        incumbent = order[0] if mode == "conservative" else order[-1]
        return order[-1].id if outranks(candidate.edf_score, incumbent.edf_score, margin) else None

    return select_victim


def without_rule_1(
    candidate: SloView, running: Sequence[SloView], margin: float, mode: policy.Mode
) -> int | None:
    """Exhibit B: a policy for which no running request is immune."""
    mortal = [replace(each, num_preemptions=0) for each in running]
    return policy.select_victim(candidate, mortal, margin, mode)


def starving() -> Run | str:
    """Exhibit B: a report, an urgent request every 300 ms, and no Rule 1."""
    return simulated(starved(12), BATCHED, select_victim=without_rule_1)


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
    head = "| policy | in time: urgent / generous | preemptions, work thrown away | pass by pass |"
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
