"""What tests of the live room share: a small model, and rooms served without a process."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache

import torch

from course.live.live_engine import SEED, TEMPERATURE, LiveEngine
from course.live.prompts import Asked
from course.live.room import Room
from course.live.serving import WorkerLost
from course.live.tuning import NUM_SINKS, Tuning
from nanogpt.config import ModelConfig
from nanogpt.model import GPT
from nanogpt.posts.oracle import generate


@cache
def small_model() -> GPT:
    """One layer that knows the course's characters, in float64, with texts that vary."""
    config = ModelConfig(num_layers=1, num_heads=2, num_channels=16, context_len=320)
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


class LocalWorker:
    """A worker without a process. What goes in and out is JSON all the same."""

    def __init__(self, first_step: int, tuning: dict) -> None:
        self.live = LiveEngine(small_model(), Tuning(**tuning), first_step)
        self.killed = False

    @classmethod
    async def start(cls, first_step: int, tuning: dict) -> "LocalWorker":
        return cls(first_step, tuning)

    def serve(self, order: dict) -> dict:
        answer = self.live.carry_out(json.loads(json.dumps(order)))
        return json.loads(json.dumps(answer))

    async def step(self, order: dict) -> dict:
        if self.killed:
            raise WorkerLost("was killed by SIGKILL")
        return self.serve(order)

    def kill(self) -> None:
        self.killed = True

    async def end(self) -> None:
        pass


class Stage:
    """A room and its engine in one thread, one step at a time. Mutable: both, and the clock."""

    def __init__(self, **tuning: object) -> None:
        self.clock = Clock()
        self.room = Room(Tuning(**tuning), self.clock)
        self.worker = self._new_worker()
        self.answers: list[dict] = []

    def _new_worker(self) -> LocalWorker:
        worker = LocalWorker(self.room.step_number, asdict(self.room.tuning))
        self.room.worker_is_up()
        return worker

    def ask(self, text: str) -> Asked:
        """From a guest of its own, so that no rate is in the way."""
        self.clock.now += 10
        return self.room.ask(self.room.join(), text)

    def lose_worker(self) -> None:
        self.room.worker_is_lost("was killed by SIGKILL")
        self.worker = self._new_worker()

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.answers.append(self.worker.serve(self.room.order()))
            self.room.hear(self.answers[-1])

    def finish(self) -> None:
        for _ in range(3000):
            if not self.room.has_work():
                return
            self.step()
        raise AssertionError("the room is never done")

    def steps(self) -> list[dict]:
        return [answer["step"] for answer in self.answers if answer["step"]]


def assert_texts_are_the_oracles(asked: Sequence[Asked]) -> None:
    """Each is what it would be alone, under the window that it was served under."""
    assert [each.tokens for each in asked] == [
        generate(
            small_model(),
            each.prompt_tokens,
            each.max_new_tokens,
            temperature=TEMPERATURE,
            seed=SEED,
            request_id=each.id,
            sliding_window=each.window or None,
            num_sinks=NUM_SINKS if each.window else 0,
        )
        for each in asked
    ]
