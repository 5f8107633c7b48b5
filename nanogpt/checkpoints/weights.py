"""Weights on disk: safetensors in half precision, with the model's sizes in the header."""

import dataclasses
import json
import os
from pathlib import Path

import torch
from safetensors.torch import save_file

from nanogpt.checkpoints.filling import check_weights, model_to_fill, read_tensors
from nanogpt.checkpoints.gpt2 import load_gpt2, read_json
from nanogpt.checkpoints.llama_folder import KINDS, load_llama
from nanogpt.config import ModelConfig
from nanogpt.model import GPT
from nanogpt.validate import show

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

    A folder holds a GPT-2, Llama 3, Qwen2.5 or Qwen3 in Hugging Face's form. The model computes in
    `dtype`: float32 for speed, float64 where near-ties must not depend on the rest of the batch, as
    float32 sums do; a Llama in bfloat16 takes half the memory.
    Raises: ValueError naming the file and what is wrong with it.
    """
    path = Path(path)
    if path.is_dir():
        kind = read_json(path / "config.json").get("model_type", "gpt2")
        if kind not in ("gpt2", *KINDS):
            served = f"'gpt2', {', '.join(map(repr, KINDS))}"
            raise ValueError(f"{path}: model_type is {show(kind)}; it must be one of {served}")
        return load_gpt2(path, dtype) if kind == "gpt2" else load_llama(path, dtype)
    header, weights = read_tensors(path)
    try:
        config = ModelConfig(**json.loads(header["config"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not state usable model sizes in its header entry 'config': {error}"
        ) from None
    model = model_to_fill(config, path)
    check_weights(path, weights, model.state_dict())
    model.load_state_dict(weights)
    return model.to(dtype).eval().requires_grad_(False)
