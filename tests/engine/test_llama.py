"""A Llama behind the engine, and one from a folder, which computes what transformers computes."""

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import TINY, prompt_of, tiny_llama
from lockstep import arrivals_of, watched
from support import ROOT

from nanogpt import Engine, EngineConfig, Request, generate, load_model
from nanogpt.preemption.sharded_model import check_num_ranks

ASKS = [(i, 5 + 3 * i, 8, i % 2) for i in range(4)]


def sometimes_right(known: Sequence[int]) -> list[float]:
    """A draft that is right in two of three cases."""
    token = generate(tiny_llama(), known, 1)[0] if len(known) < TINY.max_model_len else 0
    guess = (token + (sum(known) % 3 == 0)) % TINY.vocab_size
    return [float(token == guess) for token in range(TINY.vocab_size)]


@pytest.mark.parametrize("executor", ["packed", "batch_invariant"])
@pytest.mark.parametrize("settings", [{}, {"block_size": 3, "share_prefixes": True}])
def test_chunks_blocks_preemption_and_drafts_leave_the_oracles_texts(
    executor: str, settings: dict[str, Any]
):
    config = EngineConfig(9, 40, executor=executor, num_draft_tokens=3, seed=5, **settings)
    trace = watched(arrivals_of(ASKS), config, draft=sometimes_right, model=tiny_llama)
    assert any(step.preempted for step in trace.steps)
    assert any(work.num_accepted for step in trace.steps for work in step.work)


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


# ---------------------------------------------------------------- from a folder


# transformers 5.23.0 wrote the folders, random models of two layers in bfloat16, float16 and parts
# in float32, and computed logits and greedy tokens in float64, its norms too, which it otherwise
# rounds to float32.
GOLDEN = ROOT / "tests" / "golden"
FAMILIES = ("llama", "qwen2", "qwen3")


def given(family: str) -> dict[str, Any]:
    return json.loads((GOLDEN / family / "logits.json").read_text())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_logit_is_the_one_that_transformers_computes(family: str):
    model, expected = load_model(GOLDEN / family, torch.float64), given(family)
    logits = model(torch.tensor([expected["tokens"]]))[0][0]  # (T, V)
    wanted = torch.tensor(expected["logits"], dtype=torch.float64)
    torch.testing.assert_close(logits, wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_engine_writes_the_text_that_transformers_writes(family: str):
    model, expected = load_model(GOLDEN / family, torch.float64), given(family)
    prompts = [expected["tokens"][:6], *([1 + i] * (3 + 4 * i) for i in range(3))]
    requests = [Request(i, prompt, 10) for i, prompt in enumerate(prompts)]
    config = EngineConfig(4, 28, block_size=4, share_prefixes=True)
    trace = Engine(model, config).run([(i, request) for i, request in enumerate(requests)])
    assert any(step.preempted for step in trace.steps)
    assert requests[0].generated_tokens == expected["greedy"]


def changed(to: Path, family: str, changes: dict[str, Any]) -> Path:
    """A copy of a golden folder with other settings; None leaves one out."""
    folder = Path(shutil.copytree(GOLDEN / family, to / family))
    path = folder / "config.json"
    whole = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: x for name, x in whole.items() if x is not None}))
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_older_files_say_the_same_under_other_names(tmp_path: Path, family: str):
    rotary = json.loads((GOLDEN / family / "config.json").read_text())["rope_parameters"]
    older: dict[str, Any] = {"rope_parameters": None, "rope_theta": rotary.pop("rope_theta")}
    older["rope_scaling"] = None if rotary["rope_type"] == "default" else rotary
    model = load_model(changed(tmp_path, family, older))
    assert model.config == load_model(GOLDEN / family).config


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'; only 'silu' is served"),
        ({"use_sliding_window": True}, "use_sliding_window is True; only False is served"),
        ({"quantization_config": {}}, r"quantization_config is {}; only None is served"),
        ({"layer_types": ["sliding_attention"]}, r"layer_types has \['sliding_attention'\]; only"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_type is 'yarn'; only 'default' and"),
        ({"rope_parameters": {"rope_theta": "1"}}, "rotary positions have '1' for a number"),
        ({"num_key_value_heads": 3}, "4 query heads do not split evenly over 3 heads of K/V"),
        ({"rms_norm_eps": "1e-6"}, "rms_norm_eps is '1e-6'; it must be a number from 0 to 1"),
        ({"hidden_size": None}, "config.json states no hidden_size"),
        ({"model_type": "mamba"}, "model_type is 'mamba'; it must be one of 'gpt2', 'llama'"),
    ],
)
def test_what_cannot_be_served_is_refused_before_a_weight_is_read(
    tmp_path: Path, changes: Any, said: str
):
    folder = changed(tmp_path, "qwen3", changes)
    for path in folder.glob("*.safetensors"):
        path.write_bytes(b"never read")
    with pytest.raises(ValueError, match=said):
        load_model(folder)


def test_tensors_that_do_not_fit_the_configuration_are_named(tmp_path: Path):
    cases: list[tuple[dict[str, Any], str]] = [
        ({"num_hidden_layers": 1}, r"unknown tensors \['model.layers.1.input_layernorm.weight'"),
        ({"attention_bias": True}, r"lacks tensors \['model.layers.0.self_attn.k_proj.bias'"),
        ({"head_dim": 4}, r"q_proj.weight has shape \(32, 24\), but .* call for \(16, 24\)"),
        ({"tie_word_embeddings": False}, r"lacks tensors \['lm_head.weight'\]"),
    ]
    for number, (changes, said) in enumerate(cases):
        with pytest.raises(ValueError, match=said):
            load_model(changed(tmp_path / str(number), "qwen3", changes))
