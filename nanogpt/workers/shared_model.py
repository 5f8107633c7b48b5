"""A model in a file that several processes map, so that its weights are in memory once.

The parent writes what it has, in whatever type it computes in; a worker maps the file and builds
the model around the mapped tensors without copying any. Mapped privately: no worker can change the
weights of another. A file works alike on Linux, macOS and Windows, takes any model and not only the
shipped one, and leaves no shared-memory segment behind when all are killed.
"""

import dataclasses
from pathlib import Path

import torch

from nanogpt.checkpoints.filling import model_to_fill
from nanogpt.config import ModelConfig
from nanogpt.model import GPT


def write_model(model: GPT, path: Path) -> None:
    """Write sizes and weights, memory layout included."""
    torch.save({"config": dataclasses.asdict(model.config), "weights": model.state_dict()}, path)


def map_model(path: Path) -> GPT:
    """The model in the file, its weights read from there as they are needed."""
    file = torch.load(path, mmap=True, weights_only=True)
    model = model_to_fill(ModelConfig(**file["config"]), path)
    model.load_state_dict(file["weights"], assign=True)
    return model.eval().requires_grad_(False)
