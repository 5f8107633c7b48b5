"""Judging what gives way and what comes along: the rules, the mistakes, a tiny prefill engine.

The engine is held by the check: it shows the gate a moment, and applies the decision itself.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from course.checks.comparing import Args, Comparison, Mistake, a_kind, list_of_ints
from nanogpt.plain_values import as_whole
from nanogpt.slo import policy
from nanogpt.slo.parts import REFERENCE
from nanogpt.slo.policy import SloRequest, SloView

Gate = Callable[[SloView, list[SloView], float, str], "int | None"]
Batch = Callable[[SloView, list[SloView], float, float, int, float], list[int]]

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


def _ways(key: str, idea: str, *answers: Any) -> Iterator[Mistake[Any]]:
    """One mistake that can be made in several ways."""
    return (Mistake(key, idea, answer) for answer in answers)


# --- gate ------------------------------------------------------------------------------------


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
        *_ways(
            "margin_on_negative_scores",
            _MARGIN_ON_SIGNS,
            _gating(lambda waiter, ref, margin: waiter.urgency > margin * ref.urgency),
            _gating(
                lambda waiter, ref, margin: waiter.urgency - ref.urgency > margin * ref.urgency
            ),
        ),
        *_ways(
            "doomed_waiter",
            _DOOMED_WAITER,
            _gating(lambda waiter, ref, margin: ref.slack_us < 0 or _beats(waiter, ref, margin)),
            _doomed_too(lambda waiter, ref, margin: waiter.urgency > ref.urgency),
            _doomed_too(lambda waiter, ref, margin: margin * waiter.urgency > ref.urgency),
        ),
        *_ways(
            "doomed_runner_kept",
            _DOOMED_RUNNER,
            _gating(lambda waiter, ref, margin: ref.slack_us >= 0 and _beats(waiter, ref, margin)),
            _gating(
                lambda waiter, ref, margin: (
                    waiter.slack_us >= 0 and waiter.urgency > margin * abs(ref.urgency)
                )
            ),
        ),
        *_ways(
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
        *_ways(
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
        *_ways(
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
        *_ways(
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
        *_ways(
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


# --- slo_batch -------------------------------------------------------------------------------


def _draw_batch(name: str, args: Args) -> str:
    head, waiters, a, c, bound, guard = args
    lines = [f"{name}(head, waiters, a={a}, c={c}, bound={bound}, guard={guard})"]
    for role, view in (("head", head), *(("waiter", each) for each in waiters)):
        lines.append(
            f"{role} id={view.id}: tokens={view.tokens}, slo_us={view.slo_us}, "
            f"time_to_deadline_us={view.time_to_deadline_us}"
        )
    return "\n".join(lines)


def _batching(
    fits: Callable[["_Room"], bool] | None = None,
    *,
    starts_with: Callable[[SloView], int] = lambda head: head.tokens,
    skips: bool = False,
) -> Batch:
    """The rules, but for another idea of what fits; `skips` goes on behind one that does not."""

    def answer(
        head: SloView, waiters: list[SloView], a: float, c: float, bound: int, guard: float
    ) -> list[int]:
        ids, tokens = [head.id], starts_with(head)
        for waiter in waiters:
            after = tokens + waiter.tokens
            room = _Room(head, waiter, len(ids) + 1, tokens, after, a, c, bound, guard)
            if (fits or _Room.fits)(room):
                tokens += waiter.tokens
                ids.append(waiter.id)
            elif not skips:
                break
        return ids

    return answer


@dataclass(frozen=True, slots=True)
class _Room:
    """Whether one more fits: the batch has `before` tokens and would have `tokens`, of `count`."""

    head: SloView
    waiter: SloView
    count: int
    before: int
    tokens: int
    a: float
    c: float
    bound: int
    guard: float

    @property
    def work_us(self) -> float:
        return self.a * self.tokens + self.c

    @property
    def spare_us(self) -> float:
        return self.head.time_to_deadline_us - self.work_us

    @property
    def kept_us(self) -> float:
        return self.guard * self.head.slo_us

    @property
    def is_bounded(self) -> bool:
        return self.tokens <= self.bound

    @property
    def is_guarded(self) -> bool:
        return self.spare_us >= self.kept_us

    @property
    def waiter_bears_it(self) -> bool:
        spare_us = self.waiter.time_to_deadline_us - self.work_us
        return spare_us >= self.guard * self.waiter.slo_us

    def fits(self) -> bool:
        return self.is_bounded and self.is_guarded


_BATCH = _batching()


def _refuses_the_head(head: SloView, waiters: list[SloView], *rest: Any) -> list[int]:
    a, c, bound, guard = rest
    alone = _Room(head, head, 1, 0, head.tokens, a, c, bound, guard)
    return _BATCH(head, waiters, a, c, bound, guard) if alone.fits() else []


def _sorted_by(key: Callable[[SloView], Any]) -> Batch:
    return lambda head, waiters, a, c, bound, guard: _BATCH(
        head, sorted(waiters, key=key), a, c, bound, guard
    )


def any_queues(rng: random.Random, count: int) -> list[Args]:
    """A head and waiters around the limits; few waiters first. Products are exact."""
    queues: list[Args] = []
    for _ in range(count):
        a, c = rng.choice(((100.0, 10_000.0), (0.5, 0.0), (172.625, 34_000.0)))
        guard = rng.choice((0.125, 0.25, 0.5))
        sizes = [8 * rng.randint(1, 60) for _ in range(rng.randint(2, 5))]
        reach = sum(sizes[: rng.randint(1, len(sizes))])
        bound = reach + rng.choice((-1, 0, 0, 1, 60, 60))
        slo_us = 8 * rng.randint(100, 900)
        spare_us = guard * slo_us + a * reach + c
        left_us = round(spare_us + rng.choice((-a, -1, 0, 0, a, 40 * a, 40 * a)))
        ids = rng.sample(range(10), len(sizes))
        head, *waiters = map(lambda id, tokens: _queued(rng, id, tokens, a, c), ids, sizes)
        head = replace(
            head, time_to_deadline_us=left_us, slo_us=slo_us,
            slack_us=round(left_us - a * head.tokens - c),
        )  # fmt: skip
        queues.append((head, waiters, a, c, bound, guard))
    return sorted(queues, key=lambda args: len(args[1]))


def _queued(rng: random.Random, id: int, tokens: int, a: float, c: float) -> SloView:
    slo_us, left_us = 8 * rng.randint(100, 900), rng.randint(200, 40_000)
    request = SloRequest(id, tokens, 0, left_us, slo_us, 0)
    return REFERENCE.view(request, 0, a, c)


_GUARD = (
    "All get done when the pass ends, the head too, and then it has to have at least `guard` times "
    "its SLO to spare."
)
_ONLY_THE_HEAD = (
    "It is the head, which runs in any case, that the others must not endanger: the time and the "
    "SLO that count are the head's."
)
_ORDER = "The waiters come most urgent first: keep this order, or a less urgent one overtakes."
_HEAD_COUNTS = "The head is in the pass too: its own tokens count towards its length."

_TOO_LATE = (
    "Look at the batch with the waiter in it *before* you take it along: this one went one too far."
)

BATCH: Comparison[Batch] = Comparison(
    reference=_BATCH,
    mistakes=(
        Mistake(
            "everyone",
            "With all of them in it the pass takes so long that the head, the most urgent of all, "
            "misses its deadline: look at the bound and at the guard.",
            _batching(lambda room: True),
        ),
        *_ways(
            "no_guard",
            _GUARD,
            _batching(lambda room: room.is_bounded),
            _batching(lambda room: room.is_bounded and room.spare_us >= 0),
        ),
        Mistake(
            "no_bound",
            "The head could bear it, but the batch is above `bound` tokens: a request that comes "
            "next would find the engine busy for too long.",
            _batching(lambda room: room.is_guarded),
        ),
        Mistake(
            "bound_exclusive",
            "At most `bound` tokens means that exactly `bound` are allowed.",
            _batching(lambda room: room.tokens < room.bound and room.is_guarded),
        ),
        Mistake(
            "guard_exclusive",
            "At least `guard` times the SLO means that exactly as much is enough.",
            _batching(lambda room: room.is_bounded and room.spare_us > room.kept_us),
        ),
        *_ways(
            "one_too_many",
            _TOO_LATE,
            _batching(
                lambda room: (
                    room.before <= room.bound
                    and room.spare_us + room.a * room.waiter.tokens >= room.kept_us
                )
            ),
            _batching(lambda room: room.before < room.bound and room.is_guarded),
        ),
        *_ways(
            "guards_the_waiter",
            _ONLY_THE_HEAD,
            _batching(lambda room: room.is_bounded and room.waiter_bears_it),
            _batching(
                lambda room: room.is_bounded and room.spare_us >= room.guard * room.waiter.slo_us
            ),
        ),
        Mistake(
            "guards_everyone",
            _ONLY_THE_HEAD,
            _batching(lambda room: room.fits() and room.waiter_bears_it),
        ),
        Mistake(
            "guards_the_time_left",
            "The guard is a share of the head's SLO, which stays what it is, not of the time that "
            "happens to be left.",
            _batching(
                lambda room: (
                    room.is_bounded and room.spare_us >= room.guard * room.head.time_to_deadline_us
                )
            ),
        ),
        Mistake(
            "head_missing",
            "The head runs in this pass as well: its id comes first.",
            lambda head, waiters, a, c, bound, guard: _BATCH(head, waiters, a, c, bound, guard)[1:],
        ),
        Mistake(
            "refuses_the_head",
            "The head always runs, alone if it has to: too long or too late as it may be, one "
            "request has to be next.",
            _refuses_the_head,
        ),
        Mistake(
            "skips",
            "One did not fit and a later one was taken in its place: stop there, or long prompts "
            "are overtaken for ever.",
            _batching(skips=True),
        ),
        Mistake(
            "forgets_c",
            "Every pass costs c on top of its tokens, and the head has to bear that too.",
            _batching(lambda room: room.is_bounded and room.spare_us + room.c >= room.kept_us),
        ),
        Mistake(
            "c_for_each",
            "One pass costs c once, however many share it: that is what makes sharing worth while.",
            _batching(
                lambda room: (
                    room.is_bounded and room.spare_us - room.c * (room.count - 1) >= room.kept_us
                )
            ),
        ),
        *_ways(
            "head_not_counted",
            _HEAD_COUNTS,
            _batching(starts_with=lambda head: 0),
            _batching(
                lambda room: room.tokens - room.head.tokens <= room.bound and room.is_guarded
            ),
            _batching(
                lambda room: (
                    room.is_bounded and room.spare_us + room.a * room.head.tokens >= room.kept_us
                )
            ),
        ),
        *_ways(
            "head_counted_twice",
            "The head's slack has its own work taken off already, and here it was taken off twice: "
            "start from its time to the deadline.",
            _batching(
                lambda room: room.is_bounded and room.head.slack_us - room.work_us >= room.kept_us
            ),
            _batching(
                lambda room: (
                    room.is_bounded and room.head.slack_us - room.a * room.tokens >= room.kept_us
                )
            ),
        ),
        Mistake(
            "one_by_one",
            "They all share one pass: what counts is the tokens of all in it together, not of each "
            "waiter with the head.",
            _batching(
                lambda room: replace(room, tokens=room.head.tokens + room.waiter.tokens).fits()
            ),
        ),
        *_ways(
            "reorders",
            _ORDER,
            _sorted_by(lambda each: each.tokens),
            _sorted_by(lambda each: each.id),
            lambda head, *rest: [head.id, *_BATCH(head, *rest)[:0:-1]],
        ),
        Mistake(
            "skips_the_doomed",
            "The doomed are not left out: a request that fits without endangering the head may "
            "come along, and is done sooner for it.",
            lambda head, waiters, a, c, bound, guard: _BATCH(
                head, [each for each in waiters if each.slack_us >= 0], a, c, bound, guard
            ),
        ),
        Mistake(
            "index",
            "These are places in the queue; the answer holds the requests' own ids.",
            lambda head, *rest: list(range(len(_BATCH(head, *rest)))),
        ),
        Mistake(
            "alone",
            "A request that fits without endangering the head comes along: each pass costs c, and "
            "sharing one saves the others theirs.",
            lambda head, waiters, a, c, bound, guard: [head.id],
        ),
    ),
    idea="The batch with the next waiter in it has two limits to keep, its tokens and what the "
    "head has to spare; at the first waiter that breaks one, it is complete.",
    form=list_of_ints,
    draw_call=_draw_batch,
    evidence=any_queues(random.Random(6), 30),
)


# --- a tiny prefill engine -------------------------------------------------------------------

_TICK_US = 20_000


@dataclass(frozen=True, slots=True)
class Job:
    """A request of a workload: its arrival, its prompt, and the time until its deadline."""

    arrival_ms: int
    tokens: int
    slo_ms: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests for one engine that runs at most `slots` of them in one pass."""

    mode: str
    margin: float
    slots: int
    jobs: tuple[Job, ...]

    def __str__(self) -> str:
        lines = [f"{self.mode}, margin {self.margin}, at most {self.slots} in a pass"]
        for i, job in enumerate(self.jobs):
            lines.append(
                f"request {i}: arrives at {job.arrival_ms} ms, {job.tokens} tokens, "
                f"due in {job.slo_ms} ms"
            )
        return "\n".join(lines)


class Prefills:
    """The state of a workload. A pass costs 10 ms and 0.1 ms per token; a preempted one is lost.

    `diary` says what ran when; `lost` how often each request was in a pass that was thrown away.
    """

    def __init__(self, workload: Workload, gate: Gate) -> None:
        self.workload = workload
        self.gate = gate
        self.now_us = 0
        self.diary: list[str] = []
        self.lost = [0] * len(workload.jobs)
        self.unfinished = set(range(len(workload.jobs)))
        self._chosen: int | None = None  # the one that the last preemption was for: goes first

    def run(self, max_passes: int) -> bool:
        """Run to the last request, at most so many passes; whether all are done."""
        while self.unfinished and len(self.diary) < max_passes:
            waiting = self._waiting()
            if waiting:
                waiting.sort(key=lambda each: each.id != self._chosen)
                self._run_pass([each.id for each in waiting[: self.workload.slots]])
            else:
                self.now_us = min(self._arrivals())
        return not self.unfinished

    def _arrivals(self) -> list[int]:
        """When those arrive that are not here yet."""
        times_us = (1000 * self.workload.jobs[i].arrival_ms for i in self.unfinished)
        return [time_us for time_us in times_us if time_us > self.now_us]

    def _waiting(self, running: Sequence[int] = ()) -> list[SloView]:
        """All that are here and neither done nor running, the most urgent first."""
        jobs = self.workload.jobs
        here = [i for i in self.unfinished if 1000 * jobs[i].arrival_ms <= self.now_us]
        return ranked([self._view(i) for i in here if i not in running])

    def _view(self, i: int, total: int | None = None, done: int = 0) -> SloView:
        """A request as the gate sees it; in a pass, what the whole pass still has to compute."""
        job = self.workload.jobs[i]
        tokens, deadline_ms = total or job.tokens, job.arrival_ms + job.slo_ms
        request = SloRequest(i, tokens, done, 1000 * deadline_ms, 1000 * job.slo_ms, self.lost[i])
        return REFERENCE.view(request, self.now_us, A, C)

    def _run_pass(self, ids: list[int]) -> None:
        """Compute to the end of the pass, or until the gate opens."""
        self._chosen, start_us = None, self.now_us
        tokens = sum(self.workload.jobs[i].tokens for i in ids)
        finish_us = start_us + policy.predict(tokens, A, C)
        names = " and ".join(str(i) for i in ids)
        while (look_us := self._next_look(ids)) < finish_us:
            self.now_us = int(look_us)
            waiter = self._waiting(ids)[0]
            done = policy.done_in(self.now_us - start_us, tokens, A)
            runners = [self._view(i, tokens, done) for i in ids]
            if self.gate(waiter, runners, self.workload.margin, self.workload.mode) is not None:
                for i in ids:
                    self.lost[i] += 1
                self._chosen = waiter.id
                times = f"{start_us // 1000}-{self.now_us // 1000} ms"
                self.diary.append(f"{times}: {names}, thrown away for {waiter.id}")
                return
        self.now_us = finish_us
        self.unfinished -= set(ids)
        self.diary.append(f"{start_us // 1000}-{finish_us // 1000} ms: {names}, done")

    def _next_look(self, running: Sequence[int]) -> float:
        """The gate is asked at every arrival, and every 20 ms as long as a request waits."""
        tick_us = (self.now_us // _TICK_US + 1) * _TICK_US
        looks = self._arrivals() + ([tick_us] if self._waiting(running) else [])
        return min(looks, default=float("inf"))


def smaller_workloads(workload: Workload) -> Iterator[Workload]:
    """One request fewer, one place fewer, or one number smaller."""
    jobs = workload.jobs
    for i in range(len(jobs)):
        if len(jobs) > 2:
            yield replace(workload, jobs=jobs[:i] + jobs[i + 1 :])
    if workload.slots > 1:
        yield replace(workload, slots=workload.slots - 1)
    for i, job in enumerate(jobs):
        for field, unit in (("arrival_ms", 10), ("tokens", 100), ("slo_ms", 10)):
            number = getattr(job, field)
            for less in (number // 2 // unit * unit, (number - 1) // unit * unit):
                if unit - 10 <= less < number and (less or field == "arrival_ms"):
                    easier = replace(job, **{field: less})
                    yield replace(workload, jobs=(*jobs[:i], easier, *jobs[i + 1 :]))
