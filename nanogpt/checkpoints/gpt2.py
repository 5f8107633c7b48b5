"""A GPT-2 from a folder in Hugging Face's form.

    config.json  model.safetensors (or parts of it, listed in model.safetensors.index.json)

Its tensors have other names, weights of Linear layers lie as (in, out), and the files may hold
masks. Its tokenizer: `byte_pairs`. Which models can be fetched: docs/gpt2.md.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nanogpt.checkpoints.filling import check_weights, model_to_fill, read_tensors
from nanogpt.config import ModelConfig
from nanogpt.model import GPT
from nanogpt.validate import check_int, show

THEIRS = {
    "token_embedding": "wte", "position_embedding": "wpe", "blocks": "h",
    "qkv": "attn.c_attn", "proj": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj",
}  # fmt: skip
"""Hugging Face's names for parts of our tensors' names."""
LINEAR = ("qkv", "proj", "up", "down")
PREFIX = "transformer."
"""Newer files begin each name with it."""
SIZES = {
    "num_layers": "n_layer", "num_heads": "n_head", "num_channels": "n_embd",
    "max_model_len": "n_positions", "vocab_size": "vocab_size",
}  # fmt: skip
"""The sizes of a `ModelConfig` by their names in config.json."""
HEAD = "lm_head.weight"
MASKS = (".attn.bias", ".attn.masked_bias")
"""Ends of the names of tensors that are not weights."""
GELU = {"gelu": False, "gelu_new": True, "gelu_pytorch_tanh": True}
"""Whether an activation, by its name in config.json, is GELU's tanh form."""
FIXED = {
    "model_type": "gpt2", "layer_norm_epsilon": 1e-5, "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False, "tie_word_embeddings": True,
    "add_cross_attention": False,
}  # fmt: skip
"""Settings that must have these values; a missing one has its value by default."""


def load_gpt2(folder: Path | str, dtype: torch.dtype = torch.float32) -> GPT:
    """A GPT-2 in Hugging Face's form, ready to serve.

    Raises: ValueError naming the file and what is wrong with it: missing, damaged, of another
    architecture, or with tensors that do not match its sizes.
    """
    folder = Path(folder)
    config = config_of(folder / "config.json")
    weights = {
        name: tensor
        for path in weight_files(folder)
        for name, tensor in read_tensors(path)[1].items()
        if not name.endswith(MASKS)
    }
    model = model_to_fill(config, folder / "config.json")
    prefix = PREFIX if any(name.startswith(PREFIX) for name in weights) else ""
    names = {ours: prefix + their_name(ours) for ours in model.state_dict()}
    embedding, head = names["token_embedding.weight"], weights.pop(HEAD, None)
    if head is not None:  # of two tied tensors a file may hold both, or either
        weights.setdefault(embedding, head)
    wanted = {names[ours]: _turned(ours, tensor) for ours, tensor in model.state_dict().items()}
    check_weights(folder, weights, wanted)
    wte = weights[embedding]
    if head is not None and not torch.equal(head.to(wte.dtype), wte):
        raise ValueError(
            f"{folder}: tensor {HEAD} is not {embedding}; only a head that is tied to the token "
            "embedding can be served"
        )
    model.load_state_dict({ours: _turned(ours, weights[names[ours]]) for ours in names})
    return model.to(dtype).eval().requires_grad_(False)


def config_of(path: Path) -> ModelConfig:
    """The sizes in a config.json. Raises: ValueError for another architecture than GPT-2's."""
    theirs = read_json(path)
    for name, wanted in FIXED.items():
        if theirs.get(name, wanted) != wanted:
            raise ValueError(f"{path}: {name} is {theirs[name]!r}; only {wanted!r} can be served")
    activation = theirs.get("activation_function", "gelu_new")
    if not isinstance(activation, str) or activation not in GELU:
        raise ValueError(
            f"{path}: activation_function is {activation!r}; it must be one of {sorted(GELU)}"
        )
    for name in SIZES.values():
        if name not in theirs:
            raise ValueError(f"{path} states no {name}")
        check_int(f"{path}: {name}", theirs[name], 1)
    sizes = {ours: theirs[name] for ours, name in SIZES.items()}
    try:
        config = ModelConfig(**sizes, bias=True, tanh_gelu=GELU[activation])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if theirs.get("n_inner") not in (None, 4 * config.num_channels):
        raise ValueError(
            f"{path}: n_inner is {theirs['n_inner']}; it must be {4 * config.num_channels}, four "
            "times n_embd"
        )
    return config


def weight_files(folder: Path) -> list[Path]:
    """The weights files of a folder. Raises: ValueError for a damaged index."""
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if not index.is_file():
        return [whole]
    files = read_json(index).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise ValueError(f"{index}: weight_map is {show(files)}; it must name a file per tensor")
    for tensor, file in files.items():
        if not (isinstance(file, str) and file and Path(file).name == file):
            raise ValueError(
                f"{index}: the file of tensor {tensor} is {show(file)}; it must be the name of a "
                "file beside it"
            )
    if whole.is_file():  # an index beside it may be of other weights
        return [whole]
    return [folder / name for name in sorted(set(files.values()))]


def their_name(ours: str) -> str:
    """Hugging Face's name of one of our tensors.

    >>> their_name("blocks.10.proj.bias")
    'h.10.attn.c_proj.bias'
    """
    return ".".join(THEIRS.get(part, part) for part in ours.split("."))


def _turned(ours: str, tensor: Tensor) -> Tensor:
    """Transpose a Linear layer's weight: (in, out) <-> (out, in)."""
    return tensor.t() if is_linear_weight(ours) else tensor


def is_linear_weight(ours: str) -> bool:
    """Whether a tensor is the weight of a Linear layer, stored as (in, out)."""
    return ours.endswith(".weight") and ours.split(".")[-2] in LINEAR


def read_json(path: Path) -> dict[str, Any]:
    """Raises: ValueError for a file that is missing, or no JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ValueError(f"there is no {path.name} in {path.parent}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable as JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a {type(found).__name__}; it must be an object")
    return found
