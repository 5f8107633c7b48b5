"""`python -m nanogpt.fleet` runs a simulated fleet, beside a naive one if asked, and shows how.

Everything is modelled: no GPU is needed, and the same arguments give the same figures on any
number of processes.
"""

import argparse
import dataclasses
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, get_args

from nanogpt.fleet.comparing import Comparison, Summary, comparison, summarise, title
from nanogpt.fleet.costs import COSTS
from nanogpt.fleet.dashboard import (
    differences_table,
    live,
    live_table,
    make_console,
    totals_table,
)
from nanogpt.fleet.presets import FIFO, PRESETS
from nanogpt.fleet.running import Job, drive, run_jobs, stoppable
from nanogpt.fleet.settings import FleetConfig
from nanogpt.fleet.simulation import Simulation
from nanogpt.fleet.workload import Scenario, make_workload

VERSION = 1
INTERRUPTED = 130
REDRAW_S = 0.1
LINE_S = 5.0
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
    try:
        return run_many(arguments) if arguments.repeats > 1 else run_one(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nanogpt.fleet",
        description="Simulates a fleet of LLM serving workers on a virtual clock.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--workers", type=_Whole(1, 64), default=4, help="simulated workers")
    parser.add_argument(
        "--rps", type=_Number(0.1, 1000), default=30.0, help="base requests per second"
    )
    parser.add_argument("--scenario", choices=get_args(Scenario), default="steady", help="the load")
    parser.add_argument(
        "--duration", type=_Number(1, 3600), default=20.0, help="seconds in which requests arrive"
    )
    parser.add_argument(
        "--kv-slots", type=_Whole(1, 10**6), default=2048, help="KV tokens per worker"
    )
    parser.add_argument(
        "--batch-size", type=_Whole(1, 1024), default=32, help="most requests in a worker's batch"
    )
    parser.add_argument("--seed", type=_Whole(0, 10**9), default=42, help="the load's (first) seed")
    parser.add_argument("--policy", choices=tuple(PRESETS), default="adaptive", help="the rules")
    parser.add_argument("--cost", choices=tuple(COSTS), default="source", help="what passes cost")
    parser.add_argument(
        "--compare-fifo", action="store_true", help="run naive FIFO beside it, on the same load"
    )
    parser.add_argument(
        "--repeats", type=_Whole(1, 100), default=1,
        help="seeds; from 2 on the paired differences to FIFO, with 95 %% intervals",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=_Whole(1, 64), default=min(os.cpu_count() or 1, 64),
        help="processes for --repeats",
    )  # fmt: skip
    parser.add_argument(
        "--speed", type=_Number(0.01, 1000), default=None,
        help="replay at so many times the pace of the clock; as fast as it goes without",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="write JSON instead of tables")
    return parser


def configs_of(arguments: argparse.Namespace) -> tuple[FleetConfig, ...]:
    """The fleets to run: the policy's, then FIFO's where it is compared with."""
    compared = arguments.compare_fifo or arguments.repeats > 1
    return tuple(
        dataclasses.replace(
            preset,
            num_workers=arguments.workers,
            batch_size=arguments.batch_size,
            kv_tokens=arguments.kv_slots,
            cost=COSTS[arguments.cost],
        )
        for preset in (PRESETS[arguments.policy], FIFO)[: 1 + compared]
    )


def run_one(arguments: argparse.Namespace) -> int:
    """One seed: the fleets side by side, drawn as they run where somebody watches."""
    load = make_workload(arguments.scenario, arguments.rps, arguments.duration, arguments.seed)
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
        summaries = [summarise(each.result()) for each in simulations]
    if arguments.json:
        _write_json(arguments, [summaries], stopped=stop.requested)
    else:
        console.print(totals_table(_heading(arguments), summaries, arguments.workers))
    return INTERRUPTED if stop.requested else 0


def run_many(arguments: argparse.Namespace) -> int:
    """Many seeds, and the paired differences from FIFO; after Ctrl-C, those that there are."""
    policy, fifo = configs_of(arguments)
    jobs = [
        Job((policy, fifo), arguments.scenario, arguments.rps, arguments.duration, seed)
        for seed in range(arguments.seed, arguments.seed + arguments.repeats)
    ]
    done: list[Sequence[Summary]] = []
    progress, stopped = _Progress(), False
    try:
        for summaries in run_jobs(jobs, arguments.jobs):
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
    if stopped:
        sys.stderr.write(f"Stopped after {len(done)} of {len(jobs)} seeds.\n")
    return INTERRUPTED if stopped else 0


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
        "arguments": {name: value for name, value in vars(arguments).items() if name != "json"},
        "stopped": stopped,
        "runs": [summary.to_json() for both in runs for summary in both],
        "comparison": _compared(arguments, whole).to_json() if whole else None,
    }
    sys.stdout.write(json.dumps(record, allow_nan=False) + "\n")


def _heading(arguments: argparse.Namespace) -> str:
    return (
        f"{arguments.scenario}, {arguments.rps:g} requests/s for {arguments.duration:g} s, "
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


class _Whole:
    """An argument that is a whole number within limits; argparse shows the sentence."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def __call__(self, text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not self.low <= int(text) <= self.high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {self.low} to {self.high}"
            )
        return int(text)


class _Number:
    """An argument that is a number within limits."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def __call__(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not self.low <= value <= self.high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number from {self.low:g} to {self.high:g}"
            )
        return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
