"""What the event loop knows of a server's requests: which are unfinished, which run, which leave.

The engine's thread publishes what runs, after each change, as a mapping that is never changed.
"""

import time
from collections.abc import Mapping
from typing import NamedTuple

from nanogpt.engine import Engine
from nanogpt.server.pace import Pace
from nanogpt.server.server_parts import Books, DoorLimits, QueueView
from nanogpt.server.server_settings import MOST_RETRY_S, ServerSettings


class RefusedError(Exception):
    """A request that does not come in: an HTTP status, and when to come again if that helps."""

    def __init__(self, status: int, retry_after_s: int | None) -> None:
        super().__init__(f"refused with {status}")
        self.status = status
        self.retry_after_s = retry_after_s


class Running(NamedTuple):
    """Of a request that runs: what it still has to give, and what it holds."""

    tokens_left: int
    kv_tokens: int


class Door:
    """The books of the event loop. Mutable.

    Its own are the ids that are `unfinished` and those that are `leaving`, whose going has been
    ordered. `running`, `in_step`, `step_began_s` (of `time.monotonic`; None between two steps) and
    `pace` are written by the engine's thread.
    """

    def __init__(self) -> None:
        self.unfinished: set[int] = set()
        self.leaving: dict[int, None] = {}
        self.running: Mapping[int, Running] = {}
        self.in_step = False
        self.step_began_s: float | None = None
        self.pace = Pace()

    def note_running(self, engine: Engine) -> None:
        """Publish what runs."""
        scheduler = engine.scheduler
        self.running = {
            each.id: Running(each.max_new_tokens - each.num_generated, each.prefill_cursor)
            for each in (*scheduler.active, *scheduler.prefilling)
        }

    @property
    def step_s(self) -> float:
        """Seconds since the running step began; 0 between two steps."""
        began_s = self.step_began_s
        return 0.0 if began_s is None else time.monotonic() - began_s

    def ended(self, request_id: int) -> None:
        """A request is over, and its client is told."""
        self.unfinished.discard(request_id)
        self.leaving.pop(request_id, None)

    def queue(self, *, is_closing: bool) -> QueueView:
        """How things are: after the newest step, and with what has arrived since."""
        left = [each.tokens_left for i, each in self.running.items() if i in self.unfinished]
        num_waiting = len(self.unfinished) - len(left)
        return QueueView(tuple(left), num_waiting, self.pace.tokens_per_s, is_closing)

    def books(self) -> Books:
        """Where each request is that has not been let go."""
        running = {i: each.kv_tokens for i, each in self.running.items() if i in self.unfinished}
        here = sorted(self.unfinished - running.keys() - self.leaving.keys())
        leaving = [i for i in self.leaving if i in running]
        return {"waiting": here, "running": running, "leaving": leaving, "in_step": self.in_step}

    def going(self, before: Books, after: Books) -> list[int]:
        """Which requests are to be let go now, when the books were so and are to be so."""
        stay = {*after["waiting"], *after["running"]}
        gone = [i for i in (*before["waiting"], *before["running"]) if i not in stay]
        gone += [i for i in after["leaving"] if i not in self.leaving]
        self.leaving.update(dict.fromkeys(gone))
        return gone


def most_positions(engine: Engine) -> int:
    """For how many tokens of a single request there can be K/V."""
    context, config = engine.model.config.context_len, engine.config
    if config.max_kv_tokens is None or config.sliding_window is not None:
        return context
    beyond_blocks = config.max_kv_tokens % (config.block_size or 1)
    return min(context, config.max_kv_tokens - beyond_blocks)


def door_limits(engine: Engine, settings: ServerSettings) -> DoorLimits:
    """What an engine and the settings of its server allow a request."""
    most = most_positions(engine)
    most_prompt = settings.max_prompt_tokens or engine.model.config.context_len
    return DoorLimits(settings.max_requests, most_prompt, most, MOST_RETRY_S)
