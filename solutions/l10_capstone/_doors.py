"""What is thought wrongly of a full server, and what such a person would write."""

import math
from collections.abc import Callable
from typing import Any

from course.calling.errors import shortened
from course.calling.plain_values import as_items, as_whole
from course.exercise import Misconception
from course.format_values import show
from nanogpt.server.server_parts import DoorLimits, NewRequest, QueueView

Fits = Callable[[DoorLimits, NewRequest], bool]
Full = Callable[[QueueView, DoorLimits], bool]
Wait = Callable[[QueueView, DoorLimits], Any]


def fits(limits: DoorLimits, new: NewRequest) -> bool:
    whole = new.num_prompt_tokens + new.max_new_tokens - 1
    return new.num_prompt_tokens <= limits.max_prompt_tokens and whole <= limits.max_kv_tokens


def is_full(queue: QueueView, limits: DoorLimits) -> bool:
    return len(queue.running) + queue.num_waiting >= limits.max_requests


def in_seconds(
    raw: Callable[[QueueView], float], rounded: Callable[[float], int] = math.ceil
) -> Wait:
    """The wait that a raw estimate makes, no longer than the longest."""

    def wait(queue: QueueView, limits: DoorLimits) -> int:
        if not queue.running or not queue.tokens_per_s:
            return 1
        return min(rounded(raw(queue) / queue.tokens_per_s), limits.max_retry_s)

    return wait


def first_done(queue: QueueView) -> float:
    return min(queue.running) * len(queue.running)


def uncapped(queue: QueueView, limits: DoorLimits) -> int:
    if not queue.running or not queue.tokens_per_s:
        return 1
    return math.ceil(first_done(queue) / queue.tokens_per_s)


def unknown_is(seconds: Any) -> Wait:
    def wait(queue: QueueView, limits: DoorLimits) -> Any:
        if queue.running and queue.tokens_per_s:
            return right_wait(queue, limits)
        return limits.max_retry_s if seconds == "longest" else seconds

    return wait


right_wait = in_seconds(first_done)


def door(
    *,
    fit: Fits = fits,
    full: Full = is_full,
    wait: Wait = right_wait,
    order: str = "fit close full",
    never: Any = (400, None),
    closed: Any = (503, None),
) -> Callable[..., Any]:
    """Right but for what is given."""

    def answer(queue: QueueView, limits: DoorLimits, request: NewRequest) -> Any:
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
        verdict = door()(*args)
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
    "Without a pace it takes for ever.",
    "Before the first tokens nothing is known, and that passes soon: 1 s.",
    door(wait=unknown_is("longest")),
    alike=(door(wait=unknown_is(0)), door(wait=unknown_is(None))),
)
MISCONCEPTIONS = (
    Misconception(
        "no_verdict",
        "Yes or no.",
        lambda value: (
            'The answer is "accept", or a pair of an HTTP status and whole seconds (or None); this '
            f"is {shown(value)}."
        ),
        form=misfit,
        also=((lambda *args: door()(*args) == "accept"),),
    ),
    Misconception(
        "never_refuses",
        "A queue is patient.",
        "A queue without an end only looks kind, since each waits longer than the one before it: "
        "with `max_requests` unfinished the next one is refused.",
        door(full=lambda queue, limits: False),
        alike=(lambda *args: "accept", door(order="fit"), door(order="close")),
    ),
    Misconception(
        "counts_the_running",
        "Only those that run take up room.",
        "Those that wait count too: `max_requests` is for all that are unfinished, and with the "
        "running alone the queue would grow without an end.",
        door(full=lambda queue, limits: len(queue.running) >= limits.max_requests),
    ),
    Misconception(
        "counts_the_waiting",
        "It is the queue that is full.",
        "Those that run are unfinished too: `max_requests` is for the running and the waiting "
        "together.",
        door(full=lambda queue, limits: queue.num_waiting >= limits.max_requests),
    ),
    Misconception(
        "one_too_many",
        "As many as there may be are not too many.",
        "With `max_requests` unfinished there is no place left: one more would be one too many.",
        door(
            full=lambda queue, limits: len(queue.running) + queue.num_waiting > limits.max_requests
        ),
    ),
    Misconception(
        "one_too_few",
        "The last place stays free.",
        "The last place is a place: refuse only when all `max_requests` are taken.",
        door(
            full=lambda queue, limits: (
                len(queue.running) + queue.num_waiting >= limits.max_requests - 1
            )
        ),
    ),
    Misconception(
        "refuses_for_ever",
        "No is no.",
        "Overload passes: a 429 says when to come again, since a client that is told nothing gives "
        "up, or asks without a pause.",
        door(wait=lambda queue, limits: None),
    ),
    Misconception(
        "at_once",
        "It may try again.",
        "`Retry-After: 0` invites it to come back at once, and a full server then refuses the same "
        "clients again and again: the seconds are rounded up.",
        door(wait=lambda queue, limits: 0),
    ),
    Misconception(
        "always_the_same",
        "A constant will do.",
        "A constant knows nothing of the queue: work out when the first of those that run is done.",
        door(wait=lambda queue, limits: 1),
        alike=(
            door(wait=lambda queue, limits: limits.max_retry_s),
            door(wait=lambda queue, limits: 5),
            door(wait=lambda queue, limits: 10),
            door(wait=lambda queue, limits: 30),
        ),
    ),
    Misconception(
        "rounds_down",
        "Seconds are rounded.",
        "Whole seconds, rounded up: what comes back a moment too early finds the place still "
        "taken, and is refused once more.",
        door(wait=in_seconds(first_done, int)),
        alike=(door(wait=in_seconds(first_done, round)),),
    ),
    Misconception(
        "one_second_more",
        "Rounded up is one more.",
        "Whole seconds are not rounded up: only a part of a second makes one more.",
        door(wait=in_seconds(first_done, lambda seconds: int(seconds) + 1)),
        alike=(door(wait=in_seconds(first_done, lambda seconds: round(seconds + 0.5))),),
    ),
    Misconception(
        "unshared",
        "It has only so many tokens left.",
        "`tokens_per_s` is what all that run get together: each gets its share, so the first is "
        "done that many times later.",
        door(wait=in_seconds(lambda queue: min(queue.running))),
    ),
    Misconception(
        "shared_by_all",
        "All of them share.",
        "Those that wait get no tokens yet: only those that run share what the engine gives.",
        door(
            wait=in_seconds(
                lambda queue: min(queue.running) * (len(queue.running) + queue.num_waiting)
            )
        ),
    ),
    Misconception(
        "until_empty",
        "Come when all is done.",
        "One place is enough: it is free when the first is done, long before the server is empty.",
        door(wait=in_seconds(lambda queue: sum(queue.running))),
    ),
    Misconception(
        "the_last",
        "Until they are through.",
        "A place is free when the first of them is done, the one with the fewest tokens left; "
        "this is when the last one is.",
        door(wait=in_seconds(lambda queue: max(queue.running) * len(queue.running))),
        alike=(door(wait=in_seconds(lambda queue: max(queue.running))),),
    ),
    Misconception(
        "whichever",
        "The one in front is done first.",
        "The first to be done is the one with the fewest tokens left, wherever it stands in "
        "`running`.",
        door(wait=in_seconds(lambda queue: queue.running[0] * len(queue.running))),
        alike=(door(wait=in_seconds(lambda queue: queue.running[-1] * len(queue.running))),),
    ),
    Misconception(
        "without_a_limit",
        "It takes as long as it takes.",
        "Longer than `max_retry_s` no client believes: it is the longest that is said.",
        door(wait=uncapped),
    ),
    NOTHING_KNOWN,
    Misconception("no_return", "The verdict is found.", also=(lambda *args: None,)),
    Misconception(
        "never_fits_later",
        "Too large is too much at the moment.",
        "What does not fit into an empty server never fits: 400, whatever the queue looks like, or "
        "it would come again for ever.",
        door(never=lambda queue, limits: (429, right_wait(queue, limits))),
        alike=(door(order="full close fit"), door(order="close full fit"), door(never=(429, 1))),
    ),
    Misconception(
        "closing_first",
        "A closed door looks at nothing.",
        "What can never fit is told so first: a 503 sends it to try another server, where it fits "
        "as little.",
        door(order="close fit full"),
    ),
    Misconception(
        "takes_what_never_fits",
        "The engine will see.",
        "A request that can never fit is refused at the door, with 400: inside it would wait for "
        "room that never comes.",
        door(fit=lambda limits, new: True),
        alike=(door(order="full"),),
    ),
    Misconception(
        "prompt_alone",
        "The prompt has to fit.",
        "The answer's tokens need K/V as well: prompt and `max_new_tokens` together, less one.",
        door(
            fit=lambda limits, new: (
                new.num_prompt_tokens <= min(limits.max_prompt_tokens, limits.max_kv_tokens)
            )
        ),
        alike=(door(fit=lambda limits, new: new.num_prompt_tokens <= limits.max_prompt_tokens),),
    ),
    Misconception(
        "no_prompt_limit",
        "The room is what counts.",
        "A prompt has a limit of its own, `max_prompt_tokens`, even where the KV tokens would do.",
        door(
            fit=lambda limits, new: (
                new.num_prompt_tokens + new.max_new_tokens - 1 <= limits.max_kv_tokens
            )
        ),
    ),
    Misconception(
        "longest_prompt",
        "The longest prompt is too long.",
        "`max_prompt_tokens` is the most that a prompt may have: exactly as many fit.",
        door(
            fit=lambda limits, new: (
                fits(limits, new) and new.num_prompt_tokens < limits.max_prompt_tokens
            )
        ),
    ),
    Misconception(
        "last_token_has_kv",
        "Every token has K/V.",
        "The last token that is sampled is never computed, so it needs no K/V: one less, and what "
        "then comes to exactly `max_kv_tokens` fits.",
        door(
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
        door(order="fit full"),
    ),
    Misconception(
        "closing_is_full",
        "Closed is full.",
        "A 429 with seconds is a promise that a server which shuts down cannot keep: 503, so that "
        "the client goes elsewhere.",
        door(closed=lambda queue, limits: (429, right_wait(queue, limits))),
        alike=(door(order="fit full close"), door(closed=(429, 1)), door(closed=(429, None))),
    ),
    Misconception(
        "promises_after_no",
        "Every refusal says when.",
        "Only a 429 says when to come again: what never fits is not to come at all, and a server "
        "that closes knows of no time, so None.",
        door(never=lambda queue, limits: (400, right_wait(queue, limits))),
        alike=(
            door(closed=lambda queue, limits: (503, right_wait(queue, limits))),
            door(never=(400, 0)),
            door(never=(400, 1)),
            door(closed=(503, 0)),
            door(closed=(503, 1)),
            door(closed=lambda queue, limits: (503, limits.max_retry_s)),
        ),
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
    form=lambda got, wanted: (
        None not in (pair := (status_of(got), status_of(wanted))) and pair[0] != pair[1]
    ),
    also=((said_with({429: 503})),),
)
