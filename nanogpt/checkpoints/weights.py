"""Weights on disk to a model and back: safetensors in half precision, with the sizes beside them.

Knows the file format; does not know how the weights came about (`train.py`) or who uses them.
"""

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch.overrides import TorchFunctionMode

from nanogpt.config import ModelConfig
from nanogpt.model import GPT

CHECKSUMS = "SHA256SUMS"
"""Beside shipped files: their checksums, as `sha256sum` writes and checks them."""
SHIPPED_WEIGHTS = Path(__file__).parent / "shakespeare.safetensors"

SHAKESPEARE = ModelConfig()
"""Their shape: 4 layers, 4 heads, 128 channels, context 512."""


def save_model(model: GPT, path: Path) -> None:
    """Write the weights in half precision, the sizes as JSON in the header; all or nothing."""
    weights = {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    partial = path.with_suffix(".partial")
    save_file(weights, partial, {"config": json.dumps(dataclasses.asdict(model.config))})
    os.replace(partial, path)


def load_model(path: Path | str = SHIPPED_WEIGHTS, dtype: torch.dtype = torch.float32) -> GPT:
    """Load trained weights, by default the shipped Shakespeare model, ready to serve.

    `dtype` is what the model computes in: float32 for speed, float64 where tokens must be equal
    to the last bit of a near-tie (float32 sums depend on who shares the batch).
    Raises: ValueError naming the file and what is wrong with it: missing, damaged, or with tensors
    that do not match the sizes in its header.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no weights file at {path}")
    check_sum(path)
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}") from None
    try:
        config = ModelConfig(**json.loads(header["config"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not state usable model sizes in its header entry 'config': {error}"
        ) from None
    model = model_to_fill(config)
    _check_shapes(path, weights, model.state_dict())
    for name, tensor in weights.items():
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{path}: tensor {name} holds values that are not finite")
    model.load_state_dict(weights)
    return model.to(dtype).eval().requires_grad_(False)


class _NothingDrawn(TorchFunctionMode):
    """Skips the drawing of random weights: memory stays untouched, random numbers as they are."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        draws = getattr(func, "__module__", None) == "torch.nn.init"
        return None if draws else func(*args, **(kwargs or {}))


def model_to_fill(config: ModelConfig) -> GPT:
    """A model whose weights are anything.

    Not on the meta device, whose functions make torch import its compiler: that takes longer than
    loading a model. Raises: ValueError for sizes that do not fit into memory.
    """
    try:
        with _NothingDrawn():
            return GPT(config)
    except RuntimeError as error:
        raise ValueError(f"a model of {config} cannot be built: {error}") from None


def check_sum(path: Path) -> None:
    """Compare a file with the checksum that lies beside it, if there is one.

    Raises: ValueError for a file that is not the shipped one.
    """
    sums = path.with_name(CHECKSUMS)
    entries = [line.split() for line in sums.read_text().splitlines()] if sums.is_file() else []
    wanted = {name: digest for digest, name in entries}.get(path.name)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if wanted not in (None, digest):
        raise ValueError(
            f"{path} is not the file that was shipped: its sha256 is {digest}, and {CHECKSUMS} "
            f"beside it says {wanted}; bring the file back from the repository"
        )


def _check_shapes(
    path: Path, weights: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]
) -> None:
    missing = sorted(wanted.keys() - weights.keys())
    unknown = sorted(weights.keys() - wanted.keys())
    if missing or unknown:
        raise ValueError(f"{path} lacks tensors {missing} and has unknown tensors {unknown}")
    for name, tensor in weights.items():
        if tensor.shape != wanted[name].shape:
            raise ValueError(
                f"{path}: tensor {name} has shape {tuple(tensor.shape)}, "
                f"but its model sizes call for {tuple(wanted[name].shape)}"
            )
