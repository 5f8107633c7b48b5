"""The HTTP server's cost per token: its seconds over those of the bare engine, in turns.

    python -m benchmarks.server [--quick] [--model character] [--tokens 200]

Real servers, `python -m nanogpt.server` in a process each, that send an event for every step or
gather tokens for the usual interval; their client is this process, and so is the bare engine, while
the servers sleep. All serve the same prompts, all there at the start, greedily, on one thread.
Wall seconds run from the first request sent to the last event read: the client's work is in them
where no core is free for it. CPU seconds are those of the server's process alone.
"""

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.contenders import run_engine
from benchmarks.loads import MODELS, Load, decode
from benchmarks.measure import Table, begin, median_and_range, option
from nanogpt.checkpoints.weights import load_model, save_model
from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.model import GPT
from nanogpt.server.server_settings import ServerSettings

ROOT = Path(__file__).resolve().parent.parent
STREAMS = (1, 8, 32)
WANTED = 1.15
"""At 32 streams the server may take so many times what the bare engine takes."""
INTERVALS = {"every step": 0, "usual interval": ServerSettings().stream_interval_ms}
START_S = 120.0
SIZE = {"choices": MODELS, **option("character", "size of the model")}


@dataclass(frozen=True, slots=True)
class Running:
    """A server's process and its port."""

    process: psutil.Process
    port: int


@contextmanager
def answering(command: Sequence[str], **settings: Any) -> Generator[Running]:
    """A server's command with a free port behind it, once it answers; ended at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, str(port)], cwd=ROOT, **quiet, **settings) as process:
        try:
            end = time.monotonic() + START_S
            while not is_up(port):
                assert process.poll() is None, f"{command[:3]} ended with {process.returncode}"
                assert time.monotonic() < end, f"{command[:3]} does not answer"
                time.sleep(0.1)
            yield Running(psutil.Process(process.pid), port)
        finally:
            process.terminate()


def our_server(weights: Path, interval_ms: int) -> list[str]:
    """The real command, but for the port at its end."""
    options = {
        "model": weights, "stream-interval-ms": interval_ms, "temperature": 0, "threads": 1,
        "token-budget": 256, "max-batch-size": max(STREAMS), "shutdown-s": 0,
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "nanogpt.server", *words, "--port"]


def is_up(port: int) -> bool:
    """Whether a server answers there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return True
    except urllib.error.URLError:
        return False


async def stream(port: int, prompt: Sequence[int], max_tokens: int) -> None:
    """Read one stream to its end, over a bare connection: as cheap as a client can be."""
    body = {"model": "nanogpt", "prompt": prompt, "max_tokens": max_tokens, "stream": True}
    data = json.dumps(body | {"stream_options": {"include_usage": True}}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(data)}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + data)
    last = b""
    while b"data: [DONE]" not in last:
        last = last[-400:] + await reader.read(65536)
    assert b'"completion_tokens":%d,' % max_tokens in last, last
    writer.close()


def serve_all(load: Load, running: Running) -> tuple[float, float]:
    """All streams at once: wall seconds, and the server's CPU seconds."""

    async def all_at_once() -> None:
        wanted = load.max_new_tokens
        await asyncio.gather(*(stream(running.port, each, wanted) for each in load.prompts))

    before, start = running.process.cpu_times(), time.perf_counter()
    asyncio.run(all_at_once())
    wall_s, after = time.perf_counter() - start, running.process.cpu_times()
    return wall_s, after.user + after.system - before.user - before.system


def run_bare(load: Load, model: GPT) -> tuple[float, float]:
    """The bare engine on the same load: wall seconds, and CPU seconds."""
    config = EngineConfig(token_budget=load.token_budget, max_batch_size=max(STREAMS))
    engine = Engine(model, config, clock=WallClock())
    cpu, start = time.process_time(), time.perf_counter()
    run_engine(engine, load)
    return time.perf_counter() - start, time.process_time() - cpu


def compare(
    load: Load, model: GPT, servers: dict[str, Running], repeats: int, table: Table
) -> None:
    """Let the engine and the servers take turns; a round beforehand is not counted.

    A line for each server: how often it takes what the bare engine takes, repeat by repeat.
    """
    bare_us: list[float] = []
    wall: dict[str, list[float]] = {name: [] for name in servers}
    cpu: dict[str, list[float]] = {name: [] for name in servers}
    for number in range(repeats + 1):
        bare_wall_s, bare_cpu_s = run_bare(load, model)
        taken = {name: serve_all(load, running) for name, running in servers.items()}
        if not number:
            continue
        bare_us.append(bare_wall_s / load.num_generated * 1e6)
        for name, (wall_s, cpu_s) in taken.items():
            wall[name].append(wall_s / bare_wall_s)
            cpu[name].append(cpu_s / bare_cpu_s)
    for name in servers:
        times = median_and_range(wall[name]), median_and_range(cpu[name])
        table.add(load.num_requests, statistics.median(bare_us), name, *times)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    own = {"--model": SIZE, "--tokens": option(200, "tokens of each stream")}
    options = begin(__doc__, arguments, own, quick=False)
    repeats = 3 if options.quick else 9
    print(f"{options.model} size")
    print(f"a server's time over the bare engine's, median of {repeats} (smallest to largest)\n")
    table = Table("streams:>7", "bare, us/token:>14.0f", "events:<16", "wall:>19", "CPU:>19")
    with ExitStack() as stack:
        weights = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model.safetensors"
        save_model(MODELS[options.model](), weights)
        model = load_model(weights)
        servers = {
            name: stack.enter_context(answering(our_server(weights, ms)))
            for name, ms in INTERVALS.items()
        }
        for streams in STREAMS:
            compare(decode(streams, options.tokens), model, servers, repeats, table)


if __name__ == "__main__":
    main()
