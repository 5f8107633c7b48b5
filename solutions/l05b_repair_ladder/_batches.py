"""Wrong batches, and the misconceptions behind them."""

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
    max_batch_tokens: int
    slack_reserve: float

    @property
    def work_us(self) -> float:
        return self.a * self.tokens + self.c

    @property
    def spare_us(self) -> float:
        return self.head.time_to_deadline_us - self.work_us

    @property
    def kept_us(self) -> float:
        return self.slack_reserve * self.head.slo_us

    @property
    def within_tokens(self) -> bool:
        return self.tokens <= self.max_batch_tokens

    @property
    def keeps_reserve(self) -> bool:
        return self.spare_us >= self.kept_us

    @property
    def waiter_keeps_reserve(self) -> bool:
        spare_us = self.waiter.time_to_deadline_us - self.work_us
        return spare_us >= self.slack_reserve * self.waiter.slo_us

    def fits(self) -> bool:
        return self.within_tokens and self.keeps_reserve


def batching(
    fits: Callable[[Room], bool] = Room.fits,
    *,
    starts_with: Callable[[SloView], int] = lambda head: head.tokens,
    skips: bool = False,
) -> Batch:
    """The rules with another idea of what fits; `skips` goes on after a waiter that does not."""

    def answer(
        head: SloView,
        waiters: list[SloView],
        a: float,
        c: float,
        max_batch_tokens: int,
        slack_reserve: float,
    ) -> list[int]:
        ids, tokens = [head.id], starts_with(head)
        for waiter in waiters:
            after = tokens + waiter.tokens
            if fits(
                Room(
                    head, waiter, len(ids) + 1, tokens, after, a, c, max_batch_tokens, slack_reserve
                )
            ):
                tokens = after
                ids.append(waiter.id)
            elif not skips:
                break
        return ids

    return answer


best = batching()


def sparing(spare_us: Callable[[Room], float]) -> Batch:
    """The rules, with another idea of what the head has to spare."""
    return batching(lambda room: room.within_tokens and spare_us(room) >= room.kept_us)


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
    "The other requests must not endanger the head, which runs in any case: only the head's time "
    "and SLO count."
)
MISCONCEPTIONS = (
    not_a_list("A batch is a set.", lambda *args: set(best(*args))),
    Misconception(
        "no_reserve",
        "A pass takes as many requests as it can hold.",
        "All requests of a pass finish when it ends, and then the head must have at least "
        "`slack_reserve` times its SLO to spare.",
        batching(lambda room: room.within_tokens),
    ),
    Misconception(
        "no_token_limit",
        "A pass takes as many requests as the head can bear.",
        "The head could bear it, but the batch has more than `max_batch_tokens` tokens: the next "
        "request to arrive would find the engine busy for too long.",
        batching(lambda room: room.keeps_reserve),
    ),
    Misconception(
        "token_limit_exclusive",
        "Below the limit.",
        "At most `max_batch_tokens` tokens means that exactly `max_batch_tokens` are allowed.",
        batching(lambda room: room.tokens < room.max_batch_tokens and room.keeps_reserve),
    ),
    Misconception(
        "reserve_exclusive",
        "More than the reserve.",
        "At least `slack_reserve` times the SLO means that exactly that is enough.",
        batching(lambda room: room.within_tokens and room.spare_us > room.kept_us),
    ),
    Misconception(
        "one_too_many",
        "While the batch fits, add one more.",
        "Judge the batch with the next waiter in it *before* you add that waiter: this batch is "
        "one request too long.",
        batching(lambda room: replace(room, tokens=room.before).fits()),
    ),
    Misconception(
        "spares_the_waiter",
        "A request that joins must meet its deadline.",
        ONLY_THE_HEAD,
        batching(lambda room: room.within_tokens and room.waiter_keeps_reserve),
    ),
    Misconception(
        "head_missing",
        "Which requests join the head?",
        "The head runs in this pass as well: its id comes first.",
        lambda *args: best(*args)[1:],
    ),
    Misconception(
        "refuses_the_head",
        "A request that is too long does not run.",
        "The head always runs, alone if it has to: even if it is too long or too late, one "
        "request has to be next.",
        refuses_the_head,
    ),
    Misconception(
        "skips",
        "Fill the room that is left.",
        "One waiter did not fit and a later one took its place: stop at the first that does not "
        "fit, or long prompts are overtaken for ever.",
        batching(skips=True),
    ),
    Misconception(
        "forgets_c",
        "Time is tokens.",
        "Every pass also costs c, and the head has to bear that too.",
        sparing(lambda room: room.spare_us + room.c),
    ),
    Misconception(
        "head_not_counted",
        "Only the requests that join count.",
        "The head is in the pass too: its own tokens count towards its length.",
        batching(starts_with=lambda head: 0),
    ),
    Misconception(
        "reorders",
        "Short requests first: more of them fit.",
        "The waiters come most urgent first: keep this order, or a less urgent one overtakes.",
        offered(lambda waiters: sorted(waiters, key=lambda each: each.tokens)),
    ),
    Misconception("in_place", "A request that joins no longer waits.", examples=(takes_them_out,)),
)
