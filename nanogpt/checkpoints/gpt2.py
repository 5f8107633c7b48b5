"""GPT-2 as people have it on disk, a folder in Hugging Face's form, to a model.

    config.json  model.safetensors (or parts of it, listed in model.safetensors.index.json)

Their weights go by other names, those of Linear layers lie the other way round (in, out), and the
files may hold masks that are no weights. Its tokenizer: `byte_pairs`. Which model there is to
fetch: docs/gpt2.md.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from nanogpt.checkpoints.filling import check_weights, model_to_fill
from nanogpt.config import ModelConfig
from nanogpt.model import GPT

OURS = {
    "wte": "token_embedding", "wpe": "position_embedding", "h": "blocks", "ln_f": "ln_f",
    "ln_1": "ln_1", "ln_2": "ln_2", "attn.c_attn": "qkv", "attn.c_proj": "proj",
    "mlp.c_fc": "up", "mlp.c_proj": "down",
}  # fmt: skip
"""Our name for each of theirs."""
LINEAR = ("qkv", "proj", "up", "down")
GELU = {"gelu": False, "gelu_new": True, "gelu_pytorch_tanh": True}
"""Whether an activation, by its name in config.json, is GELU's tanh form."""
FIXED = {
    "model_type": "gpt2", "layer_norm_epsilon": 1e-5, "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False, "tie_word_embeddings": True,
    "add_cross_attention": False,
}  # fmt: skip
"""Settings that a model of ours cannot have otherwise; one that is not named has this value."""


def load_gpt2(folder: Path | str, dtype: torch.dtype = torch.float32) -> GPT:
    """A GPT-2 in Hugging Face's form, ready to serve.

    Raises: ValueError naming the file and what is wrong with it: missing, damaged, of another
    architecture, or with tensors that do not match its sizes.
    """
    folder = Path(folder)
    config = config_of(folder / "config.json")
    weights = dict(_weights(folder))
    model = model_to_fill(config)
    check_weights(folder, weights, model.state_dict())
    model.load_state_dict(weights)
    return model.to(dtype).eval().requires_grad_(False)


def config_of(path: Path) -> ModelConfig:
    """The sizes that a config.json states.

    Raises: ValueError for a file that is none, and for another architecture than GPT-2's.
    """
    theirs = read_json(path)
    for name, wanted in FIXED.items():
        if theirs.get(name, wanted) != wanted:
            raise ValueError(f"{path}: {name} is {theirs[name]!r}; only {wanted!r} can be served")
    activation = theirs.get("activation_function", "gelu_new")
    if activation not in GELU:
        raise ValueError(
            f"{path}: activation_function is {activation!r}; it must be one of {sorted(GELU)}"
        )
    try:
        config = ModelConfig(
            num_layers=theirs["n_layer"],
            num_heads=theirs["n_head"],
            num_channels=theirs["n_embd"],
            context_len=theirs["n_positions"],
            vocab_size=theirs["vocab_size"],
            bias=True,
            tanh_gelu=GELU[activation],
        )
    except KeyError as missing:
        raise ValueError(f"{path} states no {missing.args[0]}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if theirs.get("n_inner") not in (None, 4 * config.num_channels):
        raise ValueError(
            f"{path}: n_inner is {theirs['n_inner']}; it must be {4 * config.num_channels}, four "
            "times n_embd"
        )
    return config


def _weights(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Every weight, by our names and the way round that ours lie."""
    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.is_file():
        names = sorted(set(read_json(index).get("weight_map", {}).values()))
    for path in (folder / name for name in names):
        if not path.is_file():
            raise ValueError(f"there is no weights file at {path}")
        try:
            with safe_open(path, framework="pt") as file:
                for theirs in file.keys():  # noqa: SIM118 (no mapping)
                    ours = our_name(theirs)
                    if ours:
                        tensor = file.get_tensor(theirs)
                        turned = ours.endswith(".weight") and ours.split(".")[-2] in LINEAR
                        yield ours, tensor.t() if turned else tensor
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is not a readable safetensors file: {error}") from None


def our_name(theirs: str) -> str | None:
    """What we call one of their tensors; None for one that is no weight of its own.

    >>> our_name("transformer.h.3.attn.c_proj.bias")
    'blocks.3.proj.bias'
    >>> our_name("h.0.attn.bias")
    """
    name = theirs.removeprefix("transformer.")
    if name == "lm_head.weight" or name.endswith((".attn.bias", ".attn.masked_bias")):
        return None  # tied to the token embedding; masks
    for part, ours in OURS.items():
        inside = f".{part}."
        if name.startswith(f"{part}."):
            name = f"{ours}.{name.removeprefix(f'{part}.')}"
        elif inside in name:
            name = name.replace(inside, f".{ours}.")
    return name


def read_json(path: Path) -> dict[str, Any]:
    """Raises: ValueError for a file that is missing, or no JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no {path.name} in {path.parent}") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not readable as JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a {type(found).__name__}; it must be an object")
    return found
