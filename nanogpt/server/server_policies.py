"""A server's three exchangeable decisions: whom to admit, what to stream, whom to remove.

They are pure functions of plain data. The server refuses only meaningless answers: a status that it
does not send, an event that is not text, requests that do not exist.
"""

import codecs
import logging
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from nanogpt.validate import PolicyError, refused, show
from nanogpt.views.server_views import AdmissionLimits, NewRequest, QueueView

BAD_REQUEST, TOO_MANY_REQUESTS, UNAVAILABLE = 400, 429, 503
_LOG = logging.getLogger(__name__)

Refusal: TypeAlias = tuple[int, int | None]
Verdict: TypeAlias = Literal["accept"] | Refusal
ServerState: TypeAlias = dict[str, Any]
"""A server's requests: `waiting` (ids in order), `running` (id -> KV tokens), `leaving` (ids to
remove after the step) and `in_step` (whether a step is running)."""

AdmissionPolicy: TypeAlias = Callable[[QueueView, AdmissionLimits, NewRequest], Verdict]
StreamDelta: TypeAlias = Callable[[Sequence[bytes], int, bool], list[str]]
OnDisconnect: TypeAlias = Callable[[ServerState, int], ServerState]


def admission_control(queue: QueueView, limits: AdmissionLimits, request: NewRequest) -> Verdict:
    """Admit a request ("accept"), or return an HTTP status and after how many seconds to retry.

    - 400, None: the request exceeds a limit, so it would not fit into an empty server either.
    - 503, None: the server is shutting down.
    - 429, seconds: `max_requests` requests are running or waiting. The seconds are an estimate of
      when the running request with the fewest tokens left will finish, if all running requests
      share the throughput evenly: at least 1 and at most `max_retry_s`.
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


def stream_delta(committed: Sequence[bytes], sent: int, is_done: bool) -> list[str]:
    """Return the events to send now: one with all new text, or none.

    `committed` are the bytes of each token so far, and `sent` characters have been sent. The bytes
    of an unfinished character are held back until `is_done`.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(b"".join(committed), is_done)
    return [text[sent:]] if len(text) > sent else []


def on_disconnect(state: ServerState, request_id: int) -> ServerState:
    """Return the state after the client of a request has disconnected.

    A step reads the K/V of all running requests, so K/V is freed only between two steps.
    """
    waiting = [i for i in state["waiting"] if i != request_id]
    running, leaving = dict(state["running"]), list(state["leaving"])
    if request_id in running and not state["in_step"]:
        del running[request_id]
    elif request_id in running and request_id not in leaving:
        leaving.append(request_id)
    return {**state, "waiting": waiting, "running": running, "leaving": leaving}


@dataclass(frozen=True, slots=True)
class ServerPolicies:
    """The exchangeable functions of a server."""

    admission_control: AdmissionPolicy = admission_control
    stream_delta: StreamDelta = stream_delta
    on_disconnect: OnDisconnect = on_disconnect


def validated_server_policies(
    policies: ServerPolicies, problems: dict[str, Exception]
) -> ServerPolicies:
    """The same policies; each that is not the reference is called on copies and validated.

    An exception of such a policy, or the refusal of its answer, is kept in `problems` under its
    name, and raised as a PolicyError.
    """

    def checked(name: str, policy: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any) -> Any:
            try:
                return _ANSWERS[name](policy(*deepcopy(args)), *args)
            except Exception as error:
                problems[name] = error
                is_ours = isinstance(error, PolicyError)
                said = str(error) if is_ours else f"{name} raised {show(error)}"
                _LOG.warning("%s", said)
                raise PolicyError(said) from error

        return ask

    own = [f for f in fields(policies) if getattr(policies, f.name) is not f.default]
    return ServerPolicies(**{f.name: checked(f.name, getattr(policies, f.name)) for f in own})


def _verdict(answer: Any, *_: Any) -> Verdict:
    match answer:
        case "accept":
            return "accept"
        case (400 | 503 as status, None | int() as seconds):
            return status, seconds
        case (429, int(seconds)) if 0 <= seconds < 2**31:
            return TOO_MANY_REQUESTS, seconds
        case _:
            wanted = "'accept', (400, None), (503, None) or (429, whole seconds)"
            raise refused("admission_control", answer, wanted)


def _events(answer: Any, *_: Any) -> list[str]:
    events: list[Any] = [*answer] if isinstance(answer, list | tuple) else [None]  # pyright: ignore[reportUnknownVariableType]
    if any(type(event) is not str for event in events):
        raise refused("stream_delta", answer, "a list of strings")
    return events


def _server_state(answer: Any, state: ServerState, request_id: int) -> ServerState:
    """Every id is known, and in one place; but a running request may be leaving."""
    kinds: dict[str, Any] = {"waiting": (list, tuple), "running": dict, "leaving": (list, tuple)}
    for name, kind in kinds.items():
        if not isinstance(answer, dict) or not isinstance(answer.get(name), kind):  # pyright: ignore[reportUnknownMemberType]
            wanted = "a state: a dict with lists `waiting` and `leaving` and a dict `running`"
            raise refused("on_disconnect", answer, wanted)  # pyright: ignore[reportUnknownArgumentType]
    known = {each for name in kinds for each in state[name]}
    waiting, running, leaving = ([*answer[name]] for name in kinds)
    for ids in ([*waiting, *running], [*waiting, *leaving]):
        if not {*ids} <= known or len({*ids}) < len(ids):
            wanted = f"a state with each of {sorted(known)} in one place at most, and no other id"
            raise refused(f"on_disconnect for request {request_id}", answer, wanted)
    return {**state, **answer}


_ANSWERS: dict[str, Callable[..., Any]] = {
    "admission_control": _verdict, "stream_delta": _events, "on_disconnect": _server_state,
}  # fmt: skip
