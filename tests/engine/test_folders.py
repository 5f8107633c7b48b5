"""Models from folders in Hugging Face's form: what transformers computes, and a Llama's K/V."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import assert_close, prompt_of, tiny_llama
from support import ROOT

from nanogpt import Engine, EngineConfig, generate, load_model
from nanogpt.preemption.sharded_model import check_num_ranks
from nanogpt.request import Request

# transformers 5.23.0 wrote the folders: random models of two layers, GPT-2 in half precision, the
# others in bfloat16, float16 and parts in float32. It computed logits and greedy tokens in float64,
# the norms too, which it otherwise rounds to float32.
GOLDEN = ROOT / "tests" / "golden"
LLAMAS = ("llama", "qwen2", "qwen3")
INDEX = "model.safetensors.index.json"


def given(family: str) -> dict[str, Any]:
    return json.loads((GOLDEN / family / "logits.json").read_text())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the GPT-2's folder."""
    return Path(shutil.copytree(GOLDEN / "gpt2", tmp_path / "gpt2"))


def changed(to: Path, family: str, changes: dict[str, Any]) -> Path:
    """A copy of a golden folder with other settings; None leaves one out."""
    folder = Path(shutil.copytree(GOLDEN / family, to / family))
    path = folder / "config.json"
    whole = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: x for name, x in whole.items() if x is not None}))
    return folder


@pytest.mark.parametrize("family", ["gpt2", *LLAMAS])
def test_every_logit_is_the_one_that_transformers_computes(family: str):
    model, expected = load_model(GOLDEN / family, torch.float64), given(family)
    logits = model(torch.tensor([expected["tokens"]]))[0][0]  # (T, V)
    wanted = torch.tensor(expected["logits"], dtype=torch.float64)
    assert_close(logits, wanted, rtol=0, atol=2e-9)


@pytest.mark.parametrize("executor", ["packed", "single_mask", "fused", "padded"])
def test_an_engine_serves_a_gpt2_as_the_oracle_does(executor: str):
    model, tokens = load_model(GOLDEN / "gpt2", torch.float64), given("gpt2")["tokens"]
    config = EngineConfig(5, 30, executor=executor, temperature=0.8, seed=3)
    requests = [Request(i, tokens[i : i + 6], 8) for i in range(4)]
    trace = Engine(model, config).run([(i, request) for i, request in enumerate(requests)])
    assert any(step.preempted for step in trace.steps)
    for request in requests:
        draws = {"temperature": 0.8, "seed": 3, "request_id": request.id}
        assert request.generated_tokens == generate(model, request.prompt_tokens, 8, **draws)


@pytest.mark.parametrize("family", LLAMAS)
def test_an_engine_writes_the_text_that_transformers_writes(family: str):
    model, expected = load_model(GOLDEN / family, torch.float64), given(family)
    prompts = [expected["tokens"][:6], *([1 + i] * (3 + 4 * i) for i in range(3))]
    requests = [Request(i, prompt, 10) for i, prompt in enumerate(prompts)]
    config = EngineConfig(4, 28, block_size=4, share_prefixes=True)
    trace = Engine(model, config).run([(i, request) for i, request in enumerate(requests)])
    assert any(step.preempted for step in trace.steps)
    assert requests[0].generated_tokens == expected["greedy"]


@pytest.mark.parametrize("family", LLAMAS)
def test_older_files_say_the_same_under_other_names(tmp_path: Path, family: str):
    rotary = json.loads((GOLDEN / family / "config.json").read_text())["rope_parameters"]
    older: dict[str, Any] = {"rope_parameters": None, "rope_theta": rotary.pop("rope_theta")}
    older["rope_scaling"] = None if rotary["rope_type"] == "default" else rotary
    model = load_model(changed(tmp_path, family, older))
    assert model.config == load_model(GOLDEN / family).config


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
    theirs, ours = load_model(folder).state_dict(), load_model(GOLDEN / "gpt2").state_dict()
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)
    (folder / "b.safetensors").unlink()
    with pytest.raises(ValueError, match=r"there is no weights file at .*b\.safetensors"):
        load_model(folder)


@pytest.mark.parametrize(
    ("family", "changes", "said"),
    [
        ("gpt2", {"model_type": "bert"}, "model_type is 'bert'; it must be one of 'gpt2', 'llama'"),
        ("gpt2", {"activation_function": "relu"}, "activation_function is 'relu'; it must be one"),
        ("gpt2", {"n_inner": 100}, "n_inner is 100; it must be 64, four times n_embd"),
        ("gpt2", {"n_layer": None}, "config.json states no n_layer"),
        ("gpt2", {"n_layer": 2.0}, "config.json: n_layer is 2.0; it must be a whole number"),
        ("qwen3", {"hidden_act": "gelu"}, "hidden_act is 'gelu'; only 'silu' is served"),
        ("qwen3", {"use_sliding_window": True}, "use_sliding_window is True; only False is"),
        ("qwen3", {"quantization_config": {}}, r"quantization_config is {}; only None is served"),
        ("qwen3", {"layer_types": ["sliding_attention"]}, r"has \['sliding_attention'\]; only"),
        ("qwen3", {"rope_parameters": {"rope_type": "yarn"}}, "rope_type is 'yarn'; only 'default"),
        ("qwen3", {"rope_parameters": {"rope_theta": "1"}}, "rotary positions have '1' for a num"),
        ("qwen3", {"num_key_value_heads": 3}, "4 query heads do not split evenly over 3 heads of"),
        ("qwen3", {"rms_norm_eps": "1e-6"}, "rms_norm_eps is '1e-6'; it must be a number from 0"),
        ("qwen3", {"hidden_size": None}, "config.json states no hidden_size"),
    ],
)
def test_what_cannot_be_served_is_refused_before_a_weight_is_read(
    tmp_path: Path, family: str, changes: Any, said: str
):
    folder = changed(tmp_path, family, changes)
    for path in folder.glob("*.safetensors"):
        path.write_bytes(b"never read")
    with pytest.raises(ValueError, match=said):
        load_model(folder)


@pytest.mark.parametrize(
    ("family", "changes", "said"),
    [
        ("gpt2", {"n_embd": 10**15}, "config.json: a model of these sizes cannot be built"),
        ("gpt2", {"n_layer": 3}, r"lacks tensors \['transformer.h.2.attn.c_attn.bias'"),
        ("gpt2", {"vocab_size": 49}, r"wte.weight has shape \(48, 16\), but .* \(49, 16\)"),
        ("qwen3", {"num_hidden_layers": 1}, r"unknown tensors \['model.layers.1.input_layernorm.w"),
        ("qwen3", {"attention_bias": True}, r"lacks tensors \['model.layers.0.self_attn.k_proj.b"),
        ("qwen3", {"head_dim": 4}, r"q_proj.weight has shape \(32, 24\), but .* for \(16, 24\)"),
        ("qwen3", {"tie_word_embeddings": False}, r"lacks tensors \['lm_head.weight'\]"),
    ],
)
def test_tensors_that_do_not_fit_the_configuration_are_named(
    tmp_path: Path, family: str, changes: Any, said: str
):
    with pytest.raises(ValueError, match=said):
        load_model(changed(tmp_path, family, changes))


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


# ---------------------------------------------------------------- a Llama behind the engine


def test_half_the_heads_take_half_the_memory_for_kv():
    for settings in ({}, {"sliding_window": 7}, {"block_size": 4}):
        engine = Engine(tiny_llama(), EngineConfig(**settings))
        request = Request(0, prompt_of(0, 8), 4)
        engine.submit(request)
        engine.step()
        held = {"block_size": 8, "sliding_window": 7}.get(next(iter(settings), ""), 64)
        assert engine.cache.live_bytes(0) == 2 * 2 * 2 * 8 * 8 * held  # K, V; L, K, D; float64


def test_what_only_a_gpt_can_do_is_refused_or_given_up_in_a_sentence():
    model = tiny_llama()
    with pytest.raises(ValueError, match="only the layers of a GPT, not those of a Llama"):
        check_num_ranks(2, model.config)
    with pytest.warns(UserWarning, match="gives way .* of a GPT, and the model is a Llama"):
        assert Engine(model, EngineConfig(executor="compiled")).executor.name == "packed"
    for changes, said in (
        ({"num_key_value_heads": 3}, "4 query heads do not split evenly over 3 heads of K/V"),
        ({"head_dim": 7}, "head_dim is 7; rotary positions need an even one"),
        ({"intermediate_size": 0}, "intermediate_size is 0; it must be at least 1"),
    ):
        with pytest.raises(ValueError, match=said):
            dataclasses.replace(model.config, **changes)
