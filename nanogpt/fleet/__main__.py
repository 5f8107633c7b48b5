"""`python -m nanogpt.fleet` runs a simulated fleet, beside a naive one if asked, and shows how.

Everything is modelled: no GPU is needed, and the same arguments give the same figures on any
number of processes.
"""

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, get_args

from nanogpt.experiments.command_line import Number, Parser, Whole
from nanogpt.experiments.dashboard import (
    differences_table,
    live,
    live_table,
    make_console,
    remarks,
    totals_table,
)
from nanogpt.experiments.fleet_comparison import (
    Comparison,
    Summary,
    comparison,
    run_seed,
    summarise,
    title,
)
from nanogpt.experiments.paced_fleets import drive, stoppable
from nanogpt.experiments.pool import run_jobs
from nanogpt.figures import fleet_run, seeds_in_pairs
from nanogpt.figures.plot_option import PLOT_HELP, PlotFile, write_plot
from nanogpt.fleet.costs import COSTS
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.presets import AS_SOURCE, FIFO, PRESETS, SOURCE_FIFO
from nanogpt.fleet.simulation import Simulation
from nanogpt.fleet.workload import (
    FEWEST_KV_TOKENS,
    SOURCE_RPS,
    Scenario,
    make_workload,
    phases,
)

VERSION = 1
INTERRUPTED = 130
NOTHING_SERVED = 1
REDRAW_S = 0.1
LINE_S = 5.0
_OUTPUTS = ("json", "plot")
PATIENCE_S = 2.0
"""A run that takes longer says on standard error how far it is."""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.policy == FIFO.name and (arguments.compare_fifo or arguments.repeats > 1):
        parser.error("--policy fifo is the baseline itself; compare another policy with it")
    if arguments.speed is not None and arguments.repeats > 1:
        parser.error("--speed replays one run; leave it out with --repeats")
    if arguments.kv_slots < FEWEST_KV_TOKENS:
        parser.error(
            f"--kv-slots {arguments.kv_slots}: no request fits; the smallest needs "
            f"{FEWEST_KV_TOKENS} KV tokens"
        )
    try:
        return run_many(arguments) if arguments.repeats > 1 else run_one(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        return INTERRUPTED


def _parser() -> Parser:
    parser = Parser(
        "python -m nanogpt.fleet",
        "Simulates a fleet of LLM serving workers on a virtual clock. Without options everything "
        "keeps up; --scenario burst --cost calibrated --compare-fifo shows what the rules are for.",
    )
    parser.option("--workers", Whole(1, 64), 4, "simulated workers")
    parser.option(
        "--rps", Number(0.1, 1000), 30.0,
        "requests per second of 'steady'; the other scenarios have rates of their own",
    )  # fmt: skip
    parser.choice(
        "--scenario", get_args(Scenario), "steady",
        "the load: steady at --rps; burst, 5 requests/s, then 200 for 5 s, then 5; "
        "mixed_priority, 30, then 80 for 10 s, then 30",
    )  # fmt: skip
    parser.option("--duration", Number(1, 3600), 20.0, "seconds in which requests arrive")
    parser.option("--kv-slots", Whole(1, 10**6), 2048, "KV tokens per worker")
    parser.option("--batch-size", Whole(1, 1024), 32, "most requests in a worker's batch")
    parser.option("--seed", Whole(0, 10**9), 42, "the load's (first) seed")
    parser.choice("--policy", tuple(PRESETS), "adaptive", "the rules")
    parser.choice(
        "--cost", tuple(COSTS), "source",
        "what passes cost: as the source has it, a decode of a batch of B taking 0.05 + 0.1 B ms, "
        "or calibrated, worked out for a real GPU",
    )  # fmt: skip
    parser.switch(
        "--compare-fifo",
        "run FIFO beside it, on the same load: naive; beside --policy source with prefix cache "
        "and speculation, as the source ran its own",
    )
    parser.option(
        "--repeats", Whole(1, 100), 1,
        "seeds; from 2 on the paired differences to FIFO, with 95 % intervals",
    )  # fmt: skip
    parser.option("--jobs", Whole(1, 64), min(os.cpu_count() or 1, 64), "processes for --repeats")
    parser.option(
        "--speed", Number(0.01, 1000), None,
        "replay at so many times the pace of the clock; left out, as fast as it goes",
    )  # fmt: skip
    parser.switch("--json", "write JSON instead of tables")
    parser.option("--plot", PlotFile(), None, PLOT_HELP)
    return parser


def configs_of(arguments: argparse.Namespace) -> tuple[FleetConfig, ...]:
    """The fleets to run: the policy's, then FIFO's where it is compared with."""
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


def _rps(arguments: argparse.Namespace) -> float:
    """The rate that a scenario's are relative to: the source's, but for the one it is given for."""
    return arguments.rps if arguments.scenario == "steady" else SOURCE_RPS


def run_one(arguments: argparse.Namespace) -> int:
    """One seed: the fleets side by side, drawn as they run on a terminal."""
    load = make_workload(arguments.scenario, _rps(arguments), arguments.duration, arguments.seed)
    configs = configs_of(arguments)
    simulations = [Simulation(config, load) for config in configs]
    names, console = [title(config) for config in configs], make_console(sys.stdout)
    watched = sys.stdout.isatty() and not console.is_dumb_terminal and not arguments.json
    progress, redraw = _Progress(), _Every(REDRAW_S)
    with stoppable() as stop, live(console) if watched else nullcontext() as screen:

        def show(now_us: int) -> None:
            if screen is None:
                progress.say(f"at {now_us / 1e6:.1f} s; arrivals end at {arguments.duration:g} s")
            elif redraw.due():
                samples = [each.sample() for each in simulations]
                table = live_table(_heading(arguments), names, samples, arguments.workers)
                screen.update(table, refresh=True)

        drive(simulations, arguments.speed, stop, show)
        progress.end()
        runs = [each.result() for each in simulations]
        summaries = [summarise(run) for run in runs]
    if arguments.json:
        _write_json(arguments, [summaries], stopped=stop.requested)
    else:
        console.print(totals_table(_heading(arguments), summaries, arguments.workers))
        for remark in remarks(summaries, arguments.cost):
            console.print(remark)
    drawn = write_plot(
        arguments.plot, lambda: fleet_run(list(zip(names, runs, strict=True)), _heading(arguments))
    )
    served = any(each.totals.completed for each in summaries)
    return INTERRUPTED if stop.requested else 0 if served and drawn else NOTHING_SERVED


def run_many(arguments: argparse.Namespace) -> int:
    """Many seeds, and the paired differences from FIFO; after Ctrl-C, those that there are."""
    policy, fifo = configs_of(arguments)
    jobs = [
        ((policy, fifo), arguments.scenario, _rps(arguments), arguments.duration, seed)
        for seed in range(arguments.seed, arguments.seed + arguments.repeats)
    ]
    done: list[Sequence[Summary]] = []
    progress, stopped = _Progress(), False
    try:
        for summaries in run_jobs(run_seed, jobs, arguments.jobs):
            done.append(summaries)
            progress.say(f"{len(done)} of {len(jobs)} seeds")
    except KeyboardInterrupt:
        stopped = True
    progress.end()
    if arguments.json:
        _write_json(arguments, done, stopped=stopped)
    elif done:
        compared = _compared(arguments, done)
        make_console(sys.stdout).print(differences_table(_heading(arguments), compared))
    drawn = not done or write_plot(
        arguments.plot, lambda: seeds_in_pairs(_compared(arguments, done), _heading(arguments))
    )
    if stopped:
        sys.stderr.write(f"Stopped after {len(done)} of {len(jobs)} seeds.\n")
    return INTERRUPTED if stopped else 0 if drawn else NOTHING_SERVED


def _compared(arguments: argparse.Namespace, runs: Sequence[Sequence[Summary]]) -> Comparison:
    pairs = [(fifo, policy) for policy, fifo in runs]
    return comparison(pairs, arguments.scenario, COSTS[arguments.cost])


def _write_json(
    arguments: argparse.Namespace, runs: Sequence[Sequence[Summary]], *, stopped: bool
) -> None:
    """Everything on one line. A run that was cut short is compared with nothing."""
    whole = [both for both in runs if len(both) == 2 and not any(each.stopped for each in both)]
    record: dict[str, Any] = {
        "version": VERSION,
        "modelled": COSTS[arguments.cost].modelled,
        "arguments": {n: value for n, value in vars(arguments).items() if n not in _OUTPUTS},
        "stopped": stopped,
        "runs": [summary.to_json() for both in runs for summary in both],
        "comparison": _compared(arguments, whole).to_json() if whole else None,
    }
    sys.stdout.write(json.dumps(record, allow_nan=False) + "\n")


def _heading(arguments: argparse.Namespace) -> str:
    all_phases = phases(arguments.scenario, _rps(arguments), arguments.duration)
    rates = ", then ".join(f"{rate:g}" for rate, _ in all_phases)
    return (
        f"{arguments.scenario}, {rates} requests/s for {arguments.duration:g} s, "
        f"{arguments.workers} workers, {arguments.cost} cost, seed {arguments.seed}"
        + (f" to {arguments.seed + arguments.repeats - 1}" if arguments.repeats > 1 else "")
    )


class _Every:
    """Says at most once in so many seconds of the wall clock that it is time. Mutable."""

    def __init__(self, seconds: float, first: float = 0.0) -> None:
        self._seconds = seconds
        self._next = time.monotonic() + first

    def due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True


class _Progress:
    """Says on standard error how far a run is that takes its time. Mutable."""

    def __init__(self) -> None:
        self._in_place = sys.stderr.isatty()
        self._time = _Every(REDRAW_S if self._in_place else LINE_S, PATIENCE_S)
        self._said = False

    def say(self, text: str) -> None:
        if self._time.due():
            sys.stderr.write(f"\r\033[K{text}" if self._in_place else f"{text}\n")
            sys.stderr.flush()
            self._said = True

    def end(self) -> None:
        if self._said and self._in_place:
            sys.stderr.write("\r\033[K")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
