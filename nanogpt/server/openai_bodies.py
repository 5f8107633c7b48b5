"""Bodies of the OpenAI API: their fields, types and unsupported values, and how a chat is a prompt.

A field that this server does not know may change the answer, so it is refused. Ignored are null,
the values without effect (`UNCHANGING`), and the fields that cannot change a text.
Source: the API reference of OpenAI, completions and chat completions; vLLM's extra parameters.
"""

import codecs
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from nanogpt.sampling import MOST_SEED, LogitsParams
from nanogpt.server.api_errors import ApiError, bad_request
from nanogpt.validate import show

UNCHANGING: Mapping[str, tuple[object, ...]] = {
    "best_of": (1,), "echo": (False,), "suffix": ("",), "logprobs": (False,), "top_logprobs": (0,),
    "prompt_logprobs": (), "length_penalty": (1,), "use_beam_search": (False,),
    "stop_token_ids": ([],), "include_stop_str_in_output": (False,), "bad_words": ([],),
    "skip_special_tokens": (True,), "spaces_between_special_tokens": (True,),
    "add_special_tokens": (True, False), "truncate_prompt_tokens": (), "tools": ([],),
    "tool_choice": ("none", "auto"), "tool_calls": ([],), "functions": ([],),
    "function_call": ("none", "auto"), "modalities": (["text"],), "audio": (),
    "reasoning_effort": ("none",), "add_generation_prompt": (True,),
    "continue_final_message": (False,), "chat_template_kwargs": ({},),
    "return_token_ids": (False,), "return_tokens_as_token_ids": (False,),
}  # fmt: skip
"""Unsupported fields, and the values of each that have no effect; null never has one."""


MAX_STOPS = 16
MAX_TEMPERATURE = 2.0
MAX_LOGPROBS = 20
MAX_SALT = 128
MIN_SEED = -(2**63)
MAX_INT = 2**63 - 1

Role: TypeAlias = Literal["system", "developer", "user", "assistant"]
CHOICES: Mapping[str, Sequence[str]] = {"role": get_args(Role), "type": ("text",)}
"""Fields of a message whose values msgspec refuses without saying which ones there are."""

NonEmpty: TypeAlias = Annotated[str, Meta(min_length=1)]


class Checked(msgspec.Struct):
    """A part of a body; its other fields are refused, but those that are `ignored`."""

    ignored: ClassVar[frozenset[str]] = frozenset()


class StreamOptions(Checked):
    """How to stream."""

    ignored: ClassVar[frozenset[str]] = frozenset({"include_obfuscation", "continuous_usage_stats"})
    include_usage: bool | None = None


class Body(Checked, kw_only=True):
    """The fields of both kinds of body."""

    ignored: ClassVar[frozenset[str]] = frozenset(
        {
            "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
            "prompt_cache_retention", "parallel_tool_calls", "request_id",
        }
    )  # fmt: skip
    model: str
    max_tokens: Annotated[int, Meta(ge=0, le=MAX_INT)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=0, le=MAX_INT)] | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_INT)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=MAX_TEMPERATURE)] | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    min_tokens: int | None = None
    seed: int | None = None
    stop: NonEmpty | Annotated[list[NonEmpty], Meta(max_length=MAX_STOPS)] | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    cache_salt: Annotated[str, Meta(min_length=1, max_length=MAX_SALT)] | None = None
    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None

    def wanted(self) -> int | None:
        """`max_tokens`, by its old name or its new one. Raises: ApiError where the two differ."""
        old, new = self.max_tokens, self.max_completion_tokens
        if old is not None and new is not None and old != new:
            said = f"max_tokens is {old} and max_completion_tokens is {new}; they must be the same"
            raise bad_request("max_completion_tokens", said)
        return old if new is None else new

    def logits_params(self, end_tokens: tuple[int, ...]) -> LogitsParams | None:
        """How the logits are changed, unchecked; None where nothing is asked for."""
        names = {*LogitsParams.__struct_fields__} - {"logit_bias", "stop_token_ids"}
        sent = {name: value for name in names if (value := getattr(self, name)) is not None}
        sent["logit_bias"] = tuple((self.logit_bias or {}).items())
        params = LogitsParams(**sent)
        if params == LogitsParams(top_k=params.top_k) and params.top_k in (-1, 0):
            return None
        return replace(params, stop_token_ids=end_tokens)


class CompletionBody(Body, kw_only=True):
    """Of `/v1/completions`. Numbers in `prompt` are tokens, lists and texts in a list prompts."""

    prompt: str | list[Any]
    echo: bool | None = None
    logprobs: Annotated[int, Meta(ge=0, le=MAX_LOGPROBS)] | bool | None = None


class TextPart(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    """A part of a message's content."""

    text: str


class ChatMessage(Checked):
    """A message. Null content is empty."""

    ignored: ClassVar[frozenset[str]] = frozenset({"refusal", "annotations"})
    role: Role
    content: str | list[TextPart] | None
    name: str | None = None


class ChatBody(Body, kw_only=True):
    """Of `/v1/chat/completions`."""

    max_tokens: Annotated[int, Meta(ge=1, le=MAX_INT)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1, le=MAX_INT)] | None = None
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    chat_template_kwargs: dict[str, Any] | None = None


class ChatTemplate(NamedTuple):
    """How a conversation becomes a prompt, and the strings that end its answer.

    Each message has its speaker in a line of its own, in capitals or not, then its text and an
    empty line; system messages have no speaker. The prompt ends with the assistant's line.
    """

    stops: tuple[str, ...]
    in_capitals: bool

    def prompt(self, messages: Sequence[ChatMessage], settings: Mapping[str, Any] = {}) -> str:
        """The conversation as a prompt; this template has no settings.

        >>> SCENE.prompt([ChatMessage("system", "A room."), ChatMessage("user", "Who is there?")])
        'A room.\\n\\nUSER:\\nWho is there?\\n\\nASSISTANT:\\n'
        """
        return "".join(map(self._speech, messages)) + self._line("Assistant")

    def _speech(self, message: ChatMessage) -> str:
        text = message.content or ""
        if isinstance(text, list):
            text = "".join(part.text for part in text)
        is_stage_direction = message.role in ("system", "developer")
        line = "" if is_stage_direction else self._line(message.name or message.role.capitalize())
        return f"{line}{text}\n\n"

    def _line(self, speaker: str) -> str:
        return f"{speaker.upper() if self.in_capitals else speaker}:\n"


SCENE = ChatTemplate(("\n\n",), in_capitals=True)
"""For the character model, which has read only plays: a speech ends with an empty line."""
PLAIN = ChatTemplate(("\n\nUser:", "\n\nAssistant:"), in_capitals=False)


class TokenizeBody(Checked):
    """Of vLLM's `/tokenize`: either a prompt or a conversation."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[ChatMessage], Meta(min_length=1)] | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(Checked):
    """Of vLLM's `/detokenize`."""

    tokens: list[int]
    model: str | None = None


Kind = TypeVar("Kind", bound=Checked)


def convert(body: bytes, kind: type[Kind]) -> Kind:
    """A body's bytes as a body. Raises: ApiError naming the field that is wrong."""
    try:
        sent: Any = msgspec.json.decode(body.removeprefix(codecs.BOM_UTF8))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(None, f"the body cannot be read as JSON: {error}") from None
    if not isinstance(sent, dict):
        raise bad_request(None, f"the body is {show(sent)}; it must be a JSON object")
    try:
        converted = msgspec.convert(sent, kind, str_keys=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _bad_field(sent, str(error)) from None
    seed = converted.seed if isinstance(converted, Body) else None
    if seed is not None and not MIN_SEED <= seed <= MOST_SEED:
        said = f"seed is {show(seed)}; it must be from {MIN_SEED} to {MOST_SEED}"
        raise bad_request("seed", said)
    _check_fields(sent, kind)
    _check_fields(sent.get("stream_options") or {}, StreamOptions, "stream_options")
    for number, message in enumerate(sent.get("messages") or ()):
        _check_fields(message, ChatMessage, "messages", f"[{number}]")
    return converted


def _bad_field(sent: Mapping[str, Any], error: str) -> ApiError:
    """msgspec's refusal, with the value of a field at the top of the body."""
    said, _, place = error.partition(" - at ")
    path = place.strip("`").rpartition("$")[2].removeprefix(".")  # of a key, the mapping's
    field = re.match(r"\w+", path) or re.search(r"(?<=required field `)\w+", said)
    value = f" is {show(sent[path])}" if path in sent else ""
    choices = CHOICES.get(path.rpartition(".")[2])
    if choices and said.startswith("Invalid"):
        said += f"; it must be {' or '.join(map(repr, choices))}"
    return bad_request(field[0] if field else None, f"{path}{value}: {said}" if path else said)


def _check_fields(
    sent: Mapping[str, Any], kind: type[Checked], where: str = "", index: str = ""
) -> None:
    """Raises: ApiError for an unknown or unsupported field that may change the answer."""
    known = {field.name for field in msgspec.structs.fields(kind)} | kind.ignored
    for name, value in sent.items():
        values = UNCHANGING.get(name, ())
        if name in known or value is None or any(_same(value, each) for each in values):
            continue
        path = f"{where}{index}.{name}" if where else name
        if name in UNCHANGING:
            either = " or ".join(msgspec.json.encode(each).decode() for each in (*values, None))
            said = f"{path} is {show(value)}, which this server does not support; it may be "
            raise bad_request(where or name, said + either, "unsupported_value")
        said = f"{path[:100]} is a field that this server does not know, and might change the "
        raise bad_request(where or name, said + "answer; leave it out", "unknown_parameter")


def _same(value: object, other: object) -> bool:
    """Equal, where true is not 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)
