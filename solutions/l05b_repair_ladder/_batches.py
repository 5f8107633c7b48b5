"""Wrong batches, and the misconceptions behind them."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from course.checks.comparing import not_a_list
from course.exercise import Misconception
from nanogpt.views.slo_view import SloView

Batch: TypeAlias = Callable[..., list[int]]


def keeps_limits(
    view: SloView, request: SloView, tokens: int, a: float, c: float, most: float, reserve: float
) -> bool:
    """Whether a batch of so many tokens leaves `view` in time, and is not too long."""
    spare_us = view.time_to_deadline_us - (a * tokens + c)
    return tokens <= most and spare_us >= reserve * view.slo_us


def batching(fits: Callable[..., bool] = keeps_limits, *, skips: bool = False) -> Batch:
    """The rules with another idea of what fits; `skips`: go on after a request that does not."""

    def answer(candidate: SloView, waiting: list[SloView], *limits: float) -> list[int]:
        ids, tokens = [candidate.id], candidate.tokens
        for request in waiting:
            if fits(candidate, request, tokens + request.tokens, *limits):
                tokens += request.tokens
                ids.append(request.id)
            elif not skips:
                break
        return ids

    return answer


best = batching()


def refuses_the_candidate(candidate: SloView, waiting: list[SloView], *limits: float) -> list[int]:
    fits = keeps_limits(candidate, candidate, candidate.tokens, *limits)
    return best(candidate, waiting, *limits) if fits else []


def pays_c_each(
    candidate: SloView, waiting: list[SloView], a: float, c: float, *rest: float
) -> list[int]:
    ids = [candidate.id]
    while len(ids) <= len(waiting):
        longer = best(candidate, waiting[: len(ids)], a, c * (len(ids) + 1), *rest)
        if len(longer) == len(ids):
            break
        ids = longer
    return ids


def takes_them_out(candidate: SloView, waiting: list[SloView], *limits: float) -> list[int]:
    batch = best(candidate, waiting, *limits)
    del waiting[: len(batch) - 1]
    return batch


MISCONCEPTIONS = (
    not_a_list("A batch has no order.", lambda *args: set(best(*args))),
    Misconception(
        "no_reserve",
        "A pass takes all requests that fit its token limit.",
        "All requests of a pass finish when it ends. At that moment the candidate must still have "
        "at least `slack_reserve` times its SLO to spare.",
        lambda candidate, waiting, a, c, most, reserve: best(
            candidate, waiting, a, c, most, -math.inf
        ),
    ),
    Misconception(
        "no_token_limit",
        "Only the deadline of the candidate limits the pass.",
        "The candidate would be in time, but the batch has more than `max_batch_tokens` tokens, so "
        "the next request to arrive would find the engine busy for too long.",
        lambda candidate, waiting, a, c, most, reserve: best(
            candidate, waiting, a, c, math.inf, reserve
        ),
    ),
    Misconception(
        "token_limit_exclusive",
        "A limit is exclusive.",
        "At most `max_batch_tokens` tokens: exactly that many are allowed.",
        lambda candidate, waiting, a, c, most, reserve: best(
            candidate, waiting, a, c, most - 1, reserve
        ),
    ),
    Misconception(
        "one_too_many",
        "While the batch fits, add one more.",
        "This batch is one request too long: test the batch with the next request in it before you "
        "add that request.",
        batching(
            lambda candidate, request, tokens, *limits: keeps_limits(
                candidate, request, tokens - request.tokens, *limits
            )
        ),
    ),
    Misconception(
        "spares_the_request",
        "A request that joins must meet its deadline.",
        "Only the candidate's time and SLO count. The others must not endanger the candidate, "
        "which runs in any case.",
        batching(lambda candidate, request, *rest: keeps_limits(request, request, *rest)),
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
        lambda candidate, waiting, a, c, *rest: best(candidate, waiting, a, 0.0, *rest),
    ),
    Misconception(
        "c_per_request",
        "Each request costs a * tokens + c.",
        "`c` is the cost of a pass, not of a request: the pass takes a * n + c for all its tokens "
        "together.",
        pays_c_each,
    ),
    Misconception(
        "reserve_of_the_deadline",
        "The reserve is a share of the time that is left.",
        "The reserve is `slack_reserve` times the candidate's `slo_us`, not times the time to its "
        "deadline.",
        lambda candidate, waiting, a, c, most, reserve: best(
            candidate,
            waiting,
            a,
            c,
            most,
            reserve * candidate.time_to_deadline_us / candidate.slo_us,
        ),
    ),
    Misconception(
        "candidate_not_counted",
        "Only the requests that join count.",
        "The candidate is in the pass too, so its own tokens count.",
        lambda candidate, *rest: best(replace(candidate, tokens=0), *rest),
    ),
    Misconception("in_place", "A request that joins no longer waits.", examples=(takes_them_out,)),
)
