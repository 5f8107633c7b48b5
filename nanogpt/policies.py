"""The scheduler's decisions as pure functions: who goes first, who may start, who gives way.

They see frozen views of requests and answer with plain data; nothing here changes a queue.
Source: the scheduling post, with its victim, its arrival times and its restarts put right.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from nanogpt.parts.request_view import RequestView

Verdict = Literal["admit", "wait", "refuse"]


class Resumed(NamedTuple):
    """A preempted request's way back: what to compute, from where, its place, what it keeps."""

    tokens: list[int]
    cursor: int
    arrival: int
    num_generated: int


def sort_key(policy: str, request: RequestView) -> tuple[float, ...]:
    """The request's rank under "fcfs" or "priority"; the smallest goes first, 0 before 1.

    Raises: ValueError for another policy.
    """
    if policy == "fcfs":
        return (request.arrival_time,)
    if policy == "priority":
        return (request.priority, request.arrival_time)
    raise ValueError(f"there is no policy {policy!r}; choose 'fcfs' or 'priority'")


def admit(
    candidate: RequestView,
    held: int,
    kv_budget: int | None,
    num_running: int,
    max_batch_size: int,
) -> Verdict:
    """Whether the head of the queue may start, must wait, or can never run.

    `held` KV tokens are in use or promised to the `num_running` requests that run. A candidate
    that was preempted has to recompute its generated tokens too.
    """
    if kv_budget is not None and candidate.kv_tokens_needed > kv_budget:
        return "refuse"
    if num_running >= max_batch_size:
        return "wait"
    if kv_budget is not None and held + candidate.kv_tokens_to_start > kv_budget:
        return "wait"
    return "admit"


def choose_victim(active: Sequence[RequestView]) -> int:
    """The id of the least important request; among equals the most recently arrived.

    The most recent has the least to recompute, and the first is sure to get through.
    """
    return max(active, key=lambda request: (request.key, request.arrival_time, request.id)).id


def resume(request: RequestView) -> Resumed:
    """Back to the queue without K/V: everything known is computed again, nothing else is lost."""
    tokens = [*request.prompt_tokens, *request.generated_tokens]
    return Resumed(tokens, 0, request.arrival_time, len(request.generated_tokens))


def record(
    forwarded: Sequence[int], active_now: Sequence[int], sampled: Sequence[int]
) -> dict[int, int]:
    """Whose token is whose: row i of the forward belongs to `forwarded[i]`, whatever is active now.

    `active_now` has changed since the batch was built: requests were promoted or finished.
    """
    return dict(zip(forwarded, sampled, strict=True))
