"""The live engine's own process: an engine whose settings change between two steps.

    python -m course.live.live_engine LINK

The token budget, the KV budget and the policy change under running requests: no text depends on
them. A sliding window decides which tokens are visible, so it changes only between requests: those
that have started end under their window, and the others wait at the door until then.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import torch

from course.live.tuning import NUM_SINKS, Tuning
from nanogpt.checkpoints.weights import load_model
from nanogpt.child_process import parent_link
from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.model import GPT
from nanogpt.policy_views import Policy, RequestView, TimedKey
from nanogpt.request import Request
from nanogpt.slo.policy import edf_score, slack
from nanogpt.trace import plain

MAX_BATCH_SIZE = 6
TEMPERATURE = 0.8
SEED = 0

_STEP_US = 1000  # a step as a time; urgency is clamped to this much


@dataclass(frozen=True, slots=True)
class Ask:
    """A request on its way to the engine; `window` is the one of its lost worker, if it had one."""

    id: int
    prompt_tokens: Sequence[int]
    max_new_tokens: int
    priority: int
    window: int | None = None


class LiveEngine:
    """Takes requests and settings between steps. Mutable: the engine, the settings, the door."""

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
        """Use these settings from the next step on."""
        self.tuning = tuning
        settings = replace(
            self.engine.config,
            token_budget=tuning.token_budget,
            max_kv_tokens=tuning.max_kv_tokens,
            policy=self._policy(),
            preempt_to_admit=tuning.policy == "priority",
        )
        self.engine.reconfigure(settings)
        if tuning.sliding_window != self.window:
            self._close_door()

    def carry_out(self, order: dict[str, Any]) -> dict[str, Any]:
        """Tune and step as {"asks", "tuning"} says."""
        tuning = Tuning(**order["tuning"])
        if tuning != self.tuning:
            self.tune(tuning)
        return self.step([Ask(**ask) for ask in order["asks"]])

    def step(self, asks: Sequence[Ask] = ()) -> dict[str, Any]:
        """Take in requests and run one step, if there is a request to serve.

        Returns: {"step": a step record as JSON or None, "queue": the heap of waiting requests as
        {"id", "key"}, "door": ids that wait for another window, "window": that of this step (0:
        none), "refused": sentences by id}.
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
                for key, _, _, request in self.engine.scheduler.waiting.heap
            ],
            "door": [ask.id for ask in self.door],
            "window": self.window,
            "refused": refused,
        }

    def _renew(self) -> None:
        """When idle: make a new engine for another window."""
        wanted = self._wanted(self.door[0]) if self.door else self.tuning.sliding_window
        if self._closed or wanted != self.window:
            self.engine = self._make_engine(self.engine.step_number, wanted)
            self._closed = False

    def _wanted(self, ask: Ask) -> int:
        return self.tuning.sliding_window if ask.window is None else ask.window

    def _open_door(self) -> dict[int, str]:
        """Submit the requests for this window, up to the first for another one.

        Returns the reasons of refused requests, by id.
        """
        refused: dict[int, str] = {}
        while self.door and self._wanted(self.door[0]) == self.window:
            ask = self.door.pop(0)
            try:
                self.engine.submit(
                    Request(ask.id, list(ask.prompt_tokens), ask.max_new_tokens, ask.priority)
                )
            except ValueError as error:
                refused[ask.id] = str(error)
            else:
                self._inside[ask.id] = ask
        return refused

    def _close_door(self) -> None:
        """Put the requests that have not started in front of the door."""
        self._closed = True
        waiting = self.engine.scheduler.waiting
        unstarted = sorted(request.id for request in waiting if not request.num_generated)
        outside = [each for each in unstarted if self._inside[each].window is None]
        for request_id in outside:
            self.engine.abort(request_id)
        self.door = [*(self._inside.pop(each) for each in outside), *self.door]

    def _run(self) -> dict[str, Any]:
        """Run one step; its record as JSON, with the reasons of all waiting requests."""
        step = self.engine.step()
        for request_id in step.finished:
            del self._inside[request_id]
        return plain(replace(step, waits=wait_reasons(self.engine.trace())[-1]))

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
        """The most urgent request that can still keep its SLO first, doomed ones last.

        A preempted request that has its first token comes in between.
        """
        if request.generated_tokens:
            return (0.0, request.arrival_time)
        left = request.arrival_time + self.tuning.slo_steps - step
        work = -(-len(request.prompt_tokens) // self.tuning.token_budget)
        spare_us = slack(0, left * _STEP_US, work, 0, _STEP_US, 0)
        return (-edf_score(spare_us, left * _STEP_US), request.arrival_time)


def serve(orders: IO[str], answers: IO[str]) -> None:
    """Answer every order, a line of JSON each.

    The first is {"first_step", "tuning"} and is answered by {"ready": true}; the others are
    {"asks", "tuning"} and are answered by what `LiveEngine.step` returns. In float64, so that a
    text is the same whatever requests it shares a step with.
    """
    first = json.loads(next(orders))
    model = load_model(dtype=torch.float64)
    live = LiveEngine(model, Tuning(**first["tuning"]), first["first_step"])
    _say(answers, {"ready": True})
    for line in orders:
        _say(answers, live.carry_out(json.loads(line)))


def _say(answers: IO[str], answer: object) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def main() -> None:
    """Set the process up and serve."""
    link = parent_link()
    torch.set_num_threads(1)  # the other core is the server's
    with torch.inference_mode():
        serve(link.makefile(encoding="utf-8"), link.makefile("w", encoding="utf-8"))


if __name__ == "__main__":
    main()
