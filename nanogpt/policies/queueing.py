"""The scheduler's decisions as pure functions: who goes first, who may start, who gives way.

They see frozen views of requests and answer with plain data; nothing here changes a queue.
Source: the scheduling post, with its victim, its arrival times and its restarts put right.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from nanogpt.views.request_view import RequestView

Verdict = Literal["admit", "wait", "refuse"]


class ResumeState(NamedTuple):
    """How a preempted request goes on: the tokens to compute, from where, and what it keeps."""

    token_ids: list[int]
    num_computed_tokens: int
    arrival_time: int
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
    kv_tokens_used: int,
    max_kv_tokens: int | None,
    num_running: int,
    max_batch_size: int,
) -> Verdict:
    """Whether the first waiting request may start, must wait, or can never run.

    `kv_tokens_used` are in use by the `num_running` running requests or promised to them. A
    candidate that was preempted has to compute its generated tokens again too.
    """
    if max_kv_tokens is not None and candidate.kv_tokens_needed > max_kv_tokens:
        return "refuse"
    if num_running >= max_batch_size:
        return "wait"
    if max_kv_tokens is not None and kv_tokens_used + candidate.kv_tokens_to_start > max_kv_tokens:
        return "wait"
    return "admit"


def choose_victim(running: Sequence[RequestView]) -> int:
    """The id of the least important request; among equals the most recently arrived.

    The most recent has the least to recompute, and the first is sure to get through.
    """
    return max(running, key=lambda request: (request.key, request.arrival_time, request.id)).id


def requeue(request: RequestView) -> ResumeState:
    """Send a request back to the queue without its K/V: all its tokens will be computed again."""
    token_ids = [*request.prompt_tokens, *request.generated_tokens]
    return ResumeState(token_ids, 0, request.arrival_time, len(request.generated_tokens))


def assign_tokens(
    batch_ids: Sequence[int], active_ids: Sequence[int], sampled: Sequence[int]
) -> dict[int, int]:
    """Give each sampled token to its request: row i of the forward belongs to `batch_ids[i]`.

    `active_ids` may differ: requests were promoted or finished since the batch was built.
    """
    return dict(zip(batch_ids, sampled, strict=True))
