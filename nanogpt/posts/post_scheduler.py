"""The engine and its scheduler with the names of the posts: K/V to look at, `schedule(step)`."""

from functools import partial
from typing import Any

from nanogpt import engine, kv_cache_manager, request, scheduler
from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.extensions import Drafter
from nanogpt.kv_store import KVStore
from nanogpt.outputs import Requeue
from nanogpt.policies import Policies
from nanogpt.policy_views import Policy
from nanogpt.posts.post_request import KVView, OwnKV, Request, by_head, view_of
from nanogpt.request import validate_fields
from nanogpt.trace import Trace


class KeptKV(kv_cache_manager.KVCacheManager):
    """Keeps a copy of the K/V of finished requests. Mutable: `kept`, by request id."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.kept: dict[int, KVView] = {}

    def free_finished(self, request_id: int) -> None:
        """Copy the K/V of a finished request, and free it."""
        self.kept[request_id] = by_head(self.cache.held(request_id).clone())
        super().free_finished(request_id)


class PostScheduler(scheduler.Scheduler):
    """What `scheduled_generate` returns.

    Mutable: `trace`, the run, once it has ended; `preempted`, every request that was preempted.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.trace: Trace | None = None
        self.preempted: list[request.Request] = []

    @property
    def policy(self) -> Policy:
        """What orders the queue."""
        return self.config.policy

    @property
    def token_budget(self) -> int:
        """The most tokens that a step computes."""
        return self.config.token_budget

    @property
    def max_kv_tokens(self) -> int | None:
        """The most KV tokens that all requests hold together."""
        return self.config.max_kv_tokens

    @property
    def max_batch_size(self) -> int:
        """The most requests that run at once."""
        return self.config.max_batch_size

    @property
    def max_prefilling(self) -> int | None:
        """The most requests that prefill at once."""
        return self.config.max_prefilling

    @property
    def sliding_window(self) -> int | None:
        """How many tokens before it a token sees."""
        return self.config.sliding_window

    def preempt(self, requeue: Requeue) -> None:
        """Send a running request back to wait, and note it."""
        super().preempt(requeue)
        self.preempted.append(requeue.request)

    def complete(self, request: request.Request) -> None:
        """Take out a finished request, and leave it its K/V to look at."""
        super().complete(request)
        assert isinstance(self.kv, KeptKV)
        if isinstance(request, Request) and request.id in self.kv.kept:
            request.kv_view = OwnKV(self.kv.kept.pop(request.id))


class PostEngine(engine.Engine):
    """An engine whose requests show their K/V."""

    def make_scheduler(self) -> PostScheduler:
        """The scheduler, which keeps the K/V of finished requests."""
        kv = KeptKV(self.config, self.policies, self.cache)
        return PostScheduler(self.config, self.policies, self.model.config, kv, self.drafter)

    def _accept(self, request: request.Request) -> None:
        super()._accept(request)
        if isinstance(request, Request):
            request.kv_view = partial(view_of, self.cache, request.id)


class Scheduler(PostScheduler):
    """The scheduler as the posts' own loops drive it. Mutable: what it prefilled last."""

    def __init__(
        self,
        policy: Policy = "fcfs",
        token_budget: int = 16,
        max_kv_tokens: int | None = None,
        max_batch_size: int = 8,
        max_prefilling: int | None = 1,
        *,
        sliding_window: int | None = None,
        num_sinks: int = 0,
        preempt_to_admit: bool = False,
        policies: Policies = Policies(),
    ) -> None:
        config = EngineConfig(
            token_budget, max_kv_tokens, max_batch_size, max_prefilling, policy, preempt_to_admit,
            sliding_window, num_sinks,
        )  # fmt: skip
        kv = KeptKV(config, policies, KVStore())
        super().__init__(config, policies, ModelConfig(), kv, Drafter())
        self._prefill_at: tuple[int, int] | None = None

    def add_request(self, request: request.Request) -> None:
        """Put a new request among the waiting. Raises: ValueError for one that never fits."""
        validate_fields(request)
        self.check_new(request)
        super().add_request(request)

    def schedule(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, step: int
    ) -> tuple[request.Request | None, list[request.Request]]:
        """Make room, admit, and say who prefills and who decodes in this step.

        Raises: ValueError for a loop that computes a preempted request's prompt and no more.
        """
        self.begin_step(step)
        preempted = self.select_victims()
        admissible, _ = self.select_admissible(preempted)
        for requeue in preempted:
            self.preempt(requeue)
        for each in admissible:
            self.admit(each)
        prefill = self.prefilling[0] if self.prefilling else None
        if prefill is not None and not self.active:
            _check_moves(step, prefill, self._prefill_at)
        self._prefill_at = (prefill.id, prefill.num_computed_tokens) if prefill else None
        return prefill, list(self.active)


def _check_moves(step: int, prefill: request.Request, was_at: tuple[int, int] | None) -> None:
    """Refuse a loop that computes a preempted request's prompt again and nothing behind it.

    `was_at` is the id and the cursor of what was prefilled in the step before. Raises: ValueError.
    """
    done = prefill.num_computed_tokens
    stuck = was_at == (prefill.id, done)
    if stuck and prefill.remaining and done >= len(prefill.prompt_tokens):
        raise ValueError(
            f"step {step}: request {prefill.id} was preempted, and {prefill.remaining} of the "
            "tokens that it generated are still to be computed again; cut its chunks from "
            "`remaining`, not from the prompt alone"
        )
