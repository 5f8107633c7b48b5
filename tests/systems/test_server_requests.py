"""A server's pieces by themselves: bodies, refusals, texts that stop, deadlines, settings."""

import codecs
import json
from typing import Any

import pytest
from http_serving import MODEL, completion, engine
from hypothesis import assume, example, given
from hypothesis import strategies as st

from nanogpt import GPT, ModelConfig, encode
from nanogpt.sampling import LogitsParams
from nanogpt.server.admission import PATIENCE_S, Deadlines
from nanogpt.server.continuation import Continuation
from nanogpt.server.openai_bodies import PLAIN, SCENE, ChatMessage
from nanogpt.server.server_settings import ServerSettings
from nanogpt.views.request_view import RequestView

# --- bodies ---------------------------------------------------------------------------------------


def parsed(body: Any, *, is_chat: bool = False, **headers: str) -> Any:
    """The call that a client's body is, or the error that it is refused with."""
    from nanogpt.server.api_errors import ApiError
    from nanogpt.server.openai_api import Limits, parse

    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        return parse(data, given_headers, Limits(64, 65, 8, 65, MODEL), is_chat=is_chat)
    except ApiError as error:
        return error


def outputs(**fields: Any) -> dict[str, Any]:
    return {"structured_outputs": fields}


def assert_refused(error: Any, said: str, param: str | None, status: int = 400) -> None:
    record = json.loads(error.body())["error"]
    assert record.keys() == {"message", "type", "param", "code"}
    assert (error.status, record["type"]) == (status, "invalid_request_error")
    assert said in record["message"] and record["param"] == param


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"prompt": "To bé"}, "prompt", "character 'é' is not among the 65 characters"),
        ({"prompt": [1, 65]}, "prompt", "the prompt has token 65; tokens are from 0 to 64"),
        ({"prompt": ["a"] * 5, "n": 2}, "n", "(5) times n (2) are 10 requests; there may be at"),
        ({"prompt": None}, "prompt", "prompt is None: Expected `str | array`, got `null`"),
        ({"max_completion_tokens": 9}, "max_completion_tokens", "max_tokens is 20 and max_compl"),
        ({"max_tokens": 53}, "prompt", "13 tokens and 53 more are wanted; together they may be at"),
        ({"prompt": "a" * 65}, "prompt", "the prompt has 65 characters; it may have 64 tokens"),
        ({"temperature": 2.5}, "temperature", "temperature is 2.5: Expected `float` <= 2.0"),
        ({"stop": ["a"] * 17}, "stop", "Expected `array` of length <= 16"),
        ({"echo": True, "stream": True}, "echo", "echo is True; in a stream it must be false or"),
        ({"seed": 2**64}, "seed", "it must be from -9223372036854775808 to 18446744073709551615"),
        (outputs(regex="(a"), "structured_outputs", "'(a' is no regular expression: missing ), u"),
        (
            outputs(regex="(?=a)b"),
            "structured_outputs",
            "no automaton has a part of the kind 'assert'",
        ),
        (outputs(regex="[0-2]+"), "structured_outputs", "cannot be written in the characters tha"),
        (outputs(regex="a" * 5000), "structured_outputs", "the pattern has 5000 characters; at mo"),
        (outputs(choice=[]), "structured_outputs", "it must have one regex, or one choice of"),
        ({"response_format": {"type": "json"}}, "response_format", "type 'text', 'json_object', o"),
        ({"response_format": {"type": "json_object"}}, "response_format", "vocabulary has no brac"),
        ({"suffix": "x"}, "suffix", "suffix is 'x', which this server does not support; it may be"),
        ({"top_p": 1.5}, "top_p", "top_p is 1.5; it must be a number from 0 to 1"),
        ({"logit_bias": {"e": 1}}, "logit_bias", "logit_bias is {'e': 1}: Expected `int`"),
        ({"logit_bias": {"5": -101}}, "logit_bias", "-101.0; it must be a number from -100 to"),
        ({"cache_salt": "a" * 129}, "cache_salt", "Expected `str` of length <= 128"),
        ({"stream_options": {"x": 1}}, "stream_options", "stream_options.x is a field that this"),
    ],
)
def test_a_bad_field_is_named_with_its_limit(fields: dict[str, Any], param: str, said: str):
    assert_refused(parsed(completion(**fields)), said, param)


@pytest.mark.parametrize(
    ("messages", "said", "param"),
    [
        ([{"role": "tool", "content": "a"}], "'tool'; it must be 'system' or", "messages"),
        ([{"role": "user", "content": [{"type": "image"}]}], "; it must be 'text'", "messages"),
        ([{"role": "user", "content": "5"}], "character '5'", "messages"),
        ([{"role": "user", "content": "a", "tool_calls": [{}]}], "[0].tool_calls is", "messages"),
        (
            [{"role": "user", "content": "a", "think": 1}],
            "messages[0].think is a field",
            "messages",
        ),
        ([{"role": "user", "content": [{"type": "text", "text": "a", "b": 1}]}], "`b`", "messages"),
    ],
)
def test_a_bad_conversation_is_told_what_is_wrong(messages: list[Any], said: str, param: str):
    assert_refused(parsed({"model": MODEL, "messages": messages}, is_chat=True), said, param)


def test_another_model_no_json_and_headers_that_are_no_numbers_are_refused():
    assert_refused(parsed(completion(model="gpt-4")), "there is no model 'gpt-4'", "model", 404)
    for body, said in (
        (b'{"model": ', "the body cannot be read as JSON"),
        (b"[NaN]", "the body cannot be read as JSON"),
        (b"[]", "the body is []; it must be a JSON object"),
        (b'{"stop": "a\\ud800b"}', "the body cannot be read as JSON"),
        (b'{"prompt": [%s]}' % (b"1" * 5000), "the body cannot be read as JSON"),
    ):
        assert_refused(parsed(body), said, None)
    marked = codecs.BOM_UTF8 + json.dumps(completion()).encode()
    assert parsed(marked) == parsed(completion())
    for name, value in (("x-priority", "10"), ("x-priority", "-1"), ("x-slo-ttft-ms", "0"),
                        ("x-slo-ttft-ms", "1e3")):  # fmt: skip
        said = f"is '{value}'; it must be a whole number"
        param = {"x-priority": "X-Priority", "x-slo-ttft-ms": "X-SLO-TTFT-MS"}[name]
        assert_refused(parsed(completion(), **{name: value}), said, param)


def test_what_clients_send_is_what_the_engine_is_asked():
    fields = {
        "temperature": 0.5, "seed": -1, "stop": "x", "stream": True, "cache_salt": "a",
        "stream_options": {"include_usage": True}, "ignore_eos": True, "logit_bias": {"5": -100},
    }  # fmt: skip
    changes = {
        "top_p": 0.5, "top_k": 7, "min_p": 0.25, "repetition_penalty": 1.5, "min_tokens": 9,
        "presence_penalty": -2.0, "frequency_penalty": 2.0,
    }  # fmt: skip
    headers = {"x-priority": "7", "x-slo-ttft-ms": "1500"}
    call = parsed(completion(max_tokens=52, **fields, **changes), **headers)
    [asked] = call.asked
    assert (asked.prompt_tokens, asked.max_new_tokens) == (encode("To be, or not"), 52)
    assert (asked.temperature, asked.seed, asked.stops) == (0.5, 2**64 - 1, ("x",))
    assert (asked.priority, asked.slo_ttft_s, asked.cache_salt) == (7, 1.5, "a")
    assert asked.ignores_end
    assert asked.logits_params == LogitsParams(logit_bias=((5, -100),), **changes)
    assert asked.request(3).logits_params is asked.logits_params
    assert (call.is_chat, call.streams, call.includes_usage) == (False, True, True)
    [usual] = parsed({"model": MODEL, "prompt": [[32, 53]]}).asked
    assert (usual.prompt_tokens, usual.max_new_tokens) == ([32, 53], 16)
    said = [{"role": "user", "content": [{"type": "text", "text": "Hm"}]}]
    [chat] = parsed({"model": MODEL, "messages": said}, is_chat=True).asked
    assert chat.prompt_tokens == encode("USER:\nHm\n\nASSISTANT:\n")
    assert chat.max_new_tokens == 65 - len(chat.prompt_tokens)


def test_what_clients_send_by_default_is_passed_over():
    fields = {
        "n": 1, "best_of": None, "top_p": 1.0, "presence_penalty": 0, "frequency_penalty": 0.0,
        "user": "me", "logit_bias": {}, "echo": False, "logprobs": None, "suffix": None,
        "store": True, "metadata": {"a": "b"}, "repetition_penalty": 1.0, "min_tokens": 0,
        "top_k": -1, "min_p": 0.0,
        "unheard_of": None, "stream_options": {"continuous_usage_stats": True},
    }  # fmt: skip
    assert parsed(completion(**fields)) == parsed(completion())
    sent = [
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": [], "audio": None},
        {"role": "user", "content": "To"},
    ]
    chat = parsed({"model": MODEL, "messages": sent}, is_chat=True)
    assert chat.asked[0].prompt_tokens == encode("ASSISTANT:\n\n\nUSER:\nTo\n\nASSISTANT:\n")


def test_several_prompts_and_answers_are_requests_each_and_a_seed_is_counted_on():
    call = parsed(completion(["To", [1, 2]], 0, n=2, seed=2**64 - 1, echo=True, logprobs=1))
    expected = [(encode("To"), 2**64 - 1), (encode("To"), 0), ([1, 2], 2**64 - 1), ([1, 2], 0)]
    assert [(list(each.prompt_tokens), each.seed) for each in call.asked] == expected
    assert {each.max_new_tokens for each in call.asked} == {1}
    assert (call.keeps_text, call.echoes, call.num_logprobs) == (False, True, 1)


FIELDS = (
    "model", "prompt", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed",
    "stop", "stream", "stream_options", "cache_salt", "n", "logprobs", "tools", "response_format",
    "structured_outputs", "logit_bias", "top_p", "min_tokens",
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


@given(st.text(max_size=20), st.sampled_from([True, 0, 1.5, "a", [1], {"a": 1}]), st.booleans())
@example("suffix", {"choice": ["yes", "no"]}, False)
@example("guided_regex", "a+", True)
@example("prompt_logprobs", 1, False)
@example("priority", 0, False)
def test_a_field_that_is_not_known_is_refused(name: str, value: Any, is_chat: bool):
    from nanogpt.server.openai_bodies import UNCHANGING, ChatBody, CompletionBody

    kind = ChatBody if is_chat else CompletionBody
    assume(name not in {*kind.__struct_fields__, *kind.ignored})
    assume(all(value != each for each in UNCHANGING.get(name, ())))
    right = {"messages": [{"role": "user", "content": "To"}]} if is_chat else {"prompt": "To"}
    error = parsed({"model": MODEL, **right, name: value}, is_chat=is_chat)
    assert (error.status, error.param) == (400, name)
    assert error.code in ("unknown_parameter", "unsupported_value")


@given(BODIES, st.booleans(), st.text(max_size=4))
def test_any_body_is_a_call_or_refused(body: bytes, is_chat: bool, header: str):
    call = parsed(body, is_chat=is_chat, **({"x-priority": header} if header else {}))
    if isinstance(call, Exception):
        assert call.status in (400, 404)  # type: ignore[attr-defined]
        said = json.loads(call.body())["error"]  # type: ignore[attr-defined]
        assert said["type"] == "invalid_request_error" and said["message"]
    else:
        for asked in call.asked:
            assert 1 <= asked.max_new_tokens <= 65 - len(asked.prompt_tokens)


NUMBERS = ["1e999", "1e300", "-0.0", "5e-324", "NaN", "-Infinity"]
NUMBERS += [sign + "9" * length for sign in ("", "-") for length in (19, 400, 4300, 5000)]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number[:2]}{len(number)}")
def test_any_number_in_any_field_is_taken_or_refused_in_a_short_sentence(number: str):
    from nanogpt.server.openai_bodies import UNCHANGING, CompletionBody

    for name in (*CompletionBody.__struct_fields__, *UNCHANGING):
        for value in (number, f"[{number}]"):
            body = json.dumps({**completion(["T", "o"]), name: "@"}).replace('"@"', value).encode()
            error = parsed(body, x_priority=number)
            assert not isinstance(error, Exception) or len(str(error)) < 400


# --- pages of other sites -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "origin", "wrong"),
    [
        ("127.0.0.1:8000", None, None),
        ("[::1]:8000", "http://[::1]:8000", None),
        ("localhost", "http://LOCALHOST", None),
        ("models.lan", None, None),  # where it was told to listen
        (None, None, None),  # HTTP/1.0
        ("evil.com", None, "Host"),
        ("127.0.0.1:8000", "http://127.0.0.1:9000", "Origin"),
        ("localhost:8000", "https://evil.com", "Origin"),
        (None, "null", "Origin"),
    ],
)
def test_only_pages_of_other_sites_are_kept_out(
    host: str | None, origin: str | None, wrong: str | None
):
    from nanogpt.server.api_errors import ApiError, check_page

    headers = {k: v for k, v in (("host", host), ("origin", origin)) if v is not None}
    if wrong is None:
        check_page(headers, "models.lan")
        return
    with pytest.raises(ApiError) as refused:
        check_page(headers, "models.lan")
    assert (refused.value.status, refused.value.param) == (403, wrong)


# --- texts ----------------------------------------------------------------------------------------

AB = st.text(alphabet="abc", max_size=30)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=4)


def cut(text: str, stops: list[str], min_tokens: int) -> tuple[str, int | None]:
    """The text before the stop string that is complete first, and where that is."""
    for end in range(min_tokens + 1, len(text) + 1):
        for stop in stops:
            if text[:end].endswith(stop):
                return text[: end - len(stop)], end
    return text, None


@given(AB, STOPS, st.lists(st.integers(1, 4), min_size=30), st.sampled_from([0, 0, 3, 9]))
def test_a_text_ends_before_the_first_stop_string_however_its_tokens_come(
    text: str, stops: list[str], sizes: list[int], min_tokens: int
):
    """Only what may still become a stop string is held back."""
    expected, end = cut(text, stops, min_tokens)
    continuation, given_out, tokens = Continuation(stops, min_tokens=min_tokens), "", encode(text)
    for size in sizes:
        given_out += continuation.feed(tokens[:size])
        tokens = tokens[size:]
        assert expected.startswith(given_out)
        so_far = text[: len(text) - len(tokens)]
        held = max((n for s in stops for n in range(len(s)) if so_far.endswith(s[:n])), default=0)
        assert continuation.is_stopped or len(given_out) >= len(so_far) - held
    assert continuation.is_stopped == (end is not None)
    assert continuation.num_tokens == (end or len(text))
    assert given_out + continuation.rest() == expected


def test_after_a_restart_the_same_tokens_give_nothing_twice():
    continuation = Continuation()
    tokens = encode("To be, or")
    assert continuation.feed(tokens[:6]) == "To be,"
    continuation.restart(2)
    assert continuation.feed(tokens[2:5]) == ""
    assert continuation.feed(tokens[5:]) == " or"
    assert continuation.num_tokens == 9


def test_a_conversation_is_a_scene():
    messages = [
        ChatMessage("system", "A room."),
        ChatMessage("user", "Who is there?", "romeo"),
        ChatMessage("assistant", "I."),
        ChatMessage("user", "Enter."),
    ]
    assert SCENE.prompt(messages) == (
        "A room.\n\nROMEO:\nWho is there?\n\nASSISTANT:\nI.\n\nUSER:\nEnter.\n\nASSISTANT:\n"
    )
    assert PLAIN.prompt(messages) == (
        "A room.\n\nromeo:\nWho is there?\n\nAssistant:\nI.\n\nUser:\nEnter.\n\nAssistant:\n"
    )


# --- deadlines and settings -----------------------------------------------------------------------


def test_the_earliest_deadline_goes_first_and_none_waits_for_ever():
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
        ({"api_key": ""}, "api_key is empty or not ASCII"),
        ({"max_requests": 0}, "max_requests is 0; it must be at least 1"),
        ({"max_body_bytes": 1.5}, "max_body_bytes is 1.5; it must be a whole number"),
        ({"shutdown_s": 3601}, "shutdown_s is 3601; it must be at most 3600"),
    ],
)
def test_settings_outside_their_limits_are_refused(wrong: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        ServerSettings(**wrong)


def test_a_model_with_tokens_that_are_no_characters_is_not_served():
    from nanogpt.server.serving import serve

    large = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=4, vocab_size=66))
    with pytest.raises(ValueError, match="vocabulary has 66 tokens; the tokenizer has 65"):
        serve(lambda: engine(large))
