"""The tokenizer's routes, and lm-evaluation-harness, which computes log probabilities with them."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from byte_pair_folders import END, make_folder
from http_serving import MODEL, engine, serving
from support import ROOT

from nanogpt import load_model
from nanogpt.checkpoints.byte_pairs import BytePairs
from nanogpt.checkpoints.tokenizer import CHARACTERS
from nanogpt.server.logprobs import score

TEXTS = ["To be, or not", "O, what say you?\n", "ROMEO:\nI"]
WHERE = f"{ROOT / 'bench' / 'bin'}{os.pathsep}{Path(sys.executable).parent}"
TASK = """
task: plays
dataset_path: json
dataset_kwargs: {data_files: {test: texts.jsonl}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: byte_perplexity, aggregation: weighted_perplexity, higher_is_better: false}]
"""


def served(is_gpt2: bool, folder: Path) -> Any:
    """A model and its tokenizer."""
    if not is_gpt2:
        return load_model(), CHARACTERS
    return load_model(make_folder(folder)), BytePairs(folder)


@pytest.mark.parametrize("is_gpt2", [False, True])
def test_tokens_are_told_and_told_back_as_in_vllm(is_gpt2: bool, tmp_path: Path):
    model, tokenizer = served(is_gpt2, tmp_path / "gpt2")
    with serving(engine(model), tokenizer=tokenizer, api_key="secret") as running:
        key = {"Authorization": "Bearer secret"}

        def asked(path: str, **body: Any) -> Any:
            return running.post(path, body, **key).json()

        info, end = running.get("/tokenizer_info", headers=key).json(), END if is_gpt2 else None
        assert (info["bos_token"], info["eos_token"]) == (end, end)
        for text in (*TEXTS, TEXTS[0] * 900, "", END if is_gpt2 else "a"):
            told = asked("/tokenize", prompt=text, return_token_strs=True, add_special_tokens=False)
            assert told["tokens"] == tokenizer.encode(text)
            assert told["count"] == len(told["tokens"]) == len(told["token_strs"])
            assert told["max_model_len"] == info["model_max_length"] == model.config.max_model_len
            assert asked("/detokenize", tokens=told["tokens"], model=MODEL) == {"prompt": text}
        told = asked("/tokenize", messages=[{"role": "user", "content": "Ho"}])
        chat = "User:\nHo\n\nAssistant:\n" if is_gpt2 else "USER:\nHo\n\nASSISTANT:\n"
        assert told["tokens"] == tokenizer.encode(chat) and told["token_strs"] is None
        for path, body, said in (
            ("/tokenize", {}, "the body must have either a prompt or messages"),
            ("/tokenize", {"prompt": "a", "x": 1}, "x is a field that this server does not know"),
            ("/tokenize", {"prompt": "a", "model": "b"}, "there is no model 'b'; this server has"),
            ("/detokenize", {"tokens": [10**30]}, "tokens are from 0 to"),
            ("/detokenize", {"tokens": ["a"]}, "tokens[0]: Expected `int`, got `str`"),
        ):
            assert said in asked(path, **body)["error"]["message"]
        assert running.get("/tokenizer_info").status_code == 401


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("lm_eval", path=WHERE), reason="bench/ has no lm_eval")
@pytest.mark.parametrize("is_gpt2", [False, True])
def test_a_harness_computes_the_models_perplexity(is_gpt2: bool, tmp_path: Path):
    model, tokenizer = served(is_gpt2, tmp_path / "gpt2")
    rows = "\n".join(json.dumps({"text": text}) for text in TEXTS)
    (tmp_path / "texts.jsonl").write_text(rows)
    (tmp_path / "plays.yaml").write_text(TASK.replace("texts.jsonl", str(tmp_path / "texts.jsonl")))
    made = engine(model, block_size=16, share_prefixes=True)
    with serving(made, tokenizer=tokenizer) as running:
        options = (
            f"base_url={running.url}/v1/completions,model={MODEL},tokenizer_backend=remote,"
            f"max_length={model.config.max_model_len}"
            + ("" if is_gpt2 else ",custom_prefix_token_id=0")
        )
        harness: Any = shutil.which("lm_eval", path=WHERE)
        subprocess.run(
            [harness, "run", "--model", "local-completions", "--model_args", options, "--tasks",
             "plays", "--include_path", tmp_path, "--output_path", tmp_path / "out"],
            env={**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"},
            cwd=tmp_path, check=True, capture_output=True, timeout=300,
        )  # fmt: skip
    [report] = (tmp_path / "out").rglob("*.json")
    seen = json.loads(report.read_text())["results"]["plays"]["byte_perplexity,none"]
    scores = [p for text in TEXTS for p, _ in score(made, [0, *tokenizer.encode(text)], 1)]
    num_bytes = sum(len(text.encode()) for text in TEXTS)
    assert seen == pytest.approx(math.exp(-sum(scores) / num_bytes), rel=1e-4)
