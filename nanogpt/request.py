"""A request and how far it has come. It owns its tokens; its K/V belongs to the engine's cache."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.sampling import (
    MOST_SEED,
    LogitsParams,
    SamplingParams,
    check_logits_params,
    check_temperature,
)
from nanogpt.validate import check_callable, check_int, check_is, show

Status = Literal["waiting", "prefilling", "active", "done", "aborted"]


@dataclass(eq=False)
class Request:
    """One prompt to be continued, and its running state.

    `priority` 0 is the most important. `arrival_time` is the step it arrived in, set when it is
    submitted. `num_computed_tokens` counts the tokens, prompt and generated alike, whose K/V has
    been computed: the next step computes from there. An "aborted" request left unfinished.
    `temperature` and `seed` are the engine's where they are None. With a seed of its own it draws
    as request 0 of that seed: the text is the same, whatever its id. `logits_params` change its
    logits first: penalties, top-k and others of vLLM's SamplingParams. A `grammar` allows only some
    texts, and the request is done when its text is complete; the engine fills in `matcher`, how far
    it has come. Only requests with the same
    `cache_salt` share blocks, as in vLLM. A cache that shares blocks fills in `block_hashes`, those
    of its full blocks, and `prefix_match`: what it looked up, and what it found.
    """

    id: int
    prompt_tokens: list[int]
    max_new_tokens: int
    priority: int = 0
    arrival_time: int = 0
    generated_tokens: list[int] = field(default_factory=list[int])
    status: Status = "waiting"
    num_computed_tokens: int = 0
    temperature: float | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    cache_salt: str | None = field(default=None, kw_only=True)
    logits_params: LogitsParams | None = field(default=None, kw_only=True)
    grammar: Any = field(default=None, kw_only=True)
    matcher: Any = field(default=None, init=False, repr=False)
    was_submitted: bool = field(default=False, init=False, repr=False)
    block_hashes: list[str] = field(default_factory=list[str], init=False, repr=False)
    prefix_match: tuple[Any, Any] = field(default=((), None), init=False, repr=False)

    @property
    def tokens_so_far(self) -> list[int]:
        """Prompt and generated tokens: all known tokens."""
        return self.prompt_tokens + self.generated_tokens

    @property
    def num_tokens(self) -> int:
        """How many tokens are known; the next one is sampled at position `num_tokens` - 1."""
        return len(self.prompt_tokens) + len(self.generated_tokens)

    @property
    def num_generated(self) -> int:
        """How many tokens have been sampled."""
        return len(self.generated_tokens)

    @property
    def remaining(self) -> int:
        """Known tokens whose K/V is still to be computed: 1 for a decode."""
        return self.num_tokens - self.num_computed_tokens

    @property
    def is_done(self) -> bool:
        """Whether every token asked for has been sampled."""
        return self.num_generated >= self.max_new_tokens

    @property
    def is_fully_prefilled(self) -> bool:
        """Whether the prompt is computed, and all generated tokens but the newest.

        In a prefill the newest too: a request that was preempted computes all its tokens again, and
        samples only behind the last of them.
        """
        newest = 1 if self.generated_tokens and self.status != "prefilling" else 0
        return self.remaining <= newest

    def sampling(self, config: EngineConfig) -> SamplingParams:
        """How its tokens are drawn under these settings."""
        temperature = config.temperature if self.temperature is None else self.temperature
        seed, stream_id = (config.seed, self.id) if self.seed is None else (self.seed, 0)
        return SamplingParams(temperature, seed, stream_id, self.logits_params, self.matcher)

    def keep(self, num_generated: int) -> None:
        """Forget the generated tokens after so many."""
        is_shorter = num_generated < self.num_generated
        self.generated_tokens = self.generated_tokens[:num_generated]
        if is_shorter and self.matcher is not None:
            self.matcher = self.matcher.restarted(self.generated_tokens)

    def clear_cache(self) -> None:
        """Forget that anything was computed."""
        self.num_computed_tokens = 0
        self.block_hashes, self.prefix_match = [], ((), None)


def validate_request(request: Request, config: ModelConfig) -> None:
    """Raises: ValueError, naming the value and the limit, unless the model can serve the request.

    The last sampled token needs no K/V, hence prompt + max_new_tokens - 1 positions.
    """
    validate_fields(request)
    _validate_prompt(request, config)
    if request.logits_params is not None:
        check_logits_params(request.logits_params, request.max_new_tokens, config.vocab_size)
    if request.was_submitted or request.num_generated or request.num_computed_tokens:
        raise ValueError(f"request {request.id} has been served before; submit a fresh one")
    if request.status != "waiting":
        raise ValueError(
            f"request {request.id} has the status {show(request.status)}; a new one is 'waiting'"
        )


def validate_fields(request: Request) -> None:
    """Raises: ValueError unless every field has the right type."""
    check_is("the request", request, Request, "a Request")
    check_int("a request's id", request.id, 0)
    who = f"request {request.id}"
    check_int(f"{who}: priority", request.priority, 0)
    check_int(f"{who}: max_new_tokens", request.max_new_tokens, 1)
    check_int(f"{who}: arrival_time", request.arrival_time, 0)
    check_int(f"{who}: num_computed_tokens", request.num_computed_tokens, 0)
    check_temperature(0 if request.temperature is None else request.temperature)
    check_int(f"{who}: seed", 0 if request.seed is None else request.seed, 0, MOST_SEED)
    if (salt := request.cache_salt) is not None and (type(salt) is not str or not salt):
        raise ValueError(f"{who}: cache_salt is {show(salt)}; it must be a text of 1 character up")
    if request.grammar is not None:
        wanted = "a grammar, such as a RegexGrammar"
        check_callable(f"{who}: grammar", request.grammar, wanted, "check", "matcher")
    check_is(f"{who}: the prompt", request.prompt_tokens, list, "a list of token ids")
    check_is(f"{who}: generated_tokens", request.generated_tokens, list, "a list of token ids")


def _validate_prompt(request: Request, config: ModelConfig) -> None:
    who, prompt, limit = f"request {request.id}", request.prompt_tokens, config.max_model_len
    if not prompt:
        raise ValueError(f"{who} has an empty prompt; it needs at least 1 token")
    for token in prompt:
        if type(token) is not int:
            raise ValueError(f"{who} holds token {show(token)}; a token must be an int")
        if not 0 <= token < config.vocab_size:
            known = f"0..{config.vocab_size - 1}"
            raise ValueError(f"{who} holds token {show(token)}, outside the vocabulary {known}")
    if len(prompt) > limit:
        longer = f"longer than the context of {limit}"
        raise ValueError(f"{who} has a prompt of {len(prompt)} tokens, {longer}")
    needed = len(prompt) + request.max_new_tokens - 1
    if needed > limit:
        raise ValueError(
            f"{who} needs {len(prompt)} + {request.max_new_tokens} - 1 = {needed} positions, more "
            f"than the context of {limit}"
        )


Arrivals = Sequence[tuple[int, Request]]
"""(arrival step, request) of each."""


def validate_arrivals(
    arrivals: Arrivals, validate: Callable[[Request], None]
) -> list[tuple[int, Request]]:
    """The arrivals by step, each request validated before the first is served.

    Raises: ValueError for what is no list of (arrival step, Request), and as `validate` does.
    """
    check_is("arrivals", arrivals, Sequence, "a list of pairs (arrival step, Request)")
    ids: set[int] = set()
    for arrival in arrivals:
        match arrival:
            case (arrival_step, request):
                validate(request)
            case _:  # pyright: ignore[reportUnnecessaryComparison]
                wanted = "a pair (arrival step, Request)"
                raise ValueError(f"an arrival is {show(arrival)}; it must be {wanted}")
        check_int(f"the arrival step of request {request.id}", arrival_step, 0)
        if request.id in ids:
            raise ValueError(f"there are two requests {request.id}; ids must be unique")
        ids.add(request.id)
    return sorted(arrivals, key=lambda arrival: arrival[0])
