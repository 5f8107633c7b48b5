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
    """Whether one more waiter fits: the batch has `before` tokens and would have `tokens`."""

    head: SloView
    waiter: SloView
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
    """The rules with another idea of what fits; `skips`: go on after a waiter that does not."""

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
            if fits(Room(head, waiter, tokens, after, a, c, max_batch_tokens, slack_reserve)):
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


def refuses_the_head(head: SloView, waiters: list[SloView], *rest: Any) -> list[int]:
    alone = Room(head, head, 0, head.tokens, *rest)
    return best(head, waiters, *rest) if alone.fits() else []


def takes_them_out(head: SloView, waiters: list[SloView], *rest: Any) -> list[int]:
    batch = best(head, waiters, *rest)
    del waiters[: len(batch) - 1]
    return batch


MISCONCEPTIONS = (
    not_a_list("A batch has no order.", lambda *args: set(best(*args))),
    Misconception(
        "no_reserve",
        "A pass takes all requests that fit its tokens.",
        "All requests of a pass finish when it ends. At that moment the head must still have at "
        "least `slack_reserve` times its SLO to spare.",
        batching(lambda room: room.within_tokens),
    ),
    Misconception(
        "no_token_limit",
        "Only the deadline of the head limits the pass.",
        "The head would be in time, but the batch has more than `max_batch_tokens` tokens, so the "
        "next request to arrive would find the engine busy for too long.",
        batching(lambda room: room.keeps_reserve),
    ),
    Misconception(
        "token_limit_exclusive",
        "A limit is exclusive.",
        "At most `max_batch_tokens` tokens: exactly that many are allowed.",
        batching(lambda room: room.tokens < room.max_batch_tokens and room.keeps_reserve),
    ),
    Misconception(
        "one_too_many",
        "While the batch fits, add one more.",
        "This batch is one request too long: test the batch with the next waiter in it before you "
        "add that waiter.",
        batching(lambda room: replace(room, tokens=room.before).fits()),
    ),
    Misconception(
        "spares_the_waiter",
        "A request that joins must meet its deadline.",
        "Only the head's time and SLO count. The others must not endanger the head, which runs in "
        "any case.",
        batching(lambda room: room.within_tokens and room.waiter_keeps_reserve),
    ),
    Misconception(
        "head_missing",
        "The result is the requests that join the head.",
        "The head runs in this pass as well: its id comes first.",
        lambda *args: best(*args)[1:],
    ),
    Misconception(
        "refuses_the_head",
        "A request that is too long does not run.",
        "The head always runs, by itself if it has to. Even if it is too long or too late, some "
        "request has to run next.",
        refuses_the_head,
    ),
    Misconception(
        "skips",
        "A later, smaller request fills the gap.",
        "A later waiter took the place of one that did not fit. Stop at the first that does not "
        "fit, or long prompts are overtaken for ever.",
        batching(skips=True),
    ),
    Misconception(
        "forgets_c",
        "The time depends only on the tokens.",
        "Every pass also costs c, and that delays the head too.",
        sparing(lambda room: room.spare_us + room.c),
    ),
    Misconception(
        "head_not_counted",
        "Only the requests that join count.",
        "The head is in the pass too, so its own tokens count.",
        batching(starts_with=lambda head: 0),
    ),
    Misconception("in_place", "A request that joins no longer waits.", examples=(takes_them_out,)),
)
