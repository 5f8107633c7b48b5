"""What tests of the live room share: a small model, and a room whose engine steps when told to."""

import threading
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch

from course.live.room import Room
from course.live.room_engine import SEED, TEMPERATURE
from course.live.room_requests import RoomRequest
from course.live.tuning import NUM_SINKS, Tuning
from nanogpt.checkpoints.tokenizer import decode
from nanogpt.config import ModelConfig
from nanogpt.model import GPT
from nanogpt.posts.oracle import generate
from nanogpt.trace import StepRecord, WaitRecord


@cache
def small_model() -> GPT:
    """One layer that knows the course's characters, in float64, with texts that vary."""
    config = ModelConfig(num_layers=1, num_heads=2, num_channels=16, max_model_len=320)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = GPT(config).double().eval().requires_grad_(False)
    for weight in model.parameters():
        weight.mul_(4.0)
    return model


class Clock:
    """Seconds that pass when they are told to. Mutable."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def at_once(function: Any, *args: Any) -> None:
    """What an event loop would do soon."""
    function(*args)


class Stage:
    """A room in one thread, one step at a time. Mutable: the room, the clock, and the steps."""

    def __init__(self, room: Room | None = None, **tuning: object) -> None:
        self.clock = Clock()
        self.room = room or Room(small_model(), Tuning(**tuning), self.clock)
        self.thread = self.room.thread
        self.thread._loop = SimpleNamespace(call_soon_threadsafe=at_once)
        self.thread._thread = threading.current_thread()
        self.steps: list[StepRecord] = []
        self.waits: list[Sequence[WaitRecord]] = []
        hear = self.room.hear

        def hear_and_keep(step: StepRecord, waits: Sequence[WaitRecord]) -> None:
            self.steps.append(step)
            self.waits.append(waits)
            hear(step, waits)

        self.room.hear = hear_and_keep

    def ask(self, text: str) -> RoomRequest:
        """From a guest of its own, so that no rate is in the way."""
        self.clock.now += 10
        return self.room.ask(self.room.join(), text)

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            while not self.thread._commands.empty():
                self.thread._commands.get()()
            if not self.thread.engine.scheduler.is_done():
                self.thread._step()

    def finish(self) -> None:
        for _ in range(3000):
            if not self.room.unfinished():
                return
            self.step()
        raise AssertionError("the room is never done")


def assert_texts_are_the_oracles(requests: Sequence[RoomRequest]) -> None:
    """Each is what it would be alone, under the window that it was served under."""
    assert [each.text for each in requests] == [
        decode(
            generate(
                small_model(),
                each.asked.prompt_tokens,
                each.asked.max_new_tokens,
                temperature=TEMPERATURE,
                seed=SEED,
                request_id=each.id,
                sliding_window=each.window or None,
                num_sinks=NUM_SINKS if each.window else 0,
            )
        )
        for each in requests
    ]
