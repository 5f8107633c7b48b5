"""Behind lesson 0's first half: a cache in the model, and the time that it saves."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course.calling.jobs import RunError, run
from course.calling.policies import Policy
from course.lesson_data.texts import table
from course.registry import exercise
from nanogpt import GPT, Engine, EngineConfig, Request, decode, generate
from nanogpt.checkpoints.weights import load_model
from nanogpt.clock import WallClock

Attention = Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
NextInputs = Callable[[list[int], int], list[int]]
Writer = Callable[..., tuple[list[int], torch.Tensor]]

# --- the learner's cache in the model ----------------------------------------------------------


class Cache:
    """K and V of one request per head and layer, grown by `attend(q, k_cache, v_cache, k, v)`."""

    def __init__(self, attend: Attention) -> None:
        self._attend = attend
        self._held: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    @torch.inference_mode()
    def feed(self, model: GPT, token: int, position: int) -> torch.Tensor:
        """The logits (V,) after one more token."""
        hidden = model.hidden(torch.tensor([token]), torch.tensor([position]), self._every_head)
        return model.logits(hidden)[0]

    def _every_head(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        out = torch.empty_like(q)  # (1, H, D)
        for head in range(q.shape[1]):
            k_cache, v_cache = self._held.get((layer, head), (k[:0, head], v[:0, head]))
            out[:, head], k_all, v_all = self._attend(
                q[:, head], k_cache, v_cache, k[:, head], v[:, head]
            )
            self._held[layer, head] = k_all, v_all
        return out


def your_text(
    write: Writer, prompt: Sequence[int], next_inputs: NextInputs, cached_attention: Attention
) -> str:
    """40 characters written by `write` with two passed answers, beside the oracle's; Markdown."""
    mine = Policy(next_inputs), Policy(cached_attention)
    oracles_new, oracles_logits = _oracle(tuple(prompt))
    try:
        new, logits = run(_written, write, prompt, *mine)
        if new != oracles_new:
            guilty = run(_guilty, write, prompt, oracles_new, *mine)
            return _drawn(_said_of_another_text(guilty), prompt, new)
    except RunError as error:
        return f"The run stopped: {error}."
    gap = float((logits - oracles_logits).abs().max())
    said = (
        "**Your two functions wrote this text.** The oracle, which recomputes everything, writes "
        "the same 40 characters. In float64, the largest difference between one of your logits "
        f"and the oracle's is {gap:.1e}."
    )
    return _drawn(said, prompt, new)


@functools.cache
@torch.inference_mode()
def _oracle(prompt: tuple[int, ...]) -> tuple[list[int], torch.Tensor]:
    """The oracle's 40 characters and their logits (40, V), worked out once."""
    model = load_model(dtype=torch.float64)
    new = generate(model, list(prompt), 40)
    texts = [[*prompt, *new[:i]] for i in range(len(new))]
    return new, torch.stack([model(torch.tensor([text]))[0][0, -1] for text in texts])


def reference_text(prompt: Sequence[int]) -> str:
    """The same 40 characters by the engine's own cache, while the two answers are not there."""
    engine = Engine(load_model(dtype=torch.float64), EngineConfig(token_budget=512))
    new = engine.run([(0, Request(0, list(prompt), 40))]).generated_tokens(0)
    said = (
        "**The engine's own cache wrote this text.** It is the reference until both of your "
        "functions pass. Then your functions write the text, and your logits are compared with "
        "the oracle's."
    )
    return _drawn(said, prompt, new)


def _written(
    write: Writer, prompt: Sequence[int], *answers: Callable[..., Any]
) -> tuple[list[int], torch.Tensor]:
    return write(load_model(dtype=torch.float64), prompt, 40, *answers)


def _guilty(
    write: Writer,
    prompt: Sequence[int],
    oracle: list[int],
    next_inputs: NextInputs,
    cached_attention: Attention,
) -> list[str]:
    """Which of two answers make another text than the oracle's, each beside a right one."""
    pairs = {
        "next_inputs": (next_inputs, exercise("l00.cached_attention").right[0]),
        "cached_attention": (exercise("l00.next_inputs").right[0], cached_attention),
    }
    return [name for name, both in pairs.items() if _written(write, prompt, *both)[0] != oracle]


def _said_of_another_text(guilty: list[str]) -> str:
    whose = " and ".join(f"`{name}`" for name in guilty) or "the two together"
    return (
        "**Your two functions wrote this text, but the oracle writes another one.** Both passed "
        f"their checks, so the checks have missed something. The difference comes from {whose}, "
        "which changes the text even beside a right function."
    )


def _drawn(said: str, prompt: Sequence[int], new: Sequence[int]) -> str:
    return "\n".join([said, "", "```text", decode(prompt) + decode(new), "```"])


# --- time -----------------------------------------------------------------------------


@torch.inference_mode()
def timed_both_ways(model: GPT, prompt: Sequence[int], count: int) -> tuple[list[int], list[int]]:
    """Microseconds until each of `count` tokens is there: everything fed every time, and cached."""
    clock, tokens, uncached_us = WallClock(), list(prompt), list[int]()
    generate(model, list(prompt), 5)  # the first calls are slow, whatever they do
    Engine(model, EngineConfig(token_budget=512)).run([(0, Request(0, list(prompt), 5))])
    begin_us = clock.now_us()
    for _ in range(count):
        logits, _ = model(torch.tensor([tokens]))
        tokens.append(int(logits[0, -1].argmax()))
        uncached_us.append(clock.now_us() - begin_us)
    engine = Engine(model, EngineConfig(token_budget=512), clock=clock)
    steps = engine.run([(0, Request(0, list(prompt), count))]).steps
    return uncached_us, [step.end_us - steps[0].start_us for step in steps]


def time_table(num_prompt: int, uncached_us: Sequence[int], cached_us: Sequence[int]) -> str:
    """Tokens and times with and without a cache after some numbers of characters, as Markdown."""
    head = (
        "| new characters | tokens computed, no cache | with cache | time, no cache "
        "| with cache | saved |"
    )
    rows: list[str] = []
    for n in (1, 20, 50, 100, 200):
        plain, kept = sum(range(num_prompt, num_prompt + n)), num_prompt + n - 1
        plain_ms, kept_ms = uncached_us[n - 1] / 1000, cached_us[n - 1] / 1000
        rows.append(
            f"| {n} | {plain:,} | {kept:,} | {plain_ms:,.0f} ms | {kept_ms:,.0f} ms "
            f"| {plain_ms / kept_ms:.1f} × |"
        )
    source = "*Times: measured on this machine just now. Tokens: counted.*"
    return f"{table(head, 'rrrrrr', rows)}\n\n{source}"
