"""Behind lesson 3's exhibits: visible padding, and tokens that go to other requests."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course.lesson_data.l01_chunks import SOLILOQUY
from course.lesson_data.l03_batch import compared_masks
from course.lesson_data.texts import arriving, shown, table
from course.replay import replay
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, decode, encode, generate
from nanogpt.policies import fusing

_trio = arriving(
    (0, "ROMEO:\nBut, soft! ", 20, 2), (0, "JULIET:\nO Romeo, ", 20, 0), (0, "HAMLET:\nA", 20, 1)
)


# --- exhibit A ----------------------------------------------------------------------------------


def padding_in_sight(context_lens: Sequence[int], num_scheduled_tokens: Sequence[int]) -> Tensor:
    """Exhibit A: hides the padding of the past, not that of the new tokens. Bool (B, T, S + T)."""
    past, new = max(context_lens), max(num_scheduled_tokens)
    mask = torch.ones(len(context_lens), new, past + new, dtype=torch.bool).tril(past)
    for row, length in zip(mask, context_lens, strict=True):
        row[:, : past - length] = False
    return mask


def neighbour_table(model: GPT) -> str:
    """Romeo's text under exhibit A, by the length of a prompt that arrives at step 3."""

    def said(length: int) -> str:
        neighbour = [(3, Request(1, encode(SOLILOQUY[:length]), 1))] if length else []
        arrivals = [(0, Request(0, encode("ROMEO:\nBut, soft! "), 32)), *neighbour]
        limits = EngineConfig(token_budget=128, executor="fused")
        trace = replay(Engine(model, limits, Policies(full_mask=padding_in_sight)), arrivals)
        return shown(decode(list(trace.generated_tokens(0))))

    rows = (f"| {n or 'no other prompt'} | {said(n)} |" for n in (0, 1, 2, 4, 8, 16, 32))
    return table("| length of the other prompt | Romeo's text |", "rl", rows)


def padding_in_sight_steps() -> Any:
    """Exhibit A's mask of the post's example with a decode in row A, beside the right mask."""
    lengths = [4, 2], [1, 3]
    return compared_masks("AB", *lengths, padding_in_sight(*lengths), fusing.full_mask(*lengths))


# --- exhibit B ----------------------------------------------------------------------------------


def along_the_active(
    batch_ids: Sequence[int], active_ids: Sequence[int], sampled: Sequence[int]
) -> dict[int, int]:
    """Exhibit B: the tokens go to the requests that are active now, in their order."""
    return dict(zip(active_ids, sampled, strict=False))


def crossed_table(model: GPT) -> str:
    """Three texts under exhibit B, by FCFS and by priority, beside the oracle's."""
    crossed = Policies(assign_tokens=along_the_active)
    fcfs, ranked = (
        replay(Engine(model, EngineConfig(policy=policy), crossed), _trio())
        for policy in ("fcfs", "priority")
    )
    rows: list[str] = []
    for _, request in _trio():
        texts = (
            fcfs.generated_tokens(request.id),
            ranked.generated_tokens(request.id),
            generate(model, request.prompt_tokens, 20),
        )
        drawn = " | ".join(shown(decode(list(text))) for text in texts)
        rows.append(f"| {request.id} | {request.priority} | {drawn} |")
    head = "| request | priority | under FCFS | under priority | the oracle |"
    return table(head, "rrlll", rows)
