"""A GPT-2 from a folder in Hugging Face's form computes what transformers computes from it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from support import ROOT

from nanogpt import Engine, EngineConfig, Request, generate, load_model

# transformers 5.23.0 wrote the folder, a random GPT-2 of two layers in half precision, and computed
# the logits from it in float64.
FOLDER = ROOT / "tests" / "golden" / "gpt2"
GIVEN = json.loads((FOLDER / "logits.json").read_text())
INDEX = "model.safetensors.index.json"
TOKENS: list[int] = GIVEN["tokens"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "gpt2"))


def test_every_logit_is_the_one_that_transformers_computes():
    model = load_model(FOLDER, torch.float64)
    expected = torch.tensor(GIVEN["logits"], dtype=torch.float64)
    logits = model(torch.tensor([TOKENS]))[0][0]  # (T, V)
    torch.testing.assert_close(logits, expected, rtol=0, atol=2e-9)
    assert (model.config.bias, model.config.tanh_gelu, model.config.vocab_size) == (True, True, 48)


@pytest.mark.parametrize("executor", ["packed", "single_mask", "fused", "padded"])
def test_an_engine_serves_it_as_the_oracle_does(executor: str):
    model = load_model(FOLDER, torch.float64)
    config = EngineConfig(5, 30, executor=executor, temperature=0.8, seed=3)
    requests = [Request(i, TOKENS[i : i + 6], 8) for i in range(4)]
    trace = Engine(model, config).run([(i, request) for i, request in enumerate(requests)])
    assert any(step.preempted for step in trace.steps)
    for request in requests:
        draws = {"temperature": 0.8, "seed": 3, "request_id": request.id}
        assert request.generated_tokens == generate(model, request.prompt_tokens, 8, **draws)


def test_weights_may_lie_in_several_files_under_the_names_of_the_first_release(folder: Path):
    """Those are shorter, and masks lie beside the weights."""
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = {name.removeprefix("transformer."): t for name, t in load_file(path).items()}
    tensors |= {f"h.{i}.attn.bias": torch.ones(1, 1, 24, 24).tril() for i in range(2)}
    tensors |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    path.unlink()
    files = {name: f"{'ab'[i % 2]}.safetensors" for i, name in enumerate(sorted(tensors))}
    for file in set(files.values()):
        save_file({name: t for name, t in tensors.items() if files[name] == file}, folder / file)
    (folder / INDEX).write_text(json.dumps({"weight_map": files}))
    theirs, ours = load_model(folder).state_dict(), load_model(FOLDER).state_dict()
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)
    (folder / "b.safetensors").unlink()
    with pytest.raises(ValueError, match=r"there is no weights file at .*b\.safetensors"):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"model_type": "bert"},
            "model_type is 'bert'; it must be one of 'gpt2', 'llama', 'qwen2'",
        ),
        ({"activation_function": "relu"}, r"activation_function is 'relu'; it must be one of \["),
        ({"n_inner": 100}, "n_inner is 100; it must be 64, four times n_embd"),
        ({"n_layer": None}, "config.json states no n_layer"),
        ({"n_layer": 2.0}, "config.json: n_layer is 2.0; it must be a whole number"),
        ({"n_embd": 10**15}, "config.json: a model of these sizes cannot be built"),
        ({"n_layer": 3}, r"lacks tensors \['transformer.h.2.attn.c_attn.bias'"),
        ({"vocab_size": 49}, r"transformer.wte.weight has shape \(48, 16\), but .* \(49, 16\)"),
    ],
)
def test_another_architecture_is_refused_in_a_sentence(folder: Path, changes: Any, said: str):
    path = folder / "config.json"
    whole = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: x for name, x in whole.items() if x is not None}))
    with pytest.raises(ValueError, match=said):
        load_model(folder)


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("model.safetensors", b"\0" * 40, "is not a readable safetensors file"),
        ("config.json", b"[1]", "holds a list; it must be an object"),
        pytest.param("config.json", b"[" * 100_000, "is not readable as JSON", id="nested"),
        (INDEX, b'{"weight_map": null}', "weight_map is None; it must name a file per tensor"),
        (INDEX, b'{"weight_map": {"wte": 1}}', "the file of tensor wte is 1; it must be the name"),
        (INDEX, b'{"weight_map": {"wte": "../a"}}', r"the file of tensor wte is '\.\./a'; it must"),
    ],
)
def test_a_file_that_is_missing_or_damaged_is_named(
    folder: Path, name: str, damage: Any, said: str
):
    (folder / name).write_bytes(damage)
    with pytest.raises(ValueError, match=said):
        load_model(folder)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8, torch.bool, torch.complex64])
def test_weights_of_another_type_are_refused_by_the_files_own_name(folder: Path, dtype: Any):
    from safetensors.torch import load_file, save_file

    path, name = folder / "model.safetensors", "transformer.h.1.mlp.c_fc.weight"
    tensors = load_file(path)
    save_file(tensors | {name: tensors[name].to(dtype)}, path)
    with pytest.raises(ValueError, match=f"tensor {name} is of {dtype}; it must be one of"):
        load_model(folder)


def test_a_head_stands_for_the_embedding_that_it_is_tied_to_and_no_other_does(folder: Path):
    from safetensors.torch import load_file, save_file

    path, whole = folder / "model.safetensors", load_model(folder).state_dict()
    tensors = load_file(path)
    embedding = tensors.pop("transformer.wte.weight")
    tensors["lm_head.weight"] = embedding.clone()
    save_file(tensors, path)
    (folder / INDEX).write_text(json.dumps({"weight_map": {"of another": "a.safetensors"}}))
    assert all(torch.equal(whole[name], t) for name, t in load_model(folder).state_dict().items())
    other = {"transformer.wte.weight": embedding, "lm_head.weight": embedding + 1}
    save_file(tensors | other, path)
    with pytest.raises(ValueError, match=r"lm_head.weight is not transformer.wte.weight; only"):
        load_model(folder)
