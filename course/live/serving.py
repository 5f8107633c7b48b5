"""The loop that has the engine step at the pace that is set, and tells every page of it."""

import asyncio
from asyncio import Event
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from course.live.room import Room
from course.live.worker import Worker, WorkerLost

AGAIN_AFTER_S = 1.0
"""So long a lost worker is to be seen before another is started."""

StartWorker = Callable[[int, dict[str, Any]], Any]


class Serving:
    """A room and the worker that serves it.

    Mutable: the room, the worker, and the events of those who listen for changes.
    """

    def __init__(self, room: Room, start_worker: StartWorker = Worker.start) -> None:
        self.room = room
        self.worker: Worker | None = None
        self._start_worker = start_worker
        self._listeners: set[Event] = set()
        self._news = Event()  # for the loop: there may be something to do
        self._single_steps = 0

    @contextmanager
    def listening(self) -> Generator[Event]:
        """An event that is set whenever the room has changed."""
        changed = Event()
        changed.set()
        self._listeners.add(changed)
        try:
            yield changed
        finally:
            self._listeners.discard(changed)

    def tell(self) -> None:
        """The room has changed."""
        self._news.set()
        for changed in self._listeners:
            changed.set()

    def step_once(self) -> None:
        """Run one step although the room is paused."""
        self._single_steps += 1
        self.tell()

    def kill_worker(self) -> bool:
        """Kill the engine's process; whether there was one."""
        if self.worker is None or self.room.worker != "up":
            return False
        self.worker.kill()
        self.step_once()  # or a room that is paused, or has nothing to do, would not notice
        return True

    async def run(self) -> None:
        """Serve for ever, with one worker after another. Cancel it to end the worker, too."""
        while True:
            try:
                await self._serve()
            except WorkerLost as lost:
                self._single_steps = 0
                self.room.worker_is_lost(str(lost))
                self.tell()
                await asyncio.sleep(AGAIN_AFTER_S)
            finally:
                if self.worker:
                    await self.worker.end()
                    self.worker = None

    async def _serve(self) -> None:
        """Have one worker step until it is lost. Raises: WorkerLost."""
        room, loop = self.room, asyncio.get_running_loop()
        worker: Worker = await self._start_worker(room.step_number, asdict(room.tuning))
        self.worker = worker
        room.worker_is_up()
        self.tell()
        while True:
            await self._something_to_do()
            next_s = loop.time() + room.tuning.pace_ms / 1000
            room.hear(await worker.step(room.order()))
            self.tell()
            # A new pace counts at once, and a single step need not be waited for.
            while room.has_work() and not room.paused and (left_s := next_s - loop.time()) > 0:
                await asyncio.sleep(min(left_s, 0.05))

    async def _something_to_do(self) -> None:
        while True:
            self._news.clear()
            if self._single_steps:
                self._single_steps -= 1
                return
            if self.room.has_work() and not self.room.paused:
                return
            await self._news.wait()
