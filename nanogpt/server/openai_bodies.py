"""Bodies of the OpenAI API: which fields they have, of which types, and what else may stand there.

A field that this server does not know may change the answer, so it is refused. Passed over are
null, the values that ask for nothing (`UNCHANGING`), and the fields that cannot change a text.
Source: the API reference of OpenAI, completions and chat completions; vLLM's extra parameters.
"""

import codecs
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from nanogpt.server.api_errors import ApiError
from nanogpt.validate import show

UNCHANGING: Mapping[str, tuple[object, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "prompt_logprobs": (),
    "top_p": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "use_beam_search": (False,),
    "min_tokens": (0,),
    "stop_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "bad_words": ([],),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "add_special_tokens": (True, False),
    "truncate_prompt_tokens": (),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "tool_calls": ([],),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "modalities": (["text"],),
    "audio": (),
    "reasoning_effort": ("none",),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "chat_template_kwargs": ({},),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
}
"""What is not supported, and the values that ask for nothing; null always does."""


class StreamOptions(msgspec.Struct):
    """How to stream."""

    passed_over: ClassVar[frozenset[str]] = frozenset(
        {"include_obfuscation", "continuous_usage_stats"}
    )
    include_usage: bool | None = None


class Body(msgspec.Struct, kw_only=True):
    """What both kinds of body have."""

    passed_over: ClassVar[frozenset[str]] = frozenset(
        {
            "user",
            "metadata",
            "store",
            "service_tier",
            "safety_identifier",
            "prompt_cache_key",
            "prompt_cache_retention",
            "parallel_tool_calls",
            "request_id",
        }
    )
    model: str
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    cache_salt: str | None = None


class CompletionBody(Body, kw_only=True):
    """Of `/v1/completions`. Numbers in `prompt` are tokens, lists and texts in a list prompts."""

    prompt: str | list[Any]
    echo: bool | None = None
    logprobs: int | bool | None = None


class TextPart(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    """A part of a message's content."""

    text: str


class ChatMessage(msgspec.Struct):
    """A message as it is sent. Content that is null says nothing."""

    passed_over: ClassVar[frozenset[str]] = frozenset({"refusal", "annotations"})
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None
    name: str | None = None


class ChatBody(Body, kw_only=True):
    """Of `/v1/chat/completions`."""

    messages: list[ChatMessage]


Checked: TypeAlias = type[Body | ChatMessage | StreamOptions]


def convert(body: bytes, *, is_chat: bool) -> ChatBody | CompletionBody:
    """A body's bytes as a body. Raises: ApiError naming the field that is wrong."""
    sent = _decoded(body.removeprefix(codecs.BOM_UTF8))
    if not isinstance(sent, dict):
        raise ApiError(400, f"the body is {show(sent)}; it must be a JSON object")
    kind = ChatBody if is_chat else CompletionBody
    try:
        converted = msgspec.convert(sent, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        said, _, place = str(error).partition(" - at ")
        field = re.match(r"`\$\.(\w+)", place) or re.search(r"required field `(\w+)`", said)
        path = place.strip("`").removeprefix("$.").removeprefix("$")
        raise ApiError(
            400, f"{path}: {said}" if path else said, param=field[1] if field else None
        ) from None
    _check_fields(sent, kind)
    _check_fields(sent.get("stream_options") or {}, StreamOptions, "stream_options")
    for number, message in enumerate(sent["messages"] if is_chat else ()):
        _check_fields(message, ChatMessage, "messages", f"[{number}]")
    return converted


def _decoded(body: bytes) -> Any:
    """JSON to plain values. Raises: ApiError for what is none, and for JSON that is not taken."""
    try:
        return msgspec.json.decode(body)
    except msgspec.ValidationError:
        raise ApiError(400, "the body has a number that is too large to be of use") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = f"the body is not JSON: {error}"
    if _is_json(body):
        said = "a text in the body has half a surrogate pair, which is no character"
    raise ApiError(400, said)


def _is_json(body: bytes) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        json.loads(body, parse_int=float, parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _check_fields(sent: Mapping[str, Any], kind: Checked, where: str = "", index: str = "") -> None:
    """Refuse a field that is not known and may change the answer. Raises: ApiError."""
    known = {field.name for field in msgspec.structs.fields(kind)} | kind.passed_over
    for name, value in sent.items():
        values = UNCHANGING.get(name, ())
        if name in known or value is None or any(_same(value, each) for each in values):
            continue
        path = f"{where}{index}.{name}" if where else name
        if name in UNCHANGING:
            raise ApiError(
                400, f"{path} is {show(value)}, which this server does not support; it may be "
                f"{_either((*values, None))}", param=where or name, code="unsupported_value",
            )  # fmt: skip
        raise ApiError(
            400, f"{path[:100]} is a field that this server does not know, and might change the "
            "answer; leave it out", param=where or name, code="unknown_parameter",
        )  # fmt: skip


def _either(values: Sequence[object]) -> str:
    return " or ".join(msgspec.json.encode(each).decode() for each in values)


def _same(value: object, other: object) -> bool:
    """Equal, where true is not 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)
