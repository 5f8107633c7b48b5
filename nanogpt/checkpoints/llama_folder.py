"""A Llama 3, Qwen2.5 or Qwen3 from a folder in Hugging Face's form.

    config.json  model.safetensors (or parts of it, listed in model.safetensors.index.json)

Tensors come one by one, each from a mapping of its own that is closed before the next is opened,
and go into their places: the peak of memory is the model and the largest tensor.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from nanogpt.checkpoints.filling import check_names, check_tensor, model_to_fill, opened
from nanogpt.checkpoints.gpt2 import read_json, weight_files
from nanogpt.llama import Llama, LlamaBlock, LlamaConfig
from nanogpt.validate import check_int, show

KINDS = ("llama", "qwen2", "qwen3")
"""The `model_type`s that a Llama can be."""
SIZES = {
    "num_layers": "num_hidden_layers", "num_heads": "num_attention_heads",
    "num_channels": "hidden_size", "max_model_len": "max_position_embeddings",
    "vocab_size": "vocab_size", "intermediate_size": "intermediate_size",
}  # fmt: skip
"""The sizes of a `LlamaConfig` by their names in config.json."""
FIXED = {
    "hidden_act": "silu", "use_sliding_window": False, "quantization_config": None,
    "pretraining_tp": 1,
}  # fmt: skip
"""Settings that must have these values; a missing one has its value by default."""
SCALING = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
"""Llama 3's scaling of rotary positions, as config.json names its parts."""
UNUSED = "rotary_emb.inv_freq"
"""The end of the names of tensors that older files hold and that follow from the configuration."""


def load_llama(folder: Path, dtype: torch.dtype) -> Llama:
    """The model, ready to serve. Raises: ValueError naming the file and what is wrong with it."""
    config = llama_config(folder / "config.json")
    path_of: dict[str, Path] = {}
    for path in weight_files(folder):
        with opened(path) as file:
            path_of |= dict.fromkeys(file.keys(), path)
    if config.tie_word_embeddings:
        path_of.pop("lm_head.weight", None)  # the embedding's
    path_of = {name: path for name, path in path_of.items() if not name.endswith(UNUSED)}
    model = cast("Llama", model_to_fill(config, folder / "config.json", Llama))
    model = model.to(dtype).eval().requires_grad_(False)
    places = {name: (place, dim) for name, place, dim in places_of(model)}
    check_names(folder, path_of.keys(), places.keys())
    for name, path in path_of.items():
        place, dim = places[name]
        with opened(path) as file:
            tensor = file.get_tensor(name)
        check_tensor(path, name, tensor, place)
        if dim is not None:  # theirs have the queries of a K/V head side by side, ours K apart
            num_kv = config.num_kv_heads
            place = place.unflatten(dim, (-1, num_kv, config.head_size)).transpose(dim, dim + 1)
            tensor = tensor.unflatten(dim, (num_kv, -1, config.head_size))
        place.copy_(tensor)
    return model


def places_of(model: Llama) -> Iterator[tuple[str, Tensor, int | None]]:
    """Each tensor of theirs by name, its place in ours, and along which dim query heads lie."""
    yield "model.embed_tokens.weight", model.token_embedding.weight, None
    yield "model.norm.weight", model.ln_f.weight, None
    if not model.config.tie_word_embeddings:
        yield "lm_head.weight", model.lm_head.weight, None
    for index, block in enumerate(cast("list[LlamaBlock]", list(model.blocks))):
        for name, place, dim in _places_of_block(block):
            yield f"model.layers.{index}.{name}", place, dim


def _places_of_block(block: LlamaBlock) -> Iterator[tuple[str, Tensor, int | None]]:
    norms: dict[str, nn.RMSNorm | None] = {
        "input_layernorm": block.ln_1, "post_attention_layernorm": block.ln_2,
        "self_attn.q_norm": block.q_norm, "self_attn.k_norm": block.k_norm,
    }  # fmt: skip
    for name, norm in norms.items():
        if norm is not None:
            yield f"{name}.weight", norm.weight, None
    kv = block.num_kv_heads * block.head_size
    sizes = [block.num_heads * block.head_size, kv, kv]
    for kind in ("weight", "bias"):
        qkv, gate_up = getattr(block.qkv, kind), getattr(block.gate_up, kind)
        proj = getattr(block.proj, kind)
        if proj is not None:
            yield f"self_attn.o_proj.{kind}", proj, 1 if kind == "weight" else None
        if qkv is not None:
            q, k, v = qkv.split(sizes)
            yield f"self_attn.q_proj.{kind}", q, 0
            yield f"self_attn.k_proj.{kind}", k, None
            yield f"self_attn.v_proj.{kind}", v, None
        if gate_up is not None:
            gate, up = gate_up.chunk(2)
            yield f"mlp.gate_proj.{kind}", gate, None
            yield f"mlp.up_proj.{kind}", up, None
            yield f"mlp.down_proj.{kind}", getattr(block.down, kind), None


def llama_config(path: Path) -> LlamaConfig:
    """The sizes in a config.json. Raises: ValueError for what cannot be served, by its name."""
    theirs = read_json(path)
    kind = theirs.get("model_type")
    for name, wanted in FIXED.items():
        if theirs.get(name, wanted) != wanted:
            raise ValueError(f"{path}: {name} is {show(theirs[name])}; only {wanted!r} is served")
    layers = set(theirs.get("layer_types") or ()) - {"full_attention"}
    if layers:
        raise ValueError(f"{path}: layer_types has {sorted(layers)}; only full_attention is served")
    for name in SIZES.values():
        if name not in theirs:
            raise ValueError(f"{path} states no {name}")
        check_int(f"{path}: {name}", theirs[name], 1)
    sizes = {ours: theirs[name] for ours, name in SIZES.items()}
    num_heads, has_bias = sizes["num_heads"], bool(theirs.get("attention_bias"))
    theta, scaling = _rotary(path, theirs)
    try:
        return LlamaConfig(
            **sizes,
            num_key_value_heads=theirs.get("num_key_value_heads") or num_heads,
            head_dim=theirs.get("head_dim") or sizes["num_channels"] // num_heads,
            rms_norm_eps=theirs.get("rms_norm_eps", 1e-6),
            rope_theta=theta,
            rope_scaling=scaling,
            tie_word_embeddings=bool(theirs.get("tie_word_embeddings")),
            qk_norm=kind == "qwen3",
            qkv_bias=has_bias or kind == "qwen2",
            output_bias=has_bias,
            mlp_bias=bool(theirs.get("mlp_bias")),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _rotary(path: Path, theirs: dict[str, Any]) -> tuple[float, tuple[float, ...] | None]:
    """The base of the rotary positions, and Llama 3's scaling, as older and newer files have them.

    Raises: ValueError for another scaling.
    """
    said = {"rope_theta": theirs.get("rope_theta", 10_000.0), **(theirs.get("rope_scaling") or {})}
    said |= theirs.get("rope_parameters") or {}
    kind = said.get("rope_type", said.get("type", "default"))
    if kind not in ("default", "llama3"):
        raise ValueError(
            f"{path}: rope_type is {show(kind)}; only 'default' and 'llama3' are served"
        )
    names = ("rope_theta", *(SCALING if kind == "llama3" else ()))
    numbers: list[Any] = [said.get(name) for name in names]
    for number in numbers:
        if type(number) not in (int, float) or number <= 0:
            raise ValueError(f"{path}: the rotary positions have {show(number)} for a number")
    theta, *scaling = numbers
    return theta, tuple(scaling) or None
