"""The live page's data: the newest steps and the unfinished requests, while a page polls.

The engine's thread replaces immutable tuples after each step and the event loop reads them, so
neither waits. If no page has polled for `WATCHED_S` seconds, nothing is kept.
"""

import time
from itertools import chain, islice
from typing import Any, TypeAlias

from nanogpt.engine import Engine
from nanogpt.request import Request
from nanogpt.trace import BlockStepRecord, StepRecord

WATCHED_S = 5.0
MOST_STEPS = 120
MOST_REQUESTS = 48
"""How many requests are listed, running ones first."""

Frame: TypeAlias = dict[str, Any]


class LiveFeed:
    """The newest steps of one engine. Mutable: `state` is called in the event loop."""

    def __init__(self) -> None:
        self._until_s = 0.0
        self._frames: tuple[Frame, ...] = ()
        self._requests: tuple[Frame, ...] = ()
        self._room: Frame = {}

    @property
    def is_watched(self) -> bool:
        """Whether a page has polled lately."""
        return time.monotonic() < self._until_s

    def step(self, record: StepRecord) -> None:
        """Add a committed step."""
        if self.is_watched:
            self._frames = (*self._frames[1 - MOST_STEPS :], _frame(record))

    def settle(self, engine: Engine) -> None:
        """Replace the list of requests after a change."""
        if not self.is_watched:
            if self._room:
                self._frames, self._requests, self._room = (), (), {}
            return
        scheduler, config = engine.scheduler, engine.config
        running = sorted(scheduler.running(), key=lambda each: each.id)
        shown = islice(chain(running, scheduler.waiting), MOST_REQUESTS)
        self._requests = tuple(map(_request, shown))
        slots = config.max_batch_size * engine.model.config.context_len
        self._room = {
            "max_kv_tokens": config.max_kv_tokens or slots,
            "token_budget": config.token_budget,
            "num_in_flight": len(running) + len(scheduler.waiting),
        }

    def state(self, after: int) -> Frame:
        """The steps after number `after`, and the unfinished requests. This counts as a poll."""
        self._until_s = time.monotonic() + WATCHED_S
        steps = [frame for frame in self._frames if frame["step"] > after]
        return {"steps": steps, "requests": self._requests, **self._room}


def _frame(record: StepRecord) -> Frame:
    """What the page draws of a step. `work` is (request, 1 if it decodes, tokens)."""
    frame: Frame = {
        "step": record.step,
        "us": record.duration_us,
        "kv": record.kv_after,
        "work": [(w.request_id, int(w.kind == "decode"), w.end - w.start) for w in record.work],
        "finished": record.finished,
        "preempted": record.preempted,
    }
    if isinstance(record, BlockStepRecord):
        pool = record.blocks
        held = {block for _, table in pool.tables for block in table}
        frame["blocks"] = (len(held), len(pool.idle), pool.num_blocks)
    return frame


def _request(request: Request) -> Frame:
    """An unfinished request in numbers of tokens, without its text."""
    return {
        "id": request.id,
        "status": request.status,
        "prompt": len(request.prompt_tokens),
        "known": request.num_computed_tokens,
        "generated": request.num_generated,
        "wanted": request.max_new_tokens,
        "priority": request.priority,
    }
