"""Wrong choices of a victim, and the misconceptions behind them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from course.calling.plain_values import as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.slo.policy import by_urgency
from nanogpt.slo.slo_view import SloView

SelectVictim: TypeAlias = Callable[[SloView, list[SloView], float, str], int | None]
Beats: TypeAlias = Callable[[SloView, SloView, float], bool]


def beats(candidate: SloView, incumbent: SloView, margin: float) -> bool:
    """The four cases of signs."""
    if candidate.slack_us < 0:
        return False
    return incumbent.slack_us < 0 or candidate.edf_score > margin * incumbent.edf_score


def not_immune(running: Sequence[SloView]) -> list[SloView]:
    return [runner for runner in running if runner.num_preemptions == 0]


def by_mode(order: Sequence[SloView], mode: str) -> SloView:
    return order[0] if mode == "conservative" else order[-1]


def selecting(
    beats: Beats = beats,
    measure: Callable[[Sequence[SloView], str], SloView] = by_mode,
    victim: Callable[[Sequence[SloView], SloView], int] = lambda order, incumbent: order[-1].id,
    eligible: Callable[[Sequence[SloView]], Sequence[SloView]] = not_immune,
    order: Callable[[Sequence[SloView]], Sequence[SloView]] = by_urgency,
) -> SelectVictim:
    """The rules, with the given parts replaced."""

    def answer(candidate: SloView, running: list[SloView], margin: float, mode: str) -> int | None:
        left = order(eligible(running))
        if not left:
            return None
        incumbent = measure(left, mode)
        return victim(left, incumbent) if beats(candidate, incumbent, margin) else None

    return answer


best = selecting()


def hopeful(rule: Beats) -> SelectVictim:
    """The rules, but rule(candidate, incumbent, margin) decides when both can make it."""
    return selecting(
        lambda candidate, incumbent, margin: (
            beats(candidate, incumbent, margin)
            if candidate.slack_us < 0 or incumbent.slack_us < 0
            else rule(candidate, incumbent, margin)
        )
    )


def doomed(rule: Beats) -> SelectVictim:
    """The rules, but rule(candidate, incumbent, margin) decides for a doomed candidate."""
    return selecting(
        lambda candidate, incumbent, margin: (
            rule(candidate, incumbent, margin)
            if candidate.slack_us < 0
            else beats(candidate, incumbent, margin)
        )
    )


def late(view: SloView) -> SloView:
    """The request, doomed if it has no slack."""
    return view if view.slack_us else replace(view, slack_us=-1)


def measured_by_all(
    candidate: SloView, running: list[SloView], margin: float, mode: str
) -> int | None:
    left = by_urgency(not_immune(running))
    if not left or not beats(candidate, by_mode(by_urgency(running), mode), margin):
        return None
    return left[-1].id


def sorts_the_runners(
    candidate: SloView, running: list[SloView], margin: float, mode: str
) -> int | None:
    running.sort(key=lambda runner: (-runner.edf_score, runner.id))
    return best(candidate, running, margin, mode)


MISCONCEPTIONS = (
    Misconception(
        "not_an_id",
        "Preempt or not?",
        lambda value: f"Return the `id` of one running request, or None, not {a_kind(value)}.",
        matches=lambda value: value is not None and as_whole(value) is None,
        examples=(lambda *args: best(*args) is not None,),
    ),
    Misconception(
        "margin_on_negative_scores",
        "The candidate wins by the margin.",
        "A negative score times the margin is even lower, so the less urgent of two doomed "
        "requests passes the bar: compare the signs first.",
        selecting(
            lambda candidate, incumbent, margin: candidate.edf_score > margin * incumbent.edf_score
        ),
    ),
    Misconception(
        "doomed_candidate",
        "A doomed request gives way.",
        "A candidate with a slack below 0 misses its deadline anyway: nothing is preempted for it, "
        "not even a running request that is doomed as well.",
        doomed(lambda candidate, incumbent, margin: incumbent.slack_us < 0),
    ),
    Misconception(
        "doomed_incumbent_kept",
        "Scores below 0 do not count.",
        "The incumbent is doomed and misses its deadline in any case; the candidate can still meet "
        "its own, so it gets the time.",
        selecting(
            lambda candidate, incumbent, margin: (
                incumbent.slack_us >= 0 and beats(candidate, incumbent, margin)
            )
        ),
    ),
    Misconception(
        "slack_0_is_doomed",
        "Without slack it is too late.",
        "With a slack of exactly 0 a request still meets its deadline: doomed means below 0.",
        selecting(lambda candidate, incumbent, margin: beats(late(candidate), incumbent, margin)),
        same_result=(
            selecting(
                lambda candidate, incumbent, margin: beats(candidate, late(incumbent), margin)
            ),
        ),
    ),
    Misconception(
        "ignores_rule_1",
        "The most urgent request runs.",
        "A running request that was preempted once is immune: one urgent request after the other "
        "would preempt it, and it would never finish.",
        selecting(eligible=list),
    ),
    Misconception(
        "all_immune",
        "If all are immune, one is preempted all the same.",
        "When all running requests are immune, none can be preempted: the answer is None, and the "
        "candidate waits.",
        selecting(eligible=lambda running: not_immune(running) or running),
    ),
    Misconception(
        "immune_incumbent",
        "An immune request only cannot be the victim.",
        "An immune request is left out altogether: it is not the incumbent either.",
        measured_by_all,
    ),
    Misconception(
        "modes_swapped",
        "Aggressive takes on the strongest.",
        'The modes are swapped: "conservative" compares with the most urgent running request, '
        'which is harder to beat; "aggressive" with the least urgent one.',
        selecting(measure=lambda order, mode: order[-1 if mode == "conservative" else 0]),
    ),
    Misconception(
        "ignores_mode",
        "Better be careful.",
        '"conservative" compares the candidate with the most urgent running request, "aggressive" '
        "with the least urgent one: use `mode`.",
        selecting(measure=lambda order, mode: order[0]),
        same_result=(selecting(measure=lambda order, mode: order[-1]),),
    ),
    Misconception(
        "victim_is_the_incumbent",
        "The incumbent is the victim.",
        "The incumbent decides whether a request is preempted; the victim is the least urgent "
        "running request in both modes.",
        selecting(victim=lambda order, incumbent: incumbent.id),
    ),
    Misconception(
        "no_margin",
        "More urgent is more urgent.",
        "Slightly more urgent is not enough, since the victim's computed work is lost: the "
        "candidate has to be more than `margin` times as urgent.",
        hopeful(lambda candidate, incumbent, margin: candidate.edf_score > incumbent.edf_score),
    ),
    Misconception(
        "margin_added",
        "By a margin means plus the margin.",
        "The margin is a factor, not a difference: `margin` times the incumbent's score.",
        hopeful(
            lambda candidate, incumbent, margin: candidate.edf_score > incumbent.edf_score + margin
        ),
    ),
    Misconception(
        "just_the_margin",
        "At least the margin.",
        "Exactly `margin` times as urgent is not enough: with a margin of 1 two equal requests "
        "would preempt each other.",
        hopeful(
            lambda candidate, incumbent, margin: candidate.edf_score >= margin * incumbent.edf_score
        ),
    ),
    Misconception(
        "by_slack",
        "Most slack, least urgent.",
        "`edf_score` gives the order, and the slack does not: of two requests that can meet their "
        "deadlines, the one with more slack may be more urgent.",
        selecting(order=lambda views: sorted(views, key=lambda each: (each.slack_us, each.id))),
    ),
    Misconception(
        "tie",
        "`min` finds the least urgent.",
        "Among equals the lower id is more urgent, so the victim is the request with the highest "
        "id.",
        selecting(victim=lambda order, incumbent: min(order, key=lambda each: each.edf_score).id),
    ),
    Misconception(
        "never",
        "No running request is interrupted.",
        "Without a `return` the answer is None as well, so nothing is ever preempted: a candidate "
        "that could still meet its deadline waits for a whole pass of requests with time to spare.",
        lambda *args: None,
    ),
    Misconception(
        "in_place", "Sorting the list in place is simplest.", examples=(sorts_the_runners,)
    ),
)
