"""How cost grows: a step with the waiting requests, a drained queue, a trace, and memory.

    python -m benchmarks.growth [--quick] [--clock wall|cpu]

The shipped model on one thread, eight requests at once; under `SETTINGS`, steps of 64 tokens and as
many requests as the KV budget holds. Steps and drained queues of every length take turns, repeat by
repeat; what is printed is the median, with the fastest and the slowest repeat. Memory is the most
that a fresh process has held by then, less what it held after its first hundred requests: once
keeping every step, once the newest hundred.
"""

import functools
from collections.abc import Sequence
from typing import Any

from msgspec.json import encode

from benchmarks.measure import begin, in_a_process, interleave, median_and_range, peak_mib
from nanogpt.checkpoints.weights import load_model
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.model import GPT
from nanogpt.request import Request

BATCH = 8
NUM_STEPS = 1000
"""Steps of a trace whose JSON is measured."""
KEEP_STEPS = 100

PRIORITY: dict[str, Any] = {"policy": "priority", "preempt_to_admit": True}
STORES: dict[str, dict[str, Any]] = {
    "slots": {"max_batch_size": 64, "max_kv_tokens": 4096},
    "blocks": {"max_batch_size": 20_000, "max_kv_tokens": 4096, "block_size": 16},
}
STORES["shared blocks"] = {**STORES["blocks"], "share_prefixes": True}
SETTINGS = {
    f"{store}, {order['policy']}": EngineConfig(64, **limits, **order)
    for store, limits in STORES.items()
    for order in ({"policy": "fcfs"}, PRIORITY)
}


def queue_of(model: GPT, num_waiting: int) -> Engine:
    """An engine with a full batch of long requests, and so many more that wait."""
    engine = Engine(model, EngineConfig(max_batch_size=BATCH))
    for i in range(BATCH + num_waiting):
        engine.submit(Request(i, [1 + i % 60] * 8, 500))
    while len(engine.scheduler.active) < BATCH:
        engine.step()
    return engine


def prefilling_queue(model: GPT, num_waiting: int, config: EngineConfig) -> Engine:
    """An engine before the prefills of so many prompts of 96 tokens; of 8, each begins alike."""
    engine = Engine(model, config)
    for i in range(num_waiting):
        prompt = [1 + i % 8] * 48 + [(i >> bit) & 1 for bit in range(16)] * 3
        engine.submit(Request(i, prompt, 32, priority=i % 3))
    return engine


def leavers(model: GPT, count: int) -> None:
    """Let all leave of so many that wait."""
    engine = prefilling_queue(model, count, EngineConfig(64))
    for i in range(count):
        engine.abort(i)


def drain(model: GPT, count: int) -> None:
    """Serve so many short requests that are all there at the start."""
    requests = [(0, Request(i, [1 + i % 60] * 4, 2)) for i in range(count)]
    Engine(model, EngineConfig(64, max_batch_size=BATCH)).run(requests)


def times(model: GPT, *, quick: bool, clock: str) -> None:
    """A line per number waiting, and per length of a queue to drain, in ms."""
    lengths = (10, 100, 1000) if quick else (10, 100, 1000, 10_000)
    engines = {str(n): queue_of(model, n) for n in lengths}
    steps = interleave({n: engine.step for n, engine in engines.items()}, 20 if quick else 100)
    counts = (200, 1000) if quick else (200, 1000, 3000, 10_000)
    drains = interleave({str(n): functools.partial(drain, model, n) for n in counts}, 3)
    leaving = interleave({str(n): functools.partial(leavers, model, n) for n in lengths}, 3)
    found = [("step", steps, False), ("drained request", drains, True), ("leaver", leaving, True)]
    for name, config in SETTINGS.items():
        engines = {str(n): prefilling_queue(model, n, config) for n in lengths}
        run = interleave({n: engine.step for n, engine in engines.items()}, 10 if quick else 12)
        found.append((f"step of 64, {name}", run, False))
    for what, measured, is_each in found:
        for n, timings in measured.items():
            each = int(n) if is_each else 1
            ms = [1000 * seconds / each for seconds in timings.seconds(clock)]
            print(f"{what}, {int(n):6,}: {median_and_range(ms, 3)} ms")


def traces(model: GPT, *, quick: bool) -> None:
    """A line per number waiting: how long the JSON of a trace of 1,000 steps is, in MB."""
    for n in (10, 1000) if quick else (10, 100, 1000, 10_000):
        engine = queue_of(model, n)
        while len(engine.steps) < NUM_STEPS:
            engine.step()
        trace = engine.trace().to_json()
        whole, steps, requests = (
            len(encode(part)) / 1e6 for part in (trace, trace["steps"], trace["requests"])
        )
        print(f"trace, {n:6,} waiting: {whole:6.2f} MB of JSON, of which steps {steps:.2f}, "
              f"requests {requests:.2f}")  # fmt: skip


def memory(keep_steps: int | None, *, quick: bool) -> list[tuple[int, float]]:
    """In a fresh process: serve small requests; how many, and MiB above the first hundred."""
    config = EngineConfig(64, max_batch_size=BATCH, keep_steps=keep_steps)
    engine, first, found = Engine(load_model(), config), 0.0, list[tuple[int, float]]()
    points = (1000, 2000) if quick else (1000, 2000, 5000, 10_000, 20_000)
    for start in range(0, points[-1], 100):
        engine.run([(0, Request(i, [1 + i % 60] * 8, 2)) for i in range(start, start + 100)])
        first = first or peak_mib()
        if start + 100 in points:
            found.append((start + 100, peak_mib() - first))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    options = begin(__doc__, arguments, quick=False, clock="cpu")
    quick, model = options.quick, load_model()
    print(f"medians of interleaved repeats, {options.clock} time\n")
    times(model, quick=quick, clock=options.clock)
    traces(model, quick=quick)
    for kept, keep_steps in {"every step": None, f"{KEEP_STEPS} steps": KEEP_STEPS}.items():
        for n, mib in in_a_process(functools.partial(memory, quick=quick), keep_steps):
            print(f"memory, {n:6,} served, {kept} kept: {mib:+.1f} MiB")


if __name__ == "__main__":
    main()
