"""The two sizes that the engine is timed at."""

from collections.abc import Callable

import torch

from nanogpt.checkpoints.weights import load_model
from nanogpt.config import ModelConfig
from nanogpt.model import GPT


def character_model() -> GPT:
    """nanoGPT's character-level size, 10.7 M parameters, with fixed random weights."""
    torch.manual_seed(0)
    size = ModelConfig(num_layers=6, num_heads=6, num_channels=384)
    return GPT(size).eval().requires_grad_(False)


MODELS: dict[str, Callable[[], GPT]] = {"shipped": load_model, "character": character_model}
"""The checkpoint of the course (4 layers, 4 heads, 128 channels), and nanoGPT's own size."""
