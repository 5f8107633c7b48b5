"""Wrong choices of a victim, and the misconceptions behind them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from course.calling.plain_values import as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.slo.policy import by_urgency
from nanogpt.views.slo_view import SloView

SelectVictim: TypeAlias = Callable[[SloView, list[SloView], float], int | None]
Beats: TypeAlias = Callable[[SloView, SloView, float], bool]


def beats(candidate: SloView, incumbent: SloView, margin: float) -> bool:
    """The four cases of signs."""
    if candidate.slack_us < 0:
        return False
    return incumbent.slack_us < 0 or candidate.edf_score > margin * incumbent.edf_score


def not_immune(running: Sequence[SloView]) -> list[SloView]:
    return [runner for runner in running if runner.num_preemptions == 0]


def selecting(
    beats: Beats = beats,
    incumbent: int = 0,
    victim: Callable[[Sequence[SloView]], int] = lambda order: order[-1].id,
    eligible: Callable[[Sequence[SloView]], Sequence[SloView]] = not_immune,
    order: Callable[[Sequence[SloView]], Sequence[SloView]] = by_urgency,
) -> SelectVictim:
    """The rules, with some of them replaced."""

    def answer(candidate: SloView, running: list[SloView], margin: float) -> int | None:
        left = order(eligible(running))
        return victim(left) if left and beats(candidate, left[incumbent], margin) else None

    return answer


best = selecting()


def hopeful(rule: Beats) -> SelectVictim:
    """The rules, except where both can meet their deadlines: there `rule` decides."""
    return selecting(
        lambda candidate, incumbent, margin: (
            beats(candidate, incumbent, margin)
            if candidate.slack_us < 0 or incumbent.slack_us < 0
            else rule(candidate, incumbent, margin)
        )
    )


def doomed(rule: Beats) -> SelectVictim:
    """The rules, except for a doomed candidate: there `rule` decides."""
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


def sorts_the_runners(candidate: SloView, running: list[SloView], margin: float) -> int | None:
    running.sort(key=lambda runner: (-runner.edf_score, runner.id))
    return best(candidate, running, margin)


MISCONCEPTIONS = (
    Misconception(
        "not_an_id",
        "The result says whether to preempt.",
        lambda value: f"Return the `id` of one running request, or None, not {a_kind(value)}.",
        matches=lambda value: value is not None and as_whole(value) is None,
        examples=(lambda *args: best(*args) is not None,),
    ),
    Misconception(
        "margin_on_negative_scores",
        "A score above `margin` times the incumbent's is enough.",
        "A negative score times the margin is even lower, so the less urgent of two doomed "
        "requests beats the other. Compare the signs of the slack first.",
        selecting(
            lambda candidate, incumbent, margin: candidate.edf_score > margin * incumbent.edf_score
        ),
    ),
    Misconception(
        "doomed_candidate",
        "Of two doomed requests, the more urgent one runs.",
        "A candidate with a slack below 0 misses its deadline anyway, so nothing is preempted for "
        "it, not even a running request that is doomed as well.",
        doomed(lambda candidate, incumbent, margin: incumbent.slack_us < 0),
    ),
    Misconception(
        "doomed_incumbent_kept",
        "A doomed request is past saving, so it is left alone.",
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
        "A request without slack is too late.",
        "With a slack of exactly 0 a request still meets its deadline. Doomed means below 0.",
        selecting(lambda candidate, incumbent, margin: beats(late(candidate), incumbent, margin)),
        same_result=(
            selecting(
                lambda candidate, incumbent, margin: beats(candidate, late(incumbent), margin)
            ),
        ),
    ),
    Misconception(
        "ignores_rule_1",
        "The most urgent request always runs.",
        "A running request that was preempted once is immune. Otherwise one urgent request after "
        "another could preempt it, and it would never finish.",
        selecting(eligible=list),
    ),
    Misconception(
        "least_urgent_only",
        "The candidate has to beat only its victim.",
        "The candidate beats the victim, but not every other request that counts. The whole pass "
        "is aborted, so the most urgent of them decides.",
        selecting(incumbent=-1),
    ),
    Misconception(
        "most_urgent_victim",
        "The request that the candidate beats is the victim.",
        "The most urgent request decides whether one is preempted; the victim is the least urgent.",
        selecting(victim=lambda order: order[0].id),
    ),
    Misconception(
        "no_margin",
        "Any higher score is enough.",
        "A preemption throws away the victim's work, so slightly more urgent is not enough. The "
        "candidate has to be more than `margin` times as urgent.",
        hopeful(lambda candidate, incumbent, margin: candidate.edf_score > incumbent.edf_score),
    ),
    Misconception(
        "exactly_the_margin",
        "`margin` times as urgent is enough.",
        "The candidate's score has to be above `margin` times the incumbent's: a score of exactly "
        "that is not enough.",
        hopeful(
            lambda candidate, incumbent, margin: candidate.edf_score >= margin * incumbent.edf_score
        ),
    ),
    Misconception(
        "ties",
        "Of equal scores any one will do.",
        "Of two equal scores the lower id is the more urgent, so the victim has the higher one.",
        selecting(victim=lambda order: min(order, key=lambda each: (each.edf_score, each.id)).id),
    ),
    Misconception(
        "minus_one",
        "-1 stands for no request.",
        "Return None where nothing is preempted: -1 would be taken for an id.",
        lambda *args: -1 if best(*args) is None else best(*args),
    ),
    Misconception(
        "by_slack",
        "The request with the most slack is the least urgent.",
        "`edf_score` gives the order, not the slack. Of two requests that can meet their "
        "deadlines, the one with more slack may be the more urgent.",
        selecting(order=lambda views: sorted(views, key=lambda each: (each.slack_us, each.id))),
    ),
    Misconception(
        "never",
        "A running request is never interrupted.",
        "Nothing is ever preempted here, so a candidate that could still meet its deadline waits "
        "for a whole pass of requests with time to spare. (Without a `return` the result is None.)",
        lambda *args: None,
    ),
    Misconception(
        "in_place", "Sorting the list in place is simplest.", examples=(sorts_the_runners,)
    ),
)
