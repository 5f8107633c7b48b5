"""Reading weights: the tensors of a file, their check, and an uninitialised model for them."""

import hashlib
from collections.abc import Callable, Generator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch.overrides import TorchFunctionMode

from nanogpt.config import ModelConfig
from nanogpt.model import GPT

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types of stored weights; fewer bits would need scales."""
CHECKSUMS = "SHA256SUMS"
"""Beside shipped files: their checksums, as `sha256sum` writes and checks them."""


def read_tensors(path: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    """The header and the tensors of a safetensors file.

    Raises: ValueError for one that is missing, damaged, or not what its checksum says.
    """
    with opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        return file.metadata() or {}, tensors


@contextmanager
def opened(path: Path) -> Generator[Any]:
    """A mapped safetensors file; its pages are given back with its tensors. Raises: ValueError."""
    if not path.is_file():
        raise ValueError(f"there is no weights file at {path}")
    check_sum(path)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}") from None


def check_sum(path: Path) -> None:
    """Raises: ValueError for a file that differs from the checksum beside it, if there is one."""
    sums = path.with_name(CHECKSUMS)
    entries = [line.split() for line in sums.read_text().splitlines()] if sums.is_file() else []
    wanted = {name: digest for digest, name in entries}.get(path.name)
    if wanted is None:
        return
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != wanted:
        raise ValueError(
            f"{path} is not the file that was shipped: its sha256 is {digest}, and {CHECKSUMS} "
            f"beside it says {wanted}; bring the file back from the repository"
        )


class _NothingDrawn(TorchFunctionMode):
    """Skips the drawing of random weights."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        draws = getattr(func, "__module__", None) == "torch.nn.init"
        return None if draws else func(*args, **(kwargs or {}))


def model_to_fill(config: ModelConfig, path: Path, kind: Callable[[Any], GPT] = GPT) -> GPT:
    """A model with uninitialised weights. Raises: ValueError for sizes that do not fit in memory.

    The meta device would make torch import its compiler, which takes longer than loading a model.
    """
    try:
        with _NothingDrawn():
            return kind(config)
    except (RuntimeError, TypeError) as error:  # no memory; a size beyond 64 bits
        why = str(error).partition("\n")[0]
        raise ValueError(f"{path}: a model of these sizes cannot be built: {why}") from None


def check_weights(
    path: Path, weights: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]
) -> None:
    """Raises: ValueError for a tensor that is missing, unknown, of a wrong shape or type, or not
    finite.
    """
    check_names(path, weights.keys(), wanted.keys())
    for name, tensor in weights.items():
        check_tensor(path, name, tensor, wanted[name])


def check_names(path: Path, names: Set[str], wanted: Set[str]) -> None:
    """Raises: ValueError for missing and unknown tensors."""
    missing, unknown = sorted(wanted - names), sorted(names - wanted)
    if missing or unknown:
        raise ValueError(f"{path} lacks tensors {missing} and has unknown tensors {unknown}")


def check_tensor(path: Path, name: str, tensor: torch.Tensor, wanted: torch.Tensor) -> None:
    """Raises: ValueError for a tensor of a wrong shape or type, or one that is not finite."""
    if tensor.dtype not in DTYPES:
        raise ValueError(
            f"{path}: tensor {name} is of {tensor.dtype}; it must be one of {list(DTYPES)}"
        )
    if tensor.shape != wanted.shape:
        raise ValueError(
            f"{path}: tensor {name} has shape {tuple(tensor.shape)}, "
            f"but its model sizes call for {tuple(wanted.shape)}"
        )
    if not torch.stack(tensor.aminmax()).isfinite().all():  # in one pass: NaN goes through both
        raise ValueError(f"{path}: tensor {name} holds values that are not finite")
