"""What the event loop knows of a server's requests, and when their first tokens are due.

The engine's thread publishes the running requests after each change, as a mapping that is never
mutated.
"""

import time
from collections.abc import Mapping
from typing import NamedTuple

from nanogpt.engine import Engine
from nanogpt.server.server_policies import AdmissionLimits, QueueView, ServerState
from nanogpt.server.server_settings import MOST_RETRY_S, ServerSettings
from nanogpt.views.request_view import RequestView

PATIENCE_S = 10.0
"""The SLO of a request that names none, so that no request is put off forever."""
_DECAY = 0.95  # of an older step's weight in the throughput: about the last 20 steps count


class ThroughputEma:
    """Tokens per second of computing, an exponential moving average over steps. Mutable."""

    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0

    def step(self, num_tokens: int, seconds: float) -> None:
        """Add a step's tokens and duration."""
        self._tokens = _DECAY * self._tokens + num_tokens
        self._seconds = _DECAY * self._seconds + seconds

    @property
    def tokens_per_s(self) -> float:
        """Of all requests together; 0 before the first token."""
        return self._tokens / self._seconds if self._seconds else 0.0


class Running(NamedTuple):
    """A running request: how many tokens it has still to generate, and its K/V."""

    tokens_left: int
    kv_tokens: int


class AdmissionControl:
    """The event loop's record of all requests. Mutable.

    The loop itself keeps the `unfinished` ids and the `leaving` ones, whose removal is ordered.
    The engine's thread writes `running`, `in_step`, `step_began_s` (`time.monotonic`; None between
    two steps) and `throughput`.
    """

    def __init__(self) -> None:
        self.unfinished: set[int] = set()
        self.leaving: dict[int, None] = {}
        self.running: Mapping[int, Running] = {}
        self.in_step = False
        self.step_began_s: float | None = None
        self.throughput = ThroughputEma()

    def note_running(self, engine: Engine) -> None:
        """Publish the running requests."""
        scheduler = engine.scheduler
        self.running = {
            each.id: Running(each.max_new_tokens - each.num_generated, each.num_computed_tokens)
            for each in scheduler.running()
        }

    @property
    def step_s(self) -> float:
        """Seconds since the running step began; 0 between two steps."""
        began_s = self.step_began_s
        return 0.0 if began_s is None else time.monotonic() - began_s

    def ended(self, request_id: int) -> None:
        """Remove a request that has ended."""
        self.unfinished.discard(request_id)
        self.leaving.pop(request_id, None)

    def queue(self, *, is_closing: bool) -> QueueView:
        """The queue after the newest step, with the requests that have arrived since."""
        left = [each.tokens_left for i, each in self.running.items() if i in self.unfinished]
        num_waiting = len(self.unfinished) - len(left)
        return QueueView(tuple(left), num_waiting, self.throughput.tokens_per_s, is_closing)

    def state(self) -> ServerState:
        """The place of each request that has not been ordered to leave at once."""
        running = {i: each.kv_tokens for i, each in self.running.items() if i in self.unfinished}
        here = sorted(self.unfinished - running.keys() - self.leaving.keys())
        leaving = [i for i in self.leaving if i in running]
        return {"waiting": here, "running": running, "leaving": leaving, "in_step": self.in_step}

    def going(self, before: ServerState, after: ServerState) -> list[int]:
        """Which requests must leave now, by a policy that turned one state into the other."""
        stay = {*after["waiting"], *after["running"]}
        gone = [i for i in (*before["waiting"], *before["running"]) if i not in stay]
        gone += [i for i in after["leaving"] if i not in self.leaving]
        self.leaving.update(dict.fromkeys(gone))
        return gone


def most_positions(engine: Engine) -> int:
    """The largest number of K/V positions that a single request can have."""
    context, config = engine.model.config.max_model_len, engine.config
    if config.max_kv_tokens is None or config.sliding_window is not None:
        return context
    beyond_blocks = config.max_kv_tokens % (config.block_size or 1)
    return min(context, config.max_kv_tokens - beyond_blocks)


def admission_limits(engine: Engine, settings: ServerSettings) -> AdmissionLimits:
    """The limits on a request, from an engine and its server's settings."""
    context = engine.model.config.max_model_len
    return AdmissionLimits(settings.max_requests, context, most_positions(engine), MOST_RETRY_S)


class Deadlines:
    """The deadlines of unfinished requests, by id. Mutable; used only by the engine's thread.

    `EngineConfig(policy=deadlines.key)` ranks by them. Source: Liu and Layland, "Scheduling
    algorithms for multiprogramming in a hard-real-time environment", 1973.
    """

    def __init__(self) -> None:
        self._due_s: dict[int, float] = {}

    def note(self, request_id: int, arrived_s: float, slo_ttft_s: float | None) -> None:
        """Add a request before it is submitted. Seconds of one clock."""
        self._due_s[request_id] = arrived_s + (PATIENCE_S if slo_ttft_s is None else slo_ttft_s)

    def forget(self, request_id: int) -> None:
        """Remove a request."""
        self._due_s.pop(request_id, None)

    def key(self, view: RequestView) -> tuple[float, ...]:
        """Earliest deadline first; ties by priority, then by arrival."""
        due_s = self._due_s.get(view.id, float("inf"))
        return (due_s, view.priority, view.arrival_time)
