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

import psutil
import torch

from benchmarks.contenders import run_engine
from benchmarks.loads import MODELS, Load, decode
from benchmarks.measure import command_line, describe, machine, median_and_range
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
START_S = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """So many streams: what the bare engine takes for a token, and how often that a server takes.

    `bare_us` by repeat, on the wall; `wall` and `cpu` are ratios by repeat, by kind of server.
    """

    streams: int
    bare_us: list[float]
    wall: dict[str, list[float]]
    cpu: dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Running:
    """A server's process and its port."""

    process: psutil.Process
    port: int


@contextmanager
def started(weights: Path, interval_ms: int) -> Generator[Running]:
    """The real command, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "model": weights, "port": port, "stream-interval-ms": interval_ms, "temperature": 0,
        "threads": 1, "token-budget": 256, "max-batch-size": max(STREAMS), "shutdown-s": 0,
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "nanogpt.server", *words]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + START_S
            while not is_up(port):
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.1)
            yield Running(psutil.Process(process.pid), port)
        finally:
            process.terminate()


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


def compare(load: Load, model: GPT, servers: dict[str, Running], repeats: int) -> Row:
    """Let the engine and the servers take turns; a round beforehand is not counted."""
    row = Row(load.num_requests, [], {each: [] for each in servers}, {each: [] for each in servers})
    for number in range(repeats + 1):
        bare_wall_s, bare_cpu_s = run_bare(load, model)
        taken = {name: serve_all(load, running) for name, running in servers.items()}
        if not number:
            continue
        row.bare_us.append(bare_wall_s / load.num_generated * 1e6)
        for name, (wall_s, cpu_s) in taken.items():
            row.wall[name].append(wall_s / bare_wall_s)
            row.cpu[name].append(cpu_s / bare_cpu_s)
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = command_line(__doc__, quick=False)
    parser.add_argument(
        "--model",
        choices=MODELS,
        default="character",
        help="size of the model (default: character)",
    )
    parser.add_argument(
        "--tokens", type=int, default=200, help="tokens of each stream (default: 200)"
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    facts, repeats = machine(), 3 if options.quick else 9
    print(f"{describe(facts)}; {options.model} size")
    print(f"a server's time over the bare engine's, median of {repeats} (smallest to largest)\n")
    print(f"{'streams':>7} {'bare, us/token':>14} {'events':16} {'wall':>19} {'CPU':>19}")
    rows: list[Row] = []
    with ExitStack() as stack:
        weights = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model.safetensors"
        save_model(MODELS[options.model](), weights)
        model = load_model(weights)
        servers = {
            name: stack.enter_context(started(weights, ms)) for name, ms in INTERVALS.items()
        }
        for streams in STREAMS:
            rows.append(compare(decode(streams, options.tokens), model, servers, repeats))
            bare = statistics.median(rows[-1].bare_us)
            for name in servers:
                wall, cpu = (median_and_range(of[name]) for of in (rows[-1].wall, rows[-1].cpu))
                print(f"{streams:7} {bare:14.0f} {name:16} {wall:>19} {cpu:>19}", flush=True)


if __name__ == "__main__":
    main()
