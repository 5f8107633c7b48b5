"""Simulated seconds per second of the fleet's simulator, which runs on one core.

    python -m benchmarks.fleet [--quick] [--clock wall|cpu]

Every fleet under both cost models takes its turn on the same steady load of 30 requests per
second, repeat by repeat; what is printed is the median, with the slowest and the fastest repeat.
The load is made beforehand and not timed.

Then the adaptive fleet at calibrated costs grows from 4 workers to 64, its load with it: how
long one request takes the simulator, everything counted, and how much faster than its arrivals
that is.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.measure import command_line, describe, interleave, machine, print_targets
from nanogpt.fleet.costs import CALIBRATED_COST, COSTS
from nanogpt.fleet.fleet_config import ADAPTIVE, PRESETS
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import Workload, make_workload

RPS = 30.0
SEED = 42
LEAST = 100.0
"""The promise: at least so many simulated seconds per second."""

SIZES = (4, 16, 64)
PER_WORKER_RPS = RPS / 4
LEAST_GROWN = {4: 300.0}
"""The same for a number of workers with their load: seconds of arrivals per second."""

Row = dict[str, Any]


def compare(load: Workload, repeats: int, clock: str) -> list[Row]:
    """One row per fleet and cost model, in the order of the table."""
    cases = {
        (name, cost_name): dataclasses.replace(preset, cost=cost)
        for name, preset in PRESETS.items()
        for cost_name, cost in COSTS.items()
    }
    simulated_s: dict[str, float] = {}

    def run(case: tuple[str, str]) -> None:
        simulated_s[str(case)] = simulate(cases[case], load).end_us / 1e6

    timings = interleave({str(case): lambda case=case: run(case) for case in cases}, repeats)
    rows: list[Row] = []
    for case in cases:
        policy, cost = case
        timing, long_s = timings[str(case)], simulated_s[str(case)]
        speeds = [long_s / seconds for seconds in timing.seconds(clock)]
        rows.append(
            {
                "policy": policy,
                "cost": cost,
                "times_real_time": long_s / timing.median_s(clock),
                "repeats": speeds,
            }
        )
    return rows


def grow(requests: float, at_least_s: float, repeats: int, clock: str) -> list[Row]:
    """One row per number of workers: at least so many requests, over at least so many seconds."""
    loads: dict[int, Workload] = {}
    for workers in SIZES:
        rps = PER_WORKER_RPS * workers
        loads[workers] = make_workload("steady", rps, max(at_least_s, requests / rps), SEED)

    def run(workers: int) -> None:
        config = dataclasses.replace(ADAPTIVE, num_workers=workers, cost=CALIBRATED_COST)
        simulate(config, loads[workers])

    timings = interleave({str(each): lambda each=each: run(each) for each in SIZES}, repeats)
    rows: list[Row] = []
    for workers, load in loads.items():
        seconds = timings[str(workers)].seconds(clock)
        request_us = [1e6 * each / len(load.requests) for each in seconds]
        rows.append(
            {
                "workers": workers,
                "requests_per_s": load.requests_per_s,
                "requests": len(load.requests),
                "us_per_request": statistics.median(request_us),
                "repeats": request_us,
                "times_real_time": load.duration_s / statistics.median(seconds),
            }
        )
    return rows


def targets(rows: Sequence[Row], grown: Sequence[Row]) -> list[tuple[str, float, float]]:
    """(what is promised, the speed it takes, the speed measured), in times real time."""
    return [
        (f"{row['policy']}, {row['cost']} cost", LEAST, row["times_real_time"]) for row in rows
    ] + [
        (
            f"adaptive, {row['workers']:,} workers at {row['requests_per_s']:,g} requests/s",
            LEAST_GROWN[row["workers"]],
            row["times_real_time"],
        )
        for row in grown
        if row["workers"] in LEAST_GROWN
    ]


def print_growth(grown: Sequence[Row]) -> None:
    """The growing fleet as a table for people."""
    print("workers requests/s us/request   fastest   slowest x real time")
    for row in grown:
        print(f"{row['workers']:7,} {row['requests_per_s']:10,g} {row['us_per_request']:10,.0f} "
              f"{min(row['repeats']):9,.0f} {max(row['repeats']):9,.0f} "
              f"{row['times_real_time']:11,.2f}")  # fmt: skip


def print_table(rows: Sequence[Row]) -> None:
    """The rows as a table for people."""
    print(f"{'policy':9} {'cost':11} {'x real time':>11} {'slowest':>8} {'fastest':>8}")
    for row in rows:
        print(f"{row['policy']:9} {row['cost']:11} {row['times_real_time']:11,.0f} "
              f"{min(row['repeats']):8,.0f} {max(row['repeats']):8,.0f}")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = command_line(__doc__, quick=False, clock="wall")
    options = parser.parse_args(arguments)
    facts, repeats = machine(), 3 if options.quick else 7
    load = make_workload("steady", RPS, 10.0 if options.quick else 60.0, SEED)
    rows = compare(load, repeats, options.clock)
    requests, at_least_s = (300, 0.05) if options.quick else (6000, 3.0)
    grown = grow(requests, at_least_s, repeats, options.clock)
    print(describe(facts))
    print(f"steady, {RPS:g} requests/s for {load.duration_s:g} s; median of {repeats} interleaved "
          f"repeats, {options.clock} time\n")  # fmt: skip
    print_table(rows)
    print(f"\nadaptive, calibrated cost, {PER_WORKER_RPS:g} requests/s for each worker")
    print_growth(grown)
    print_targets(targets(rows, grown))


if __name__ == "__main__":
    main()
