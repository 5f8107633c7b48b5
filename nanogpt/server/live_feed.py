"""The live page's data: the newest steps and the unfinished requests, while a page polls.

The engine's thread replaces immutable tuples after each step and the event loop reads them, so
neither waits. If no page has polled for `WATCHED_S` seconds, nothing is kept.
"""

import sys
import time
from itertools import chain, islice
from typing import Any, TypeAlias

from nanogpt.engine import Engine
from nanogpt.request import Request
from nanogpt.server.server_metrics import kv_capacity
from nanogpt.trace import BlockStepRecord, StepRecord, WorkRecord

WATCHED_S = 5.0
MOST_STEPS = 120
MOST_REQUESTS = 48
"""How many requests are listed, running ones first."""
PREFILL, DECODE, RECOMPUTE = range(3)

Frame: TypeAlias = dict[str, Any]


class LiveFeed:
    """The newest steps of one engine. Mutable: `state` is called in the event loop."""

    def __init__(self) -> None:
        self._until_s = 0.0
        self._frames: tuple[Frame, ...] = ()
        self._requests: tuple[Frame, ...] = ()
        self._limits: Frame = {}
        self._computed: dict[int, int] = {}  # the most tokens that each request had computed

    @property
    def is_watched(self) -> bool:
        """Whether a page has polled lately."""
        return time.monotonic() < self._until_s

    def step(self, record: StepRecord) -> None:
        """Add a committed step."""
        if self.is_watched:
            self._frames = (*self._frames[1 - MOST_STEPS :], self._frame(record))

    def settle(self, engine: Engine) -> None:
        """Replace the list of requests after a change."""
        if not self.is_watched:
            self._frames, self._requests, self._limits, self._computed = (), (), {}, {}
            return
        scheduler = engine.scheduler
        running = sorted(scheduler.running(), key=lambda each: each.id)
        shown = islice(chain(running, scheduler.waiting), MOST_REQUESTS)
        self._requests = tuple(_request(each, engine) for each in shown)
        self._limits = {
            "max_kv_tokens": kv_capacity(engine),
            "num_in_flight": len(running) + len(scheduler.waiting),
        }

    def state(self, after: int) -> Frame:
        """The steps after number `after`, and the unfinished requests. This counts as a poll."""
        self._until_s = time.monotonic() + WATCHED_S
        steps = [frame for frame in self._frames if frame["step"] > after]
        return {"steps": steps, "requests": self._requests, **self._limits}

    def _frame(self, record: StepRecord) -> Frame:
        """The data that the page draws of a step. `work` is (request, kind, tokens)."""
        frame: Frame = {
            "step": record.step,
            "kv": record.kv_after,
            "work": [(w.request_id, self._kind(w), w.end - w.start) for w in record.work],
            "preempted": record.preempted,
        }
        for request_id in (*record.finished, *record.aborted):
            self._computed.pop(request_id, None)
        if isinstance(record, BlockStepRecord):
            pool = record.blocks
            held = {block for _, table in pool.tables for block in table}
            frame["blocks"] = (len(held), len(pool.idle), pool.num_blocks)
        return frame

    def _kind(self, work: WorkRecord) -> int:
        """A prefill of tokens that were computed before, and lost, is a recomputation."""
        before = self._computed.get(work.request_id, 0)
        self._computed[work.request_id] = max(before, work.end)
        if work.kind == "decode":
            return DECODE
        return RECOMPUTE if work.start < before else PREFILL


def _request(request: Request, engine: Engine) -> Frame:
    """An unfinished request in numbers of tokens, without its text."""
    return {
        "id": request.id,
        "status": request.status,
        "prompt": len(request.prompt_tokens),
        "known": request.num_computed_tokens,
        "generated": request.num_generated,
        "wanted": request.max_new_tokens,
        "key": [_for_json(part) for part in engine.scheduler.waiting.keys[request.id]],
    }


def _for_json(part: float) -> float | str:
    """A part of a key; JSON has no infinity, and JavaScript no larger number than a float.

    >>> _for_json(2.34567), _for_json(-(10**400))
    (2.346, '-∞')
    """
    if abs(part) <= sys.float_info.max:
        return round(part, 3)
    return "∞" if part > 0 else "-∞"
