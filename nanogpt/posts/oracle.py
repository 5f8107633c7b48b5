"""The oracle: one request at a time, everything recomputed for every token. Slow and plainly right.

Whatever the engine does (chunks, batches, preemption), each request's tokens must equal these.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from nanogpt.model import GPT, Attend, attend_causally, repeat_heads
from nanogpt.policies.sliding_window import window_mask
from nanogpt.request import Request, validate_request
from nanogpt.sampling import (
    MOST_SEED,
    LogitsParams,
    SamplingParams,
    check_temperature,
    penalized,
    sample_tokens,
    uniform,
)
from nanogpt.validate import check_int, check_sinks


@torch.inference_mode()
def generate(
    model: GPT,
    prompt_tokens: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 0.0,
    seed: int = 0,
    request_id: int = 0,
    sliding_window: int | None = None,
    num_sinks: int = 0,
    logits_params: LogitsParams | None = None,
) -> list[int]:
    """Continue `prompt_tokens` by `max_new_tokens` tokens, without a KV cache.

    `request_id` names the random draws, so that a sampled text can be compared with the engine's.
    Under a `sliding_window` a token sees that many before it, and the first `num_sinks`.
    Raises: ValueError for a prompt or a length that no engine would accept either.
    """
    check_temperature(temperature)
    check_int("seed", seed, 0, MOST_SEED)
    check_sinks(num_sinks, sliding_window)
    if sliding_window is not None:
        check_int("sliding_window", sliding_window, 1)
    request = Request(request_id, list(prompt_tokens), max_new_tokens, logits_params=logits_params)
    validate_request(request, model.config)
    tokens, filters = list(prompt_tokens), SamplingParams(logits=logits_params).filters
    for position in range(len(tokens), len(tokens) + max_new_tokens):
        attend = attend_in_window(len(tokens), sliding_window, num_sinks)
        hidden = model.hidden(torch.tensor([tokens]), torch.arange(len(tokens)), attend)
        logits = model.logits(hidden)[0, -1]  # (V,)
        if logits_params is not None:
            logits = penalized(logits, logits_params, tokens, len(prompt_tokens))
        draw = uniform(seed, request_id, position, "sample")
        tokens += sample_tokens(logits.unsqueeze(0), temperature, [draw], filters)
    return tokens[len(prompt_tokens) :]


def attend_in_window(length: int, window: int | None, sinks: int) -> Attend:
    """Attention over whole sequences from position 0, for `GPT.hidden`."""
    if window is None:
        return attend_causally
    mask = window_mask(range(length), range(length), window, sinks)  # (T, T)

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shapes: q (B, T, H, D), k, v (B, T, K, D) -> (B, T, H, D)."""
        k, v = repeat_heads(k, q.shape[-2], -2), repeat_heads(v, q.shape[-2], -2)
        heads_first = (x.transpose(-2, -3) for x in (q, k, v))
        out = F.scaled_dot_product_attention(*heads_first, attn_mask=mask)  # (B, H, T, D)
        return out.transpose(-2, -3)  # (B, T, H, D)

    return attend
