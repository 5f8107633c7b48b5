"""What clients send: bodies and headers of the OpenAI API, checked, as what the engine is asked.

Source: the API reference of OpenAI, completions and chat completions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nanogpt.checkpoints.pieces import CHARACTERS, Tokenizer
from nanogpt.engine import Engine
from nanogpt.server.api_errors import ApiError
from nanogpt.server.chat_template import PLAIN, SCENE, ChatTemplate, Message
from nanogpt.server.door import most_positions
from nanogpt.server.engine_thread import Asked
from nanogpt.server.openai_bodies import ChatBody, ChatMessage, CompletionBody, convert
from nanogpt.server.server_settings import ServerSettings
from nanogpt.validate import check_int, show

MAX_STOPS = 4
MAX_TEMPERATURE = 2.0
MAX_LOGPROBS = 20
MAX_IN_A_CALL = 256
USUAL_MAX_TOKENS = 16
"""Of a completion that names no `max_tokens`, as the API has it."""
MAX_PRIORITY = 9
USUAL_PRIORITY = 1
MAX_SLO_MS = 3_600_000
MAX_SALT = 128
MIN_SEED, MAX_SEED = -(2**63), 2**64 - 1


class Call(NamedTuple):
    """A body that is in order: the requests that it asks for, and how the client wants them.

    `asked` has `num_answers` requests for each prompt, prompt by prompt. Without `keeps_text`
    (`max_tokens` 0) a request generates the one token that an engine has to, and no answer shows
    it. `num_logprobs` is how many of the likeliest tokens to list at each position; None: no log
    probabilities.
    """

    asked: tuple[Asked, ...]
    num_answers: int
    is_chat: bool
    streams: bool
    includes_usage: bool
    keeps_text: bool
    echoes: bool
    num_logprobs: int | None


class Limits(NamedTuple):
    """What bounds a call, and whose tokens it has.

    `max_tokens` is for prompt and answer together, `max_requests` for prompts times answers.
    """

    max_prompt: int
    max_tokens: int
    max_requests: int
    vocab_size: int
    model_name: str
    tokenizer: Tokenizer = CHARACTERS

    @classmethod
    def of(cls, engine: Engine, settings: ServerSettings, tokenizer: Tokenizer) -> "Limits":
        """Those of an engine. The last sampled token needs no position and no K/V."""
        model = engine.model.config
        return cls(
            settings.max_prompt_tokens or model.context_len, most_positions(engine) + 1,
            min(settings.max_requests, MAX_IN_A_CALL), model.vocab_size, settings.model_name,
            tokenizer,
        )  # fmt: skip


def parse(body: bytes, headers: Mapping[str, str], limits: Limits, *, is_chat: bool) -> Call:
    """A client's body and headers as a call. Raises: ApiError for what is wrong with them."""
    sent = convert(body, is_chat=is_chat)
    if sent.model != limits.model_name:
        raise ApiError(
            404, f"there is no model {show(sent.model)}; this server has {limits.model_name!r}",
            param="model", code="model_not_found",
        )  # fmt: skip
    num_answers = _whole("n", sent.n, 1) or 1
    wanted = _wanted(sent)
    stops, echoes, num_logprobs = _stops(sent.stop), False, None
    if isinstance(sent, ChatBody):
        template = SCENE if limits.tokenizer is CHARACTERS else PLAIN
        where, stops = "messages", (*stops, *template.stops)
        _check_number(1, num_answers, limits)
        prompts = [_encoded(_chat(sent.messages, template), where, limits)]
    else:
        where, echoes, num_logprobs = "prompt", bool(sent.echo), _num_logprobs(sent)
        wanted = USUAL_MAX_TOKENS if wanted is None else wanted
        prompts = _prompts(sent.prompt, num_answers, limits)
    usual = Asked(
        (), 0, _temperature(sent.temperature), None, stops, _priority(headers), _slo_s(headers),
        cache_salt=_salt(sent.cache_salt), ignores_end=bool(sent.ignore_eos),
    )  # fmt: skip
    seed = _whole("seed", sent.seed, MIN_SEED, MAX_SEED)
    asked = tuple(
        usual._replace(
            prompt_tokens=prompt,
            max_new_tokens=_length(len(prompt), wanted, where, limits),
            seed=None if seed is None else (seed + number) % 2**64,
        )
        for prompt in prompts
        for number in range(num_answers)
    )
    options = sent.stream_options
    return Call(
        asked, num_answers, is_chat, bool(sent.stream), bool(options and options.include_usage),
        wanted != 0, echoes, num_logprobs,
    )  # fmt: skip


def _wanted(sent: ChatBody | CompletionBody) -> int | None:
    """`max_tokens`, by its old name or its new one. Raises: ApiError where the two differ."""
    low = 1 if isinstance(sent, ChatBody) else 0
    old = _whole("max_tokens", sent.max_tokens, low)
    new = _whole("max_completion_tokens", sent.max_completion_tokens, low)
    if old is not None and new is not None and old != new:
        raise ApiError(
            400, f"max_tokens is {old} and max_completion_tokens is {new}; they must be the same",
            param="max_completion_tokens",
        )  # fmt: skip
    return old if new is None else new


def _num_logprobs(sent: CompletionBody) -> int | None:
    """How many of the likeliest tokens are wanted. Raises: ApiError, also for a stream's."""
    for name in ("echo", "logprobs"):
        value = getattr(sent, name)
        if sent.stream and value is not None and value is not False:
            raise ApiError(
                400, f"{name} is {value}; in a stream it must be false or null", param=name,
                code="unsupported_value",
            )  # fmt: skip
    if sent.logprobs is False:
        return None
    return _whole("logprobs", sent.logprobs, 0, MAX_LOGPROBS)


def _chat(messages: Sequence[ChatMessage], template: ChatTemplate) -> str:
    if not messages:
        raise ApiError(400, "messages is empty; it must have at least 1 message", param="messages")
    return template.prompt([Message(m.role, _content(m), m.name) for m in messages])


def _content(message: ChatMessage) -> str:
    if isinstance(message.content, list):
        return "".join(part.text for part in message.content)
    return message.content or ""


def _check_number(num_prompts: int, num_answers: int, limits: Limits) -> None:
    """Raises: ApiError for more requests than can ever be unfinished at once."""
    if num_prompts * num_answers > limits.max_requests:
        raise ApiError(
            400, f"prompts ({num_prompts}) times n ({num_answers}) are "
            f"{num_prompts * num_answers} requests; there may be at most {limits.max_requests}",
            param="n" if num_answers > 1 else "prompt",
        )  # fmt: skip


def _prompts(sent: str | list[Any], num_answers: int, limits: Limits) -> list[list[int]]:
    """The tokens of each prompt: one text, one list of tokens, or a list of such."""
    if not sent:
        raise ApiError(400, "prompt is empty; it must have at least 1 token", param="prompt")
    is_one = isinstance(sent, str) or type(sent[0]) is int
    each_sent = [sent] if is_one else sent
    _check_number(len(each_sent), num_answers, limits)
    return [_tokens(each, limits) for each in each_sent]


def _tokens(sent: Any, limits: Limits) -> list[int]:
    """One prompt's tokens. Raises: ApiError."""
    if isinstance(sent, str):
        return _encoded(sent, "prompt", limits)
    if not isinstance(sent, list) or not all(type(token) is int for token in sent):
        raise ApiError(
            400, f"a prompt is {show(sent)}; it must be one text or one list of tokens",
            param="prompt",
        )  # fmt: skip
    return _checked(sent, "prompt", limits)


def _encoded(text: str, where: str, limits: Limits) -> list[int]:
    """A text's tokens. One that is surely too long is refused before it costs any time."""
    most = limits.max_prompt * limits.tokenizer.max_token_length
    if len(text) > most:
        raise ApiError(
            400, f"the prompt has {len(text)} characters; it may have {limits.max_prompt} tokens, "
            f"which is at most {most} characters", param=where, code="context_length_exceeded",
        )  # fmt: skip
    try:
        return _checked(limits.tokenizer.encode(text), where, limits)
    except ValueError as error:
        raise ApiError(400, str(error), param=where) from None


def _checked(tokens: list[int], where: str, limits: Limits) -> list[int]:
    """The tokens of a prompt that the model can read. Raises: ApiError."""
    if not tokens:
        raise ApiError(400, "a prompt is empty; it must have at least 1 token", param=where)
    if len(tokens) > limits.max_prompt:
        raise ApiError(
            400, f"the prompt has {len(tokens)} tokens; it may have at most {limits.max_prompt}",
            param=where, code="context_length_exceeded",
        )  # fmt: skip
    for token in tokens:
        if not 0 <= token < limits.vocab_size:
            raise ApiError(
                400, f"the prompt has token {show(token)}; tokens are from 0 to "
                f"{limits.vocab_size - 1}", param=where,
            )  # fmt: skip
    return tokens


def _length(num_prompt: int, wanted: int | None, where: str, limits: Limits) -> int:
    """How many tokens to generate: those wanted, at least one, or all that there is room for."""
    room = limits.max_tokens - num_prompt
    if room < (wanted or 1):
        raise ApiError(
            400, f"the prompt has {num_prompt} tokens and {wanted or 1} more are wanted; together "
            f"they may be at most {limits.max_tokens}", param=where, code="context_length_exceeded",
        )  # fmt: skip
    return room if wanted is None else max(wanted, 1)


def _temperature(sent: float | None) -> float | None:
    if sent is not None and not 0 <= sent <= MAX_TEMPERATURE:
        raise ApiError(
            400, f"temperature is {sent:g}; it must be from 0 to {MAX_TEMPERATURE:g}",
            param="temperature",
        )  # fmt: skip
    return sent


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


def _whole(name: str, sent: int | None, low: int, high: int | None = None) -> int | None:
    """The number, or None where there is none. Raises: ApiError for one outside its limits."""
    if sent is not None:
        try:
            check_int(name, sent, low, high)
        except ValueError as error:
            raise ApiError(400, str(error), param=name) from None
    return sent


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
