"""Bodies and headers of the OpenAI API, validated, as requests to the engine.

Source: the API reference of OpenAI, completions and chat completions.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nanogpt.checkpoints.tokenizer import CHARACTERS, Characters, Tokenizer
from nanogpt.engine import Engine
from nanogpt.sampling import check_logits_params
from nanogpt.server.admission import most_positions
from nanogpt.server.api_errors import ApiError, bad_request
from nanogpt.server.hub_template import HubTemplate
from nanogpt.server.openai_bodies import (
    PLAIN,
    SCENE,
    ChatBody,
    ChatMessage,
    ChatTemplate,
    CompletionBody,
    convert,
)
from nanogpt.server.served_request import Asked
from nanogpt.server.server_settings import ServerSettings
from nanogpt.server.structured_outputs import grammar_of
from nanogpt.validate import show

MAX_IN_A_CALL = 256
USUAL_MAX_TOKENS = 16
"""Of a completion that names no `max_tokens`, as the API has it."""
MAX_PRIORITY = 9
USUAL_PRIORITY = 1
MAX_SLO_MS = 3_600_000
TOO_LONG = "context_length_exceeded"


class Call(NamedTuple):
    """A valid body: the requests that it asks for, and the form of the answer.

    `asked` has `num_answers` requests for each prompt, prompt by prompt. Without `keeps_text`
    (`max_tokens` 0) a request generates one token, as an engine must, and no answer shows it.
    `num_logprobs` of the likeliest tokens are listed at each position; None: no log probabilities.
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
    """The limits of a call, and the tokenizer.

    `max_tokens` is for prompt and answer together, `max_requests` for prompts times answers.
    """

    max_prompt: int
    max_tokens: int
    max_requests: int
    vocab_size: int
    model_name: str
    tokenizer: Tokenizer = CHARACTERS

    template: ChatTemplate | HubTemplate = SCENE

    def prompt(
        self, messages: Sequence[ChatMessage], settings: Mapping[str, Any] | None = None
    ) -> str:
        """A conversation as a prompt. Raises: ApiError where the template refuses it."""
        try:
            return self.template.prompt(messages, settings or {})
        except ValueError as error:
            raise bad_request("messages", str(error)) from None

    def check_model(self, name: str) -> None:
        """Raises: ApiError for the name of another model."""
        if name != self.model_name:
            said = f"there is no model {show(name)}; this server has {self.model_name!r}"
            raise ApiError(404, said, param="model", code="model_not_found")

    @classmethod
    def of(cls, engine: Engine, settings: ServerSettings, tokenizer: Tokenizer) -> "Limits":
        """Those of an engine. The last sampled token needs no position and no K/V."""
        model = engine.model.config
        return cls(
            model.max_model_len, most_positions(engine) + 1,
            min(settings.max_requests, MAX_IN_A_CALL), model.vocab_size, settings.model_name,
            tokenizer, template_of(tokenizer),
        )  # fmt: skip


def template_of(tokenizer: Tokenizer) -> ChatTemplate | HubTemplate:
    """How a conversation becomes a prompt. Raises: ValueError for a template that is no Jinja."""
    if isinstance(tokenizer, Characters):
        return SCENE
    source = tokenizer.chat_template
    return PLAIN if source is None else HubTemplate(source, tokenizer.template_names)


def parse(body: bytes, headers: Mapping[str, str], limits: Limits, *, is_chat: bool) -> Call:
    """A client's body and headers as a call. Raises: ApiError naming what is wrong."""
    sent = convert(body, ChatBody if is_chat else CompletionBody)
    limits.check_model(sent.model)
    num_answers, wanted = sent.n or 1, sent.wanted()
    stops = (sent.stop,) if isinstance(sent.stop, str) else tuple(sent.stop or ())
    echoes, num_logprobs = False, None
    if isinstance(sent, ChatBody):
        where, stops = "messages", (*stops, *limits.template.stops)
        _check_number(1, num_answers, limits)
        text = limits.prompt(sent.messages, sent.chat_template_kwargs)
        prompts = [_encoded(text, where, limits)]
    else:
        where, echoes, num_logprobs = "prompt", bool(sent.echo), _num_logprobs(sent)
        wanted = USUAL_MAX_TOKENS if wanted is None else wanted
        prompts = _prompts(sent.prompt, num_answers, limits)
    usual = Asked(
        (), 0, sent.temperature, None, stops,
        _header(headers, "X-Priority", 0, MAX_PRIORITY, USUAL_PRIORITY), _slo_s(headers),
        cache_salt=sent.cache_salt, ignores_end=bool(sent.ignore_eos),
        logits_params=sent.logits_params(limits.tokenizer.end_tokens),
        grammar=grammar_of(
            {name: getattr(sent, name) for name in ("structured_outputs", "response_format")},
            limits.tokenizer, limits.vocab_size,
        ),
    )  # fmt: skip
    asked = tuple(
        usual._replace(
            prompt_tokens=prompt,
            max_new_tokens=_length(len(prompt), wanted, where, limits),
            seed=None if sent.seed is None else (sent.seed + number) % 2**64,
        )
        for prompt in prompts
        for number in range(num_answers)
    )
    for each in asked:
        _check_logits_params(each, limits)
    options = sent.stream_options
    return Call(
        asked, num_answers, is_chat, bool(sent.stream), bool(options and options.include_usage),
        wanted != 0, echoes, num_logprobs,
    )  # fmt: skip


def _num_logprobs(sent: CompletionBody) -> int | None:
    """How many of the likeliest tokens are wanted. Raises: ApiError, also in a stream."""
    for name in ("echo", "logprobs"):
        value = getattr(sent, name)
        if sent.stream and value is not None and value is not False:
            said = f"{name} is {value}; in a stream it must be false or null"
            raise bad_request(name, said, "unsupported_value")
    if sent.logprobs is True:
        raise bad_request("logprobs", "logprobs is True; it must be false or how many to list")
    return None if sent.logprobs is False else sent.logprobs


def _check_number(num_prompts: int, num_answers: int, limits: Limits) -> None:
    """Raises: ApiError for more requests than can ever be unfinished at once."""
    if num_prompts * num_answers > limits.max_requests:
        raise bad_request(
            "n" if num_answers > 1 else "prompt",
            f"prompts ({num_prompts}) times n ({num_answers}) are {num_prompts * num_answers} "
            f"requests; there may be at most {limits.max_requests}",
        )


def _prompts(sent: str | list[Any], num_answers: int, limits: Limits) -> list[list[int]]:
    """The tokens of each prompt: one text, one list of tokens, or a list of such."""
    if not sent:
        raise bad_request("prompt", "prompt is empty; it must have at least 1 token")
    is_one = isinstance(sent, str) or type(sent[0]) is int
    each_sent = [sent] if is_one else sent
    _check_number(len(each_sent), num_answers, limits)
    return [_tokens(each, limits) for each in each_sent]


def _tokens(sent: Any, limits: Limits) -> list[int]:
    """One prompt's tokens. Raises: ApiError."""
    if isinstance(sent, str):
        return _encoded(sent, "prompt", limits)
    if not isinstance(sent, list) or not all(type(token) is int for token in sent):
        said = f"a prompt is {show(sent)}; it must be one text or one list of tokens"
        raise bad_request("prompt", said)
    return _checked(sent, "prompt", limits)


def _encoded(text: str, where: str, limits: Limits) -> list[int]:
    """A text's tokens. One that is certainly too long is refused before it is encoded."""
    most = limits.max_prompt * limits.tokenizer.max_token_length
    if len(text) > most:
        said = f"the prompt has {len(text)} characters; it may have {limits.max_prompt} tokens, "
        raise bad_request(where, f"{said}which is at most {most} characters", TOO_LONG)
    try:
        return _checked(limits.tokenizer.encode(text), where, limits)
    except ValueError as error:
        raise bad_request(where, str(error)) from None


def _checked(tokens: list[int], where: str, limits: Limits) -> list[int]:
    """The tokens of a prompt that the model can read. Raises: ApiError."""
    most = limits.max_prompt
    if not tokens:
        raise bad_request(where, "a prompt is empty; it must have at least 1 token")
    if len(tokens) > most:
        said = f"the prompt has {len(tokens)} tokens; it may have at most {most}"
        raise bad_request(where, said, TOO_LONG)
    check_tokens(tokens, where, limits)
    return tokens


def check_tokens(tokens: list[int], where: str, limits: Limits) -> None:
    """Raises: ApiError for a token that the model does not have."""
    unknown = next((token for token in tokens if not 0 <= token < limits.vocab_size), None)
    if unknown is not None:
        said = f"the prompt has token {show(unknown)}; tokens are from 0 to {limits.vocab_size - 1}"
        raise bad_request(where, said)


def _length(num_prompt: int, wanted: int | None, where: str, limits: Limits) -> int:
    """How many tokens to generate: at least one, by default all that there is room for."""
    room = limits.max_tokens - num_prompt
    if room < (wanted or 1):
        said = f"the prompt has {num_prompt} tokens and {wanted or 1} more are wanted; together "
        raise bad_request(where, f"{said}they may be at most {limits.max_tokens}", TOO_LONG)
    return room if wanted is None else max(wanted, 1)


def _check_logits_params(asked: Asked, limits: Limits) -> None:
    """Raises: ApiError for a parameter outside its limits."""
    if asked.logits_params is not None:
        try:
            check_logits_params(asked.logits_params, asked.max_new_tokens, limits.vocab_size)
        except ValueError as error:
            field = re.match(r"\w+", str(error))
            raise bad_request(field and field[0], str(error)) from None


def _header(headers: Mapping[str, str], name: str, low: int, high: int, usual: int) -> int:
    """A header's whole number. Raises: ApiError for another value."""
    text = headers.get(name.lower(), str(usual))
    if not (text.isascii() and text.isdigit() and len(text) < 9 and low <= int(text) <= high):
        said = f"{name} is {show(text)}; it must be a whole number from {low} to {high}"
        raise bad_request(name, said)
    return int(text)


def _slo_s(headers: Mapping[str, str]) -> float | None:
    if "x-slo-ttft-ms" not in headers:
        return None
    return _header(headers, "X-SLO-TTFT-MS", 1, MAX_SLO_MS, 1) / 1000
