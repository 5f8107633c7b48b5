"""Weights on disk: what goes out comes back, and whatever is wrong with a file is said in words."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fakes import TINY
from safetensors.torch import load_file, save_file

from nanogpt.checkpoints.weights import (
    CHECKSUMS,
    SHAKESPEARE,
    SHIPPED_WEIGHTS,
    load_model,
    save_model,
)
from nanogpt.model import GPT
from nanogpt.speculative.trigram import SHIPPED_COUNTS, TrigramDraft

HEADER = {"config": json.dumps(dataclasses.asdict(TINY))}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    path = tmp_path / "tiny.safetensors"
    save_model(GPT(TINY), path)
    return path


def test_a_saved_model_comes_back_in_half_precision(tmp_path: Path):
    model = GPT(TINY)
    save_model(model, tmp_path / "tiny.safetensors")
    loaded = load_model(tmp_path / "tiny.safetensors")
    assert loaded.config == TINY
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight.half().float()), name


def test_a_loaded_model_is_ready_to_serve(saved: Path):
    model = load_model(str(saved))
    assert not model.training
    assert not any(p.requires_grad for p in model.parameters())
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    wide = load_model(saved, torch.float64)
    assert {p.dtype for p in wide.parameters()} == {torch.float64}


def test_the_shipped_model_is_the_one_of_the_course_in_half_precision():
    assert load_model().config == SHAKESPEARE
    assert {weight.dtype for weight in load_file(SHIPPED_WEIGHTS).values()} == {torch.float16}


def refusal(path: Path) -> str:
    with pytest.raises(ValueError, match="safetensors") as caught:
        load_model(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_missing_file_is_named(tmp_path: Path):
    assert "there is no weights file" in refusal(tmp_path / "gone.safetensors")


def test_an_empty_folder_holds_no_model(tmp_path: Path):
    (tmp_path / "folder.safetensors").mkdir()
    assert "there is no config.json in" in refusal(tmp_path / "folder.safetensors")


@pytest.mark.parametrize("keep", [0, 4, 100, 0.5, 0.999])
def test_a_truncated_file_is_refused(saved: Path, keep: float):
    raw = saved.read_bytes()
    saved.write_bytes(raw[: int(keep * len(raw)) if 0 < keep < 1 else int(keep)])
    assert "not a readable safetensors file" in refusal(saved)


def test_a_file_of_something_else_is_refused(saved: Path):
    saved.write_bytes(b"<html>404: not found</html>" * 50)
    assert "not a readable safetensors file" in refusal(saved)


def test_a_missing_and_an_unknown_tensor_are_named(saved: Path):
    weights = load_file(saved)
    weights["extra"] = weights.pop("ln_f.weight")
    save_file(weights, saved, HEADER)
    message = refusal(saved)
    assert "lacks tensors ['ln_f.weight']" in message
    assert "unknown tensors ['extra']" in message


def test_a_tensor_of_the_wrong_shape_is_named_with_both_shapes(saved: Path):
    weights = load_file(saved)
    weights["blocks.1.up.weight"] = torch.zeros(64, 17)
    save_file(weights, saved, HEADER)
    message = refusal(saved)
    assert "blocks.1.up.weight has shape (64, 17)" in message
    assert "(64, 16)" in message


@pytest.mark.parametrize(
    ("shipped", "load"), [(SHIPPED_WEIGHTS, load_model), (SHIPPED_COUNTS, TrigramDraft.load)]
)
@pytest.mark.parametrize("place", [5, 0.3, 0.999])
def test_a_shipped_file_with_one_bit_flipped_is_refused(
    tmp_path: Path, shipped: Path, load: Callable[[Path], object], place: float
):
    raw = bytearray(shipped.read_bytes())
    raw[int(place * len(raw)) if place < 1 else int(place)] ^= 1
    copy = tmp_path / shipped.name
    copy.write_bytes(raw)
    (tmp_path / CHECKSUMS).write_bytes((shipped.parent / CHECKSUMS).read_bytes())
    with pytest.raises(ValueError, match="is not the file that was shipped: its sha256 is") as got:
        load(copy)
    assert "bring the file back from the repository" in str(got.value)


def test_a_file_that_no_checksum_is_known_of_is_loaded_as_it_is(saved: Path):
    (saved.parent / CHECKSUMS).write_text(f"{'0' * 64}  another.safetensors\n")
    assert load_model(saved).config == TINY


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_refused_with_its_tensor(saved: Path, value: float):
    weights = load_file(saved)
    weights["blocks.0.qkv.weight"][3, 5] = value
    save_file(weights, saved, HEADER)
    assert "blocks.0.qkv.weight holds values that are not finite" in refusal(saved)


@pytest.mark.parametrize(
    "header",
    [
        None,
        {},
        {"config": "not json"},
        {"config": "[]"},
        {"config": "null"},
        {"config": '{"num_layers": 2, "colour": "red"}'},
        {"config": json.dumps({**dataclasses.asdict(TINY), "num_layers": "2"})},
        {"config": json.dumps({**dataclasses.asdict(TINY), "num_layers": 2.0})},
        {"config": json.dumps({**dataclasses.asdict(TINY), "num_layers": 0})},
        {"config": json.dumps({**dataclasses.asdict(TINY), "num_heads": 3})},
    ],
)
def test_a_header_without_usable_sizes_is_refused(saved: Path, header: dict[str, str] | None):
    save_file(load_file(saved), saved, header)
    refusal(saved)


def test_loading_leaves_the_callers_random_numbers_alone(saved: Path):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    load_model(saved)
    assert torch.equal(torch.rand(2), expected)


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
