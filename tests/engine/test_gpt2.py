"""A GPT-2 from a folder in Hugging Face's form computes what transformers computes from it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import ROOT

from nanogpt import Engine, EngineConfig, Request, generate, load_model
from nanogpt.checkpoints.byte_pairs import load_tokenizer
from nanogpt.checkpoints.gpt2 import our_name
from nanogpt.executors import prepacked
from nanogpt.executors.prepacked import PrepackedProducts
from nanogpt.model import attend_causally
from nanogpt.preemption.sharding import shard_model

# transformers 5.23.0 wrote the folder, a random GPT-2 of two layers in half precision, and computed
# the logits from it in float64.
FOLDER = ROOT / "tests" / "golden" / "gpt2"
GIVEN = json.loads((FOLDER / "logits.json").read_text())
TOKENS: list[int] = GIVEN["tokens"]


def logits_of(model: Any, tokens: list[int]) -> torch.Tensor:
    return model(torch.tensor([tokens]))[0][0]  # (T, V)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "gpt2"))


def rewrite(path: Path, **fields: Any) -> None:
    whole = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: value for name, value in whole.items() if value != "gone"}))


def test_every_logit_is_the_one_that_transformers_computes():
    model = load_model(FOLDER, torch.float64)
    expected = torch.tensor(GIVEN["logits"], dtype=torch.float64)
    torch.testing.assert_close(logits_of(model, TOKENS), expected, rtol=0, atol=2e-9)
    assert (model.config.bias, model.config.tanh_gelu, model.config.vocab_size) == (True, True, 48)


@pytest.mark.parametrize("executor", ["packed", "strip", "fused", "padded"])
def test_an_engine_serves_it_as_the_oracle_does(executor: str):
    model = load_model(FOLDER, torch.float64)
    config = EngineConfig(5, 30, executor=executor, temperature=0.8, seed=3)
    requests = [Request(i, TOKENS[i : i + 6], 8) for i in range(4)]
    trace = Engine(model, config).run([(i, request) for i, request in enumerate(requests)])
    assert any(step.preempted for step in trace.steps)
    for request in requests:
        draws = {"temperature": 0.8, "seed": 3, "request_id": request.id}
        assert request.generated_tokens == generate(model, request.prompt_tokens, 8, **draws)


def test_prepacked_products_add_its_biases(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prepacked, "FEWEST", 0)
    monkeypatch.setattr(prepacked, "rows_to_win", lambda *shape: 1)
    model = load_model(FOLDER)
    tokens, positions = torch.tensor(TOKENS), torch.arange(len(TOKENS))

    def attend(layer: int, *qkv: torch.Tensor) -> torch.Tensor:
        return attend_causally(layer, *(each[None] for each in qkv))[0]

    products = PrepackedProducts()
    hidden = model.hidden(tokens, positions, attend, None, products)
    assert len(products.prepacked) == 8
    torch.testing.assert_close(
        model.logits(hidden), torch.tensor(GIVEN["logits"]), atol=1e-5, rtol=0
    )


def test_the_tensors_of_the_first_release_go_by_shorter_names_and_bring_masks(folder: Path):
    path = folder / "model.safetensors"
    tensors = {name.removeprefix("transformer."): t for name, t in load_file(path).items()}
    masks = {f"h.{i}.attn.bias": torch.ones(1, 1, 24, 24).tril() for i in range(2)}
    masks |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    save_file({**tensors, **masks, "lm_head.weight": tensors["wte.weight"].clone()}, path)
    theirs, ours = load_model(folder).state_dict(), load_model(FOLDER).state_dict()
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)


def test_weights_may_lie_in_several_files(folder: Path):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    for file, own in parts.items():
        save_file({name: tensors[name] for name in own}, folder / file)
    index = {name: file for file, own in parts.items() for name in own}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    assert torch.equal(logits_of(load_model(folder), TOKENS), logits_of(load_model(FOLDER), TOKENS))
    (folder / "b.safetensors").unlink()
    with pytest.raises(ValueError, match=r"there is no weights file at .*b\.safetensors"):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "llama"}, "model_type is 'llama'; only 'gpt2' can be served"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon is 1e-06; only 1e-05"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False; only True"),
        ({"activation_function": "relu"}, r"activation_function is 'relu'; it must be one of \["),
        ({"n_inner": 100}, "n_inner is 100; it must be 64, four times n_embd"),
        ({"n_layer": "gone"}, "config.json states no n_layer"),
        ({"n_head": 3}, "16 channels do not split evenly into 3 heads"),
        ({"n_embd": True}, "num_channels is True; it must be a whole number"),
        ({"n_layer": 3}, r"lacks tensors \['blocks.2.down.bias'"),
        ({"n_layer": 1}, r"has unknown tensors \['blocks.1.down.bias'"),
        ({"vocab_size": 49}, r"token_embedding.weight has shape \(48, 16\), but .* \(49, 16\)"),
    ],
)
def test_another_architecture_is_refused_in_a_sentence(folder: Path, changes, said: str):
    rewrite(folder / "config.json", **changes)
    with pytest.raises(ValueError, match=said):
        load_model(folder)


def test_files_that_are_missing_or_damaged_are_named(folder: Path):
    for name, damage, said in (
        ("model.safetensors", b"\0" * 40, "is not a readable safetensors file"),
        ("model.safetensors", None, "there is no weights file at"),
        ("config.json", b"[1]", "holds a list; it must be an object"),
        ("config.json", b"{", "is not readable as JSON"),
        ("config.json", None, "there is no config.json in"),
    ):
        path = folder / name
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        with pytest.raises(ValueError, match=said):
            load_model(folder)
        shutil.copy(FOLDER / name, path)
    tensors = load_file(folder / "model.safetensors")
    tensors["transformer.ln_f.bias"][3] = float("nan")
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"tensor ln_f\.bias holds values that are not finite"):
        load_model(folder)


def test_its_tokenizer_reads_and_writes_text(folder: Path):
    tokenizer = load_tokenizer(folder)
    assert tokenizer.encode("To be or not").ids == [20, 18, 31, 37]
    assert tokenizer.decode([20, 18, 31, 37]) == "To be or not"
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a readable tokenizer"):
        load_tokenizer(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"there is no tokenizer\.json in"):
        load_tokenizer(folder)


def test_a_name_inside_a_longer_one_stays_what_it_is():
    assert our_name("transformer.h.10.ln_1.weight") == "blocks.10.ln_1.weight"
    assert our_name("h.1.attn.c_attn.bias") == "blocks.1.qkv.bias"
    assert our_name("something.else") == "something.else"


def test_ranks_refuse_a_model_that_they_cannot_split():
    with pytest.raises(ValueError, match="ranks split models without biases"):
        shard_model(load_model(FOLDER), 0, 2)
