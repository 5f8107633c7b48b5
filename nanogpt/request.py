"""A request and how far it has come. Knows its tokens; an engine's K/V it only looks at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from torch import Tensor

from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.sampling import check_temperature
from nanogpt.validate import check_int, check_is, show

Status = Literal["waiting", "prefilling", "active", "done", "failed"]
KVView = Mapping[tuple[int, int], tuple[Tensor, Tensor]]


def no_kv() -> KVView:
    """The view of a request that holds nothing."""
    return MappingProxyType({})


class OwnKV:
    """A `kv_view` of K/V that is the request's own, and goes with `clear_cache`.

    The textbook calls store it so, and an engine leaves it so to a request that is done.
    """

    def __init__(self, kv: KVView) -> None:
        self.kv = kv

    def __call__(self) -> KVView:
        """(layer, head) -> (k, v)."""
        return self.kv


@dataclass(eq=False)
class Request:
    """One prompt to be continued, and its running state.

    `priority` 0 is the most important. `prefill_cursor` counts the tokens whose K/V has been
    computed, prompt and generated alike: the next step computes from there. `arrival_time` is the
    step it arrived in, set when it is submitted. "failed" is what an engine has given up.
    `temperature` and `seed` are the engine's where they are None. With a seed of its own it draws
    as request 0 of that seed: the text is the same, whatever its id. Only requests with the same
    `cache_salt` share blocks, as in vLLM.
    Source: the field names of the scheduling post, so that its calls run unchanged.
    """

    id: int
    prompt_tokens: list[int]
    max_new_tokens: int
    priority: int = 0
    arrival_time: int = 0
    generated_tokens: list[int] = field(default_factory=list[int])
    status: Status = "waiting"
    prefill_cursor: int = 0
    kv_view: Callable[[], KVView] = field(default=no_kv, repr=False)
    temperature: float | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    cache_salt: str | None = field(default=None, kw_only=True)

    @property
    def tokens_so_far(self) -> list[int]:
        """Prompt and generated tokens: everything known."""
        return self.prompt_tokens + self.generated_tokens

    @property
    def num_known(self) -> int:
        """How many tokens are known; position `num_known - 1` is where the next is sampled from."""
        return len(self.prompt_tokens) + len(self.generated_tokens)

    @property
    def num_generated(self) -> int:
        """How many tokens have been sampled."""
        return len(self.generated_tokens)

    @property
    def remaining(self) -> int:
        """Known tokens whose K/V is still to be computed: 1 for a decode."""
        return self.num_known - self.prefill_cursor

    @property
    def is_done(self) -> bool:
        """Whether every token asked for has been sampled."""
        return self.num_generated >= self.max_new_tokens

    @property
    def is_fully_prefilled(self) -> bool:
        """Whether the prompt is computed, and all generated tokens but the newest.

        In a prefill the newest too: a request that was preempted computes all it knows again, and
        only behind its last token comes one that is new.
        """
        newest = 1 if self.generated_tokens and self.status != "prefilling" else 0
        return self.remaining <= newest

    @property
    def kv_cache(self) -> KVView:
        """Read-only: (layer, head) -> (k, v), each (1, S, D), of what is held right now.

        Of a request that is done, what it held at the end: all but the last token's.
        """
        return self.kv_view()

    def sampling(self, config: EngineConfig) -> tuple[float, int, int]:
        """By which temperature, seed and id its tokens are drawn on an engine of these settings."""
        degree = config.temperature if self.temperature is None else self.temperature
        return (degree, config.seed, self.id) if self.seed is None else (degree, self.seed, 0)

    def clear_cache(self) -> None:
        """Forget what was computed, and let go of K/V of its own; an engine's, that releases."""
        self.prefill_cursor = 0
        if isinstance(self.kv_view, OwnKV):
            self.kv_view = no_kv


def check_form(request: Request) -> None:
    """Refuse what is no request, or has fields of another type.

    Raises: ValueError naming the field and its value.
    """
    check_is("the request", request, Request, "a Request")
    check_int("a request's id", request.id, 0)
    who = f"request {request.id}"
    check_int(f"{who}: priority", request.priority, 0)
    check_int(f"{who}: max_new_tokens", request.max_new_tokens, 1)
    check_int(f"{who}: arrival_time", request.arrival_time, 0)
    check_int(f"{who}: prefill_cursor", request.prefill_cursor, 0)
    check_temperature(0 if request.temperature is None else request.temperature)
    check_int(f"{who}: seed", 0 if request.seed is None else request.seed, 0)
    if (salt := request.cache_salt) is not None and (type(salt) is not str or not salt):
        raise ValueError(f"{who}: cache_salt is {show(salt)}; it must be a text of 1 character up")
    check_is(f"{who}: the prompt", request.prompt_tokens, list, "a list of token ids")
    check_is(f"{who}: generated_tokens", request.generated_tokens, list, "a list of token ids")


def check_request(request: Request, config: ModelConfig) -> None:
    """Refuse a request that the model could never serve.

    The last sampled token needs no K/V, hence prompt + max_new_tokens - 1 positions.
    Raises: ValueError naming the value and the limit.
    """
    check_form(request)
    who, prompt = f"request {request.id}", request.prompt_tokens
    if not prompt:
        raise ValueError(f"{who} has an empty prompt; it needs at least 1 token")
    for token in prompt:
        if type(token) is not int:
            raise ValueError(f"{who} holds token {show(token)}; a token must be an int")
        if not 0 <= token < config.vocab_size:
            raise ValueError(
                f"{who} holds token {show(token)}, outside the vocabulary "
                f"0..{config.vocab_size - 1}"
            )
    if len(prompt) > config.context_len:
        raise ValueError(
            f"{who} has a prompt of {len(prompt)} tokens, "
            f"longer than the context of {config.context_len}"
        )
    needed = len(prompt) + request.max_new_tokens - 1
    if needed > config.context_len:
        raise ValueError(
            f"{who} needs {len(prompt)} + {request.max_new_tokens} - 1 = {needed} positions, more "
            f"than the context of {config.context_len}"
        )


def check_fresh(request: Request) -> None:
    """Raises: ValueError for a request that an engine has had before."""
    fresh = request.status == "waiting" and request.kv_view is no_kv
    if not fresh or request.num_generated or request.prefill_cursor:
        raise ValueError(f"request {request.id} has been served before; submit a fresh one")


Arrivals = Sequence[tuple[int, Request]]
"""(arrival step, request) of each."""


def check_arrivals(
    arrivals: Arrivals, check_new: Callable[[Request], None]
) -> list[tuple[int, Request]]:
    """The arrivals by step, each of them checked now, and not when others are half served.

    Raises: ValueError for what is no list of (arrival step, Request), and as `check_new` does.
    """
    check_is("arrivals", arrivals, Sequence, "a list of pairs (arrival step, Request)")
    ids: set[int] = set()
    for arrival in arrivals:
        match arrival:
            case (arrival_step, request):
                check_new(request)
            case _:  # pyright: ignore[reportUnnecessaryComparison]
                wanted = "a pair (arrival step, Request)"
                raise ValueError(f"an arrival is {show(arrival)}; it must be {wanted}")
        check_int(f"the arrival step of request {request.id}", arrival_step, 0)
        if request.id in ids:
            raise ValueError(f"there are two requests {request.id}; ids must be unique")
        ids.add(request.id)
    return sorted(arrivals, key=lambda arrival: arrival[0])
