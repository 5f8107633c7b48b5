"""What clients send: bodies and headers of the OpenAI API, checked, as what the engine is asked.

What a body has beyond this and clients send by default is passed over; what would change the answer
and is not supported is refused, unless it has the value that changes nothing.
Source: the API reference of OpenAI, completions and chat completions.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from nanogpt.checkpoints.pieces import CHARACTERS, Tokenizer
from nanogpt.engine import Engine
from nanogpt.server.api_errors import ApiError
from nanogpt.server.chat_template import PLAIN, SCENE, ChatTemplate, Message
from nanogpt.server.door import most_positions
from nanogpt.server.engine_thread import Asked
from nanogpt.server.server_settings import ServerSettings
from nanogpt.validate import check_int, show

MAX_STOPS = 4
MAX_TEMPERATURE = 2.0
USUAL_MAX_TOKENS = 16
"""Of a completion that names no `max_tokens`, as the API has it."""
MAX_PRIORITY = 9
USUAL_PRIORITY = 1
MAX_SLO_MS = 3_600_000
MAX_SALT = 128

UNCHANGING: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (False,),
    "top_logprobs": (),
    "top_p": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
}
"""What is not supported, and the values that ask for nothing; null always does."""


class StreamOptions(msgspec.Struct):
    """How to stream."""

    include_usage: bool | None = None


class Body(msgspec.Struct, kw_only=True):
    """What both kinds of body have."""

    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    cache_salt: str | None = None


class CompletionBody(Body, kw_only=True):
    """Of `/v1/completions`. A list of one prompt is one prompt, and numbers are tokens."""

    prompt: str | list[Any]


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A part of a message's content."""

    text: str


class ChatMessage(msgspec.Struct):
    """A message as it is sent."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None


class ChatBody(Body, kw_only=True):
    """Of `/v1/chat/completions`."""

    messages: list[ChatMessage]
    max_completion_tokens: int | None = None


class Call(NamedTuple):
    """A request that is in order: what the engine is asked, and how the client wants it."""

    asked: Asked
    is_chat: bool
    streams: bool
    includes_usage: bool


class Limits(NamedTuple):
    """What bounds a request, in tokens, and whose they are.

    `max_tokens` is for prompt and answer together.
    """

    max_prompt: int
    max_tokens: int
    model_name: str
    tokenizer: Tokenizer = CHARACTERS

    @classmethod
    def of(cls, engine: Engine, settings: ServerSettings, tokenizer: Tokenizer) -> "Limits":
        """Those of an engine. The last sampled token needs no position and no K/V."""
        most_prompt = settings.max_prompt_tokens or engine.model.config.context_len
        return cls(most_prompt, most_positions(engine) + 1, settings.model_name, tokenizer)


def parse(body: bytes, headers: Mapping[str, str], limits: Limits, *, is_chat: bool) -> Call:
    """A client's body and headers as a call. Raises: ApiError for what is wrong with them."""
    sent = _convert(body, ChatBody if is_chat else CompletionBody)
    if sent.model != limits.model_name:
        raise ApiError(
            404, f"there is no model {show(sent.model)}; this server has {limits.model_name!r}",
            param="model", code="model_not_found",
        )  # fmt: skip
    if isinstance(sent, ChatBody):
        template = SCENE if limits.tokenizer is CHARACTERS else PLAIN
        where, stops = "messages", (*_stops(sent.stop), *template.stops)
        prompt = _encoded(_chat(sent.messages, template), where, limits.tokenizer)
        wanted = sent.max_completion_tokens or sent.max_tokens
        for name in ("max_tokens", "max_completion_tokens"):
            _check_int(name, getattr(sent, name), 1)
    else:
        where, stops = "prompt", _stops(sent.stop)
        prompt = _tokens(sent.prompt, limits.tokenizer)
        wanted = USUAL_MAX_TOKENS if sent.max_tokens is None else sent.max_tokens
        _check_int("max_tokens", wanted, 1)
    asked = Asked(
        prompt, _length(len(prompt), wanted, where, limits), _temperature(sent.temperature),
        _seed(sent.seed), stops, _priority(headers), _slo_s(headers),
        cache_salt=_salt(sent.cache_salt), ignores_end=bool(sent.ignore_eos),
    )  # fmt: skip
    options = sent.stream_options
    return Call(asked, is_chat, bool(sent.stream), bool(options and options.include_usage))


def _convert(body: bytes, kind: type[ChatBody] | type[CompletionBody]) -> ChatBody | CompletionBody:
    """JSON to a body. Raises: ApiError."""
    try:
        sent = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, f"the body is not JSON: {error}") from None
    if not isinstance(sent, dict):
        raise ApiError(400, f"the body is {show(sent)}; it must be a JSON object")
    for name, values in UNCHANGING.items():
        value = sent.get(name)
        if value is not None and not any(_same(value, each) for each in values):
            wanted = " or ".join(msgspec.json.encode(each).decode() for each in (*values, None))
            raise ApiError(
                400, f"{name} is {show(value)}, which this server does not support; it may be "
                f"{wanted}", param=name, code="unsupported_value",
            )  # fmt: skip
    try:
        return msgspec.convert(sent, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        said, _, place = str(error).partition(" - at ")
        field = re.match(r"`\$\.(\w+)", place) or re.search(r"required field `(\w+)`", said)
        path = place.strip("`").removeprefix("$.").removeprefix("$")
        raise ApiError(
            400, f"{path}: {said}" if path else said, param=field[1] if field else None
        ) from None


def _same(value: object, other: object) -> bool:
    """Equal, where true is not 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _chat(messages: Sequence[ChatMessage], template: ChatTemplate) -> str:
    if not messages:
        raise ApiError(400, "messages is empty; it must have at least 1 message", param="messages")
    said = [
        Message(
            each.role,
            each.content
            if isinstance(each.content, str)
            else "".join(part.text for part in each.content),
            each.name,
        )
        for each in messages
    ]
    return template.prompt(said)


def _tokens(prompt: str | list[Any], tokenizer: Tokenizer) -> list[int]:
    """The prompt's tokens. Raises: ApiError for more prompts than one, and for none."""
    in_a_list = isinstance(prompt, list) and len(prompt) == 1 and type(prompt[0]) is not int
    one: Any = prompt[0] if in_a_list else prompt
    if isinstance(one, str):
        return _encoded(one, "prompt", tokenizer)
    if isinstance(one, list) and all(type(token) is int for token in one):
        return one
    raise ApiError(
        400, f"prompt is {show(prompt)}; it must be one text or one list of tokens", param="prompt"
    )


def _encoded(text: str, where: str, tokenizer: Tokenizer) -> list[int]:
    try:
        return tokenizer.encode(text)
    except ValueError as error:
        raise ApiError(400, str(error), param=where) from None


def _length(num_prompt: int, wanted: int | None, where: str, limits: Limits) -> int:
    """How many tokens to generate: those wanted, or all that there is room for."""
    if num_prompt > limits.max_prompt:
        raise ApiError(
            400, f"the prompt has {num_prompt} tokens; it may have at most {limits.max_prompt}",
            param=where, code="context_length_exceeded",
        )  # fmt: skip
    room = limits.max_tokens - num_prompt
    if room < (wanted or 1):
        raise ApiError(
            400, f"the prompt has {num_prompt} tokens and {wanted or 1} more are wanted; together "
            f"they may be at most {limits.max_tokens}", param=where, code="context_length_exceeded",
        )  # fmt: skip
    return wanted or room


def _temperature(sent: float | None) -> float | None:
    if sent is not None and not 0 <= sent <= MAX_TEMPERATURE:
        raise ApiError(
            400, f"temperature is {sent:g}; it must be from 0 to {MAX_TEMPERATURE:g}",
            param="temperature",
        )  # fmt: skip
    return sent


def _seed(sent: int | None) -> int | None:
    """The API has seeds below 0 too."""
    return None if sent is None else sent % 2**64


def _salt(sent: str | None) -> str | None:
    """As vLLM has it: only requests of one salt share blocks."""
    if sent is not None and not 0 < len(sent) <= MAX_SALT:
        raise ApiError(
            400, f"cache_salt has {len(sent)} characters; it must have 1 to {MAX_SALT}",
            param="cache_salt",
        )  # fmt: skip
    return sent


def _stops(sent: str | list[str] | None) -> tuple[str, ...]:
    stops = (sent,) if isinstance(sent, str) else tuple(sent or ())
    if len(stops) > MAX_STOPS:
        raise ApiError(
            400, f"stop has {len(stops)} strings; there may be at most {MAX_STOPS}", param="stop"
        )
    if "" in stops:
        raise ApiError(400, "stop has an empty string; it would end every answer", param="stop")
    return stops


def _check_int(name: str, value: int | None, low: int) -> None:
    if value is not None:
        try:
            check_int(name, value, low)
        except ValueError as error:
            raise ApiError(400, str(error), param=name) from None


def _priority(headers: Mapping[str, str]) -> int:
    text = headers.get("x-priority", str(USUAL_PRIORITY))
    if not (text.isascii() and text.isdigit() and len(text) < 3 and int(text) <= MAX_PRIORITY):
        raise ApiError(
            400, f"X-Priority is {show(text)}; it must be a whole number from 0 (the most "
            f"important) to {MAX_PRIORITY}", param="X-Priority",
        )  # fmt: skip
    return int(text)


def _slo_s(headers: Mapping[str, str]) -> float | None:
    text = headers.get("x-slo-ttft-ms")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 0 < int(text) <= MAX_SLO_MS):
        raise ApiError(
            400, f"X-SLO-TTFT-MS is {show(text)}; it must be a whole number of milliseconds from 1 "
            f"to {MAX_SLO_MS}", param="X-SLO-TTFT-MS",
        )  # fmt: skip
    return int(text) / 1000
