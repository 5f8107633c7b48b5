"""Judging what gives way to what: the rules of the gate, and the mistakes."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from course.checks.comparing import Args, Comparison, Mistake, a_kind, alike
from nanogpt.parts.plain_values import as_whole
from nanogpt.slo import policy
from nanogpt.slo.policy import SloView

Gate = Callable[[SloView, list[SloView], float, str], "int | None"]

A, C = 100.0, 10_000.0  # 0.1 ms per token and 10 ms per pass, in microseconds


def seen(id: int, left_ms: float, slack_ms: float, preempted: int = 0, **fields: Any) -> SloView:
    """A request with its deadline in `left_ms` and `slack_ms` of that to spare."""
    slack_us, left_us = round(1000 * slack_ms), round(1000 * left_ms)
    known: dict[str, Any] = {
        "tokens": max(1, round((left_us - slack_us - C) / A)),
        "slo_us": 200_000,
        "num_preemptions": preempted,
        "urgency": policy.urgency(slack_us, left_us),
    }
    return SloView(id=id, slack_us=slack_us, time_to_deadline_us=left_us, **(known | fields))


def _draw_gate(name: str, args: Args) -> str:
    waiter, runners, margin, mode = args
    views = [("waiter", waiter), *(("runner", each) for each in runners)]
    lines = [f"{name}(waiter, runners, margin={margin}, mode={mode!r})"]
    return "\n".join([*lines, *(_draw_seen(*view) for view in views)])


def _draw_seen(role: str, view: SloView) -> str:
    return (
        f"{role} id={view.id}: slack_us={view.slack_us}, urgency={view.urgency:.4g}, "
        f"num_preemptions={view.num_preemptions}"
    )


def _victim_form(value: Any) -> tuple[str, str] | None:
    if value is None or as_whole(value) is not None:
        return None
    return "not_an_id", f"The answer is the `id` of one runner, or None, not {a_kind(value)}."


def ranked(views: Sequence[SloView]) -> list[SloView]:
    """The most urgent first, among equals the lowest id."""
    return sorted(views, key=lambda each: (-each.urgency, each.id))


def _beats(waiter: SloView, reference: SloView, margin: float) -> bool:
    """The four cases of signs."""
    if waiter.slack_us < 0:
        return False
    return reference.slack_us < 0 or waiter.urgency > margin * reference.urgency


def _reference(order: Sequence[SloView], mode: str) -> SloView:
    return order[0] if mode == "conservative" else order[-1]


def _last(order: Sequence[SloView], reference: SloView) -> int:
    return order[-1].id


def _not_immune(runners: Sequence[SloView]) -> list[SloView]:
    return [runner for runner in runners if runner.num_preemptions == 0]


def _gating(
    beats: Callable[[SloView, SloView, float], bool] = _beats,
    measure: Callable[[Sequence[SloView], str], SloView] = _reference,
    victim: Callable[[Sequence[SloView], SloView], int] = _last,
    candidates: Callable[[Sequence[SloView]], Sequence[SloView]] = _not_immune,
    order: Callable[[Sequence[SloView]], list[SloView]] = ranked,
) -> Gate:
    """The rules but for what is given."""

    def answer(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
        left = order(candidates(runners))
        if not left:
            return None
        reference = measure(left, mode)
        return victim(left, reference) if beats(waiter, reference, margin) else None

    return answer


_GATE = _gating()


def _asking(rule: Callable[[SloView, SloView, float], bool]) -> Gate:
    """The rules, but rule(waiter, reference, margin) decides when both can make it."""

    def beats(waiter: SloView, reference: SloView, margin: float) -> bool:
        if waiter.slack_us < 0 or reference.slack_us < 0:
            return _beats(waiter, reference, margin)
        return rule(waiter, reference, margin)

    return _gating(beats)


def _doomed_too(rule: Callable[[SloView, SloView, float], bool]) -> Gate:
    """The rules, but rule(waiter, reference, margin) decides for a doomed waiter."""
    return _gating(
        lambda waiter, ref, margin: (
            rule(waiter, ref, margin) if waiter.slack_us < 0 else _beats(waiter, ref, margin)
        )
    )


def _late(view: SloView) -> SloView:
    """The request, doomed if it has no slack."""
    return view if view.slack_us else replace(view, slack_us=-1)


def _measured_by_all(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
    left = ranked(_not_immune(runners))
    if not left or not _beats(waiter, _reference(ranked(runners), mode), margin):
        return None
    return left[-1].id


def _last_of_all(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
    victim = _GATE(waiter, runners, margin, mode)
    return None if victim is None else ranked(runners)[-1].id


def _waiter_immune(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
    return None if waiter.num_preemptions else _GATE(waiter, runners, margin, mode)


def _any_doomed(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
    left = ranked(_not_immune(runners))
    if left and waiter.slack_us >= 0 > left[-1].slack_us:
        return left[-1].id
    return _GATE(waiter, runners, margin, mode)


def _index(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
    victim = _GATE(waiter, runners, margin, mode)
    return None if victim is None else [runner.id for runner in runners].index(victim)


def _minus_one(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
    victim = _GATE(waiter, runners, margin, mode)
    return -1 if victim is None else victim


def _waiter_s_id(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
    return None if _GATE(waiter, runners, margin, mode) is None else waiter.id


def any_moments(rng: random.Random, count: int) -> list[Args]:
    """Moments in which every rule decides somewhere: few runners first."""
    moments: list[Args] = []
    while len(moments) < count:
        ids = rng.sample(range(10), rng.choice((1, 2, 2, 3, 3, 4)) + 1)
        margin, mode = rng.choice((1.0, 1.2, 1.6, 2.0)), rng.choice(("conservative", "aggressive"))
        waiter, *runners = (_any_view(rng, id) for id in ids)
        close = [abs(waiter.urgency - margin * runner.urgency) for runner in runners]
        if margin in (1.0, 2.0) or min(close) > 1e-9:  # 1.2 times a score is not exact
            moments.append((waiter, runners, margin, mode))
    return sorted(moments, key=lambda args: len(args[1]))


def _any_view(rng: random.Random, id: int) -> SloView:
    left_ms = rng.choice((0, 1, 20, 40, 50, 60, 80, 100, 120, 400))
    slack_ms = rng.choice((-left_ms - 5, -7, -0.001, 0, 0, left_ms / 4, left_ms / 2))
    preempted = rng.choice((0, 0, 0, 0, 1, 2))
    return seen(id, left_ms, min(slack_ms, left_ms), preempted)


_MARGIN_ON_SIGNS = (
    "Times the margin, a negative score gets lower, so the bar is lower too and the less urgent of "
    "two doomed requests gets over it: look at the signs first."
)
_DOOMED_WAITER = (
    "A waiter with a slack below 0 misses its deadline anyway: nothing gives way for it, not even "
    "a runner that is doomed as well."
)
_MODE = (
    'A "conservative" gate measures the waiter by the most urgent runner, an "aggressive" one by '
    "the least urgent: look at what `mode` says."
)
_RULE_1 = (
    "A runner that was preempted once is immune: thrown back again and again by one urgent request "
    "after the other, it would never get done."
)
_LIST_ORDER = (
    "The order of the list says nothing about urgency: the victim is the runner with the lowest "
    "`urgency`."
)

_DOOMED_RUNNER = (
    "The reference is doomed and misses its deadline whatever you do, while the waiter can still "
    "make it: let it have the time."
)
_SLACK_0 = "With a slack of exactly 0 a request still makes it: doomed is below 0."
_DIFFERENCE = "The margin is a factor, not a difference: `margin` times the reference's urgency."

GATE: Comparison[Gate] = Comparison(
    reference=_GATE,
    mistakes=(
        *alike(
            "margin_on_negative_scores",
            _MARGIN_ON_SIGNS,
            _gating(lambda waiter, ref, margin: waiter.urgency > margin * ref.urgency),
            _gating(
                lambda waiter, ref, margin: waiter.urgency - ref.urgency > margin * ref.urgency
            ),
        ),
        *alike(
            "doomed_waiter",
            _DOOMED_WAITER,
            _gating(lambda waiter, ref, margin: ref.slack_us < 0 or _beats(waiter, ref, margin)),
            _doomed_too(lambda waiter, ref, margin: waiter.urgency > ref.urgency),
            _doomed_too(lambda waiter, ref, margin: margin * waiter.urgency > ref.urgency),
        ),
        *alike(
            "doomed_runner_kept",
            _DOOMED_RUNNER,
            _gating(lambda waiter, ref, margin: ref.slack_us >= 0 and _beats(waiter, ref, margin)),
            _gating(
                lambda waiter, ref, margin: (
                    waiter.slack_us >= 0 and waiter.urgency > margin * abs(ref.urgency)
                )
            ),
        ),
        *alike(
            "slack_0_is_doomed",
            _SLACK_0,
            _gating(lambda waiter, ref, margin: _beats(_late(waiter), _late(ref), margin)),
            _gating(lambda waiter, ref, margin: _beats(waiter, _late(ref), margin)),
            _gating(lambda waiter, ref, margin: _beats(_late(waiter), ref, margin)),
        ),
        Mistake("ignores_rule_1", _RULE_1, _gating(candidates=list)),
        Mistake(
            "second_time",
            "Once is enough: a runner with a `num_preemptions` of 1 is immune already.",
            _gating(candidates=lambda runners: [r for r in runners if r.num_preemptions <= 1]),
        ),
        Mistake(
            "all_immune",
            "When all the runners are immune there is none to preempt: the answer is None, and "
            "the waiter waits.",
            _gating(candidates=lambda runners: _not_immune(runners) or runners),
        ),
        Mistake(
            "one_immune",
            "An immune runner protects itself, not the others: leave it out and look at those that "
            "remain.",
            _gating(
                candidates=lambda runners: (
                    [] if any(each.num_preemptions for each in runners) else runners
                )
            ),
        ),
        Mistake(
            "immune_reference",
            "An immune runner is left out altogether: it is not the reference either.",
            _measured_by_all,
        ),
        Mistake(
            "immune_victim",
            "The reference is right, but the victim, too, has to come from those that are not "
            "immune.",
            _last_of_all,
        ),
        Mistake(
            "waiter_immune",
            "Rule 1 protects runners: a waiter that was preempted before may still preempt others.",
            _waiter_immune,
        ),
        Mistake(
            "modes_swapped",
            'The modes are swapped: "conservative" has to beat the most urgent runner, which is '
            'harder; "aggressive" the least urgent.',
            _gating(measure=lambda order, mode: order[-1 if mode == "conservative" else 0]),
        ),
        *alike(
            "ignores_mode",
            _MODE,
            _gating(measure=lambda order, mode: order[-1]),
            _gating(measure=lambda order, mode: order[0]),
        ),
        Mistake(
            "victim_is_the_reference",
            "The reference decides whether a runner goes; the one that goes is the least urgent, "
            "in either mode.",
            _gating(victim=lambda order, reference: reference.id),
        ),
        Mistake(
            "any_doomed_runner",
            "Another runner is doomed, but the reference is not, and a preemption throws the pass "
            "of all of them back: only the reference decides.",
            _any_doomed,
        ),
        Mistake(
            "margin_on_the_waiter",
            "The margin is on the wrong side: it makes the waiter's part easier, but it is there "
            "to make a preemption rarer.",
            _asking(lambda waiter, ref, margin: margin * waiter.urgency > ref.urgency),
        ),
        Mistake(
            "no_margin",
            "A little more urgent is not enough, since what the runner has computed is lost: the "
            "waiter has to be more than `margin` times as urgent.",
            _asking(lambda waiter, ref, margin: waiter.urgency > ref.urgency),
        ),
        *alike(
            "margin_added",
            _DIFFERENCE,
            _asking(lambda waiter, ref, margin: waiter.urgency > ref.urgency + margin),
            _asking(lambda waiter, ref, margin: waiter.urgency > ref.urgency + margin - 1),
        ),
        Mistake(
            "just_the_margin",
            "Exactly `margin` times as urgent is not yet more than that, or with a margin of 1 two "
            "equals would preempt each other.",
            _asking(lambda waiter, ref, margin: waiter.urgency >= margin * ref.urgency),
        ),
        Mistake(
            "less_urgent_wins",
            "The higher score is the more urgent one: here the waiter got in for being less "
            "urgent.",
            _asking(lambda waiter, ref, margin: waiter.urgency < margin * ref.urgency),
        ),
        Mistake(
            "by_slack",
            "The slack does not give the order: `urgency` does, and of two requests that can make "
            "it the one with more slack may be the more urgent.",
            _gating(order=lambda views: sorted(views, key=lambda each: (each.slack_us, each.id))),
        ),
        *alike(
            "other_order",
            "`urgency` gives the order and nothing else does: not the deadline, and not how much "
            "there is to compute.",
            _gating(order=lambda views: sorted(views, key=lambda each: each.time_to_deadline_us)),
            _gating(victim=lambda order, ref: max(order, key=lambda each: each.tokens).id),
            _gating(
                victim=lambda order, ref: max(order, key=lambda each: each.time_to_deadline_us).id
            ),
        ),
        Mistake(
            "victim_is_the_first",
            "The one to preempt is the least urgent runner; here the most urgent one has to go.",
            _gating(victim=lambda order, reference: order[0].id),
        ),
        Mistake(
            "fixed_margin",
            "The margin is an argument; here it is 1.2 whatever comes in.",
            _asking(lambda waiter, ref, margin: waiter.urgency > 1.2 * ref.urgency),
        ),
        Mistake(
            "not_none",
            "If there is no preemption the answer is None, not the number -1.",
            _minus_one,
        ),
        Mistake(
            "tie",
            "Among equals the lower id is the more urgent, so the victim is the one with the "
            "highest id.",
            _gating(
                victim=lambda order, reference: min(
                    each.id for each in order if each.urgency == order[-1].urgency
                )
            ),
        ),
        *alike(
            "list_order",
            _LIST_ORDER,
            _gating(order=list),
            _gating(order=lambda views: list(views)[::-1]),
        ),
        Mistake(
            "the_waiter_s_id",
            "The answer names the runner that has to go, not the waiter that it goes for.",
            _waiter_s_id,
        ),
        Mistake(
            "index", "This is a place in the list; the answer is the runner's own `id`.", _index
        ),
        Mistake(
            "never",
            "Without a `return` the answer is None as well, and then this gate never opens: the "
            "waiter, which can still make it, sits through a whole pass of a runner with time.",
            lambda waiter, runners, margin, mode: None,
        ),
    ),
    idea="A preemption is worth its price when it saves the waiter, and takes the time from a "
    "runner that has more of it or has lost already.",
    form=_victim_form,
    draw_call=_draw_gate,
    evidence=any_moments(random.Random(5), 40),
)
