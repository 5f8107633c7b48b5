"""A server of a GPT-2 from a folder: its own tokens, whole characters, and texts that end."""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from http_serving import MODEL, Running, engine, serving
from hypothesis import given
from hypothesis import strategies as st

from nanogpt import GPT, Engine, EngineConfig, generate, load_model
from nanogpt.checkpoints.tokenizer import tokenizer_for
from nanogpt.server.continuation import Continuation

PROMPT = "naïv"
LETTERS = "aé今🙂 b"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from byte_pair_folders import make_folder

    return make_folder(tmp_path_factory.mktemp("gpt2") / "folder")


@pytest.fixture(scope="module")
def pairs(folder: Path) -> Any:
    from nanogpt.checkpoints.byte_pairs import BytePairs

    return BytePairs(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> GPT:
    return load_model(folder, torch.float64)


@pytest.fixture(scope="module")
def server(model: GPT, pairs: Any) -> Iterator[Running]:
    with serving(engine(model), tokenizer=pairs) as running:
        yield running


@pytest.fixture
def oracle(model: GPT, pairs: Any) -> Any:
    """(text, number of tokens) of a prompt, a length and a seed; the end ends it."""

    def text(prompt: str, num_tokens: int, seed: int) -> tuple[str, int]:
        tokens = generate(model, pairs.encode(prompt), num_tokens, temperature=1.0, seed=seed)
        counted = tokens.index(0) + 1 if 0 in tokens else num_tokens
        return pairs._tokenizer.decode(tokens[:counted]), counted

    return text


def body(prompt: Any, num_tokens: int, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": prompt, "max_tokens": num_tokens, "temperature": 1, **fields}


@given(data=st.data(), sizes=st.lists(st.integers(1, 5), min_size=40, max_size=40))
def test_what_is_streamed_is_what_the_tokenizer_decodes_up_to_the_end(
    data: st.DataObject, sizes: list[int], pairs: Any
):
    num_tokens = pairs._tokenizer.get_vocab_size()
    tokens = data.draw(st.lists(st.integers(0, num_tokens - 1), max_size=40))
    continuation, streamed, rest = Continuation((), pairs), "", tokens
    for size in sizes:
        streamed += continuation.feed(rest[:size])
        rest = rest[size:]
    streamed += continuation.rest()
    until = tokens.index(0) + 1 if 0 in tokens else len(tokens)
    assert streamed == pairs._tokenizer.decode(tokens[:until])
    assert continuation.num_tokens == until
    assert continuation.is_stopped == (0 in tokens)


@given(
    text=st.text(alphabet=LETTERS, max_size=20),
    stops=st.lists(st.text(alphabet=LETTERS, min_size=1, max_size=3), max_size=3),
)
def test_a_stop_string_may_end_inside_a_token_and_begin_in_half_a_character(
    text: str, stops: list[str], pairs: Any
):
    ends = {e: s for s in reversed(stops) for e in range(len(text) + 1) if text[:e].endswith(s)}
    expected = text[: min(ends) - len(ends[min(ends)])] if ends else text
    continuation, streamed = Continuation(stops, pairs), ""
    for token in pairs.encode(text):
        streamed += continuation.feed([token])
        assert expected.startswith(streamed)
    assert streamed + continuation.rest() == expected
    assert continuation.is_stopped == bool(ends)


def test_the_end_of_a_text_ends_its_request(server: Running, oracle: Any, pairs: Any):
    from byte_pair_folders import END

    seed, (text, counted) = next(
        (seed, found)
        for seed in range(300)
        if 2 < (found := oracle(PROMPT, 40, seed))[1] < 40
    )  # fmt: skip
    answer = server.post("/v1/completions", body(PROMPT, 40, seed=seed)).json()
    assert answer["choices"][0]["text"] == text
    assert answer["choices"][0]["finish_reason"] == "stop"
    tokens = len(pairs.encode(PROMPT))
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (
        tokens, counted,
    )  # fmt: skip
    server.wait_until_idle()
    longer = server.post("/v1/completions", body(PROMPT, 40, seed=seed, ignore_eos=True)).json()
    assert longer["usage"]["completion_tokens"] == 40
    choice = longer["choices"][0]
    assert choice["finish_reason"] == "length" and END not in choice["text"]
    assert choice["text"].startswith(text)
    more = {"min_tokens": counted + 1, "logit_bias": {"0": 100}}
    ended = server.post("/v1/completions", body(PROMPT, 40, seed=seed, **more)).json()
    assert ended["usage"]["completion_tokens"] == counted + 2


@pytest.mark.parametrize("drafts", [0, 3])
def test_an_answer_with_a_grammar_is_legal_and_ends_by_itself(model: GPT, pairs: Any, drafts: int):
    schema = {"type": "object", "properties": {"naïf": {"type": "boolean"}}, "required": ["naïf"]}
    schema |= {"additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "one", "schema": schema}}
    config = EngineConfig(num_draft_tokens=drafts, token_budget=64, temperature=1.0)
    flat = (lambda known: [1 / 320] * 320) if drafts else None
    with serving(Engine(model, config, draft=flat), tokenizer=pairs) as running:
        for fields, wanted in (
            ({"response_format": form}, r'{"naïf":(true|false)}'),
            ({"structured_outputs": {"choice": ["naive", "To be"]}}, "naive|To be"),
            ({"structured_outputs": {"regex": "([a-z]+;)*!"}, "stop": ";"}, "[a-z]+|!"),
        ):
            asked = body(PROMPT, 40, n=2, seed=1, **fields)
            for choice in running.post("/v1/completions", asked).json()["choices"]:
                assert re.fullmatch(wanted, choice["text"]) and choice["finish_reason"] == "stop"
        short = {"structured_outputs": {"regex": "a{30}"}}
        refused = running.post("/v1/completions", body(PROMPT, 9, **short))
        assert refused.status_code == 400 and "30 characters; max_new_tokens is 9" in refused.text


def test_without_the_library_a_json_schema_is_refused_with_the_command_that_installs_it(
    server: Running, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    asked = body(PROMPT, 9, response_format={"type": "json_object"})
    refused = server.post("/v1/completions", asked)
    assert refused.status_code == 400 and "pip install -e .[grammar]" in refused.text


def test_a_part_of_a_character_is_named_by_its_bytes(server: Running, pairs: Any):
    prompt = [0, *pairs.encode("é"), *(pairs._tokenizer.token_to_id(each) for each in "ä»Ĭ")]
    asked = body(prompt, 0, echo=True, logprobs=1)
    choice = server.post("/v1/completions", asked).json()["choices"][0]
    assert choice["text"] == "é今"
    assert choice["logprobs"]["tokens"][-3:] == ["bytes:\\xe4", "bytes:\\xbb", "bytes:\\x8a"]
    assert choice["logprobs"]["text_offset"][-3:] == [1, 1, 1]


def test_a_folder_that_cannot_be_served_is_refused_by_the_command(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
):
    from nanogpt.server.__main__ import main

    bare = Path(shutil.copytree(folder, tmp_path / "bare"))
    (bare / "tokenizer.json").unlink()
    for arguments, said in (
        (["--model", str(bare)], "there is no tokenizer.json in"),
        (["--model", str(folder), "--num-draft-tokens", "4"], "tokens are the character model's"),
        (["--model", str(tmp_path / "none")], "there is no weights file at"),
        (["--threads", "100000000"], "--threads is 100000000; it must be at most"),
        (["--host", "no host"], "--host is 'no host': "),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert said in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ValueError, match="a folder's text needs it: pip install -e"):
        tokenizer_for(folder)
