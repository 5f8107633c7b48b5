"""Batches that are wrong in one way or another, and the wrong ideas behind them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from course.checks.comparing import not_a_list
from course.exercise import Misconception
from nanogpt.slo.slo_view import SloView

Batch: TypeAlias = Callable[[SloView, list[SloView], float, float, int, float], list[int]]


@dataclass(frozen=True, slots=True)
class Room:
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


def batching(
    fits: Callable[[Room], bool] = Room.fits,
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
            if fits(Room(head, waiter, len(ids) + 1, tokens, after, a, c, bound, guard)):
                tokens = after
                ids.append(waiter.id)
            elif not skips:
                break
        return ids

    return answer


best = batching()


def guarding(spare_us: Callable[[Room], float]) -> Batch:
    """The rules, with another idea of what the head has to spare."""
    return batching(lambda room: room.is_bounded and spare_us(room) >= room.kept_us)


def offered(waiters: Callable[[list[SloView]], list[SloView]]) -> Callable[..., list[int]]:
    """The rules for waiters that were picked or sorted before."""
    return lambda head, those, *rest: best(head, waiters(those), *rest)


def refuses_the_head(head: SloView, waiters: list[SloView], *rest: Any) -> list[int]:
    alone = Room(head, head, 1, 0, head.tokens, *rest)
    return best(head, waiters, *rest) if alone.fits() else []


def takes_them_out(head: SloView, waiters: list[SloView], *rest: Any) -> list[int]:
    batch = best(head, waiters, *rest)
    del waiters[: len(batch) - 1]
    return batch


ONLY_THE_HEAD = (
    "It is the head, which runs in any case, that the others must not endanger: the time and the "
    "SLO that count are the head's."
)
MISCONCEPTIONS = (
    not_a_list("A batch is a set.", lambda *args: set(best(*args))),
    Misconception(
        "everyone",
        "The more, the cheaper.",
        "With all of them in it the pass takes so long that the head, the most urgent of all, "
        "misses its deadline: look at the bound and at the guard.",
        batching(lambda room: True),
    ),
    Misconception(
        "no_guard",
        "As many as the pass can hold.",
        "All get done when the pass ends, the head too, and then it has to have at least `guard` "
        "times its SLO to spare.",
        batching(lambda room: room.is_bounded),
        alike=(batching(lambda room: room.is_bounded and room.spare_us >= 0),),
    ),
    Misconception(
        "no_bound",
        "As many as the head can bear.",
        "The head could bear it, but the batch is above `bound` tokens: a request that comes next "
        "would find the engine busy for too long.",
        batching(lambda room: room.is_guarded),
    ),
    Misconception(
        "bound_exclusive",
        "Below the bound.",
        "At most `bound` tokens means that exactly `bound` are allowed.",
        batching(lambda room: room.tokens < room.bound and room.is_guarded),
    ),
    Misconception(
        "guard_exclusive",
        "More than the guard.",
        "At least `guard` times the SLO means that exactly as much is enough.",
        batching(lambda room: room.is_bounded and room.spare_us > room.kept_us),
    ),
    Misconception(
        "one_too_many",
        "While it fits, one more.",
        "Look at the batch with the waiter in it *before* you take it along: this one went one too "
        "far.",
        batching(lambda room: replace(room, tokens=room.before).fits()),
        alike=(batching(lambda room: room.before < room.bound and room.is_guarded),),
    ),
    Misconception(
        "guards_the_waiter",
        "What comes along must make it.",
        ONLY_THE_HEAD,
        batching(lambda room: room.is_bounded and room.waiter_bears_it),
        alike=(
            batching(
                lambda room: room.is_bounded and room.spare_us >= room.guard * room.waiter.slo_us
            ),
        ),
    ),
    Misconception(
        "guards_everyone",
        "All of them must make it.",
        ONLY_THE_HEAD,
        batching(lambda room: room.fits() and room.waiter_bears_it),
    ),
    Misconception(
        "guards_the_time_left",
        "A share of the time there is.",
        "The guard is a share of the head's SLO, which stays what it is, not of the time that "
        "happens to be left.",
        batching(
            lambda room: (
                room.is_bounded and room.spare_us >= room.guard * room.head.time_to_deadline_us
            )
        ),
    ),
    Misconception(
        "head_missing",
        "Which come along with the head?",
        "The head runs in this pass as well: its id comes first.",
        lambda *args: best(*args)[1:],
    ),
    Misconception(
        "refuses_the_head",
        "What is too long does not run.",
        "The head always runs, alone if it has to: too long or too late as it may be, one request "
        "has to be next.",
        refuses_the_head,
    ),
    Misconception(
        "skips",
        "Fill what is left.",
        "One did not fit and a later one was taken in its place: stop there, or long prompts are "
        "overtaken for ever.",
        batching(skips=True),
    ),
    Misconception(
        "forgets_c",
        "Time is tokens.",
        "Every pass costs c on top of its tokens, and the head has to bear that too.",
        guarding(lambda room: room.spare_us + room.c),
    ),
    Misconception(
        "c_for_each",
        "Each prefill costs c.",
        "One pass costs c once, however many share it: that is what makes sharing worth while.",
        guarding(lambda room: room.spare_us - room.c * (room.count - 1)),
    ),
    Misconception(
        "head_not_counted",
        "What comes along is what counts.",
        "The head is in the pass too: its own tokens count towards its length.",
        batching(starts_with=lambda head: 0),
        alike=(guarding(lambda room: room.spare_us + room.a * room.head.tokens),),
    ),
    Misconception(
        "head_counted_twice",
        "The slack is the time there is.",
        "The head's slack has its own work taken off already, and here it was taken off twice: "
        "start from its time to the deadline.",
        guarding(lambda room: room.head.slack_us - room.work_us),
        alike=(guarding(lambda room: room.head.slack_us - room.a * room.tokens),),
    ),
    Misconception(
        "one_by_one",
        "Does it fit with the head?",
        "They all share one pass: what counts is the tokens of all in it together, not of each "
        "waiter with the head.",
        batching(lambda room: replace(room, tokens=room.head.tokens + room.waiter.tokens).fits()),
    ),
    Misconception(
        "reorders",
        "Short ones first, more of them fit.",
        "The waiters come most urgent first: keep this order, or a less urgent one overtakes.",
        offered(lambda waiters: sorted(waiters, key=lambda each: each.tokens)),
        alike=(
            offered(lambda waiters: sorted(waiters, key=lambda each: each.id)),
            lambda head, *rest: [head.id, *best(head, *rest)[:0:-1]],
        ),
    ),
    Misconception(
        "skips_the_doomed",
        "No time for what is late.",
        "The doomed are not left out: a request that fits without endangering the head may come "
        "along, and is done sooner for it.",
        offered(lambda waiters: [each for each in waiters if each.slack_us >= 0]),
    ),
    Misconception(
        "index",
        "The head is number 0.",
        "These are places in the queue; the answer holds the requests' own ids.",
        lambda *args: [*range(len(best(*args)))],
    ),
    Misconception(
        "alone",
        "Then none is in danger.",
        "A request that fits without endangering the head comes along: each pass costs c, and "
        "sharing one saves the others theirs.",
        lambda head, *rest: [head.id],
    ),
    Misconception("in_place", "What comes along no longer waits.", also=(takes_them_out,)),
)
