"""What the live page is told: the newest steps and the requests in flight, while it is watched.

The engine's thread notes them after each step; the event loop reads them. Each note is a new tuple
that is never changed, so neither waits for the other. While no page has asked for `WATCHED_S`
seconds a step costs one comparison, and nothing is kept.
"""

import time
from itertools import islice
from typing import Any, TypeAlias

from nanogpt.blocks.block_record import BlockStepRecord
from nanogpt.engine import Engine
from nanogpt.parts.ranking import in_order
from nanogpt.request import Request
from nanogpt.trace import StepRecord

WATCHED_S = 5.0
MOST_STEPS = 120
MOST_REQUESTS = 48
"""So many are told one by one, those that run first; of the others the number."""

Frame: TypeAlias = dict[str, Any]


class LiveFeed:
    """The newest steps of one engine. Mutable; see above for which thread does what."""

    def __init__(self) -> None:
        self._until_s = 0.0
        self._frames: tuple[Frame, ...] = ()
        self._requests: tuple[Frame, ...] = ()
        self._room: Frame = {}

    @property
    def is_watched(self) -> bool:
        """Whether a page has asked lately."""
        return time.monotonic() < self._until_s

    # --- in the engine's thread -------------------------------------------------------------------

    def step(self, record: StepRecord) -> None:
        """A step has been committed."""
        if self.is_watched:
            self._frames = (*self._frames[1 - MOST_STEPS :], _frame(record))

    def settle(self, engine: Engine) -> None:
        """Something has changed: who is in flight now."""
        if not self.is_watched:
            if self._room:
                self._frames, self._requests, self._room = (), (), {}
            return
        scheduler, config = engine.scheduler, engine.config
        running = [*scheduler.active, *scheduler.prefilling]
        running.sort(key=lambda request: request.id)
        free = max(0, MOST_REQUESTS - len(running))
        waiting = [entry[3] for entry in islice(in_order(scheduler.waiting), free)]
        self._requests = tuple(_request(each) for each in (*running, *waiting)[:MOST_REQUESTS])
        slots = config.max_batch_size * engine.model.config.context_len
        self._room = {
            "max_kv_tokens": config.max_kv_tokens or slots,
            "token_budget": config.token_budget,
            "num_in_flight": len(running) + len(scheduler.waiting),
        }

    # --- in the event loop ------------------------------------------------------------------------

    def state(self, after: int) -> Frame:
        """The steps beyond number `after`, and what is in flight; from now on it is watched."""
        self._until_s = time.monotonic() + WATCHED_S
        steps = [frame for frame in self._frames if frame["step"] > after]
        return {"steps": steps, "requests": self._requests, **self._room}


def _frame(record: StepRecord) -> Frame:
    """A step, as small as the page can draw it. `work` is [request, 1 if it decodes, tokens]."""
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
    """A request in flight, in numbers of tokens; of its text the page is told nothing."""
    return {
        "id": request.id,
        "status": request.status,
        "prompt": len(request.prompt_tokens),
        "known": request.prefill_cursor,
        "generated": request.num_generated,
        "wanted": request.max_new_tokens,
        "priority": request.priority,
    }
