"""Gates that are wrong in one way or another, and the wrong ideas behind them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from course.calling.plain_values import as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.slo.policy import by_urgency
from nanogpt.slo.slo_view import SloView

Gate: TypeAlias = Callable[[SloView, list[SloView], float, str], int | None]
Beats: TypeAlias = Callable[[SloView, SloView, float], bool]


def beats(waiter: SloView, reference: SloView, margin: float) -> bool:
    """The four cases of signs."""
    if waiter.slack_us < 0:
        return False
    return reference.slack_us < 0 or waiter.urgency > margin * reference.urgency


def not_immune(runners: Sequence[SloView]) -> list[SloView]:
    return [runner for runner in runners if runner.num_preemptions == 0]


def by_mode(order: Sequence[SloView], mode: str) -> SloView:
    return order[0] if mode == "conservative" else order[-1]


def gating(
    beats: Beats = beats,
    measure: Callable[[Sequence[SloView], str], SloView] = by_mode,
    victim: Callable[[Sequence[SloView], SloView], int] = lambda order, reference: order[-1].id,
    candidates: Callable[[Sequence[SloView]], Sequence[SloView]] = not_immune,
    order: Callable[[Sequence[SloView]], Sequence[SloView]] = by_urgency,
) -> Gate:
    """The rules but for what is given."""

    def answer(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
        left = order(candidates(runners))
        if not left:
            return None
        reference = measure(left, mode)
        return victim(left, reference) if beats(waiter, reference, margin) else None

    return answer


best = gating()


def hopeful(rule: Beats) -> Gate:
    """The rules, but rule(waiter, reference, margin) decides when both can make it."""
    return gating(
        lambda waiter, reference, margin: (
            beats(waiter, reference, margin)
            if waiter.slack_us < 0 or reference.slack_us < 0
            else rule(waiter, reference, margin)
        )
    )


def doomed(rule: Beats) -> Gate:
    """The rules, but rule(waiter, reference, margin) decides for a doomed waiter."""
    return gating(
        lambda waiter, reference, margin: (
            rule(waiter, reference, margin)
            if waiter.slack_us < 0
            else beats(waiter, reference, margin)
        )
    )


def late(view: SloView) -> SloView:
    """The request, doomed if it has no slack."""
    return view if view.slack_us else replace(view, slack_us=-1)


def giving(
    name: Callable[[SloView, list[SloView], int], Any], otherwise: int | None = None
) -> Callable[..., Any]:
    """The right victim under another name(waiter, runners, victim); `otherwise` if it is None."""

    def answer(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
        victim = best(waiter, runners, margin, mode)
        return otherwise if victim is None else name(waiter, runners, victim)

    return answer


def measured_by_all(
    waiter: SloView, runners: list[SloView], margin: float, mode: str
) -> int | None:
    left = by_urgency(not_immune(runners))
    if not left or not beats(waiter, by_mode(by_urgency(runners), mode), margin):
        return None
    return left[-1].id


def any_doomed(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
    left = by_urgency(not_immune(runners))
    if left and waiter.slack_us >= 0 > left[-1].slack_us:
        return left[-1].id
    return best(waiter, runners, margin, mode)


def sorts_the_runners(
    waiter: SloView, runners: list[SloView], margin: float, mode: str
) -> int | None:
    runners.sort(key=lambda runner: (-runner.urgency, runner.id))
    return best(waiter, runners, margin, mode)


MISCONCEPTIONS = (
    Misconception(
        "not_an_id",
        "Preempt or not?",
        lambda value: f"The answer is the `id` of one runner, or None, not {a_kind(value)}.",
        form=lambda value: value is not None and as_whole(value) is None,
        also=(lambda *args: best(*args) is not None,),
    ),
    Misconception(
        "margin_on_negative_scores",
        "Beats it by the margin.",
        "Times the margin, a negative score gets lower, so the bar is lower too and the less "
        "urgent of two doomed requests gets over it: look at the signs first.",
        gating(lambda waiter, reference, margin: waiter.urgency > margin * reference.urgency),
        alike=(
            gating(
                lambda waiter, reference, margin: (
                    waiter.urgency - reference.urgency > margin * reference.urgency
                )
            ),
        ),
    ),
    Misconception(
        "doomed_waiter",
        "What is doomed gives way.",
        "A waiter with a slack below 0 misses its deadline anyway: nothing gives way for it, not "
        "even a runner that is doomed as well.",
        doomed(lambda waiter, reference, margin: reference.slack_us < 0),
        alike=(
            doomed(lambda waiter, reference, margin: waiter.urgency > reference.urgency),
            doomed(lambda waiter, reference, margin: margin * waiter.urgency > reference.urgency),
        ),
    ),
    Misconception(
        "doomed_runner_kept",
        "Scores below 0 do not count.",
        "The reference is doomed and misses its deadline whatever you do, while the waiter can "
        "still make it: let it have the time.",
        gating(
            lambda waiter, reference, margin: (
                reference.slack_us >= 0 and beats(waiter, reference, margin)
            )
        ),
        alike=(
            gating(
                lambda waiter, reference, margin: (
                    waiter.slack_us >= 0 and waiter.urgency > margin * abs(reference.urgency)
                )
            ),
        ),
    ),
    Misconception(
        "slack_0_is_doomed",
        "Without slack it is too late.",
        "With a slack of exactly 0 a request still makes it: doomed is below 0.",
        gating(lambda waiter, reference, margin: beats(late(waiter), reference, margin)),
        alike=(
            gating(lambda waiter, reference, margin: beats(waiter, late(reference), margin)),
            gating(lambda waiter, reference, margin: beats(late(waiter), late(reference), margin)),
        ),
    ),
    Misconception(
        "ignores_rule_1",
        "The most urgent runs.",
        "A runner that was preempted once is immune: thrown back again and again by one urgent "
        "request after the other, it would never get done.",
        gating(candidates=list),
    ),
    Misconception(
        "second_time",
        "More than once is too often.",
        "Once is enough: a runner with a `num_preemptions` of 1 is immune already.",
        gating(candidates=lambda runners: [r for r in runners if r.num_preemptions <= 1]),
    ),
    Misconception(
        "all_immune",
        "If all are immune, one has to go.",
        "When all the runners are immune there is none to preempt: the answer is None, and the "
        "waiter waits.",
        gating(candidates=lambda runners: not_immune(runners) or runners),
    ),
    Misconception(
        "one_immune",
        "Its pass has to get through.",
        "An immune runner protects itself, not the others: leave it out and look at those that "
        "remain.",
        gating(
            candidates=lambda runners: (
                [] if any(each.num_preemptions for each in runners) else runners
            )
        ),
    ),
    Misconception(
        "immune_reference",
        "Immune is what cannot be the victim.",
        "An immune runner is left out altogether: it is not the reference either.",
        measured_by_all,
    ),
    Misconception(
        "immune_victim",
        "Immune is what is not measured.",
        "The reference is right, but the victim, too, has to come from those that are not immune.",
        giving(lambda waiter, runners, victim: by_urgency(runners)[-1].id),
    ),
    Misconception(
        "waiter_immune",
        "What was preempted stays out of it.",
        "Rule 1 protects runners: a waiter that was preempted before may still preempt others.",
        lambda waiter, *rest: None if waiter.num_preemptions else best(waiter, *rest),
    ),
    Misconception(
        "modes_swapped",
        "Aggressive takes on the strongest.",
        'The modes are swapped: "conservative" has to beat the most urgent runner, which is '
        'harder; "aggressive" the least urgent.',
        gating(measure=lambda order, mode: order[-1 if mode == "conservative" else 0]),
    ),
    Misconception(
        "ignores_mode",
        "Better be careful.",
        'A "conservative" gate measures the waiter by the most urgent runner, an "aggressive" one '
        "by the least urgent: look at what `mode` says.",
        gating(measure=lambda order, mode: order[0]),
        alike=(gating(measure=lambda order, mode: order[-1]),),
    ),
    Misconception(
        "victim_is_the_reference",
        "What is beaten goes.",
        "The reference decides whether a runner goes; the one that goes is the least urgent, in "
        "either mode.",
        gating(victim=lambda order, reference: reference.id),
    ),
    Misconception(
        "any_doomed_runner",
        "The doomed always give way.",
        "Another runner is doomed, but the reference is not, and a preemption throws the pass of "
        "all of them back: only the reference decides.",
        any_doomed,
    ),
    Misconception(
        "margin_on_the_waiter",
        "The waiter times the margin beats it.",
        "The margin is on the wrong side: it makes the waiter's part easier, but it is there to "
        "make a preemption rarer.",
        hopeful(lambda waiter, reference, margin: margin * waiter.urgency > reference.urgency),
    ),
    Misconception(
        "no_margin",
        "More urgent is more urgent.",
        "A little more urgent is not enough, since what the runner has computed is lost: the "
        "waiter has to be more than `margin` times as urgent.",
        hopeful(lambda waiter, reference, margin: waiter.urgency > reference.urgency),
    ),
    Misconception(
        "margin_added",
        "By a margin means plus the margin.",
        "The margin is a factor, not a difference: `margin` times the reference's urgency.",
        hopeful(lambda waiter, reference, margin: waiter.urgency > reference.urgency + margin),
        alike=(
            hopeful(
                lambda waiter, reference, margin: waiter.urgency > reference.urgency + margin - 1
            ),
        ),
    ),
    Misconception(
        "just_the_margin",
        "At least the margin.",
        "Exactly `margin` times as urgent is not yet more than that, or with a margin of 1 two "
        "equals would preempt each other.",
        hopeful(lambda waiter, reference, margin: waiter.urgency >= margin * reference.urgency),
    ),
    Misconception(
        "less_urgent_wins",
        "A low score goes first.",
        "The higher score is the more urgent one: here the waiter got in for being less urgent.",
        hopeful(lambda waiter, reference, margin: waiter.urgency < margin * reference.urgency),
    ),
    Misconception(
        "by_slack",
        "Most slack, least urgent.",
        "The slack does not give the order: `urgency` does, and of two requests that can make it "
        "the one with more slack may be the more urgent.",
        gating(order=lambda views: sorted(views, key=lambda each: (each.slack_us, each.id))),
    ),
    Misconception(
        "other_order",
        "The latest deadline is the least urgent.",
        "`urgency` gives the order and nothing else does: not the deadline, and not how much there "
        "is to compute.",
        gating(
            victim=lambda order, reference: max(order, key=lambda each: each.time_to_deadline_us).id
        ),
        alike=(
            gating(victim=lambda order, reference: max(order, key=lambda each: each.tokens).id),
            gating(order=lambda views: sorted(views, key=lambda each: each.time_to_deadline_us)),
        ),
    ),
    Misconception(
        "victim_is_the_first",
        "The one that is beaten is the most urgent.",
        "The one to preempt is the least urgent runner; here the most urgent one has to go.",
        gating(victim=lambda order, reference: order[0].id),
    ),
    Misconception(
        "fixed_margin",
        "The margin is 1.2.",
        "The margin is an argument; here it is 1.2 whatever comes in.",
        lambda waiter, runners, margin, mode: best(waiter, runners, 1.2, mode),
    ),
    Misconception(
        "not_none",
        "No id is -1.",
        "If there is no preemption the answer is None, not the number -1.",
        giving(lambda waiter, runners, victim: victim, otherwise=-1),
    ),
    Misconception(
        "tie",
        "`min` finds the least urgent.",
        "Among equals the lower id is the more urgent, so the victim is the one with the highest "
        "id.",
        gating(victim=lambda order, reference: min(order, key=lambda each: each.urgency).id),
    ),
    Misconception(
        "list_order",
        "The runners are in order.",
        "The order of the list says nothing about urgency: the victim is the runner with the "
        "lowest `urgency`.",
        gating(order=list),
        alike=(gating(order=lambda views: views[::-1]),),
    ),
    Misconception(
        "the_waiter_s_id",
        "Which may run?",
        "The answer names the runner that has to go, not the waiter that it goes for.",
        giving(lambda waiter, runners, victim: waiter.id),
    ),
    Misconception(
        "index",
        "The place of the victim.",
        "This is a place in the list; the answer is the runner's own `id`.",
        giving(lambda waiter, runners, victim: [runner.id for runner in runners].index(victim)),
    ),
    Misconception(
        "never",
        "Nothing is interrupted.",
        "Without a `return` the answer is None as well, and then this gate never opens: the "
        "waiter, which can still make it, sits through a whole pass of a runner with time.",
        lambda *args: None,
    ),
    Misconception("in_place", "Runners are best in order.", also=(sorts_the_runners,)),
)
