"""The server's pieces by themselves: texts that stop, conversations, deadlines, bodies."""

import json
import random
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest
from generated import examples
from http_serving import MODEL, completion, engine, oracle, serving
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.checkpoints.tokenizer import encode
from nanogpt.config import ModelConfig
from nanogpt.model import GPT
from nanogpt.parts.request_view import RequestView
from nanogpt.server.api_errors import ApiError
from nanogpt.server.chat_template import PLAIN, SCENE, Message
from nanogpt.server.continuation import Continuation
from nanogpt.server.deadlines import PATIENCE_S, Deadlines
from nanogpt.server.openai_api import UNCHANGING, Call, Limits, parse
from nanogpt.server.server_settings import ServerSettings
from nanogpt.server.serving import serve

AB = st.text(alphabet="abc", max_size=30)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=4)
LIMITS = Limits(64, 65, MODEL)


def cut(text: str, stops: list[str]) -> tuple[str, int | None]:
    """The text before the stop string that is complete first, and where that is."""
    for end in range(1, len(text) + 1):
        for stop in stops:
            if text[:end].endswith(stop):
                return text[: end - len(stop)], end
    return text, None


@examples(400)
@given(AB, STOPS, st.lists(st.integers(1, 4), min_size=30))
def test_a_text_ends_before_the_first_stop_string_however_its_tokens_come(
    text: str, stops: list[str], sizes: list[int]
) -> None:
    expected, end = cut(text, stops)
    continuation, given_out, tokens = Continuation(stops), "", encode(text)
    for size in sizes:
        given_out += continuation.feed(tokens[:size])
        tokens = tokens[size:]
        assert expected.startswith(given_out)
    assert continuation.is_stopped == (end is not None)
    assert continuation.num_tokens == (end or len(text))
    assert given_out + continuation.rest() == expected


def test_without_a_doubt_nothing_is_held_back() -> None:
    continuation = Continuation(["ab"])
    assert [continuation.feed(encode(c)) for c in "xaxab"] == ["x", "", "ax", "", ""]


def test_a_conversation_is_a_scene() -> None:
    messages = [
        Message("system", "A room."),
        Message("user", "Who is there?", "romeo"),
        Message("assistant", "I."),
        Message("user", "Enter."),
    ]
    assert SCENE.prompt(messages) == (
        "A room.\n\nROMEO:\nWho is there?\n\nASSISTANT:\nI.\n\nUSER:\nEnter.\n\nASSISTANT:\n"
    )
    assert PLAIN.prompt(messages) == (
        "A room.\n\nromeo:\nWho is there?\n\nAssistant:\nI.\n\nUser:\nEnter.\n\nAssistant:\n"
    )


def test_the_earliest_deadline_goes_first_and_none_waits_for_ever() -> None:
    deadlines = Deadlines()
    promises = {0: (0.0, None), 1: (5.0, 2.0), 2: (5.0, 30.0), 3: (PATIENCE_S + 1, 1.0)}
    for number, (arrived_s, slo_s) in promises.items():
        deadlines.note(number, arrived_s, slo_s)
    views = [RequestView(i, 1, 0, None, (1,), (), 1, 0) for i in range(4)]
    assert [view.id for view in sorted(views, key=deadlines.key)] == [1, 0, 3, 2]
    deadlines.forget(1)
    assert deadlines.key(views[1])[0] == float("inf")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"model_name": ""}, "model_name is empty"),
        ({"api_key": ""}, "api_key is empty or not ASCII"),
        ({"max_requests": 0}, "max_requests is 0; it must be at least 1"),
        ({"max_prompt_tokens": 0}, "max_prompt_tokens is 0; it must be at least 1"),
        ({"max_body_bytes": 1.5}, "max_body_bytes is 1.5; it must be a whole number"),
        ({"stream_interval_ms": -1}, "stream_interval_ms is -1; it must be at least 0"),
        ({"shutdown_s": 3601}, "shutdown_s is 3601; it must be at most 3600"),
    ],
)
def test_settings_outside_their_limits_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ServerSettings(**wrong)


def test_a_model_with_tokens_that_are_no_characters_is_not_served() -> None:
    large = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=4, vocab_size=66))
    with pytest.raises(ValueError, match="vocabulary has 66 tokens; the tokenizer has 65"):
        serve(lambda: engine(large))


# --- bodies that are none -------------------------------------------------------------------------

FIELDS = (
    "model", "prompt", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed",
    "stop", "stream", "stream_options", "cache_salt", *UNCHANGING,
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
WRONG = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4)
RIGHT = st.sampled_from(
    [completion("To be", 3), {"model": MODEL, "messages": [{"role": "user", "content": "To"}]}]
)
BODIES = st.one_of(
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.builds(lambda right, wrong: json.dumps({**right, **wrong}).encode(), RIGHT, WRONG),
    st.builds(lambda right, end: json.dumps(right).encode()[:-end], RIGHT, st.integers(1, 40)),
)


@examples(300)
@given(BODIES, st.booleans(), st.text(max_size=4))
def test_any_body_is_a_call_or_refused(body: bytes, is_chat: bool, header: str) -> None:
    headers = {"x-priority": header} if header else {}
    error, call = None, None
    try:
        call = parse(body, headers, LIMITS, is_chat=is_chat)
    except ApiError as refusal:
        error = refusal
    if error:
        assert error.status in (400, 404)
        said = json.loads(error.body())["error"]
        assert said["type"] == "invalid_request_error" and said["message"]
    else:
        assert isinstance(call, Call)
        assert 1 <= call.asked.max_new_tokens <= 65 - len(call.asked.prompt_tokens)


def mutated(chance: random.Random) -> bytes:
    """A body with some mistakes in it, drawn fast."""
    values = [None, True, 0, -1, 1, 2**70, 1.5, "", "To", "é", [], ["a"], [1, 2], {}, {"a": 1}]
    body = {**chance.choice([completion("To be", 3), {"model": MODEL, "prompt": [1]}])}
    for _ in range(chance.randint(0, 3)):
        body[chance.choice(FIELDS)] = chance.choice(values)
    data = bytearray(json.dumps(body).encode())
    if chance.random() < 0.3:
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("number", [200, pytest.param(10_000, marks=pytest.mark.process)])
def test_a_server_outlives_malformed_bodies(number: int) -> None:
    chance = random.Random(number)
    with (  # http.client computes less itself than httpx does
        serving() as fuzzed,
        closing(HTTPConnection(fuzzed.url.removeprefix("http://"), timeout=20)) as client,
    ):
        for _ in range(number):
            path = chance.choice(("completions", "completions", "chat/completions"))
            client.request("POST", f"/v1/{path}", mutated(chance))
            answer = client.getresponse()
            said = answer.read()  # events, where the body still asks for a stream
            assert answer.status in (200, 400, 404)
            if answer.status != 200:
                assert json.loads(said)["error"]["message"]
        fuzzed.wait_until_idle()
        answer = fuzzed.post("/v1/completions", completion(temperature=0))
        assert answer.json()["choices"][0]["text"] == oracle("To be, or not", 20)
