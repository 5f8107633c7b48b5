"""How cost grows: a step with what waits, a drained queue with its length, a trace, and memory.

    python -m benchmarks.growth [--quick] [--clock wall|cpu] [--json] [--plot FILE]

The shipped model on one thread, eight requests at once. Steps and drained queues of every length
take turns, repeat by repeat; what is printed is the median, with the fastest and the slowest
repeat. Memory is the most that a fresh process has held by then, less what it held after its first
hundred requests: once keeping every step, once the newest hundred.
"""

import argparse
import functools
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import torch
from msgspec.json import encode

from benchmarks.measure import describe, interleave, machine, peak_mib
from nanogpt.checkpoints.weights import load_model
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.experiments.command_line import Parser
from nanogpt.figures import Chart, Line, Panel
from nanogpt.figures.plot_option import PLOT_HELP, PlotFile, write_plot
from nanogpt.model import GPT
from nanogpt.request import Request

BATCH = 8
NUM_STEPS = 1000
"""Steps of a trace whose JSON is measured."""
KEEP_STEPS = 100

Row = dict[str, Any]


def queue_of(model: GPT, num_waiting: int) -> Engine:
    """An engine with a full batch of long requests, and so many more that wait."""
    engine = Engine(model, EngineConfig(max_batch_size=BATCH))
    for i in range(BATCH + num_waiting):
        engine.submit(Request(i, [1 + i % 60] * 8, 500))
    while len(engine.scheduler.active) < BATCH:
        engine.step()
    return engine


def drain(model: GPT, count: int) -> None:
    """Serve so many short requests that are all there at the start."""
    requests = [(0, Request(i, [1 + i % 60] * 4, 2)) for i in range(count)]
    Engine(model, EngineConfig(64, max_batch_size=BATCH)).run(requests)


def times(model: GPT, *, quick: bool, clock: str) -> list[Row]:
    """A row per number waiting, and per length of a queue to drain, in ms."""
    lengths = (10, 100, 1000) if quick else (10, 100, 1000, 10_000)
    engines = {str(n): queue_of(model, n) for n in lengths}
    steps = interleave({n: engine.step for n, engine in engines.items()}, 20 if quick else 100)
    counts = (200, 1000) if quick else (200, 1000, 3000, 10_000)
    drains = interleave({str(n): functools.partial(drain, model, n) for n in counts}, 3)
    return [
        {"what": what, "n": int(n), "ms": [1000 * s / each for s in timings.seconds(clock)],
         "median_ms": 1000 * timings.median_s(clock) / each}
        for what, found in (("step", steps), ("drained request", drains))
        for n, timings in found.items()
        for each in (1 if what == "step" else int(n),)
    ]  # fmt: skip


def traces(model: GPT, *, quick: bool) -> list[Row]:
    """A row per number waiting: how long the JSON of a trace of 1,000 steps is, in MB."""
    rows: list[Row] = []
    for n in (10, 1000) if quick else (10, 100, 1000, 10_000):
        engine = queue_of(model, n)
        while len(engine.steps) < NUM_STEPS:
            engine.step()
        trace = engine.trace().to_json()
        sizes = {part: len(encode(trace[part])) / 1e6 for part in ("steps", "requests")}
        rows.append({"what": "trace", "n": n, "mb": len(encode(trace)) / 1e6, **sizes})
    return rows


def memory(*, quick: bool) -> list[Row]:
    """A row per number of requests served, with and without forgetting, each in a process."""
    rows: list[Row] = []
    for keep_steps in (None, KEEP_STEPS):
        command = [sys.executable, "-m", "benchmarks.growth", "--child", str(keep_steps or 0)]
        command += ["--quick"] if quick else []
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows += [
            {"what": "memory", "n": n, "keep_steps": keep_steps, "mib": mib}
            for n, mib in json.loads(said)
        ]
    return rows


def run_child(keep_steps: int, *, quick: bool) -> None:
    """In a fresh process: serve small requests, and print [how many, MiB above the first]."""
    config = EngineConfig(64, max_batch_size=BATCH, keep_steps=keep_steps or None)
    engine, first, found = Engine(load_model(), config), 0.0, list[tuple[int, float]]()
    points = (1000, 2000) if quick else (1000, 2000, 5000, 10_000, 20_000)
    for start in range(0, points[-1], 100):
        engine.run([(0, Request(i, [1 + i % 60] * 8, 2)) for i in range(start, start + 100)])
        first = first or peak_mib()
        if start + 100 in points:
            found.append((start + 100, peak_mib() - first))
    print(json.dumps(found))


def print_table(rows: Sequence[Row]) -> None:
    """The rows as lines for people."""
    for row in rows:
        match row["what"]:
            case "trace":
                print(f"trace, {row['n']:6,} waiting: {row['mb']:6.2f} MB of JSON, of which steps "
                      f"{row['steps']:.2f}, requests {row['requests']:.2f}")  # fmt: skip
            case "memory":
                kept = f"{row['keep_steps']} steps" if row["keep_steps"] else "every step"
                print(f"memory, {row['n']:6,} served, {kept} kept: {row['mib']:+.1f} MiB")
            case what:
                print(f"{what}, {row['n']:6,}: {row['median_ms']:.3f} ms "
                      f"({min(row['ms']):.3f} to {max(row['ms']):.3f})")  # fmt: skip


def chart(rows: Sequence[Row], where: str) -> Chart:
    """A panel each for a step, a drained request, a trace and the memory, by how many there are."""

    def line(name: str, what: str, field: str, **others: Any) -> Line:
        of = [row for row in rows if row["what"] == what]
        own = [row for row in of if all(row[key] == value for key, value in others.items())]
        return Line(name, tuple((row["n"], row[field]) for row in own))

    panels = (
        Panel(("requests that wait", ""), ("a step", "ms"),
              (line("median", "step", "median_ms"),), log_x=True),
        Panel(("requests drained", ""), ("a request", "ms"),
              (line("median", "drained request", "median_ms"),), log_x=True),
        Panel(("requests that wait", ""), (f"JSON of {NUM_STEPS:,} steps", "MB"),
              (line("trace", "trace", "mb"), line("its steps", "trace", "steps")), log_x=True),
        Panel(("requests served", ""), ("memory above the first hundred", "MiB"),
              (line("every step kept", "memory", "mib", keep_steps=None),
               line(f"{KEEP_STEPS} steps kept", "memory", "mib", keep_steps=KEEP_STEPS))),
    )  # fmt: skip
    return Chart("How cost grows", panels, where)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = Parser("python -m benchmarks.growth", str(__doc__))
    parser.switch("--quick", "fewer lengths and repeats")
    parser.choice("--clock", ("wall", "cpu"), "cpu", "whose seconds count")
    parser.switch("--json", "print the figures as JSON")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.option("--plot", PlotFile(), None, PLOT_HELP)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.child is not None:
        run_child(options.child, quick=options.quick)
        return
    facts, model = machine(), load_model()
    rows = [
        *times(model, quick=options.quick, clock=options.clock),
        *traces(model, quick=options.quick),
        *memory(quick=options.quick),
    ]
    write_plot(options.plot, lambda: chart(rows, str(facts["cpu"])))
    if options.json:
        print(json.dumps({"machine": facts, "rows": rows}))
        return
    print(describe(facts))
    print(f"medians of interleaved repeats, {options.clock} time\n")
    print_table(rows)


if __name__ == "__main__":
    main()
