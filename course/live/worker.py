"""The room's side of the engine's process: start it, have it step, kill it, outlive its loss."""

import asyncio
import json
from asyncio import StreamReader, StreamWriter
from typing import Any

from nanogpt.child_process import ChildProcess

_LONGEST_LINE = 2**22  # bytes; a step of the longest requests takes a few thousand
_START_S = 120.0
_STEP_S = 30.0


class WorkerLost(Exception):
    """The process is gone, or says nothing; the message says how it ended."""


class Worker:
    """One process with an engine in it. Ends with `end`; `kill` is for showing what a loss does."""

    def __init__(self, child: ChildProcess, reader: StreamReader, writer: StreamWriter) -> None:
        self._child = child
        self._reader = reader
        self._writer = writer

    @property
    def process_id(self) -> int:
        """The system's number of the process."""
        return self._child.process.pid

    @classmethod
    async def start(cls, first_step: int, tuning: dict[str, Any]) -> "Worker":
        """Start a process and wait until it has the model. Raises: WorkerLost."""
        child = ChildProcess.start("course.live.engine_process")
        try:
            reader, writer = await asyncio.open_connection(sock=child.link, limit=_LONGEST_LINE)
            worker = cls(child, reader, writer)
            await worker._exchange({"first_step": first_step, "tuning": tuning}, _START_S)
        except BaseException:
            await asyncio.to_thread(child.reap)
            raise
        return worker

    async def step(self, order: dict[str, Any]) -> dict[str, Any]:
        """Have one step run; what it did. Raises: WorkerLost."""
        return await self._exchange(order, _STEP_S)

    def kill(self) -> None:
        """End the process as an operating system would that is short of memory: without warning."""
        self._child.kill()

    async def end(self) -> None:
        """End the process and wait for it. Twice does no harm."""
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
