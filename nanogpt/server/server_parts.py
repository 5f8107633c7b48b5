"""Three decisions of a server as parts that can be exchanged: what comes in, goes out, and leaves.

They are pure functions of plain data. The server does what they answer, unless that makes no sense:
a status that it does not send, an event that is no text, books of requests that do not exist.
"""

import codecs
import logging
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from nanogpt.server.server_views import DoorLimits, NewRequest, QueueView
from nanogpt.validate import PartError, refused, show

BAD_REQUEST, TOO_MANY_REQUESTS, UNAVAILABLE = 400, 429, 503
_LOG = logging.getLogger(__name__)

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


def validated_server_parts(parts: ServerParts, problems: dict[str, Exception]) -> ServerParts:
    """The same parts, those that are not the reference called on copies, their answers validated.

    What one of them raises, or is refused for, goes into `problems` under its name, and is raised
    as a PartError.
    """
    own = [f for f in fields(parts) if getattr(parts, f.name) is not f.default]
    return ServerParts(**{f.name: _asked(f.name, getattr(parts, f.name), problems) for f in own})


def _asked(
    name: str, policy: Callable[..., Any], problems: dict[str, Exception]
) -> Callable[..., Any]:
    def ask(*args: Any) -> Any:
        try:
            return _ANSWERS[name](policy(*deepcopy(args)), *args)
        except Exception as error:
            problems[name] = error
            said = str(error) if isinstance(error, PartError) else f"{name} raised {show(error)}"
            _LOG.warning("%s", said)
            raise PartError(said) from error

    return ask


def _verdict(answer: Any, *_: Any) -> Verdict:
    match answer:
        case "accept":
            return "accept"
        case (400 | 503 as status, None | int() as seconds):
            return status, seconds
        case (429, int(seconds)) if seconds >= 0:
            return TOO_MANY_REQUESTS, seconds
        case _:
            wanted = "'accept', (400, None), (503, None) or (429, whole seconds)"
            raise refused("admit_or_refuse", answer, wanted)


def _events(answer: Any, *_: Any) -> list[str]:
    events: list[Any] = [*answer] if isinstance(answer, list | tuple) else [None]  # pyright: ignore[reportUnknownVariableType]
    if any(type(event) is not str for event in events):
        raise refused("next_events", answer, "a list of strings")
    return events


def _books(answer: Any, books: Books, request_id: int) -> Books:
    """Every id is known, and in one place; but one that runs may be leaving."""
    names = "waiting", "running", "leaving"
    known = {each for name in names for each in books[name]}
    waiting, running, leaving = ([*_ids(answer, name)] for name in names)
    for ids in ([*waiting, *running], [*waiting, *leaving]):
        if not {*ids} <= known or len({*ids}) < len(ids):
            raise refused(
                f"on_disconnect for request {request_id}", answer,
                f"books with each of {sorted(known)} in one place at most, and no other request",
            )  # fmt: skip
    return {**books, **answer}


def _ids(answer: Any, name: str) -> Any:
    ids = answer.get(name) if isinstance(answer, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not isinstance(ids, dict if name == "running" else list | tuple):
        wanted = "books: a dict with lists `waiting` and `leaving` and a dict `running`"
        raise refused("on_disconnect", answer, wanted)
    return ids  # pyright: ignore[reportUnknownVariableType]


_ANSWERS: dict[str, Callable[..., Any]] = {
    "admit_or_refuse": _verdict, "next_events": _events, "on_disconnect": _books,
}  # fmt: skip
