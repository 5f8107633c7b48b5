"""A model of ours as other people's servers load it: a GPT-2 in Hugging Face's form.

Its biases are zero and its tokens are the 65 characters, in a tokenizer without merges. So text and
token counts are the same everywhere, and there is no token that ends a text.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from nanogpt.checkpoints.byte_pairs import BYTE_OF
from nanogpt.checkpoints.tokenizer import ALPHABET
from nanogpt.model import GPT

LINEARS = {"qkv": "attn.c_attn", "proj": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}


def save_gpt2(model: GPT, folder: Path) -> None:
    """Write config.json, model.safetensors in half precision, and the tokenizer."""
    config = model.config
    sizes = {
        "n_layer": config.num_layers, "n_head": config.num_heads, "n_embd": config.num_channels,
        "n_positions": config.context_len, "vocab_size": config.vocab_size,
    }  # fmt: skip
    kind = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu",
        "dtype": "float32", "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", kind | sizes)
    _write(folder / "tokenizer.json", tokenizer())
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config.context_len,
            "clean_up_tokenization_spaces": False,
        },
    )  # fmt: skip
    save_file(_weights(model), folder / "model.safetensors", {"format": "pt"})


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


def _weights(model: GPT) -> dict[str, torch.Tensor]:
    """Our weights under GPT-2's names, its biases zero; its Conv1D keeps (in, out)."""
    ours = model.state_dict()
    named = {
        "wte.weight": ours["token_embedding.weight"],
        "wpe.weight": ours["position_embedding.weight"],
    }
    norms = {"ln_f": "ln_f"}
    for layer in range(model.config.num_layers):
        norms |= {f"h.{layer}.{norm}": f"blocks.{layer}.{norm}" for norm in ("ln_1", "ln_2")}
        for linear, theirs in LINEARS.items():
            weight = ours[f"blocks.{layer}.{linear}.weight"]  # (out, in)
            named[f"h.{layer}.{theirs}.weight"] = weight.t()
            named[f"h.{layer}.{theirs}.bias"] = torch.zeros(len(weight))
    for theirs, norm in norms.items():
        named[f"{theirs}.weight"] = ours[f"{norm}.weight"]
        named[f"{theirs}.bias"] = torch.zeros_like(ours[f"{norm}.weight"])
    return {f"transformer.{name}": t.half().contiguous() for name, t in named.items()}


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
