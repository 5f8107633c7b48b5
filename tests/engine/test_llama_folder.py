"""A Llama, Qwen2.5 or Qwen3 from a folder computes what transformers computes from it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from support import ROOT

from nanogpt import Engine, EngineConfig, Request, load_model

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
