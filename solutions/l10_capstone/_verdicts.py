"""Misconceptions of admission control."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course.calling.errors import shortened
from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import Args
from course.exercise import Misconception
from course.format_values import show
from nanogpt.server.server_policies import (
    AdmissionLimits,
    NewRequest,
    QueueView,
    admission_control,
)

Verdict = Callable[[QueueView, AdmissionLimits, NewRequest], Any]


def of(change: Callable[[QueueView, AdmissionLimits, NewRequest], Args]) -> Verdict:
    """The right function of other arguments."""
    return lambda *args: admission_control(*change(*args))


def retry_after(seconds: Callable[[QueueView], float], most_s: int | None = None) -> Verdict:
    """Right, but with another time to retry where the throughput is known."""

    def answer(queue: QueueView, limits: AdmissionLimits, request: NewRequest) -> Any:
        verdict = admission_control(queue, limits, request)
        if verdict[0] != 429 or not queue.running or not queue.tokens_per_s:
            return verdict
        return 429, min(math.ceil(seconds(queue)), most_s or limits.max_retry_s)

    return answer


def first_done(queue: QueueView) -> float:
    return min(queue.running) * len(queue.running) / queue.tokens_per_s


def longest_if_unknown(queue: QueueView, limits: AdmissionLimits, request: NewRequest) -> Any:
    verdict = admission_control(queue, limits, request)
    is_known = verdict[0] != 429 or (queue.running and queue.tokens_per_s)
    return verdict if is_known else (429, limits.max_retry_s)


def status_of(verdict: Any) -> int | None:
    """The HTTP status of a refusal; None of "accept"."""
    return None if isinstance(verdict, str) else as_whole((as_items(verdict) or [None])[0])


def is_malformed(value: Any) -> bool:
    """Whether it is neither "accept" nor a status with whole seconds or None."""
    two = as_items(value) or []
    if isinstance(value, str) and value == "accept":
        return False
    if len(two) != 2 or as_whole(two[0]) is None:
        return True
    return two[1] is not None and as_whole(two[1]) is None


BECAUSE = {
    400: "can never fit",
    429: "finds all places taken",
    503: "arrives while the server is shutting down",
}
NOTHING_KNOWN = Misconception(
    "nothing_known",
    "At 0 tokens per second a place never becomes free.",
    "Before the first tokens, or while no request runs, no time can be computed yet, but it soon "
    "can be. Return 1 s.",
    longest_if_unknown,
)
ANOTHER_STATUS = Misconception(
    "another_status",
    "One refusal is as good as another.",
    lambda got, wanted: (
        f"The request {BECAUSE[status_of(wanted) or 0]}, so the status is {status_of(wanted)}, "
        f"not {status_of(got)}."
    ),
    matches=lambda got, wanted: (
        None not in (pair := (status_of(got), status_of(wanted))) and pair[0] != pair[1]
    ),
    examples=(
        lambda *args: (503, 1) if admission_control(*args)[0] == 429 else admission_control(*args),
    ),
)
MISCONCEPTIONS = (
    Misconception(
        "no_verdict",
        "The answer is yes or no.",
        lambda value: (
            'Return "accept", or a pair of an HTTP status and whole seconds (or None); this is '
            f"{shortened(show(value), 60)}."
        ),
        matches=is_malformed,
        examples=(lambda *args: admission_control(*args) == "accept",),
    ),
    Misconception(
        "never_refuses",
        "A request can always wait in the queue.",
        "In a queue without a limit, each request waits longer than the one before it. With "
        "`max_requests` unfinished requests, refuse the next one.",
        of(lambda queue, limits, request: (replace(queue, running=(), num_waiting=0), limits,
                                           request)),
        same_result=(lambda *args: "accept",),
    ),
    Misconception(
        "counts_the_running",
        "Only running requests take up room.",
        "Count the waiting requests too. If only the running ones count, the queue has no limit.",
        of(lambda queue, limits, request: (replace(queue, num_waiting=0), limits, request)),
    ),
    Misconception(
        "one_too_many",
        "`max_requests` requests are allowed, so at `max_requests` there is still room.",
        "With `max_requests` unfinished requests there is no place left for another one.",
        of(lambda queue, limits, request: (
            queue, replace(limits, max_requests=limits.max_requests + 1), request)),
    ),
    Misconception(
        "rounds_down",
        "Seconds are rounded to a whole number.",
        "Round up: a client that comes back too early finds the place taken and is refused again.",
        retry_after(lambda queue: math.floor(first_done(queue))),
        same_result=(retry_after(lambda queue: round(first_done(queue))),),
    ),
    Misconception(
        "unshared",
        "The time is the fewest tokens left, divided by tokens_per_s.",
        "`tokens_per_s` is the throughput of all running requests together. Each one gets an equal "
        "share, so multiply the time by the number of running requests.",
        retry_after(lambda queue: min(queue.running) / queue.tokens_per_s),
    ),
    Misconception(
        "the_last",
        "A place is free when the running requests are done.",
        "A place is free when the first of the running requests is done, the one with the fewest "
        "tokens left. These seconds say when the last one is done.",
        retry_after(lambda queue: max(queue.running) * len(queue.running) / queue.tokens_per_s),
    ),
    Misconception(
        "without_a_limit",
        "The client waits for as long as it takes.",
        "Clients do not wait for longer than `max_retry_s`: never return more than that.",
        retry_after(first_done, most_s=10**9),
    ),
    NOTHING_KNOWN,
    Misconception(
        "prompt_alone",
        "The prompt has to fit.",
        "Generated tokens need K/V too: count the prompt and `max_new_tokens`, minus one.",
        of(lambda queue, limits, request: (queue, limits, replace(request, max_new_tokens=1))),
    ),
    Misconception(
        "last_token_has_kv",
        "Every token has K/V.",
        "No step has the last sampled token as its input, so this token needs no K/V. Leave it "
        "out: a request that then has exactly `max_kv_tokens` fits.",
        of(lambda queue, limits, request: (
            queue, limits, replace(request, max_new_tokens=request.max_new_tokens + 1))),
    ),
    Misconception(
        "takes_while_closing",
        "There is a place, so the request may come in.",
        "A server that is shutting down admits no request, even if there is a place. Return 503.",
        of(lambda queue, limits, request: (replace(queue, is_closing=False), limits, request)),
    ),
)  # fmt: skip
