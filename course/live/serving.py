"""The loop that lets the engine's process step at the chosen pace, and tells every page."""

import asyncio
import json
from asyncio import Event, StreamReader, StreamWriter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from course.live.room import Room
from nanogpt.child_process import ChildProcess

_LONGEST_LINE = 2**22  # bytes; a step of the longest requests takes a few thousand
_START_S = 120.0
_STEP_S = 30.0


class WorkerLost(Exception):
    """The process is gone or silent; the message says how it ended."""


class Worker:
    """A process with an engine. `end` ends it; `kill` demonstrates a loss."""

    def __init__(self, child: ChildProcess, reader: StreamReader, writer: StreamWriter) -> None:
        self._child = child
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, first_step: int, tuning: dict[str, Any]) -> "Worker":
        """Start a process and wait until it has the model. Raises: WorkerLost."""
        child = ChildProcess.start("course.live.live_engine")
        try:
            reader, writer = await asyncio.open_connection(sock=child.link, limit=_LONGEST_LINE)
            worker = cls(child, reader, writer)
            await worker._exchange({"first_step": first_step, "tuning": tuning}, _START_S)
        except BaseException:
            await asyncio.to_thread(child.reap)
            raise
        return worker

    async def step(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run one step; what it did. Raises: WorkerLost."""
        return await self._exchange(order, _STEP_S)

    def kill(self) -> None:
        """End the process without warning."""
        self._child.kill()

    async def end(self) -> None:
        """End the process and wait for it."""
        self._writer.close()
        await asyncio.to_thread(self._child.reap)

    async def _exchange(self, order: dict[str, Any], limit_s: float) -> dict[str, Any]:
        try:
            self._writer.write(json.dumps(order).encode() + b"\n")
            async with asyncio.timeout(limit_s):
                await self._writer.drain()
                line = await self._reader.readline()
        except TimeoutError:
            raise WorkerLost(f"said nothing for {limit_s:g} s") from None
        except OSError:  # it took no order
            line = b""
        if not line.endswith(b"\n"):
            raise WorkerLost(await asyncio.to_thread(self._child.how_it_ended))
        return json.loads(line)


AGAIN_AFTER_S = 1.0
"""How long a lost worker is shown before another is started."""

StartWorker = Callable[[int, dict[str, Any]], Any]


class Serving:
    """A room and the worker that serves it. Mutable: both, and the listeners' events."""

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
        """Run one step, even if the room is paused."""
        self._single_steps += 1
        self.tell()

    def kill_worker(self) -> bool:
        """Kill the engine's process; whether there was one."""
        if self.worker is None or self.room.worker != "up":
            return False
        self.worker.kill()
        self.step_once()  # a paused or idle room would not notice
        return True

    async def run(self) -> None:
        """Serve forever, with one worker after another. Cancelling ends the worker, too."""
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
        """Step with one worker until it is lost. Raises: WorkerLost."""
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
