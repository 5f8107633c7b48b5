"""Generated tokens per second of the engine and of those it is held to, side by side in one run.

    python -m benchmarks.engine [--quick] [--mixed] [--threads N] [--clock wall|cpu]
    python -m benchmarks.engine --peers [--quick]
    python -m benchmarks.engine --against FOLDER [--quick]
    python -m benchmarks.engine --model FOLDER [--quick] [--threads N]

A load's contenders take turns, repeat by repeat; what is printed is the median, with the slowest
and the fastest repeat. Peak memory is that of a fresh process per contender, less that of a process
that only imports the same packages, so it counts weights, K/V and scratch space.
"""

import argparse
import functools
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import side_by_side
from benchmarks.contenders import CONTENDERS, same_text
from benchmarks.loads import MODELS, Load, decode, mixed
from benchmarks.measure import (
    command_line,
    describe,
    interleave,
    machine,
    peak_mib,
    print_targets,
)

Row = dict[str, Any]


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
        baseline_s = timings["baseline"].median_s(clock)
        for name in names:
            median_s = timings[name].median_s(clock)
            rows.append(
                {
                    "model": model_name,
                    "load": load.name,
                    "requests": load.num_requests,
                    "contender": name,
                    "tokens_per_s": load.num_generated / median_s,
                    "repeats": [load.num_generated / s for s in timings[name].seconds(clock)],
                    "vs_baseline": baseline_s / median_s,
                    "same_text": same_text(tokens[name], tokens["baseline"]),
                }
            )
    return rows


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
              f"{row['tokens_per_s']:9.0f} {min(row['repeats']):8.0f} {max(row['repeats']):8.0f} "
              f"{row['vs_baseline']:10.2f} {same:>9}")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    threads = torch.get_num_threads()
    parser = command_line(__doc__, quick=False, threads=threads, clock="wall")
    parser.add_argument("--mixed", action="store_true", help="only the mixed load, no memory")
    parser.add_argument("--peers", action="store_true", help="beside other people's engines")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout")
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="a model of the hub's")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        run_child(*options.child)
        return
    facts, repeats = machine(), 3 if options.quick else 7
    print(describe(facts))
    if options.against:
        repeats = 3 if options.quick else 30
        side_by_side.against(options.against, repeats, functools.partial(print, flush=True))
        return
    if options.peers:
        beside_peers(repeats, 16 if options.quick else 64)
        return
    torch.set_num_threads(options.threads)
    if options.model:
        from benchmarks import hub_folder

        print(f"{options.threads} thread(s), bfloat16, {repeats} interleaved repeats, wall time\n")
        tell, new_tokens = functools.partial(print, flush=True), 8 if options.quick else 16
        print_targets(hub_folder.compare(options.model, repeats, new_tokens, tell))
        return
    rows = [
        row
        for model_name in MODELS
        for row in compare(model_name, loads(options.quick, options.mixed), repeats, options.clock)
    ]
    print(f"median of {repeats} interleaved repeats, {options.clock} time\n")
    print_table(rows)
    for model_name, peaks in ({} if options.mixed else peak_memory()).items():
        shown = ", ".join(f"{name} {mib:.0f}" for name, mib in peaks.items())
        print(f"\npeak memory above the imports, {model_name}, mixed-8, MiB: {shown}")
    print_targets(targets(rows))


def beside_peers(repeats: int, new_tokens: int) -> None:
    """The engine and the peers that are installed, taking turns."""
    print(f"generated tokens/s, median of {repeats} interleaved repeats, wall time\n")
    rows = side_by_side.compare(repeats, new_tokens, functools.partial(print, flush=True))
    print_targets(side_by_side.targets(rows))


if __name__ == "__main__":
    main()
