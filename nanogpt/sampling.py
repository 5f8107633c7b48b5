"""From logits to a token, with draws that no schedule can change.

Every draw is a function of (seed, request id, position, purpose) alone: whatever shares the batch,
however often the request was preempted, position 17 of request 3 gets the same random number.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from nanogpt.validate import check_amount, check_int, check_is, show

if TYPE_CHECKING:
    from torch import Tensor

MOST_SEED = 2**64 - 1


class LogitsParams(Struct, frozen=True, gc=False):
    """How a request's logits are changed before a token is drawn: in the order of the fields.

    None of the `stop_token_ids` is among the first `min_tokens` tokens. `logit_bias` holds pairs of
    a token and a number to add to its logit. `repetition_penalty` divides the positive logits of
    the tokens in the prompt and the output, and multiplies the negative ones. `frequency_penalty`
    is subtracted each time that a token is in the output, `presence_penalty` once.

    Then, unless the temperature is 0, only the likely tokens are kept: those at least `min_p` times
    as likely as the likeliest, of these the `top_k` likeliest (0 or -1: all), of these the
    likeliest that make up a share of `top_p`. A token as likely as the last one kept stays too.
    Source: vLLM's SamplingParams; vllm/v1/sample/sampler.py, documented so in 0.22.1, read in
    November 2026.
    """

    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    logit_bias: tuple[tuple[int, float], ...] = ()
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    min_p: float = 0.0
    top_k: int = 0
    top_p: float = 1.0


class SamplingParams(Struct, frozen=True, gc=False):
    """How a request's tokens are drawn: the draws are keyed by `seed` and `stream_id`.

    `matcher` says which tokens may follow, where the request has a grammar.
    """

    temperature: float = 0.0
    seed: int = 0
    stream_id: int = 0
    logits: LogitsParams | None = None
    matcher: Any = None

    @property
    def filters(self) -> Filters | None:
        """`min_p`, `top_k` and `top_p`; None for a request whose logits stay as they are."""
        own = self.logits
        if own is None:
            return None if self.matcher is None else NO_FILTERS
        return (own.min_p, own.top_k, own.top_p)


Filters = tuple[float, int, float]
NO_FILTERS = (0.0, 0, 1.0)
GREEDY = SamplingParams()


def uniform(seed: int, request_id: int, position: int, purpose: str) -> float:
    """A uniform draw in [0, 1) that depends on its four names only.

    `position` is the position of the token being drawn; `purpose` keeps draws for different ends
    (a sample, an acceptance test) independent of each other.
    """
    name = f"{seed}/{request_id}/{position}/{purpose}".encode()
    digest = hashlib.blake2b(name, digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def sample_tokens(
    logits: Tensor, temperature: float, draws: Sequence[float], filters: Filters | None = None
) -> list[int]:
    """Pick a token per row: the most likely at temperature 0, else by inverting the distribution.

    Shapes: logits (R, V), draws R uniform numbers in [0, 1), ignored at temperature 0.
    """
    import torch

    if temperature == 0:
        return logits.argmax(-1).tolist()
    cumulative = probabilities(logits, temperature, filters).cumsum(-1)  # (R, V)
    # The last sum may fall a rounding error short of 1, and the draw must stay below it.
    below_one = torch.tensor(draws, dtype=torch.float64, device=logits.device)  # (R,)
    targets = below_one.unsqueeze(1) * cumulative[:, -1:]  # (R, 1)
    tokens = torch.searchsorted(cumulative, targets, right=True).squeeze(1)  # (R,)
    return tokens.clamp(max=logits.shape[-1] - 1).tolist()


def probabilities(logits: Tensor, temperature: float, filters: Filters | None = None) -> Tensor:
    """The probabilities a token is drawn with; at temperature 0 all of it on the most likely.

    Shapes: logits (R, V) -> (R, V), float64.
    """
    import torch
    import torch.nn.functional as F

    if temperature == 0:
        return F.one_hot(logits.argmax(-1), logits.shape[-1]).double()  # (R, V)
    below_best = logits.double() - logits.max(dim=-1, keepdim=True).values  # (R, V)
    p = torch.softmax(below_best / float(temperature), dim=-1)  # (R, V)
    return p if filters is None else likely_only(p, *filters)


def likely_only(p: Tensor, min_p: float, top_k: int, top_p: float) -> Tensor:
    """The distribution over the tokens that these limits of `LogitsParams` keep.

    Shapes: p (R, V) -> (R, V).
    """
    if min_p:
        p = p.where(p >= min_p * p.amax(-1, keepdim=True), 0)
    if 0 < top_k < p.shape[-1]:
        p = p.where(p >= p.topk(top_k).values[:, -1:], 0)
    if top_p < 1:
        # Cumulative sums, so that the other rows, which set how many tokens are ranked, round none.
        ranked = p.topk(int(p.count_nonzero(-1).max())).values  # (R, tokens left)
        cumulative = ranked.cumsum(-1)
        kept = cumulative - ranked < top_p * cumulative[:, -1:]  # by what the likelier ones make up
        p = p.where(p >= ranked.where(kept, math.inf).amin(-1, keepdim=True), 0)
    return p / p.sum(-1, keepdim=True)


def masked(logits: Tensor, legal: Tensor) -> Tensor:
    """The logits without the tokens that are not legal. Shapes: two (R, V) -> (R, V), float64."""
    return logits.double().masked_fill(~legal.to(logits.device), -math.inf)


def penalized(
    logits: Tensor, params: LogitsParams, token_ids: Sequence[int], num_prompt_tokens: int
) -> Tensor:
    """The logits of the token after `token_ids`: biased, and penalized for what these hold.

    It touches the named tokens only, however large the vocabulary is.
    Shapes: (V,) -> (V,), float64.
    """
    import numpy as np
    import torch

    output = token_ids[num_prompt_tokens:]
    changed = logits.detach().to("cpu", torch.float64, copy=True)
    scores = changed.numpy()  # the same memory; for a few tokens a call costs a third of torch's
    if params.stop_token_ids and len(output) < params.min_tokens:
        scores[list(params.stop_token_ids)] = -math.inf
    if params.logit_bias:
        bias = dict(params.logit_bias)
        scores[list(bias)] += list(bias.values())
    if params.repetition_penalty != 1:
        seen, penalty = list(set(token_ids)), params.repetition_penalty
        own = scores[seen]
        scores[seen] = np.where(own > 0, own / penalty, own * penalty)
    if output and (params.frequency_penalty or params.presence_penalty):
        counts = Counter(output)
        times = np.array(list(counts.values()))
        scores[list(counts)] -= params.frequency_penalty * times + params.presence_penalty
    return changed.to(logits.device)


def check_temperature(temperature: float) -> None:
    """Raises: ValueError for a temperature that is negative or not a number."""
    number = type(temperature) in (int, float)
    if not (number and 0 <= temperature <= sys.float_info.max):
        raise ValueError(
            f"temperature is {show(temperature)}; it must be a finite int or "
            "float, 0 (greedy) or positive"
        )


def check_logits_params(params: LogitsParams, max_new_tokens: int, vocab_size: int) -> None:
    """Raises: ValueError for a value outside its limits; the name of the field comes first."""
    check_is("logits_params", params, LogitsParams, "a LogitsParams")
    check_int("min_tokens", params.min_tokens, 0, max_new_tokens)
    check_amount("repetition_penalty", params.repetition_penalty, 100, low=0.01)
    check_amount("frequency_penalty", params.frequency_penalty, 2, low=-2)
    check_amount("presence_penalty", params.presence_penalty, 2, low=-2)
    check_amount("min_p", params.min_p, 1)
    check_int("top_k", params.top_k, -1)
    check_amount("top_p", params.top_p, 1)
    if params.top_p == 0:
        raise ValueError("top_p is 0; it must be above 0 and at most 1")
    check_is("stop_token_ids", params.stop_token_ids, tuple, "a tuple of tokens")
    for token in params.stop_token_ids:
        check_int("stop_token_ids: a token", token, 0, vocab_size - 1)
    check_is("logit_bias", params.logit_bias, tuple, "a tuple of pairs (token, bias)")
    for pair in params.logit_bias:
        if type(pair) is not tuple or len(pair) != 2:
            raise ValueError(f"logit_bias holds {show(pair)}; it must be a pair (token, bias)")
        check_int("logit_bias: a token", pair[0], 0, vocab_size - 1)
        check_amount(f"logit_bias: the bias of token {pair[0]}", pair[1], 100, low=-100)
