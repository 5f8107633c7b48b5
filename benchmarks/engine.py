"""Generated tokens per second of the engine and of those it is held to, side by side in one run.

    python -m benchmarks.engine [--quick] [--mixed] [--threads N] [--clock wall|cpu]
    python -m benchmarks.engine --peers [--quick]
    python -m benchmarks.engine --against FOLDER [--quick]
    python -m benchmarks.engine --model FOLDER [--quick] [--threads N]

A load's contenders take turns, repeat by repeat; what is printed is the median, with the slowest
and the fastest repeat. Peak memory is that of a fresh process per contender, less that of a process
that only imports the same packages, so it counts weights, K/V and scratch space.
"""

import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks import side_by_side
from benchmarks.contenders import CONTENDERS, same_text
from benchmarks.loads import MODELS, Load, decode, mixed
from benchmarks.measure import Table, begin, in_a_process, interleave, peak_mib, print_targets
from benchmarks.side_by_side import Timed, best


def loads(quick: bool, only_mixed: bool = False) -> tuple[Load, ...]:
    """The mixed load and decodes at 1, 8 and 32; `quick` generates fewer tokens."""
    new_tokens = 16 if quick else 64
    decodes = () if only_mixed else (1, 8, 32)
    return (mixed(8), *(decode(n, new_tokens) for n in decodes))


def contender_names() -> list[str]:
    """All contenders that can run here: transformers only where it is installed."""
    installed = importlib.util.find_spec("transformers") is not None
    return [c.name for c in CONTENDERS if installed or c.name != "transformers"]


def compare(
    model_name: str, all_loads: Sequence[Load], repeats: int, clock: str
) -> list[list[Timed]]:
    """For each load all contenders, from turns taken in this process."""
    model, names = MODELS[model_name](), contender_names()
    serves = {c.name: c.prepare(model) for c in CONTENDERS if c.name in names}
    found: list[list[Timed]] = []
    for load in all_loads:
        tokens = {name: serve(load) for name, serve in serves.items()}
        turns = {name: functools.partial(serve, load) for name, serve in serves.items()}
        timings, threads = interleave(turns, repeats), torch.get_num_threads()
        found.append(
            [
                Timed(model_name, threads, load, name, timings[name].seconds(clock), same)
                for name in names
                for same in [same_text(tokens[name], tokens["baseline"])]
            ]
        )
    return found


def targets(rows: Sequence[Timed]) -> list[tuple[str, float, float]]:
    """(what is promised, the ratio it takes, the ratio measured); met when measured >= taken."""
    speed = best(rows)

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
    imports = {name: in_a_process(peak_of, name) for name in ("packed", names[-1])}
    return {
        model_name: {
            name: in_a_process(peak_of, name, model_name) - imports.get(name, imports["packed"])
            for name in names
        }
        for model_name in MODELS
    }


def peak_of(contender: str, model_name: str | None = None) -> float:
    """In a fresh process: import what the contender needs, serve a model if told to; the peak."""
    if contender == "transformers":
        from transformers import GPT2LMHeadModel  # noqa: F401 (its memory is what counts)
    if model_name:
        prepare = next(c.prepare for c in CONTENDERS if c.name == contender)
        prepare(MODELS[model_name]())(mixed(8))
    return peak_mib()


def show(loads_of_rows: Sequence[Sequence[Timed]]) -> None:
    """A table for people, load by load."""
    table = Table("model:<10", "load:<10", "contender:<13", "tokens/s:>9.0f", "slowest:>8.0f",
                  "fastest:>8.0f", "x baseline:>10.2f", "same text:>9.0%")  # fmt: skip
    for rows in loads_of_rows:
        [baseline] = [row.tokens_per_s for row in rows if row.contender == "baseline"]
        for row in rows:
            times_baseline = row.tokens_per_s / baseline
            slowest, fastest = min(row.all_tokens_per_s), max(row.all_tokens_per_s)
            table.add(row.model, row.load.name, row.contender, row.tokens_per_s, slowest, fastest,
                      times_baseline, row.same_text)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    own = {
        "--mixed": {"action": "store_true", "help": "only the mixed load, no memory"},
        "--peers": {"action": "store_true", "help": "beside other people's engines"},
        "--against": {"type": Path, "metavar": "FOLDER", "help": "another checkout"},
        "--model": {"type": Path, "metavar": "FOLDER", "help": "a model of the hub's"},
    }
    threads = torch.get_num_threads()
    options = begin(__doc__, arguments, own, quick=False, threads=threads, clock="wall")
    quick, repeats = options.quick, 3 if options.quick else 7
    if options.against:
        side_by_side.against(options.against, 3 if quick else 30)
    elif options.peers:
        print(f"generated tokens/s, median of {repeats} interleaved repeats, wall time\n")
        print_targets(side_by_side.targets(side_by_side.compare(repeats, 16 if quick else 64)))
    elif options.model:
        from benchmarks import hub_folder

        print(f"bfloat16, {repeats} interleaved repeats, wall time\n")
        print_targets(hub_folder.compare(options.model, repeats, 8 if quick else 16))
    else:
        print(f"median of {repeats} interleaved repeats, {options.clock} time\n")
        all_loads = loads(quick, options.mixed)
        found = [
            rows for name in MODELS for rows in compare(name, all_loads, repeats, options.clock)
        ]
        show(found)
        for model_name, peaks in ({} if options.mixed else peak_memory()).items():
            shown = ", ".join(f"{name} {mib:.0f}" for name, mib in peaks.items())
            print(f"\npeak memory above the imports, {model_name}, mixed-8, MiB: {shown}")
        print_targets(targets([row for rows in found for row in rows]))


if __name__ == "__main__":
    main()
