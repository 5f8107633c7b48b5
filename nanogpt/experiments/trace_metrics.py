"""Speed and memory by a trace's records, in its own microseconds and KV tokens.

TTFT: arrival to first token. ITL: gap between two tokens of a request. TPOT: a request's mean ITL.
A token exists at the end of the step that sampled it, or in which its draft was accepted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from nanogpt.trace import BlockStepRecord, StepRecord, Trace


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """One request's times in microseconds; `tpot_us` is None with fewer than two tokens."""

    request_id: int
    ttft_us: int
    itls_us: tuple[int, ...]
    tpot_us: float | None
    finish_us: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole run. `worst_itl_us` is the longest gap of any request, None when there is none."""

    mean_ttft_us: float
    worst_itl_us: int | None
    tokens_per_s: float
    num_forwards: int


def token_times_us(trace: Trace, request_id: int) -> tuple[int, ...]:
    """When each token of a request came out."""
    return tuple(
        step.end_us
        for step in trace.steps
        for work in step.work
        if work.request_id == request_id
        for _ in work.tokens
    )


def request_metrics(trace: Trace, request_id: int) -> RequestMetrics:
    """Times of one request. Raises: ValueError when it has no token in the trace."""
    times = token_times_us(trace, request_id)
    if not times:
        raise ValueError(f"request {request_id} has no token in this trace")
    gaps = tuple(late - early for early, late in pairwise(times))
    arrival_us = trace.request(request_id).arrival_us
    tpot_us = fmean(gaps) if gaps else None
    return RequestMetrics(request_id, times[0] - arrival_us, gaps, tpot_us, times[-1])


def all_request_metrics(trace: Trace) -> tuple[RequestMetrics, ...]:
    """Times of every request that has at least one token."""
    started = [r.id for r in trace.requests if token_times_us(trace, r.id)]
    return tuple(request_metrics(trace, request_id) for request_id in started)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1] of the values do not exceed."""
    if not values or not 0 < share <= 1:
        raise ValueError(f"no percentile {share} of {len(values)} values")
    ranked = sorted(values)
    # Nearest rank, in whole thousandths so that 0.29 of 100 is 29 and not 30.
    rank = -(-round(share * 1000) * len(ranked) // 1000)
    return ranked[max(rank, 1) - 1]


def summary(trace: Trace) -> Summary:
    """Sum up a run. Raises: ValueError for a trace without a single token."""
    requests = all_request_metrics(trace)
    if not requests:
        raise ValueError("no request got a token in this trace")
    num_tokens = sum(len(request.itls_us) + 1 for request in requests)
    first_arrival_us = min(request.arrival_us for request in trace.requests)
    duration_us = trace.steps[-1].end_us - first_arrival_us
    return Summary(
        mean_ttft_us=fmean(request.ttft_us for request in requests),
        worst_itl_us=max((gap for each in requests for gap in each.itls_us), default=None),
        tokens_per_s=num_tokens / max(duration_us, 1) * 1e6,
        num_forwards=sum(len(step.forwards) for step in trace.steps),
    )


def tokens_taken(step: StepRecord, size: int) -> int:
    """KV tokens that fit into the slots in use, or into the distinct blocks in use."""
    if not isinstance(step, BlockStepRecord):
        return len(step.kv) * size
    return len({block for _, table in step.blocks.tables for block in table}) * size


def tokens_held(step: StepRecord, size: int) -> int:
    """Distinct KV tokens held, without a window: a block that several tables name counts once."""
    if not isinstance(step, BlockStepRecord):
        return step.kv_after
    # Only the last block of a table can have room, and no other table names that one.
    return tokens_taken(step, size) - sum(kv.kv_tokens_charged - kv.kv_tokens for kv in step.kv)
