"""An engine whose settings change between two steps, and the door where requests wait for it.

Token budget, KV budget and policy change under the running requests: their texts depend on none of
them. A window decides what a token sees, so it changes only between requests: those that have
started end under the window that they began with, and the others wait at the door until then.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from course.live.tuning import NUM_SINKS, Tuning
from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.experiments.trace_waits import all_waits
from nanogpt.model import GPT
from nanogpt.parts.ranking import Policy, TimedKey
from nanogpt.parts.request_view import RequestView
from nanogpt.request import Request
from nanogpt.slo.policy import slack, urgency
from nanogpt.trace import plain

MAX_BATCH_SIZE = 6
TEMPERATURE = 0.8
SEED = 0

_STEP_US = 1000  # a step as a time; urgency is clamped to this much


@dataclass(frozen=True, slots=True)
class Ask:
    """A request on its way to the engine.

    `window` is the one that it must be served under, as it was before its worker was lost; None is
    the one that is set.
    """

    id: int
    prompt_tokens: Sequence[int]
    max_new_tokens: int
    priority: int
    window: int | None = None

    def request(self) -> Request:
        """As the engine takes it, which changes what it is given."""
        return Request(self.id, list(self.prompt_tokens), self.max_new_tokens, self.priority)


class LiveEngine:
    """Takes requests and settings between steps, and tells of every step as plain data.

    Mutable: the engine, the settings, and the door.
    """

    def __init__(self, model: GPT, tuning: Tuning, first_step: int = 0) -> None:
        self.model = model
        self.tuning = tuning
        self.door: list[Ask] = []
        self.engine = self._make_engine(first_step, tuning.sliding_window)
        self._inside: dict[int, Ask] = {}
        self._closed = False  # the door: the next engine takes what waits there

    @property
    def window(self) -> int:
        """The window that is served now; 0 is none."""
        return self.engine.config.sliding_window or 0

    def tune(self, tuning: Tuning) -> None:
        """Go on with other settings from the next step on."""
        self.tuning = tuning
        engine, scheduler = self.engine, self.engine.scheduler
        limits = asdict(tuning)
        engine.config = replace(
            engine.config,
            **{name: limits[name] for name in ("token_budget", "max_kv_tokens")},
        )
        scheduler.token_budget = tuning.token_budget
        scheduler.max_kv_tokens = tuning.max_kv_tokens
        scheduler.policy = self._policy()
        scheduler.preempt_to_admit = tuning.policy == "priority"
        scheduler.rank_anew()
        if tuning.sliding_window != self.window:
            self._close_door()

    def step(self, asks: Sequence[Ask] = ()) -> dict[str, Any]:
        """Take in what has arrived and run one step, if there is anything to serve.

        Returns: {"step": a step record as JSON or None, "queue": the heap's array of the waiting as
        {"id", "key"}, "door": ids that wait for another window, "window": that of this step (0:
        none), "refused": sentences by id}.
        Raises: whatever goes wrong in the engine.
        """
        self.door += asks
        if self.engine.scheduler.is_done():
            self._renew()
        refused = {} if self._closed else self._open_door()
        record = None if self.engine.scheduler.is_done() else self._run()
        return {
            "step": record,
            "queue": [
                {"id": request.id, "key": [round(part, 3) for part in key]}
                for key, _, _, request in self.engine.scheduler.waiting
            ],
            "door": [ask.id for ask in self.door],
            "window": self.window,
            "refused": refused,
        }

    def _renew(self) -> None:
        """Without work: a new engine, if the one there is has another window."""
        wanted = self._wanted(self.door[0]) if self.door else self.tuning.sliding_window
        if self._closed or wanted != self.window:
            self.engine = self._make_engine(self.engine.step_number, wanted)
            self._closed = False

    def _wanted(self, ask: Ask) -> int:
        return self.tuning.sliding_window if ask.window is None else ask.window

    def _open_door(self) -> dict[int, str]:
        """Let in what is for this window, up to the first that is not: nothing overtakes.

        Returns what the engine says of those that it refuses, by id.
        """
        refused: dict[int, str] = {}
        while self.door and self._wanted(self.door[0]) == self.window:
            ask = self.door.pop(0)
            try:
                self.engine.submit(ask.request())
            except ValueError as error:
                refused[ask.id] = str(error)
            else:
                self._inside[ask.id] = ask
        return refused

    def _close_door(self) -> None:
        """Put outside what has not started, in front of what waits there."""
        self._closed = True
        waiting = [request for *_, request in self.engine.scheduler.waiting]
        unstarted = sorted(request.id for request in waiting if not request.num_generated)
        outside = [each for each in unstarted if self._inside[each].window is None]
        for request_id in outside:
            self.engine.scheduler.give_up(self.engine.requests.pop(request_id))
            del self.engine.arrived[request_id]  # it arrives again, at the next engine
        self.door = [*(self._inside.pop(each) for each in outside), *self.door]

    def _run(self) -> dict[str, Any]:
        """Run one step; its record as JSON, with everything that waited in it."""
        step = self.engine.step()
        for request_id in step.finished:
            del self._inside[request_id]
        return plain(replace(step, waits=all_waits(self.engine.trace())[-1]))

    def _make_engine(self, first_step: int, window: int) -> Engine:
        tuning = self.tuning
        config = EngineConfig(
            token_budget=tuning.token_budget,
            max_kv_tokens=tuning.max_kv_tokens,
            max_batch_size=MAX_BATCH_SIZE,
            policy=self._policy(),
            preempt_to_admit=tuning.policy == "priority",
            sliding_window=window or None,
            num_sinks=NUM_SINKS if window else 0,
            temperature=TEMPERATURE,
            seed=SEED,
            keep_steps=1,  # the room has what it shows
        )
        engine = Engine(self.model, config, clock=WallClock())
        engine.step_number = first_step
        return engine

    def _policy(self) -> Policy:
        return TimedKey(self._slack_key) if self.tuning.policy == "slack" else self.tuning.policy

    def _slack_key(self, request: RequestView, step: int) -> tuple[float, ...]:
        """The most urgent of those that can still make their SLO first, the doomed last.

        What has its first token and was preempted has kept its SLO: it comes in between.
        """
        if request.generated_tokens:
            return (0.0, request.arrival_time)
        left = request.arrival_time + self.tuning.slo_steps - step
        work = -(-len(request.prompt_tokens) // self.tuning.token_budget)
        spare_us = slack(0, left * _STEP_US, work, 0, _STEP_US, 0)
        return (-urgency(spare_us, left * _STEP_US), request.arrival_time)
