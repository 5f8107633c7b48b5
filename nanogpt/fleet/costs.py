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

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceCost:
    """The source's formulas, quirks included. Times in microseconds, not rounded."""

    name: str = "source"
    modelled: bool = True
    prefill_token_us: float = 50.0
    prefill_fixed_us: float = 200.0
    decode_request_us: float = 100.0
    decode_fixed_us: float = 50.0
    swap_us_per_token: float = 5.0

    def prefill(self, new_tokens: int, num_requests: int, kv_tokens: int) -> float:
        """Compute `new_tokens`; `num_requests` are at the worker, in the pass or waiting for it."""
        return self.prefill_token_us * new_tokens / num_requests + self.prefill_fixed_us

    def decode(self, num_requests: int, new_tokens: int, kv_tokens: int) -> float:
        """Linear in the requests; verifying draft tokens is free."""
        return self.decode_request_us * num_requests + self.decode_fixed_us


@dataclass(frozen=True, slots=True)
class CalibratedCost:
    """A fixed part, and the slower of reading memory and computing.

    Reserved K/V counts as read, which overstates it by the tokens yet to come (at most 5 us of
    2000) and makes the steps of one batch equally long.
    """

    name: str = "calibrated"
    modelled: bool = True
    fixed_us: float = 600.0
    weights_us: float = 1400.0
    kv_token_us: float = 0.018
    new_token_us: float = 13.0
    swap_us_per_token: float = 1.3

    def prefill(self, new_tokens: int, num_requests: int, kv_tokens: int) -> float:
        """The same formula as a decode."""
        return self.decode(num_requests, new_tokens, kv_tokens)

    def decode(self, num_requests: int, new_tokens: int, kv_tokens: int) -> float:
        """Bound by memory up to about 108 new tokens."""
        memory_us = self.weights_us + self.kv_token_us * kv_tokens
        return self.fixed_us + max(memory_us, self.new_token_us * new_tokens)


CostModel = SourceCost | CalibratedCost

SOURCE_COST = SourceCost()
CALIBRATED_COST = CalibratedCost()
COSTS: dict[str, CostModel] = {"source": SOURCE_COST, "calibrated": CALIBRATED_COST}


def prefill_us(
    cost: CostModel, new_tokens: int, num_requests: int, kv_tokens: int, swapped_tokens: int = 0
) -> int:
    """A prefill pass in whole microseconds; `swapped_tokens` come back from the host first."""
    swap_us = cost.swap_us_per_token * swapped_tokens
    return max(1, round(cost.prefill(new_tokens, num_requests, kv_tokens) + swap_us))


def decode_us(
    cost: CostModel,
    num_requests: int,
    kv_tokens: int,
    *,
    num_speculating: int = 0,
    num_drafts: int = 0,
    draft_cost: float = 0.0,
) -> int:
    """A decode pass in whole microseconds, in which some requests have draft tokens to verify.

    Before the pass the draft model runs `num_drafts` times for the speculating requests; each run
    costs `draft_cost` of a decode of theirs. The pass computes 1 + `num_drafts` tokens of each.
    """
    new_tokens = num_requests + num_speculating * num_drafts
    whole_us = cost.decode(num_requests, new_tokens, kv_tokens)
    if num_speculating:
        draft_us = draft_cost * cost.decode(num_speculating, num_speculating, kv_tokens)
        whole_us += num_drafts * draft_us
    return max(1, round(whole_us))
