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

from benchmarks.measure import Table, begin, interleave, print_targets
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

Targets = list[tuple[str, float, float]]


def compare(load: Workload, repeats: int, clock: str) -> Targets:
    """A line per fleet and cost model, and what each promises."""
    cases = {
        (name, cost_name): dataclasses.replace(preset, cost=cost)
        for name, preset in PRESETS.items()
        for cost_name, cost in COSTS.items()
    }
    simulated_s: dict[str, float] = {}

    def run(case: tuple[str, str]) -> None:
        simulated_s[str(case)] = simulate(cases[case], load).end_us / 1e6

    timings = interleave({str(case): lambda case=case: run(case) for case in cases}, repeats)
    table = Table("policy:<9", "cost:<11", "x real time:>11,.0f", "slowest:>8,.0f",
                  "fastest:>8,.0f")  # fmt: skip
    promised: Targets = []
    for policy, cost in cases:
        case = str((policy, cost))
        speeds = [simulated_s[case] / seconds for seconds in timings[case].seconds(clock)]
        speed = simulated_s[case] / timings[case].median_s(clock)
        table.add(policy, cost, speed, min(speeds), max(speeds))
        promised.append((f"{policy}, {cost} cost", LEAST, speed))
    return promised


def grow(requests: float, at_least_s: float, repeats: int, clock: str) -> Targets:
    """A line per number of workers: at least so many requests, over at least so many seconds."""
    loads: dict[int, Workload] = {}
    for workers in SIZES:
        rps = PER_WORKER_RPS * workers
        loads[workers] = make_workload("steady", rps, max(at_least_s, requests / rps), SEED)

    def run(workers: int) -> None:
        config = dataclasses.replace(ADAPTIVE, num_workers=workers, cost=CALIBRATED_COST)
        simulate(config, loads[workers])

    timings = interleave({str(each): lambda each=each: run(each) for each in SIZES}, repeats)
    table = Table("workers:>7,", "requests/s:>10,g", "us/request:>10,.0f", "fastest:>9,.0f",
                  "slowest:>9,.0f", "x real time:>11,.2f")  # fmt: skip
    promised: Targets = []
    for workers, load in loads.items():
        seconds = timings[str(workers)].seconds(clock)
        request_us = [1e6 * each / len(load.requests) for each in seconds]
        speed, rps = load.duration_s / statistics.median(seconds), load.requests_per_s
        table.add(workers, rps, statistics.median(request_us), min(request_us), max(request_us),
                  speed)  # fmt: skip
        if workers in LEAST_GROWN:
            what = f"adaptive, {workers:,} workers at {rps:,g} requests/s"
            promised.append((what, LEAST_GROWN[workers], speed))
    return promised


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    options = begin(__doc__, arguments, quick=False, clock="wall")
    repeats, clock = 3 if options.quick else 7, options.clock
    load = make_workload("steady", RPS, 10.0 if options.quick else 60.0, SEED)
    print(f"steady, {RPS:g} requests/s for {load.duration_s:g} s; median of {repeats} interleaved "
          f"repeats, {clock} time\n")  # fmt: skip
    promised = compare(load, repeats, clock)
    print(f"\nadaptive, calibrated cost, {PER_WORKER_RPS:g} requests/s for each worker")
    promised += grow(*((300, 0.05) if options.quick else (6000, 3.0)), repeats, clock)
    print_targets(promised)


if __name__ == "__main__":
    main()
