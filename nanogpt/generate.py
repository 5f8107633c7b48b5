"""The oracle: one request at a time, everything recomputed for every token. Slow and plainly right.

Whatever the engine does (chunks, batches, preemption), each request's tokens must equal these.
"""

from collections.abc import Sequence

import torch

from nanogpt.limits import check_int
from nanogpt.model import GPT
from nanogpt.request import Request, check_request
from nanogpt.sampling import check_temperature, sample_tokens, uniform


@torch.inference_mode()
def generate(
    model: GPT,
    prompt_tokens: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 0.0,
    seed: int = 0,
    request_id: int = 0,
) -> list[int]:
    """Continue `prompt_tokens` by `max_new_tokens` tokens, without a KV cache.

    `request_id` names the random draws, so that a sampled text can be compared with the engine's.
    Raises: ValueError for a prompt or a length that no engine would accept either.
    """
    check_temperature(temperature)
    check_int("seed", seed, 0)
    check_request(Request(request_id, list(prompt_tokens), max_new_tokens), model.config)
    tokens = list(prompt_tokens)
    for position in range(len(tokens), len(tokens) + max_new_tokens):
        logits, _ = model(torch.tensor([tokens]))  # (1, T, V)
        draw = uniform(seed, request_id, position, "sample")
        tokens += sample_tokens(logits[:, -1], temperature, [draw])
    return tokens[len(prompt_tokens) :]
