"""Three decisions of a server as parts that can be exchanged: what comes in, goes out, and leaves.

They are pure functions of plain data; `server_guard` stands between a learner's and the server.
"""

import codecs
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

BAD_REQUEST, TOO_MANY_REQUESTS, UNAVAILABLE = 400, 429, 503


@dataclass(frozen=True, slots=True)
class QueueView:
    """The unfinished requests of a server, as its door sees them.

    `running` has for each request that runs how many tokens it still has to give; `num_waiting`
    wait to be admitted. `tokens_per_s` is what the engine gives to all that run together (0 before
    its first token).
    """

    running: tuple[int, ...]
    num_waiting: int
    tokens_per_s: float
    is_closing: bool


@dataclass(frozen=True, slots=True)
class DoorLimits:
    """What a server allows: unfinished requests, and of one request its prompt and KV tokens.

    None is told to come again later than in `max_retry_s` seconds.
    """

    max_requests: int
    max_prompt_tokens: int
    max_kv_tokens: int
    max_retry_s: int


@dataclass(frozen=True, slots=True)
class NewRequest:
    """The lengths of a request that has just arrived, in tokens."""

    num_prompt_tokens: int
    max_new_tokens: int


Refusal: TypeAlias = tuple[int, int | None]
Verdict: TypeAlias = Literal["accept"] | Refusal
Books: TypeAlias = dict[str, Any]
"""Where the requests of a server are: `waiting` (ids in order), `running` (id -> KV tokens),
`leaving` (ids that go when the step is over) and `in_step` (whether one is on its way)."""

AdmitOrRefuse: TypeAlias = Callable[[QueueView, DoorLimits, NewRequest], Verdict]
NextEvents: TypeAlias = Callable[[Sequence[bytes], int, bool], list[str]]
OnDisconnect: TypeAlias = Callable[[Books, int], Books]


def admit_or_refuse(queue: QueueView, limits: DoorLimits, request: NewRequest) -> Verdict:
    """Whether a request comes in: "accept", or an HTTP status and after how many seconds to retry.

    What can never fit is told so (400), whatever the queue; a server that closes has no time to
    name (503). A place is free again when the first of those that run is done (429): they share
    what the engine gives evenly.
    """
    num_kv_tokens = request.num_prompt_tokens + request.max_new_tokens - 1  # the last has no K/V
    if request.num_prompt_tokens > limits.max_prompt_tokens:
        return BAD_REQUEST, None
    if num_kv_tokens > limits.max_kv_tokens:
        return BAD_REQUEST, None
    if queue.is_closing:
        return UNAVAILABLE, None
    if len(queue.running) + queue.num_waiting < limits.max_requests:
        return "accept"
    if not queue.running or not queue.tokens_per_s:
        return TOO_MANY_REQUESTS, 1
    seconds = min(queue.running) * len(queue.running) / queue.tokens_per_s
    return TOO_MANY_REQUESTS, min(max(math.ceil(seconds), 1), limits.max_retry_s)


def next_events(committed: Sequence[bytes], sent: int, is_done: bool) -> list[str]:
    """What may be sent now: one event with all text that is new and whole, or none.

    `committed` are the bytes of each token so far, `sent` counts the characters that have been
    sent. The bytes of an unfinished character wait, unless no more come.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(b"".join(committed), is_done)
    return [text[sent:]] if len(text) > sent else []


def on_disconnect(books: Books, request_id: int) -> Books:
    """The books once the client of a request has left.

    A step reads the K/V of all that run, so that is freed between two steps.
    """
    waiting = [i for i in books["waiting"] if i != request_id]
    running, leaving = dict(books["running"]), list(books["leaving"])
    if request_id in running and not books["in_step"]:
        del running[request_id]
    elif request_id in running and request_id not in leaving:
        leaving.append(request_id)
    return {**books, "waiting": waiting, "running": running, "leaving": leaving}


@dataclass(frozen=True, slots=True)
class ServerParts:
    """What a server may be given other functions for."""

    admit_or_refuse: AdmitOrRefuse = admit_or_refuse
    next_events: NextEvents = next_events
    on_disconnect: OnDisconnect = on_disconnect
