"""Misconceptions of admission control, and what such a person would write."""

import math
from collections.abc import Callable
from typing import Any

from course.calling.errors import shortened
from course.calling.plain_values import as_items, as_whole
from course.exercise import Misconception
from course.format_values import show
from nanogpt.server.server_policies import AdmissionLimits, NewRequest, QueueView

Fits = Callable[[AdmissionLimits, NewRequest], bool]
Full = Callable[[QueueView, AdmissionLimits], bool]
Wait = Callable[[QueueView, AdmissionLimits], Any]


def fits(limits: AdmissionLimits, new: NewRequest) -> bool:
    whole = new.num_prompt_tokens + new.max_new_tokens - 1
    return new.num_prompt_tokens <= limits.max_prompt_tokens and whole <= limits.max_kv_tokens


def is_full(queue: QueueView, limits: AdmissionLimits) -> bool:
    return len(queue.running) + queue.num_waiting >= limits.max_requests


def in_seconds(
    raw: Callable[[QueueView], float], rounded: Callable[[float], int] = math.ceil
) -> Wait:
    """The wait that a raw estimate makes, no longer than the longest."""

    def wait(queue: QueueView, limits: AdmissionLimits) -> int:
        if not queue.running or not queue.tokens_per_s:
            return 1
        return min(rounded(raw(queue) / queue.tokens_per_s), limits.max_retry_s)

    return wait


def first_done(queue: QueueView) -> float:
    return min(queue.running) * len(queue.running)


def uncapped(queue: QueueView, limits: AdmissionLimits) -> int:
    if not queue.running or not queue.tokens_per_s:
        return 1
    return math.ceil(first_done(queue) / queue.tokens_per_s)


def unknown_is(seconds: Any) -> Wait:
    def wait(queue: QueueView, limits: AdmissionLimits) -> Any:
        if queue.running and queue.tokens_per_s:
            return right_wait(queue, limits)
        return limits.max_retry_s if seconds == "longest" else seconds

    return wait


right_wait = in_seconds(first_done)


def deciding(
    *,
    fit: Fits = fits,
    full: Full = is_full,
    wait: Wait = right_wait,
    order: str = "fit close full",
    never: Any = (400, None),
    closed: Any = (503, None),
) -> Callable[..., Any]:
    """Right but for what is given."""

    def answer(queue: QueueView, limits: AdmissionLimits, request: NewRequest) -> Any:
        for what in order.split():
            if what == "fit" and not fit(limits, request):
                return never(queue, limits) if callable(never) else never
            if what == "close" and queue.is_closing:
                return closed(queue, limits) if callable(closed) else closed
            if what == "full" and full(queue, limits):
                return (429, wait(queue, limits))
        return "accept"

    return answer


def said_with(statuses: dict[int, int]) -> Callable[..., Any]:
    """The right verdict, some of its statuses replaced."""

    def answer(*args: Any) -> Any:
        verdict = deciding()(*args)
        if verdict == "accept":
            return verdict
        status, seconds = verdict
        return statuses.get(status, status), seconds

    return answer


def status_of(verdict: Any) -> int | None:
    """The HTTP status of a refusal; None of "accept"."""
    return None if isinstance(verdict, str) else as_whole((as_items(verdict) or [None])[0])


def shown(value: Any) -> str:
    """The value itself, text in double quotes as in the rules."""
    return shortened(f'"{value}"' if isinstance(value, str) else show(value), 60)


def misfit(value: Any) -> bool:
    """Whether it is neither "accept" nor a status with seconds, or with None."""
    two = as_items(value) or []
    if isinstance(value, str) and value == "accept":
        return False
    if len(two) != 2 or as_whole(two[0]) is None:
        return True
    return two[1] is not None and as_whole(two[1]) is None


NOTHING_KNOWN = Misconception(
    "nothing_known",
    "At 0 tokens per second it takes for ever.",
    "Before the first tokens nothing is known, and that passes soon: 1 s.",
    deciding(wait=unknown_is("longest")),
)
MISCONCEPTIONS = (
    Misconception(
        "no_verdict",
        "Yes or no.",
        lambda value: (
            'The answer is "accept", or a pair of an HTTP status and whole seconds (or None); this '
            f"is {shown(value)}."
        ),
        matches=misfit,
        examples=((lambda *args: deciding()(*args) == "accept"),),
    ),
    Misconception(
        "never_refuses",
        "A queue is patient.",
        "A queue without an end only looks kind, since each waits longer than the one before it: "
        "with `max_requests` unfinished the next one is refused.",
        deciding(full=lambda queue, limits: False),
        same_result=(lambda *args: "accept",),
    ),
    Misconception(
        "counts_the_running",
        "Only those that run take up room.",
        "Those that wait count too: `max_requests` is for all that are unfinished, and with the "
        "running alone the queue would grow without an end.",
        deciding(full=lambda queue, limits: len(queue.running) >= limits.max_requests),
    ),
    Misconception(
        "one_too_many",
        "As many as there may be are not too many.",
        "With `max_requests` unfinished there is no place left: one more would be one too many.",
        deciding(
            full=lambda queue, limits: len(queue.running) + queue.num_waiting > limits.max_requests
        ),
    ),
    Misconception(
        "refuses_for_ever",
        "No is no.",
        "Overload passes: a 429 says when to come again, since a client that is told nothing gives "
        "up, or asks without a pause.",
        deciding(wait=lambda queue, limits: None),
    ),
    Misconception(
        "always_the_same",
        "A constant will do.",
        "A constant knows nothing of the queue: work out when the first of those that run is done.",
        deciding(wait=lambda queue, limits: 1),
    ),
    Misconception(
        "rounds_down",
        "Seconds are rounded.",
        "Whole seconds, rounded up: what comes back a moment too early finds the place still "
        "taken, and is refused once more.",
        deciding(wait=in_seconds(first_done, int)),
        same_result=(deciding(wait=in_seconds(first_done, round)),),
    ),
    Misconception(
        "unshared",
        "It has only so many tokens left.",
        "`tokens_per_s` is what all that run get together: each gets its share, so the first is "
        "done that many times later.",
        deciding(wait=in_seconds(lambda queue: min(queue.running))),
    ),
    Misconception(
        "the_last",
        "Until they are through.",
        "A place is free when the first of them is done, the one with the fewest tokens left; "
        "this is when the last one is.",
        deciding(wait=in_seconds(lambda queue: max(queue.running) * len(queue.running))),
    ),
    Misconception(
        "without_a_limit",
        "It takes as long as it takes.",
        "Longer than `max_retry_s` no client believes: it is the longest that is said.",
        deciding(wait=uncapped),
    ),
    NOTHING_KNOWN,
    Misconception("no_return", "The verdict is found.", examples=(lambda *args: None,)),
    Misconception(
        "never_fits_later",
        "Too large is too much at the moment.",
        "What does not fit into an empty server never fits: 400, whatever the queue looks like, or "
        "it would come again for ever.",
        deciding(never=lambda queue, limits: (429, right_wait(queue, limits))),
    ),
    Misconception(
        "takes_what_never_fits",
        "The engine will see.",
        "A request that can never fit is refused at once, with 400: inside it would wait for "
        "room that never comes.",
        deciding(fit=lambda limits, new: True),
    ),
    Misconception(
        "prompt_alone",
        "The prompt has to fit.",
        "The answer's tokens need K/V as well: prompt and `max_new_tokens` together, less one.",
        deciding(
            fit=lambda limits, new: (
                new.num_prompt_tokens <= min(limits.max_prompt_tokens, limits.max_kv_tokens)
            )
        ),
    ),
    Misconception(
        "last_token_has_kv",
        "Every token has K/V.",
        "The last token that is sampled is never computed, so it needs no K/V: one less, and what "
        "then comes to exactly `max_kv_tokens` fits.",
        deciding(
            fit=lambda limits, new: (
                new.num_prompt_tokens <= limits.max_prompt_tokens
                and new.num_prompt_tokens + new.max_new_tokens <= limits.max_kv_tokens
            )
        ),
    ),
    Misconception(
        "takes_while_closing",
        "There is room.",
        "A server that is shutting down takes nothing new, room or not: 503.",
        deciding(order="fit full"),
    ),
    Misconception(
        "closing_is_full",
        "Closed is full.",
        "A 429 with seconds is a promise that a server which shuts down cannot keep: 503, so that "
        "the client goes elsewhere.",
        deciding(closed=lambda queue, limits: (429, right_wait(queue, limits))),
    ),
    Misconception(
        "promises_after_no",
        "Every refusal says when.",
        "Only a 429 says when to come again: what never fits is not to come at all, and a server "
        "that closes knows of no time, so None.",
        deciding(never=lambda queue, limits: (400, right_wait(queue, limits))),
    ),
)
BECAUSE = {
    400: "The request can never fit",
    429: "The server is full",
    503: "The server is shutting down",
}
ANOTHER_STATUS = Misconception(
    "another_status",
    "One refusal is as good as another.",
    lambda got, wanted: (
        f"{BECAUSE[status_of(wanted) or 0]}, so the status is {status_of(wanted)}, not "
        f"{status_of(got)}."
    ),
    matches=lambda got, wanted: (
        None not in (pair := (status_of(got), status_of(wanted))) and pair[0] != pair[1]
    ),
    examples=((said_with({429: 503})),),
)
