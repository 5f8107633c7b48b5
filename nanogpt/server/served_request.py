"""One request in the engine's thread: what its client asked, its text so far, and its times."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nanogpt.request import Request
from nanogpt.sampling import LogitsParams
from nanogpt.server.continuation import Continuation, End, Reason, TokenStream
from nanogpt.server.server_metrics import ServerMetrics


class Asked(NamedTuple):
    """A client's request to the engine. Times in seconds."""

    prompt_tokens: Sequence[int]
    max_new_tokens: int
    temperature: float | None = None
    seed: int | None = None
    stops: tuple[str, ...] = ()
    priority: int = 0
    slo_ttft_s: float | None = None
    cache_salt: str | None = None
    ignores_end: bool = False
    logits_params: LogitsParams | None = None
    grammar: Any = None

    def request(self, request_id: int) -> Request:
        """The request as the engine takes it."""
        return Request(
            request_id, list(self.prompt_tokens), self.max_new_tokens, self.priority,
            temperature=self.temperature, seed=self.seed, cache_salt=self.cache_salt,
            logits_params=self.logits_params, grammar=self.grammar,
        )  # fmt: skip


@dataclass(slots=True)
class Served:
    """A request that the engine has accepted. Mutable.

    Times are of `time.perf_counter`; `started_s` is when the first step with the request began.
    `text` is not handed over yet; `num_seen` tokens are in it or went before it.
    """

    request: Request
    stream: TokenStream
    continuation: Continuation
    slo_ttft_s: float | None
    arrived_s: float
    started_s: float = 0.0
    first_s: float = 0.0
    last_s: float = 0.0
    num_seen: int = 0
    num_cached: int = 0
    text: str = ""

    def look(self, began_s: float, now_s: float, metrics: ServerMetrics) -> None:
        """Take the news of a step. Raises: PolicyError.

        Tokens are counted at the request, not in the step's record, so that those which a
        preempted request computes again come once.
        """
        request = self.request
        if not self.started_s and request.status != "waiting":
            self.started_s = began_s
            metrics.started(len(request.prompt_tokens))
        self.continuation.restart(request.num_generated)  # a preemption may have taken some back
        fresh = request.generated_tokens[self.continuation.num_tokens :]
        if request.num_generated > self.num_seen:
            if self.num_seen:
                metrics.observe("inter_token_latency_seconds", now_s - self.last_s)
            else:
                self.first_s, ttft_s = now_s, now_s - self.arrived_s
                metrics.observe("time_to_first_token_seconds", ttft_s)
                if self.slo_ttft_s is not None:
                    metrics.promised(kept=ttft_s <= self.slo_ttft_s)
            self.num_seen, self.last_s = request.num_generated, now_s
        if fresh:
            self.text += self.continuation.feed(fresh)

    def reason_to_end(self) -> Reason | None:
        """Why the request has ended; None while it goes on."""
        if self.continuation.is_stopped:
            return "stop"
        if self.request.status == "done":
            matcher = self.request.matcher
            return "stop" if matcher is not None and matcher.is_complete else "length"
        return "error" if self.request.status == "aborted" else None

    def end(self, reason: Reason, message: str, metrics: ServerMetrics) -> End:
        """Complete the text, and count the end. An abort without a message is the client's."""
        if reason == "length":
            self.text += self.continuation.rest()
        num_prompt, num_tokens = len(self.request.prompt_tokens), self.continuation.num_tokens
        times_s = self.arrived_s, self.started_s, self.first_s, self.last_s
        metrics.ended(reason, num_prompt, num_tokens, times_s)
        if not self.num_seen and self.slo_ttft_s is not None:
            waited_s = time.perf_counter() - self.arrived_s
            if reason != "abort" or message or waited_s > self.slo_ttft_s:
                metrics.promised(kept=False)
        token_ids = tuple(self.request.generated_tokens[:num_tokens])
        return End(reason, num_tokens, message, token_ids, self.num_cached)
