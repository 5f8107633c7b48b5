"""Weights on disk: what goes out comes back, and whatever is wrong with a file is said in words."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import TINY

from nanogpt import GPT, ModelConfig, load_model
from nanogpt.checkpoints.filling import CHECKSUMS
from nanogpt.checkpoints.weights import SHAKESPEARE, SHIPPED_WEIGHTS, save_model
from nanogpt.speculative.trigram import SHIPPED_COUNTS, TrigramDraft

SIZES = dataclasses.asdict(TINY)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.safetensors"
    save_model(GPT(TINY), path)
    return path


def rewrite(path: Path, header: dict[str, str] | None, changes: Any) -> None:
    """Change tensors of the file, or take them out, and give it another header."""
    from safetensors.torch import load_file, save_file

    weights = load_file(path) | changes
    save_file({name: t for name, t in weights.items() if t is not None}, path, header)


def refusal(path: Path) -> str:
    with pytest.raises(ValueError, match="safetensors") as caught:
        load_model(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_saved_model_comes_back_in_half_precision_ready_to_serve(tmp_path: Path):
    model = GPT(TINY)
    save_model(model, tmp_path / "tiny.safetensors")
    state = torch.get_rng_state()
    loaded = load_model(str(tmp_path / "tiny.safetensors"))
    assert torch.equal(torch.get_rng_state(), state), "the caller's random numbers are left alone"
    assert loaded.config == TINY
    assert load_model().config == SHAKESPEARE == ModelConfig(4, 4, 128, 512, 65)
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight.half().float()), name
    assert not loaded.training
    assert not any(p.requires_grad for p in loaded.parameters())
    wide = load_model(tmp_path / "tiny.safetensors", torch.float64)
    assert {p.dtype for p in wide.parameters()} == {torch.float64}


def test_a_missing_file_and_an_empty_folder_are_named(tmp_path: Path):
    assert "there is no weights file" in refusal(tmp_path / "gone.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    assert "there is no config.json in" in refusal(tmp_path / "folder.safetensors")


@pytest.mark.parametrize("share", [0, 0.1, 0.999])
def test_a_truncated_file_is_refused(saved: Path, share: float):
    raw = saved.read_bytes()
    saved.write_bytes(raw[: int(share * len(raw))])
    assert "not a readable safetensors file" in refusal(saved)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ln_f.weight": None}, "lacks tensors ['ln_f.weight']"),
        ({"extra": torch.zeros(2)}, "unknown tensors ['extra']"),
        ({"blocks.1.up.weight": torch.zeros(64, 17)}, "has shape (64, 17), but its model sizes"),
        ({"ln_f.weight": torch.full([16], float("inf"))}, "ln_f.weight holds values that are not"),
    ],
)
def test_a_tensor_that_is_missing_unknown_or_wrong_is_named(saved: Path, changes: Any, said: str):
    rewrite(saved, {"config": json.dumps(SIZES)}, changes)
    assert said in refusal(saved)


@pytest.mark.parametrize(
    "header",
    [
        None,
        {"config": '{"num_layers": 2, "colour": "red"}'},
        {"config": json.dumps({**SIZES, "num_layers": 0})},
    ],
)
def test_a_header_without_usable_sizes_is_refused(saved: Path, header: dict[str, str] | None):
    rewrite(saved, header, {})
    refusal(saved)


@pytest.mark.parametrize(
    ("shipped", "load"), [(SHIPPED_WEIGHTS, load_model), (SHIPPED_COUNTS, TrigramDraft.load)]
)
def test_a_shipped_file_with_one_bit_flipped_is_refused(
    tmp_path: Path, shipped: Path, load: Callable[[Path], object]
):
    raw = bytearray(shipped.read_bytes())
    raw[-5] ^= 1
    copy = tmp_path / shipped.name
    copy.write_bytes(raw)
    (tmp_path / CHECKSUMS).write_bytes((shipped.parent / CHECKSUMS).read_bytes())
    with pytest.raises(ValueError, match="is not the file that was shipped: its sha256 is") as got:
        load(copy)
    assert "bring the file back from the repository" in str(got.value)
    (tmp_path / CHECKSUMS).write_text(f"{'0' * 64}  another.safetensors\n")
    load(copy)


@pytest.mark.process
def test_loading_a_model_and_running_it_imports_none_of_torchs_compiler():
    """It takes 1.6 s of computing, which the first picture of every lesson would wait for."""
    program = (
        "import sys; from nanogpt import *; "
        "Engine(load_model(), EngineConfig()).run([(0, Request(0, [1, 2], 2))]); "
        "print(sorted({'sympy', 'torch._dynamo.symbolic_convert'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
