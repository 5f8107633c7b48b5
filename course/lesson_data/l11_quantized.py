"""Behind lesson 11's 8-bit K/V: next tokens that change, and requests that fit."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from course.attempt import Attempt
from course.lesson_data.l11_step import LLAMA_KV
from course.lesson_data.texts import table
from course.replay import answered
from nanogpt import GPT, encode
from widgets import whose

TEXT = (
    "KING RICHARD III:\nNow is the winter of our discontent\nMade glorious summer by this sun of "
    "York;\nAnd all the clouds that lour'd upon our house\nIn the deep bosom of the ocean buried."
    "\n\nJULIET:\nO Romeo, Romeo! wherefore art thou Romeo?\nDeny thy father and refuse thy name;\n"
    "Or, if thou wilt not, be but sworn my love,\nAnd I'll no longer be a Capulet.\n\nROMEO:\n"
    "But, soft! what light through yonder window breaks?\nIt is the east, and Juliet is the sun."
    "\nArise, fair sun, and kill the envious moon.\n"
)
KV_BLOCK = 16
MEMORY_GB, GPU_CONTEXT = 80 - 16, 2000
"""The H100's memory less the 8B model's 16-bit weights, and tokens of context per request."""


def next_tokens(rule: Callable[..., Any] | None, model: GPT) -> list[int]:
    """The greedy next token at each position of a text, with each block of K/V as `rule` has it."""
    ids = torch.tensor(encode(TEXT))

    def stored(x: torch.Tensor) -> torch.Tensor:  # (T, H, D)
        if rule is None:
            return x
        blocks = list[torch.Tensor]()
        for block in x.split(KV_BLOCK):
            heads = block.transpose(0, 1)  # (H, B, D)
            numbers, scales = rule(heads.flatten(1).tolist())
            back = torch.tensor(numbers) * torch.tensor(scales)[:, None]
            blocks.append(back.view(heads.shape).transpose(0, 1))
        return torch.cat(blocks).to(x)

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.transpose(0, 1) for x in (q, stored(k), stored(v)))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1)

    with torch.inference_mode():
        hidden = model.hidden(ids, torch.arange(len(ids)), attend)
        return model.logits(hidden).argmax(-1).tolist()


def quantized_table(answer: Attempt, model: GPT) -> str:
    """Next tokens that change with 8-bit K/V, and requests that fit on a GPU; Markdown."""
    exact = next_tokens(None, model)
    tokens, mine = answered(answer, next_tokens, model)
    changed = sum(a != b for a, b in zip(exact, tokens, strict=True))
    # A block of 8B: K and V of 32 layers with 8 heads each, whose scales have 4 bytes.
    scales = 4 * 2 * 32 * 8 / KV_BLOCK
    fits = [
        int(MEMORY_GB * 1e9 / (GPU_CONTEXT * num_bytes))
        for num_bytes in (LLAMA_KV, LLAMA_KV / 2 + scales)
    ]
    rows = [
        f"| 16 bits | 0 of {len(exact)} | {LLAMA_KV:,} B | {fits[0]} |",
        f"| 8 bits | {changed} of {len(exact)} | {LLAMA_KV / 2 + scales:,.0f} B | {fits[1]} |",
    ]
    head = (
        "| K/V in | next tokens that change (our model) | 8B: bytes per token | requests that fit |"
    )
    return f"By `quantize_kv`, {whose(mine)}:\n\n{table(head, 'lrrr', rows)}"
