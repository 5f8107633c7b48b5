"""Behind lesson 1's exhibits: a mask for first chunks only, and a plan that admits when idle."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from course.lesson_data.l01_chunks import SOLILOQUY, unmasked_later
from course.lesson_data.texts import arriving, shown, table
from nanogpt import (
    GPT,
    Engine,
    EngineConfig,
    ModelConfig,
    Policies,
    Request,
    Trace,
    decode,
    encode,
    generate,
    planning,
)
from nanogpt.clock import LARGE_GPU, CostClock
from nanogpt.policies import masks

Mask = Callable[[int, int], torch.Tensor]


def text_by_chunk_size(model: GPT) -> str:
    """The texts that exhibit A generates with five chunk sizes, and the oracle's text."""
    prompt = encode(SOLILOQUY[:40])
    rows: list[str] = []
    for size in (1, 5, 8, 20, 40):
        engine = Engine(model, EngineConfig(token_budget=size), Policies(chunk_mask=unmasked_later))
        trace = engine.run([(0, Request(0, list(prompt), 32))])
        rows.append(f"| {size} | {shown(decode(list(trace.generated_tokens(0))))} |")
    rows.append(f"| the oracle | {shown(decode(generate(model, prompt, 32)))} |")
    head = "| chunk size | the text after the first 40 characters of the soliloquy |"
    return table(head, "rl", rows)


def flips_table(model: GPT) -> str:
    """How many greedy tokens exhibit A flips in models of one, two and four layers, as a table."""
    torch.manual_seed(0)
    models = {
        "1 layer, random weights": GPT(ModelConfig(num_layers=1)),
        "2 layers, random weights": GPT(ModelConfig(num_layers=2)),
        "the trained model, 4 layers": model,
    }
    rows: list[str] = []
    for name, each in models.items():
        flipped, largest = _flips(each)
        rows.append(f"| {name} | {flipped} | {largest:.3g} |")
    return table("| model | greedy tokens flipped, of 60 | largest logit difference |", "lrr", rows)


@torch.inference_mode()
def _flips(model: GPT) -> tuple[int, float]:
    """Greedy tokens that exhibit A flips, and its largest difference of any logit."""
    flipped, largest = 0, 0.0
    for start in range(0, 360, 6):
        tokens = encode(SOLILOQUY[start : start + 24])
        right = _logits_after(model, tokens, 8, masks.chunk_mask)
        wrong = _logits_after(model, tokens, 8, unmasked_later)
        flipped += int(right.argmax() != wrong.argmax())
        largest = max(largest, (right - wrong).abs().max().item())
    return flipped, largest


def _logits_after(model: GPT, tokens: Sequence[int], size: int, mask_of: Mask) -> torch.Tensor:
    """Prefill `tokens` in chunks of `size`; the logits (V,) after the last one."""
    held: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # layer -> K and V so far, (S, H, D)
    hidden = torch.empty(0)
    for start in range(0, len(tokens), size):
        chunk = tokens[start : start + size]
        mask = mask_of(start, len(chunk))  # (T, S)

        def attend(
            layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor = mask
        ) -> torch.Tensor:
            if layer in held:
                k, v = torch.cat([held[layer][0], k]), torch.cat([held[layer][1], v])
            held[layer] = k, v
            heads_first = (x.transpose(0, 1) for x in (q, k, v))
            return F.scaled_dot_product_attention(*heads_first, attn_mask=mask).transpose(0, 1)

        positions = torch.arange(start, start + len(chunk))
        hidden = model.hidden(torch.tensor(chunk), positions, attend)  # (T, C)
    return model.logits(hidden[-1])


def late_arrival(model: GPT) -> tuple[Trace, Trace]:
    """Three requests under exhibit B, which admits only when idle, and under the reference."""

    def only_when_idle(
        decodes: Sequence[int],
        prefilling: Sequence[tuple[int, int]],
        waiting: Sequence[tuple[int, int]],
        token_budget: int,
    ) -> planning.Plan:
        seen = [] if decodes or prefilling else waiting
        return planning.plan_step(decodes, prefilling, seen, token_budget)

    three_requests = arriving(
        (0, "ROMEO:\nBut, soft! ", 24), (0, "JULIET:\nO Romeo, ", 26), (3, "HAMLET:\nA", 6)
    )

    def run(policies: Policies) -> Trace:
        engine = Engine(model, EngineConfig(token_budget=32), policies, clock=CostClock(LARGE_GPU))
        return engine.run(three_requests())

    return run(Policies(plan_step=only_when_idle)), run(Policies())
