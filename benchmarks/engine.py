"""Generated tokens per second of the engine and of those it is held to, side by side in one run.

    python -m benchmarks.engine [--quick] [--mixed] [--threads N] [--clock wall|cpu] [--json]
                                [--plot FILE]
    python -m benchmarks.engine --peers [--quick] [--plot FILE]

A load's contenders take turns, repeat by repeat; what is printed is the median, with the slowest
and the fastest repeat. Peak memory is that of a fresh process per contender, less that of a process
that only imports the same packages, so it counts weights, K/V and scratch space.
"""

import argparse
import functools
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import side_by_side
from benchmarks.contenders import CONTENDERS, Tokens
from benchmarks.loads import Load, decode, mixed
from benchmarks.measure import Timings, describe, interleave, machine, peak_mib
from benchmarks.models import MODELS
from nanogpt.experiments.command_line import Parser, Whole
from nanogpt.figures import Chart, Line, Panel, cumulative
from nanogpt.figures.plot_option import PLOT_HELP, PlotFile, write_plot

Row = dict[str, Any]

DRAWN = ("packed", "transformers", "baseline", "fused", "products")
"""The contenders of the targets; more curves would hide each other."""


def loads(quick: bool, only_mixed: bool = False) -> tuple[Load, ...]:
    """The mixed load and decodes at 1, 8 and 32; `quick` generates fewer tokens."""
    new_tokens = 16 if quick else 64
    decodes = () if only_mixed else (1, 8, 32)
    return (mixed(8), *(decode(n, new_tokens) for n in decodes))


def contender_names() -> list[str]:
    """All contenders that can run here: transformers only where it is installed."""
    installed = importlib.util.find_spec("transformers") is not None
    return [c.name for c in CONTENDERS if installed or c.name != "transformers"]


def compare(model_name: str, all_loads: Sequence[Load], repeats: int, clock: str) -> list[Row]:
    """One row per load and contender, in the order of the table."""
    model, names, rows = MODELS[model_name](), contender_names(), []
    serves = {c.name: c.prepare(model) for c in CONTENDERS if c.name in names}
    for load in all_loads:
        tokens = {name: serve(load) for name, serve in serves.items()}
        timings = interleave(
            {name: functools.partial(serve, load) for name, serve in serves.items()}, repeats
        )
        for name in names:
            rows.append(
                {
                    "model": model_name,
                    "load": load.name,
                    "requests": load.num_requests,
                    "contender": name,
                    **_speeds(load, timings[name], clock),
                    "vs_baseline": timings["baseline"].median_s(clock)
                    / timings[name].median_s(clock),
                    "same_text": _same_text(tokens[name], tokens["baseline"]),
                }
            )
    return rows


def _speeds(load: Load, timings: Timings, clock: str) -> Row:
    speeds = [load.num_generated / seconds for seconds in timings.seconds(clock)]
    return {
        "tokens_per_s": load.num_generated / timings.median_s(clock),
        "slowest": min(speeds),
        "fastest": max(speeds),
        "repeats": speeds,
    }


def _same_text(tokens: Tokens | None, expected: Tokens | None) -> float | None:
    """Share of the requests with exactly the expected tokens; float32 may flip a near-tie."""
    if tokens is None or expected is None:
        return None
    same = [ours == theirs for ours, theirs in zip(tokens, expected, strict=True)]
    return sum(same) / len(same)


def targets(rows: Sequence[Row]) -> list[tuple[str, float, float]]:
    """(what is promised, the ratio it takes, the ratio measured); met when measured >= taken."""
    speed = {(r["model"], r["load"], r["contender"]): r["tokens_per_s"] for r in rows}

    def ratio(load: str, other: str) -> float:
        return speed["character", load, "packed"] / speed["character", load, other]

    checks = [
        ("mixed-8: packed / baseline, as the posts run it", 3.0, ratio("mixed-8", "baseline")),
        ("mixed-8: packed / fused, as the posts run it", 5.0, ratio("mixed-8", "fused")),
        ("mixed-8: packed / bare products", 0.5, ratio("mixed-8", "products")),
    ]
    for load in ("mixed-8", "decode-1", "decode-8", "decode-32"):
        if ("character", load, "transformers") in speed:
            checks.append((f"{load}: packed / transformers", 1.0, ratio(load, "transformers")))
    return checks


def peak_memory() -> dict[str, dict[str, float]]:
    """MiB above the imports for serving `mixed-8`, by model and contender, each in a process."""
    names = [name for name in contender_names() if name != "products"]
    imports = {name: _child("shipped", name, "import") for name in ("packed", names[-1])}
    return {
        model_name: {
            name: _child(model_name, name, "serve") - imports.get(name, imports["packed"])
            for name in names
        }
        for model_name in MODELS
    }


def _child(model_name: str, contender: str, what: str) -> float:
    command = [sys.executable, "-m", "benchmarks.engine", "--child", model_name, contender, what]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run_child(model_name: str, contender: str, what: str) -> None:
    """In a fresh process: import what the contender needs, serve if told to, print the peak."""
    torch.set_num_threads(1)
    if contender == "transformers":
        from transformers import GPT2LMHeadModel  # noqa: F401 (its memory is what counts)
    if what == "serve":
        prepare = next(c.prepare for c in CONTENDERS if c.name == contender)
        prepare(MODELS[model_name]())(mixed(8))
    print(peak_mib())


def print_table(rows: Sequence[Row]) -> None:
    """The rows as a table for people."""
    print(f"{'model':10} {'load':10} {'contender':13} {'tokens/s':>9} {'slowest':>8} {'fastest':>8}"
          f" {'x baseline':>10} {'same text':>9}")  # fmt: skip
    for row in rows:
        same = "" if row["same_text"] is None else f"{row['same_text']:.0%}"
        print(f"{row['model']:10} {row['load']:10} {row['contender']:13} "
              f"{row['tokens_per_s']:9.0f} {row['slowest']:8.0f} {row['fastest']:8.0f} "
              f"{row['vs_baseline']:10.2f} {same:>9}")  # fmt: skip


def chart(rows: Sequence[Row], where: str) -> Chart:
    """Every repeat of the mixed load, and the engines' decodes by how many there are, by model."""
    return Chart("The engine beside what it is held to", tuple(_panels(rows)), where)


def _panels(rows: Sequence[Row]) -> Iterator[Panel]:
    for model_name in dict.fromkeys(r["model"] for r in rows):
        own = [r for r in rows if r["model"] == model_name and r["contender"] in DRAWN]
        yield Panel(
            (f"mixed-8, {model_name} size", "tokens/s"),
            ("repeats with at most that", "%"),
            tuple(cumulative(r["contender"], r["repeats"]) for r in own if r["load"] == "mixed-8"),
            log_x=True,
        )
        decodes: dict[str, list[tuple[float, float]]] = {}
        for row in own:
            # The bare products, several times as fast, would press the engines onto the axis.
            if row["load"] != "mixed-8" and row["contender"] != "products":
                point = (row["requests"], row["tokens_per_s"])
                decodes.setdefault(row["contender"], []).append(point)
        if decodes:
            yield Panel(
                (f"requests that decode, {model_name} size", ""),
                ("throughput", "tokens/s"),
                tuple(Line(name, tuple(points)) for name, points in decodes.items()),
            )


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = Parser("python -m benchmarks.engine", str(__doc__))
    parser.switch("--quick", "fewer tokens and repeats")
    parser.switch("--mixed", "the mixed load alone, no memory")
    parser.switch("--peers", "beside other people's engines, at one and at two threads")
    parser.option("--threads", Whole(1, 256), torch.get_num_threads(), "threads of torch")
    parser.choice("--clock", ("wall", "cpu"), "wall", "whose seconds count")
    parser.switch("--json", "print the figures as JSON")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.option("--plot", PlotFile(), None, PLOT_HELP)
    options = parser.parse_args(arguments)
    if options.child:
        run_child(*options.child)
        return
    if options.peers:
        beside_peers(options.quick, options.plot)
        return
    torch.set_num_threads(options.threads)
    facts, repeats = machine(), 3 if options.quick else 7
    rows = [
        row
        for model_name in MODELS
        for row in compare(model_name, loads(options.quick, options.mixed), repeats, options.clock)
    ]
    checks, memory = targets(rows), {} if options.mixed else peak_memory()
    write_plot(options.plot, lambda: chart(rows, str(facts["cpu"])))
    if options.json:
        print(json.dumps({"machine": facts, "rows": rows, "targets": checks, "mib": memory}))
        return
    print(describe(facts))
    print(f"median of {repeats} interleaved repeats, {options.clock} time\n")
    print_table(rows)
    for model_name, peaks in memory.items():
        shown = ", ".join(f"{name} {mib:.0f}" for name, mib in peaks.items())
        print(f"\npeak memory above the imports, {model_name}, mixed-8, MiB: {shown}")
    print_targets(checks)


def beside_peers(quick: bool, plot: Path | None) -> None:
    """The engine and the peers that are installed, taking turns."""
    facts, repeats = machine(), 3 if quick else 7
    print(describe(facts))
    print(f"generated tokens/s, median of {repeats} interleaved repeats, wall time\n")
    rows = side_by_side.compare(repeats, 16 if quick else 64, functools.partial(print, flush=True))
    write_plot(plot, lambda: side_by_side.chart(rows, str(facts["cpu"])))
    print_targets(side_by_side.targets(rows))


def print_targets(checks: Sequence[tuple[str, float, float]]) -> None:
    """A line for each."""
    print("\ntargets, character size where no other is named")
    for what, wanted, measured in checks:
        verdict = "met" if measured >= wanted else "NOT met"
        print(f"  {what}: {measured:.2f}, wanted at least {wanted:.2f}: {verdict}")


if __name__ == "__main__":
    main()
