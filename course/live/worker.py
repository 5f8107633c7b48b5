"""The room's side of the engine's process: start it, have it step, kill it, outlive its loss."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_LONGEST_LINE = 2**22  # bytes; a step of the longest requests takes a few thousand
_START_S = 120.0
_STEP_S = 30.0
_END_S = 1.0


class WorkerLost(Exception):
    """The process is gone, or says nothing; the message says how it ended."""


class Worker:
    """One process with an engine in it. Ends with `end`; `kill` is for showing what a loss does."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def process_id(self) -> int:
        """The system's number of the process."""
        return self._process.pid

    @classmethod
    async def start(cls, first_step: int, tuning: dict[str, Any]) -> "Worker":
        """Start a process and wait until it has the model. Raises: WorkerLost."""
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-P", "-m", "course.live.engine_process"],
            stdin=PIPE,
            stdout=PIPE,
            limit=_LONGEST_LINE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C reaches the server alone
        )
        worker = cls(process)
        try:
            await worker._exchange({"first_step": first_step, "tuning": tuning}, _START_S)
        except BaseException:
            await worker.end()
            raise
        return worker

    async def step(self, order: dict[str, Any]) -> dict[str, Any]:
        """Have one step run; what it did. Raises: WorkerLost."""
        return await self._exchange(order, _STEP_S)

    def kill(self) -> None:
        """End the process as an operating system would that is short of memory: without warning."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> None:
        """End the process and wait for it. Twice does no harm."""
        self.kill()
        if self._process.stdin:
            self._process.stdin.close()
        await self._process.wait()

    async def _exchange(self, order: dict[str, Any], limit_s: float) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            async with asyncio.timeout(limit_s):
                await self._process.stdin.drain()
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise WorkerLost(f"said nothing for {limit_s:g} s") from None
        except OSError:  # it took no order
            line = b""
        if not line.endswith(b"\n"):
            raise WorkerLost(await self._how_it_ended())
        return json.loads(line)

    async def _how_it_ended(self) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await self._process.wait()
        self.kill()  # it may have closed its end and live on
        code = await self._process.wait()
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit status {code}"
