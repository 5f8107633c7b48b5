"""Servers beside each other: the same weights and tokens, and what a generator's report says."""

import sys
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import torch
from http_serving import serving

from benchmarks import served
from benchmarks.gpt2_folder import save_gpt2
from benchmarks.server import Running
from nanogpt import load_model
from nanogpt.checkpoints.byte_pairs import BytePairs
from nanogpt.checkpoints.tokenizer import ALPHABET, decode, encode

# A program that takes guidellm's options, streams the first prompt once for each number of streams,
# and writes a report of its form.
GENERATOR = """
import json, sys, urllib.request
given = dict(zip(sys.argv[2::2], sys.argv[3::2]))
fields = {name: dict(pair.split("=", 1) for pair in given[name].split(",")) for name in
          ("--backend", "--data", "--output", "--constraint")}
streams = sys.argv[sys.argv.index("--override") + 2]
prompt = json.loads(open(fields["--data"]["path"]).readline())["prompt"]
backend, shown = fields["--backend"], []
for number in streams.split(","):
    body = {"model": backend["model"], "prompt": prompt, "max_tokens": int(backend["max_tokens"])}
    url = backend["target"] + backend["request_format"]
    asked = urllib.request.Request(url, json.dumps(body).encode())
    usage = json.load(urllib.request.urlopen(asked))["usage"]
    times = {"median": usage["prompt_tokens"], "percentiles": {"p95": usage["completion_tokens"]}}
    rate = {"total": {"mean": float(fields["--constraint"]["seconds"])}}
    shown.append({"config": {"strategy": {"streams": int(number)}}, "metrics": {
        "time_to_first_token_ms": {"successful": times},
        "inter_token_latency_ms": {"successful": times}, "output_tokens_per_second": rate,
        "request_totals": {"successful": 3, "errored": 1}}})
json.dump({"benchmarks": shown}, open(fields["--output"]["path"], "w"))
"""


def test_a_folder_for_other_servers_has_the_same_model_and_the_same_tokens(tmp_path: Path) -> None:
    save_gpt2(load_model(), tmp_path / "model")
    ours, theirs = load_model(dtype=torch.float64), load_model(tmp_path / "model", torch.float64)
    tokens = encode("ROMEO:\nWhat, dares the slave")
    assert torch.equal(theirs(torch.tensor([tokens]))[0], ours(torch.tensor([tokens]))[0])
    tokenizer = BytePairs(tmp_path / "model")
    assert tokenizer.encode(ALPHABET) == list(range(65)) and tokenizer.end_token is None
    assert tokenizer.encode("ROMEO:\nWhat, dares the slave") == tokens
    assert [tokenizer.piece(t) for t in range(65)] == [c.encode() for c in ALPHABET]
    with pytest.raises(ValueError, match="character '5' has no token"):
        tokenizer.encode("5")


def test_transformers_reads_the_folder_as_we_do(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    save_gpt2(load_model(), tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64)
    tokens = tokenizer("ROMEO:\nWhat").input_ids
    assert tokens == encode("ROMEO:\nWhat") and tokenizer.decode(tokens) == "ROMEO:\nWhat"
    expected = load_model(dtype=torch.float64)(torch.tensor([tokens]))[0]
    torch.testing.assert_close(model(torch.tensor([tokens])).logits, expected)


def test_a_turn_drives_the_generator_and_reads_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "guidellm"
    program.write_text(f"#!{sys.executable}\n{GENERATOR}")
    program.chmod(0o755)
    monkeypatch.setattr(served, "PROMPT_TOKENS", 20)
    with serving() as ours:
        target = served.Target(Running(psutil.Process(), httpx.URL(ours.url).port or 0), "nanogpt")
        served.warm_up(target, "To be", 8)
        seen = served.turn(str(program), target, tokens=5, seconds=7, number=3)
        assert ours.metrics()["vllm:generation_tokens_total",] == 8 + 3 * 5
    assert seen == [served.Seen(n, 3, 1, 20, 5, 20, 5, 7.0) for n in (1, 8, 32)]
    program.write_text(f"#!{sys.executable}\nraise SystemExit('no such option')\n")
    with pytest.raises(AssertionError, match="ended with 1: no such option"):
        served.turn(str(program), target, 5, 7, 3)


def test_a_line_has_the_medians_of_the_turns() -> None:
    turns = [served.Seen(8, 10 + n, n, 5.0 * n, 9, 2, 3, 100.0 * n) for n in (3, 1, 2)]
    assert served.line("ours", turns) == (
        "| 8 | ours | 10.0, 9.0 | 2.0, 3.0 | 200 (100 to 300) | 36 | 6 |"
    )


def test_prompts_are_new_in_every_turn_and_the_same_for_both_servers() -> None:
    def prompts(seed: int) -> list[str]:
        load = served.of_length(served.PROMPT_TOKENS, 20, 8, seed=seed)
        return [decode(prompt) for prompt in load.prompts]

    assert prompts(0) == prompts(0) and not set(prompts(0)) & set(prompts(1))
    assert {len(each) for each in prompts(1)} == {64}


def test_a_program_that_there_is_not_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--guidellm", "no-such"], ["--transformers", "no-such"]):
        arguments: list[Any] = ["--guidellm", sys.executable, *options]
        with pytest.raises(SystemExit, match="2"):
            served.main(arguments)
        assert "there is no program 'no-such'" in capsys.readouterr().err
