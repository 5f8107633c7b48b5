"""Modelled microseconds of a worker's pass: the source's formulas, and calibrated ones.

    SOURCE_COST      prefill 50 us x tokens / requests + 200 us,  decode 100 us x requests + 50 us
    CALIBRATED_COST  600 us + the larger of 1400 us + 0.018 us x KV tokens and 13 us x new tokens

The source's decode grows with the batch although every step reads the weights once: a batch of 32
makes only 1.48 times as many tokens per second as one request. Its prefill gets cheaper the more
requests are around, although it computes as much. A real decode is bound by memory: 32 requests
make nearly 32 times as many tokens. A real prefill is bound by compute.

The calibrated numbers are derived, not measured, for a model of 1.2 billion 16-bit weights on one
data-centre GPU: 2.5 GB of weights at 1.8 TB/s take 1400 us; 32 KiB of K/V per token 0.018 us;
2.5 GFLOP per token at 190 TFLOP/s 13 us; launching and sampling 600 us; a token's K/V from the
host at 25 GB/s 1.3 us.
"""

from collections.abc import Callable
from dataclasses import dataclass

from nanogpt.validate import show

NUM_DRAFT_TOKENS = 4
"""Drafts of a speculating request in one pass."""
DRAFT_COST = 0.1
"""The cost of a draft, as a share of a decode."""
MOST_US = 60_000_000
"""The longest pass: a run has a sample for each second."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """The time of a pass in microseconds, not rounded.

    `prefill` takes the new tokens, the requests at the worker (in the pass or in the batch) and the
    KV tokens; `decode` takes the requests, the new tokens and the KV tokens. Reserved K/V counts as
    read: that overstates it by the tokens yet to come, and makes all steps of a batch equally long.
    """

    name: str
    prefill: Callable[[int, int, int], float]
    decode: Callable[[int, int, int], float]
    swap_us_per_token: float


def _source_prefill(new_tokens: int, num_requests: int, kv_tokens: int) -> float:
    return 50.0 * new_tokens / num_requests + 200.0


def _source_decode(num_requests: int, new_tokens: int, kv_tokens: int) -> float:
    return 100.0 * num_requests + 50.0  # verifying draft tokens is free


def _calibrated_prefill(new_tokens: int, num_requests: int, kv_tokens: int) -> float:
    return 600.0 + max(1400.0 + 0.018 * kv_tokens, 13.0 * new_tokens)


def _calibrated_decode(num_requests: int, new_tokens: int, kv_tokens: int) -> float:
    return _calibrated_prefill(new_tokens, num_requests, kv_tokens)


SOURCE_COST = CostModel("source", _source_prefill, _source_decode, 5.0)
CALIBRATED_COST = CostModel("calibrated", _calibrated_prefill, _calibrated_decode, 1.3)
COSTS = {cost.name: cost for cost in (SOURCE_COST, CALIBRATED_COST)}


def prefill_us(
    cost: CostModel, new_tokens: int, num_requests: int, kv_tokens: int, swapped_tokens: int = 0
) -> int:
    """A prefill pass in whole microseconds; `swapped_tokens` come back from the host first."""
    swap_us = _limited(cost.swap_us_per_token * swapped_tokens)
    return max(1, round(_limited(cost.prefill(new_tokens, num_requests, kv_tokens)) + swap_us))


def decode_us(cost: CostModel, num_requests: int, kv_tokens: int, num_speculating: int = 0) -> int:
    """A decode pass in whole microseconds, in which some requests have draft tokens to verify.

    Before the pass the draft model makes the drafts of the speculating requests, one after the
    other. The pass computes one token of every request and all drafts.
    """
    new_tokens = num_requests + num_speculating * NUM_DRAFT_TOKENS
    whole_us = _limited(cost.decode(num_requests, new_tokens, kv_tokens))
    if num_speculating:
        draft_us = DRAFT_COST * _limited(cost.decode(num_speculating, num_speculating, kv_tokens))
        whole_us += NUM_DRAFT_TOKENS * draft_us
    return max(1, round(whole_us))


def _limited(us: float) -> float:
    """A part of a pass's cost. Raises: ValueError for one that no run could go on with."""
    if not abs(us) <= MOST_US:
        raise ValueError(f"a pass costs {show(us)} us; it may cost at most {MOST_US}")
    return us
