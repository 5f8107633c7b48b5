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
    """Whether one more request fits: the batch has `before` tokens and would have `tokens`."""

    candidate: SloView
    request: SloView
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
        return self.candidate.time_to_deadline_us - self.work_us

    @property
    def kept_us(self) -> float:
        return self.slack_reserve * self.candidate.slo_us

    @property
    def within_tokens(self) -> bool:
        return self.tokens <= self.max_batch_tokens

    @property
    def keeps_reserve(self) -> bool:
        return self.spare_us >= self.kept_us

    @property
    def request_keeps_reserve(self) -> bool:
        spare_us = self.request.time_to_deadline_us - self.work_us
        return spare_us >= self.slack_reserve * self.request.slo_us

    def fits(self) -> bool:
        return self.within_tokens and self.keeps_reserve


def batching(
    fits: Callable[[Room], bool] = Room.fits,
    *,
    starts_with: Callable[[SloView], int] = lambda candidate: candidate.tokens,
    skips: bool = False,
) -> Batch:
    """The rules with another idea of what fits; `skips`: go on after a request that does not."""

    def answer(
        candidate: SloView,
        waiting: list[SloView],
        a: float,
        c: float,
        max_batch_tokens: int,
        slack_reserve: float,
    ) -> list[int]:
        ids, tokens = [candidate.id], starts_with(candidate)
        for request in waiting:
            after = tokens + request.tokens
            if fits(Room(candidate, request, tokens, after, a, c, max_batch_tokens, slack_reserve)):
                tokens = after
                ids.append(request.id)
            elif not skips:
                break
        return ids

    return answer


best = batching()


def sparing(spare_us: Callable[[Room], float]) -> Batch:
    """The rules, with another idea of what the candidate has to spare."""
    return batching(lambda room: room.within_tokens and spare_us(room) >= room.kept_us)


def refuses_the_candidate(candidate: SloView, waiting: list[SloView], *rest: Any) -> list[int]:
    alone = Room(candidate, candidate, 0, candidate.tokens, *rest)
    return best(candidate, waiting, *rest) if alone.fits() else []


def takes_them_out(candidate: SloView, waiting: list[SloView], *rest: Any) -> list[int]:
    batch = best(candidate, waiting, *rest)
    del waiting[: len(batch) - 1]
    return batch


MISCONCEPTIONS = (
    not_a_list("A batch has no order.", lambda *args: set(best(*args))),
    Misconception(
        "no_reserve",
        "A pass takes all requests that fit its tokens.",
        "All requests of a pass finish when it ends. At that moment the candidate must still have "
        "at least `slack_reserve` times its SLO to spare.",
        batching(lambda room: room.within_tokens),
    ),
    Misconception(
        "no_token_limit",
        "Only the deadline of the candidate limits the pass.",
        "The candidate would be in time, but the batch has more than `max_batch_tokens` tokens, so "
        "the next request to arrive would find the engine busy for too long.",
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
        "This batch is one request too long: test the batch with the next request in it before you "
        "add that request.",
        batching(lambda room: replace(room, tokens=room.before).fits()),
    ),
    Misconception(
        "spares_the_request",
        "A request that joins must meet its deadline.",
        "Only the candidate's time and SLO count. The others must not endanger the candidate, "
        "which runs in any case.",
        batching(lambda room: room.within_tokens and room.request_keeps_reserve),
    ),
    Misconception(
        "candidate_missing",
        "The result is the requests that join the candidate.",
        "The candidate runs in this pass as well: its id comes first.",
        lambda *args: best(*args)[1:],
    ),
    Misconception(
        "refuses_the_candidate",
        "A request that is too long does not run.",
        "The candidate always runs, by itself if it has to. Even if it is too long or too late, "
        "some request has to run next.",
        refuses_the_candidate,
    ),
    Misconception(
        "skips",
        "A later, smaller request fills the gap.",
        "A later request took the place of one that did not fit. Stop at the first that does not "
        "fit, or long prompts are overtaken for ever.",
        batching(skips=True),
    ),
    Misconception(
        "forgets_c",
        "The time depends only on the tokens.",
        "Every pass also costs c, and that delays the candidate too.",
        sparing(lambda room: room.spare_us + room.c),
    ),
    Misconception(
        "candidate_not_counted",
        "Only the requests that join count.",
        "The candidate is in the pass too, so its own tokens count.",
        batching(starts_with=lambda candidate: 0),
    ),
    Misconception("in_place", "A request that joins no longer waits.", examples=(takes_them_out,)),
)
