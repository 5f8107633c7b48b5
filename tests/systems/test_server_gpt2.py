"""A server of a GPT-2 from a folder: its own tokens, whole characters, and texts that end."""

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from byte_pair_folders import CONTEXT_LEN, END, TEXTS, VOCAB_SIZE, make_folder
from generated import examples
from http_serving import LIMIT_S, MODEL, Running, engine, events_of, serving, text_of
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

from nanogpt import generate, load_model
from nanogpt.checkpoints.byte_pairs import BytePairs, load_tokenizer
from nanogpt.checkpoints.pieces import tokenizer_for
from nanogpt.model import GPT
from nanogpt.server.__main__ import main
from nanogpt.server.continuation import Continuation

PROMPT = TEXTS[2][:4]
TOKENS = st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("gpt2") / "folder")


@pytest.fixture(scope="module")
def pairs(folder: Path) -> BytePairs:
    return BytePairs(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> GPT:
    return load_model(folder, torch.float64)


@pytest.fixture(scope="module")
def server(model: GPT, pairs: BytePairs) -> Iterator[Running]:
    with serving(engine(model), tokenizer=pairs) as running:
        yield running


@pytest.fixture
def oracle(model: GPT, pairs: BytePairs, folder: Path) -> Any:
    """(text, number of tokens) of a prompt, a length and a seed; the end ends it."""
    theirs = load_tokenizer(folder)

    def text(prompt: str, num_tokens: int, seed: int) -> tuple[str, int]:
        tokens = generate(model, pairs.encode(prompt), num_tokens, temperature=1.0, seed=seed)
        counted = tokens.index(0) + 1 if 0 in tokens else num_tokens
        return theirs.decode(tokens[:counted]), counted

    return text


def body(prompt: Any, num_tokens: int, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": prompt, "max_tokens": num_tokens, "temperature": 1, **fields}


@examples(300)
@given(tokens=TOKENS, sizes=st.lists(st.integers(1, 5), min_size=40, max_size=40))
def test_what_is_streamed_is_what_the_tokenizer_decodes_up_to_the_end(
    tokens: list[int], sizes: list[int], pairs: BytePairs
):
    theirs = pairs._tokenizer
    continuation, streamed, rest = Continuation((), pairs), "", tokens
    for size in sizes:
        streamed += continuation.feed(rest[:size])
        rest = rest[size:]
    streamed += continuation.rest()
    until = tokens.index(0) + 1 if 0 in tokens else len(tokens)
    assert streamed == theirs.decode(tokens[:until])
    assert continuation.num_tokens == until
    assert continuation.is_stopped == (0 in tokens)


@examples(300)
@given(
    text=st.text(alphabet="aé今🙂 b", max_size=20),
    stops=st.lists(st.text(alphabet="aé今🙂 b", min_size=1, max_size=3), max_size=3),
)
def test_a_stop_string_may_end_inside_a_token_and_begin_in_half_a_character(
    text: str, stops: list[str], pairs: BytePairs
):
    ends = {e: s for s in reversed(stops) for e in range(len(text) + 1) if text[:e].endswith(s)}
    expected = text
    if ends:
        expected = text[: min(ends) - len(ends[min(ends)])]
    continuation, streamed = Continuation(stops, pairs), ""
    for token in pairs.encode(text):
        streamed += continuation.feed([token])
        assert expected.startswith(streamed)
    assert streamed + continuation.rest() == expected
    assert continuation.is_stopped == bool(ends)


def test_half_a_character_waits_for_its_other_half(pairs: BytePairs):
    tokens = [*pairs.encode("🙃"), pairs.encode("a")[0]]
    continuation = Continuation((), pairs)
    said = [continuation.feed([token]) for token in tokens]
    assert said[-2:] == ["🙃", "a"] and set(said[:-2]) == {""}
    broken = Continuation((), pairs)
    assert broken.feed(tokens[:1]) == "" and broken.rest() == "\ufffd"


def test_streams_are_the_oracles_texts(server: Running, oracle: Any):
    wanted = [(PROMPT, 24, seed) for seed in range(12)]
    texts = [oracle(*each) for each in wanted]
    assert any("\ufffd" in text for text, _ in texts), "half characters came"
    for (prompt, num_tokens, seed), (text, counted) in zip(wanted, texts, strict=True):
        fields = {"seed": seed, "stream": True, "stream_options": {"include_usage": True}}
        answer = server.post("/v1/completions", body(prompt, num_tokens, **fields))
        events = events_of(answer.text.splitlines())
        assert text_of(events) == text
        assert events[-2]["usage"]["completion_tokens"] == counted
        whole = server.post("/v1/completions", body(prompt, num_tokens, seed=seed)).json()
        assert whole["choices"][0]["text"] == text


def test_the_end_of_a_text_ends_its_request(server: Running, oracle: Any):
    seed, (text, counted) = next(
        (seed, found)
        for seed in range(300)
        if 2 < (found := oracle(PROMPT, 40, seed))[1] < 40
    )  # fmt: skip
    client = server.client()
    asked = {"model": MODEL, "prompt": PROMPT, "max_tokens": 40, "temperature": 1, "seed": seed}
    answer = client.completions.create(**asked)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (text, "stop")
    assert answer.usage is not None and answer.usage.completion_tokens == counted
    server.wait_until_idle()
    longer = client.completions.create(**asked, extra_body={"ignore_eos": True})
    assert longer.usage is not None and longer.usage.completion_tokens == 40
    assert longer.choices[0].finish_reason == "length"
    assert longer.choices[0].text.startswith(text) and END not in longer.choices[0].text


def test_usage_counts_the_tokenizers_tokens(server: Running, pairs: BytePairs):
    text = "To be, or not to be: Ärger 今日は 🙂"
    answer = server.client().completions.create(model=MODEL, prompt=text, max_tokens=4)
    assert answer.usage is not None and answer.usage.prompt_tokens == len(pairs.encode(text))
    assert answer.usage.prompt_tokens < len(text.encode())
    tokens = server.client().completions.create(
        model=MODEL, prompt=pairs.encode(text), max_tokens=4, seed=1
    )
    same = server.client().completions.create(model=MODEL, prompt=text, max_tokens=4, seed=1)
    assert tokens.choices[0].text == same.choices[0].text
    long = server.post("/v1/completions", body("🙃" * CONTEXT_LEN, 1))
    assert long.status_code == 400
    assert long.json()["error"]["code"] == "context_length_exceeded"


def test_a_conversation_is_plain_text_and_ends_before_the_next_speaker(
    server: Running, model: GPT, pairs: BytePairs
):
    messages = [{"role": "user", "content": "To be?"}]
    answer = server.client().chat.completions.create(
        model=MODEL, messages=messages, temperature=1, seed=5, max_tokens=12
    )
    prompt = pairs.encode("User:\nTo be?\n\nAssistant:\n")
    assert answer.usage is not None and answer.usage.prompt_tokens == len(prompt)
    tokens = generate(model, prompt, 12, temperature=1.0, seed=5)
    text = b"".join(map(pairs.piece, tokens)).decode(errors="replace")
    assert answer.choices[0].message.content == text
    continuation = Continuation(("\n\nUser:", "\n\nAssistant:"), pairs)
    assert continuation.feed(pairs.encode("Ja.\n\nNo.\n\nUser:\nWhat")) == "Ja.\n\nNo."


def test_half_a_surrogate_pair_is_refused_and_named(server: Running):
    raw = b'{"model": "nanogpt", "prompt": "a\\ud800b", "max_tokens": 2}'
    answer = httpx.post(f"{server.url}/v1/completions", content=raw)
    assert answer.status_code == 400 and answer.json()["error"]["message"]


def test_many_streams_of_characters_in_parts_mix_nothing_up(server: Running, oracle: Any):
    async def ask() -> list[str]:
        async with server.async_client() as client:
            asked = [
                client.completions.create(
                    model=MODEL, prompt=PROMPT, max_tokens=20, temperature=1, seed=seed
                )
                for seed in range(16)
            ]
            return [answer.choices[0].text for answer in await asyncio.gather(*asked)]

    assert asyncio.run(ask()) == [oracle(PROMPT, 20, seed)[0] for seed in range(16)]


def test_what_cannot_be_served_is_refused_by_the_command(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    bare = Path(shutil.copytree(folder, tmp_path / "bare"))
    (bare / "tokenizer.json").unlink()
    for arguments, said in (
        (["--model", str(bare)], "there is no tokenizer.json in"),
        (["--model", str(folder), "--num-draft-tokens", "4"], "tokens are the character model's"),
        (["--model", str(tmp_path / "none")], "there is no weights file at"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert said in capsys.readouterr().err


def test_the_package_that_reads_its_text_is_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ValueError, match="GPT-2's text needs it: pip install -r requirements-gpt2"):
        tokenizer_for(folder)


def test_the_command_serves_a_folder(folder: Path, pairs: BytePairs):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "nanogpt.server", "--model", str(folder), "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        url, end = f"http://127.0.0.1:{port}/v1/completions", time.monotonic() + LIMIT_S
        while True:
            try:
                answer = httpx.post(url, json=body(PROMPT, 8, seed=1, ignore_eos=True))
                break
            except httpx.ConnectError:
                assert time.monotonic() < end
                time.sleep(0.05)
        process.terminate()
    tokens = len(pairs.encode(PROMPT))
    assert answer.json()["usage"] == {
        "prompt_tokens": tokens, "completion_tokens": 8, "total_tokens": tokens + 8,
    }  # fmt: skip
