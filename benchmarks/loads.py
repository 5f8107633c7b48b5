"""The contenders' loads and models, the same everywhere."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from nanogpt.checkpoints.weights import load_model
from nanogpt.config import ModelConfig
from nanogpt.model import GPT

MIXED_PROMPTS = (8, 200)
"""Shortest and longest prompt of a mixed load, in tokens."""
OPENINGS = (
    "ROMEO:\nWhat say", "JULIET:\nO, my l", "KING RICHARD:\nN", "First Citizen:\n",
    "Shall I be plai", "Come, sir, and h", "GLOUCESTER:\nMy ", "The king is not",
)  # fmt: skip
"""Of Shakespeare's: texts that the shipped model goes on with."""


@dataclass(frozen=True, slots=True)
class Load:
    """Requests that are all there at the start, and the token budget to serve them with."""

    name: str
    prompts: tuple[tuple[int, ...], ...]
    max_new_tokens: int
    token_budget: int

    @property
    def num_requests(self) -> int:
        """How many requests there are, all of them served at once."""
        return len(self.prompts)

    @property
    def num_generated(self) -> int:
        """Tokens that serving the load generates."""
        return self.num_requests * self.max_new_tokens


def mixed(num_requests: int, max_new_tokens: int = 32, *, vocab_size: int = 65) -> Load:
    """Prompts of 8 to 200 tokens in random order: chunks run beside decodes, and then decodes."""
    rng = random.Random(0)
    shortest, longest = MIXED_PROMPTS
    stride = (longest - shortest) / max(1, num_requests - 1)
    lengths = [round(shortest + i * stride) for i in range(num_requests)]
    rng.shuffle(lengths)
    prompts = tuple(_tokens(rng, length, vocab_size) for length in lengths)
    return Load(f"mixed-{num_requests}", prompts, max_new_tokens, token_budget=256)


def decode(num_requests: int, max_new_tokens: int = 64, *, vocab_size: int = 65) -> Load:
    """Prompts of 8 tokens each, then nothing but decodes."""
    short = of_length(MIXED_PROMPTS[0], num_requests, max_new_tokens, vocab_size=vocab_size)
    return replace(short, name=f"decode-{num_requests}")


def of_length(
    prompt_len: int,
    num_requests: int,
    max_new_tokens: int,
    *,
    vocab_size: int = 65,
    seed: int = 0,
) -> Load:
    """Prompts of one length, and long texts behind them."""
    rng = random.Random(seed)
    prompts = tuple(_tokens(rng, prompt_len, vocab_size) for _ in range(num_requests))
    return Load(f"{num_requests} x {prompt_len}", prompts, max_new_tokens, token_budget=256)


def _tokens(rng: random.Random, length: int, vocab_size: int) -> tuple[int, ...]:
    return tuple(rng.randrange(vocab_size) for _ in range(length))


def character_model() -> GPT:
    """nanoGPT's character-level size, 10.7 M parameters, with fixed random weights."""
    torch.manual_seed(0)
    size = ModelConfig(num_layers=6, num_heads=6, num_channels=384)
    return GPT(size).eval().requires_grad_(False)


MODELS: dict[str, Callable[[], GPT]] = {"shipped": load_model, "character": character_model}
"""The checkpoint of the course (4 layers, 4 heads, 128 channels), and nanoGPT's own size."""
