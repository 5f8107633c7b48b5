"""Behind lesson 3's exhibits: a mask with padding in sight, and one with rows that see nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course.lesson_data.l01_chunks import SOLILOQUY
from course.lesson_data.l03_batch import compared_masks
from course.lesson_data.texts import shown
from course.replay import replay
from nanogpt import GPT, Engine, EngineConfig, ModelConfig, Policies, Request, decode, encode
from nanogpt.policies import fusing

MaskOf = Callable[[Sequence[int], Sequence[int]], Tensor]
Held = list[list[tuple[Tensor, Tensor]]]  # for each request, k and v of each layer; [] before any


def padding_in_sight(context_lens: Sequence[int], num_scheduled_tokens: Sequence[int]) -> Tensor:
    """Exhibit A: causal among the new tokens, no padding of the past. Bool (B, T, S + T)."""
    real = torch.ones(len(num_scheduled_tokens), 1, max(num_scheduled_tokens), dtype=torch.bool)
    return _causal(context_lens, num_scheduled_tokens) & torch.cat(
        [_held(context_lens), real], dim=2
    )


def rows_that_see_nothing(
    context_lens: Sequence[int], num_scheduled_tokens: Sequence[int]
) -> Tensor:
    """Exhibit B: no padding in sight, neither of the past nor among the new tokens."""
    first_real = max(num_scheduled_tokens) - torch.tensor(num_scheduled_tokens)
    real = torch.arange(max(num_scheduled_tokens)) >= first_real.view(-1, 1, 1)  # (B, 1, T)
    return _causal(context_lens, num_scheduled_tokens) & torch.cat(
        [_held(context_lens), real], dim=2
    )


def forgets_the_past(context_lens: Sequence[int], num_scheduled_tokens: Sequence[int]) -> Tensor:
    """The right mask, but for the padding of the past, which is in sight."""
    mask = fusing.full_mask(context_lens, num_scheduled_tokens).clone()
    mask[:, :, : max(context_lens)] = True
    return mask


def _held(context_lens: Sequence[int]) -> Tensor:
    longest = max(context_lens)
    return torch.arange(longest) >= (longest - torch.tensor(context_lens)).view(
        -1, 1, 1
    )  # (B, 1, S)


def _causal(context_lens: Sequence[int], num_scheduled_tokens: Sequence[int]) -> Tensor:
    past, new = max(context_lens), max(num_scheduled_tokens)
    return torch.ones(new, past + new, dtype=torch.bool).tril(past)


def diluted(model: GPT) -> int:
    """Of 60 greedy letters after prompts of 9 to 24, those that change if padding is in sight."""
    texts = [encode(SOLILOQUY[i : i + 24 - (i // 6) % 16]) for i in range(0, 360, 6)]
    limits = EngineConfig(token_budget=2000, max_batch_size=60, executor="fused")

    def second_letters(policies: Policies) -> list[int]:
        queue = [(0, Request(i, text, 2)) for i, text in enumerate(texts)]
        trace = Engine(model, limits, policies).run(queue)
        return [trace.generated_tokens(i)[1] for i in range(len(texts))]

    pairs = zip(
        second_letters(Policies()),
        second_letters(Policies(full_mask=forgets_the_past)),
        strict=True,
    )
    return sum(right != wrong for right, wrong in pairs)


# --- one fused forward --------------------------------------------------------------------------


@torch.inference_mode()
def fused_forward(
    model: GPT,
    known: Sequence[list[int]],
    held: Held,
    num_scheduled_tokens: Sequence[int],
    mask_of: MaskOf = fusing.full_mask,
    seen: list[Tensor] | None = None,
) -> tuple[Tensor, Held]:
    """The fused forward with its softmax written out: logits (B, V), and each request's K/V.

    With `seen`, every layer's attention weights are added to it, (B, H, T, S + T).
    """
    context_lens = [len(kv[0][0]) if kv else 0 for kv in held]
    tokens, positions = fusing.prepare_inputs(known, context_lens, num_scheduled_tokens)
    mask = mask_of(context_lens, num_scheduled_tokens).unsqueeze(1)  # (B, 1, T, S + T)
    now_held: Held = [[] for _ in known]

    def with_past(layer: int, which: int, new: Tensor) -> Tensor:
        padded = new.new_zeros(len(held), max(context_lens), *new.shape[2:])  # (B, S, H, D)
        for row, kv, length in zip(padded, held, context_lens, strict=True):
            if kv:
                row[max(context_lens) - length :] = kv[layer][which]
        return torch.cat([padded, new], dim=1)  # (B, S + T, H, D)

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = with_past(layer, 0, k), with_past(layer, 1, v)
        own = zip(
            fusing.split_kv(k, context_lens, num_scheduled_tokens),
            fusing.split_kv(v, context_lens, num_scheduled_tokens),
            strict=True,
        )
        for kv, mine in zip(now_held, own, strict=True):
            kv.append(mine)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        if seen is not None:
            seen.append(weights)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v)  # (B, T, H, D)

    hidden = model.hidden(torch.tensor(tokens), torch.tensor(positions), attend)  # (B, T, C)
    return model.logits(hidden[:, -1]), now_held


# --- exhibit A ----------------------------------------------------------------------------------


def neighbour_table(model: GPT) -> str:
    """What Romeo says under exhibit A, by the length of a prompt that arrives at step 3."""

    def said(length: int) -> str:
        neighbour = [(3, Request(1, encode(SOLILOQUY[:length]), 1))] if length else []
        arrivals = [(0, Request(0, encode("ROMEO:\nBut, soft! "), 32)), *neighbour]
        limits = EngineConfig(token_budget=128, executor="fused")
        trace = replay(Engine(model, limits, Policies(full_mask=padding_in_sight)), arrivals)
        return shown(decode(list(trace.generated_tokens(0))))

    rows = [f"| {n or 'nothing comes'} | {said(n)} |" for n in (0, 1, 2, 4, 8, 16, 32)]
    return "| length of the other prompt | what Romeo says |\n|--:|:--|\n" + "\n".join(rows)


def neighbour_facts(model: GPT) -> dict[int, tuple[int, float]]:
    """Of 60 decodes beside one chunk of n: tokens that change, share of attention on padding."""
    texts = [encode(SOLILOQUY[i : i + 24]) for i in range(0, 360, 6)]
    _, held = fused_forward(model, texts, [[] for _ in texts], [23] * 60)
    found: dict[int, tuple[int, float]] = {}
    for n in (1, 2, 8, 32):
        known, num_scheduled_tokens = [*texts, encode(SOLILOQUY[:n])], [1] * 60 + [n]
        seen: list[Tensor] = []
        right, _ = fused_forward(model, known, [*held, []], num_scheduled_tokens)
        wrong, _ = fused_forward(
            model, known, [*held, []], num_scheduled_tokens, padding_in_sight, seen
        )
        flipped = int((right.argmax(dim=1) != wrong.argmax(dim=1))[:60].sum())
        lost = [each[:60, :, -1, 23 : 23 + n - 1].sum(dim=-1).mean() for each in seen]
        found[n] = flipped, float(torch.stack(lost).mean())
    return found


def said_of_neighbours(model: GPT) -> str:
    """`neighbour_facts` as lines of text."""
    return "\n".join(
        f"A chunk of {n}: {flipped} of 60 greedy tokens change, {share:.0%} of the attention is "
        "spent on padding."
        for n, (flipped, share) in neighbour_facts(model).items()
    )


def padding_in_sight_steps() -> Any:
    """Exhibit A's mask of the post's example with a decode in row A, beside the right one."""
    lengths = [4, 2], [1, 3]
    return compared_masks("AB", *lengths, padding_in_sight(*lengths), fusing.full_mask(*lengths))


# --- exhibit B ----------------------------------------------------------------------------------


def nan_table(model: GPT) -> str:
    """Which rows' logits are numbers under exhibit B, in models of 1, 2 and 4 layers."""
    torch.manual_seed(0)
    models = {
        "1 layer, random weights": GPT(ModelConfig(num_layers=1)),
        "2 layers, random weights": GPT(ModelConfig(num_layers=2)),
        "the trained model, 4 layers": model,
    }

    def finite(some_model: GPT, *prompts: str) -> list[str]:
        known = [encode(prompt) for prompt in prompts]
        lengths = [len(tokens) for tokens in known]
        logits, _ = fused_forward(
            some_model, known, [[] for _ in known], lengths, rows_that_see_nothing
        )
        return ["a number" if row.isfinite().all() else "**NaN**" for row in logits]

    lines = ["| model | row of 3 tokens | row of 5 | two rows of 5 |", "|:--|:--|:--|:--|"]
    for name, some_model in models.items():
        short, long = finite(some_model, "O R", "O, Ro")
        pair = " and ".join(finite(some_model, "O Rom", "O, Ro"))
        lines.append(f"| {name} | {short} | {long} | {pair} |")
    return "\n".join(lines)
