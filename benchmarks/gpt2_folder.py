"""A model of ours as other people's servers load it: a GPT-2 in Hugging Face's form.

Its biases are zero and its tokens are the 65 characters, in a tokenizer without merges. So text and
token counts are the same everywhere, and there is no token that ends a text.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from nanogpt.checkpoints.byte_pairs import BYTE_OF
from nanogpt.checkpoints.gpt2 import SIZES, is_linear_weight, their_name
from nanogpt.checkpoints.tokenizer import ALPHABET
from nanogpt.model import GPT


def save_gpt2(model: GPT, folder: Path) -> None:
    """Write config.json, model.safetensors in half precision, and the tokenizer."""
    kind = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "dtype": "float32",
        "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", kind | gpt2_config(model))
    _write(folder / "tokenizer.json", tokenizer())
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": model.config.max_model_len,
            "clean_up_tokenization_spaces": False,
        },
    )
    weights = {name: t.half().contiguous() for name, t in gpt2_weights(model).items()}
    del weights["lm_head.weight"]  # tied to the embedding
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def gpt2_config(model: GPT) -> dict[str, Any]:
    """Sizes and activation of our model by GPT-2's names."""
    sizes = {theirs: getattr(model.config, ours) for ours, theirs in SIZES.items()}
    return {**sizes, "activation_function": "gelu"}


def gpt2_weights(model: GPT) -> dict[str, Tensor]:
    """Our weights under GPT-2's names, its biases zero; its Conv1D keeps (in, out)."""
    named: dict[str, Tensor] = {}
    for ours, tensor in model.state_dict().items():
        theirs = f"transformer.{their_name(ours)}"
        named[theirs] = tensor.t() if is_linear_weight(ours) else tensor
        if "embedding" not in ours:
            named[theirs.removesuffix("weight") + "bias"] = torch.zeros(len(tensor))
    named["lm_head.weight"] = named["transformer.wte.weight"]
    return named


def tokenizer() -> dict[str, object]:
    """tokenizer.json of the 65 characters."""
    name_of = {byte: name for name, byte in BYTE_OF.items()}
    byte_level = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False,
    }  # fmt: skip
    vocab = {name_of[ord(character)]: token for token, character in enumerate(ALPHABET)}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": False, "vocab": vocab, "merges": [],
        },
    }  # fmt: skip


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
