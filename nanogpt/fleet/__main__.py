"""`python -m nanogpt.fleet` runs a simulated fleet, beside a naive one if asked, and compares them.

All times are modelled: no GPU is needed, and the same arguments give the same figures on any number
of processes.
"""

import argparse
import dataclasses
import json
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, get_args

from nanogpt.experiments import fleet_comparison, fleet_table
from nanogpt.experiments.fleet_comparison import Comparison, Summary
from nanogpt.experiments.pool import run_reported
from nanogpt.figures.curves import fleet_run, seeds_in_pairs
from nanogpt.figures.drawing import PLOT_HELP, plot_file, write_plot
from nanogpt.fleet import workload
from nanogpt.fleet.costs import COSTS
from nanogpt.fleet.fleet_config import AS_SOURCE, FIFO, PRESETS, SOURCE_FIFO, FleetConfig
from nanogpt.fleet.simulation import simulate

VERSION = 1
INTERRUPTED = 130
NOTHING_SERVED = 1
_NUMBERS: tuple[tuple[str, type, float, float, float, str], ...] = (
    ("--workers", int, 1, 64, 4, "simulated workers"),
    ("--rps", float, 0.1, 1000, 30.0, "requests per second of the scenario 'steady'"),
    ("--duration", float, 1, 3600, 20.0, "seconds in which requests arrive"),
    ("--kv-slots", int, 1, 10**6, 2048, "KV tokens per worker"),
    ("--batch-size", int, 1, 1024, 32, "most requests in a worker's batch"),
    ("--seed", int, 0, 10**9, 42, "the load's (first) seed"),
    ("--repeats", int, 1, 100, 1, "seeds; from 2 on, paired differences with 95 %% intervals"),
    ("--jobs", int, 1, 64, min(os.cpu_count() or 1, 64), "processes for --repeats"),
)
"""(option, type, least, most, default, help) of each option that is a number."""


def main(argv: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    for option, _, least, most, _, _ in _NUMBERS:
        value = getattr(arguments, option[2:].replace("-", "_"))
        if not least <= value <= most:
            parser.error(f"{option} is {value}; it must be from {least:g} to {most:g}")
    if arguments.policy == FIFO.name and (arguments.compare_fifo or arguments.repeats > 1):
        parser.error("--policy fifo is the baseline itself; compare another policy with it")
    if arguments.kv_slots < workload.FEWEST_KV_TOKENS:
        parser.error(
            f"--kv-slots {arguments.kv_slots}: no request fits; the smallest needs "
            f"{workload.FEWEST_KV_TOKENS} KV tokens"
        )
    try:
        return run_many(arguments) if arguments.repeats > 1 else run_one(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m nanogpt.fleet",
        description="Simulates a fleet of LLM serving workers on a virtual clock. Without options "
        "everything keeps up; --scenario burst --cost calibrated --compare-fifo shows what the "
        "rules are for.",
        allow_abbrev=False,
    )
    for option, kind, least, most, default, text in _NUMBERS:
        limits = f"({least:g} to {most:g}; default: %(default)s)"
        parser.add_argument(
            option, type=kind, default=default, metavar="N", help=f"{text} {limits}"
        )
    parser.add_argument(
        "--scenario", choices=get_args(workload.Scenario), default="steady",
        help="the load: steady at --rps; burst, 5 requests/s, then 200 for 5 s, then 5; "
        "mixed_priority, 30, then 80 for 10 s, then 30 (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--policy", choices=PRESETS, default="adaptive", help="the rules (default: %(default)s)"
    )
    parser.add_argument(
        "--cost", choices=COSTS, default="source",
        help="what a pass costs: the source's formulas, a decode of a batch of B taking 0.05 + "
        "0.1 B ms, or calibrated, derived for a real GPU (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--compare-fifo", action="store_true",
        help="run FIFO on the same load too: a naive one; beside --policy source with prefix cache "
        "and speculation, as the source ran its own",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="write JSON instead of tables")
    parser.add_argument("--plot", type=plot_file, metavar="FILE", help=PLOT_HELP)
    return parser


def configs_of(arguments: argparse.Namespace) -> tuple[FleetConfig, ...]:
    """The policy's fleet, then FIFO's if they are compared."""
    compared = arguments.compare_fifo or arguments.repeats > 1
    fifo = SOURCE_FIFO if arguments.policy == AS_SOURCE.name else FIFO
    return tuple(
        dataclasses.replace(
            preset,
            num_workers=arguments.workers,
            batch_size=arguments.batch_size,
            kv_tokens=arguments.kv_slots,
            cost=COSTS[arguments.cost],
        )
        for preset in (PRESETS[arguments.policy], fifo)[: 1 + compared]
    )


def _load(arguments: argparse.Namespace) -> tuple[workload.Scenario, float, float]:
    """The scenario, its rate (--rps only for "steady") and its duration."""
    rps = arguments.rps if arguments.scenario == "steady" else workload.SOURCE_RPS
    return arguments.scenario, rps, arguments.duration


def run_one(arguments: argparse.Namespace) -> int:
    """One seed: the fleets side by side."""
    load = workload.make_workload(*_load(arguments), arguments.seed)
    runs = [simulate(config, load) for config in configs_of(arguments)]
    summaries = [fleet_comparison.summarise(run) for run in runs]
    heading = _heading(arguments)
    if arguments.json:
        _write_json(arguments, [summaries], stopped=False)
    else:
        table = fleet_table.metrics_table(heading, summaries, arguments.workers)
        remarks = fleet_table.remarks(summaries, arguments.cost)
        sys.stdout.write("\n".join([table, *map(textwrap.fill, remarks), ""]))
    named = [(summary.policy, run) for summary, run in zip(summaries, runs, strict=True)]
    drawn = write_plot(arguments.plot, lambda: fleet_run(named, heading))
    served = any(each.totals.completed for each in summaries)
    return 0 if served and drawn else NOTHING_SERVED


def run_many(arguments: argparse.Namespace) -> int:
    """Many seeds, and the paired differences to FIFO; after Ctrl-C, of the seeds so far."""
    heading, configs = _heading(arguments), configs_of(arguments)
    jobs = [
        (configs, *_load(arguments), seed)
        for seed in range(arguments.seed, arguments.seed + arguments.repeats)
    ]
    done, stopped = run_reported(fleet_comparison.run_seed, jobs, arguments.jobs, "seeds")
    if arguments.json:
        _write_json(arguments, done, stopped=stopped)
    elif done:
        sys.stdout.write(fleet_table.differences_table(heading, _compared(arguments, done)))
    drawn = not done or write_plot(
        arguments.plot, lambda: seeds_in_pairs(_compared(arguments, done), heading)
    )
    return INTERRUPTED if stopped else 0 if drawn else NOTHING_SERVED


def _compared(arguments: argparse.Namespace, runs: Sequence[Sequence[Summary]]) -> Comparison:
    pairs = [(fifo, policy) for policy, fifo in runs]
    return fleet_comparison.comparison(pairs, arguments.scenario, COSTS[arguments.cost])


def _write_json(
    arguments: argparse.Namespace, runs: Sequence[Sequence[Summary]], *, stopped: bool
) -> None:
    """Everything on one line; only whole runs are compared."""
    whole = [both for both in runs if len(both) == 2 and not any(each.stopped for each in both)]
    record: dict[str, Any] = {
        "version": VERSION,
        "modelled": True,
        "arguments": {n: v for n, v in vars(arguments).items() if n not in ("json", "plot")},
        "stopped": stopped,
        "runs": [dataclasses.asdict(summary) for both in runs for summary in both],
        "comparison": _compared(arguments, whole).to_json() if whole else None,
    }
    sys.stdout.write(json.dumps(record, allow_nan=False) + "\n")


def _heading(arguments: argparse.Namespace) -> str:
    rates = ", then ".join(f"{rate:g}" for rate, _ in workload.phases(*_load(arguments)))
    return (
        f"{arguments.scenario}, {rates} requests/s for {arguments.duration:g} s, "
        f"{arguments.workers} workers, {arguments.cost} cost, seed {arguments.seed}"
        + (f" to {arguments.seed + arguments.repeats - 1}" if arguments.repeats > 1 else "")
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
