"""The room's engine: its settings change between two steps, and its steps come at a chosen pace.

The token budget, the KV budget and the policy change under running requests: no text depends on
them. A sliding window decides which tokens are visible, so another window needs another engine.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from course.live.tuning import NUM_SINKS, Tuning
from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig, TimedKey
from nanogpt.engine import Engine
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.model import GPT
from nanogpt.request import Request
from nanogpt.server.engine_thread import EngineThread
from nanogpt.server.live_feed import LiveFeed
from nanogpt.slo.policy import edf_score, slack
from nanogpt.trace import StepRecord, WaitRecord
from nanogpt.views.request_view import RequestView

MAX_BATCH_SIZE = 6
TEMPERATURE = 0.8
SEED = 0

_STEP_US = 1000  # a step as a time; urgency is clamped to this much

HearStep = Callable[[StepRecord, Sequence[WaitRecord]], None]


def make_engine(model: GPT, tuning: Tuning, first_step: int = 0) -> Engine:
    """An engine with these settings, whose first step has this number."""
    window = tuning.sliding_window
    config = EngineConfig(
        **_settings(tuning),
        max_batch_size=MAX_BATCH_SIZE,
        keep_steps=1,
        sliding_window=window or None,
        num_sinks=NUM_SINKS if window else 0,
        temperature=TEMPERATURE,
        seed=SEED,
    )
    engine = Engine(model, config, clock=WallClock())
    engine.step_number = first_step
    return engine


def tune(thread: EngineThread, tuning: Tuning) -> None:
    """Go on with these settings, except for the window. For the engine's thread."""
    engine = thread.engine
    engine.reconfigure(replace(engine.config, **_settings(tuning)))


def replace_engine(thread: EngineThread, tuning: Tuning) -> None:
    """Go on with a new engine, without any K/V. For the engine's thread.

    Unfinished requests keep their texts, as preempted ones do, and compute their K/V again.
    """
    engine = make_engine(thread.engine.model, tuning, thread.engine.step_number)
    for served in thread.served.values():
        old = served.request
        served.request = Request(old.id, old.prompt_tokens, old.max_new_tokens, old.priority)
        engine.submit(served.request)
        served.request.generated_tokens = old.generated_tokens
    thread.engine = engine


def _settings(tuning: Tuning) -> dict[str, Any]:
    """Those of the engine's settings that change between two steps."""
    is_slack = tuning.policy == "slack"
    return {
        "token_budget": tuning.token_budget,
        "max_kv_tokens": tuning.max_kv_tokens,
        "policy": TimedKey(partial(_slack_key, tuning)) if is_slack else tuning.policy,
        "preempt_to_admit": tuning.policy == "priority",
    }


def _slack_key(tuning: Tuning, request: RequestView, step: int) -> tuple[float, ...]:
    """The most urgent request that can still keep its SLO first, doomed ones last.

    A preempted request that has its first token comes in between.
    """
    if request.generated_tokens:
        return (0.0, request.arrival_time)
    left = request.arrival_time + tuning.slo_steps - step
    work = -(-len(request.prompt_tokens) // tuning.token_budget)
    spare_us = slack(0, left * _STEP_US, work, 0, _STEP_US, 0)
    return (-edf_score(spare_us, left * _STEP_US), request.arrival_time)


class Pace:
    """When the engine steps: at most every `pace_ms`, or when told to. Mutable.

    Used only in the engine's thread.
    """

    def __init__(self, pace_ms: int) -> None:
        self._pace_s = pace_ms / 1000
        self._is_paused = False
        self._single_steps = 0
        self._last_s = 0.0

    def __call__(self, engine: Engine) -> float | None:
        """Seconds until the next step begins; None: not before another command."""
        if engine.scheduler.is_done():
            self._single_steps = 0
            return None
        if self._single_steps:
            return 0.0
        if self._is_paused:
            return None
        return max(0.0, self._last_s + self._pace_s - time.monotonic())

    def change(self, pace_ms: int, is_paused: bool) -> None:
        """Go on at this pace, or stop."""
        self._pace_s, self._is_paused = pace_ms / 1000, is_paused

    def step_once(self) -> None:
        """Allow one more step, paused or not."""
        self._single_steps += 1

    def stepped(self, duration_s: float) -> None:
        """A step that took so long has just ended."""
        self._last_s = time.monotonic() - duration_s
        self._single_steps = max(0, self._single_steps - 1)


class RoomFeed(LiveFeed):
    """The live page's data; also tells of each step and of all waiting requests. Mutable."""

    def __init__(self, pace: Pace, hear: HearStep) -> None:
        super().__init__()
        self._pace = pace
        self._hear = hear
        self._newest = -1

    def settle(self, engine: Engine) -> None:
        """Also tell of the newest step."""
        super().settle(engine)
        if engine.steps and engine.steps[-1].step > self._newest:
            step = engine.steps[-1]
            self._newest = step.step
            self._pace.stepped(step.duration_us / 1e6)
            self._hear(step, wait_reasons(engine.trace())[-1])
