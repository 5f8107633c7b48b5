"""`python -m nanogpt.slo` makes the repair ladder's table; `python -m nanogpt.slo fit FILE` a fit.

Everything is modelled: no GPU is needed, and the same arguments give the same table on any number
of processes.
"""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from nanogpt.experiments.command_line import Numbers, Parser, Whole
from nanogpt.experiments.pool import run_jobs
from nanogpt.experiments.slo_table import (
    MOST_TRIALS,
    VARIANTS,
    Cell,
    Trial,
    cells,
    in_the_noise,
    render,
    run_trial,
)
from nanogpt.figures import Chart, attainment_by_load, step_cost
from nanogpt.figures.plot_option import PLOT_HELP, PlotFile, write_plot
from nanogpt.slo.load import POST_COST
from nanogpt.slo.predictor import fit_polynomial, read_sweep
from nanogpt.slo.variants import LADDER


def main(argv: Sequence[str]) -> int:
    """Runs one command; returns the exit status."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command == "fit":
        return refit(parser, arguments)
    return ladder(arguments)


def _parser() -> Parser:
    parser = Parser(
        "python -m nanogpt.slo",
        "Simulates SLO-aware preemption of prefills: variants by load, as a table.",
    )
    parser.switch("--json", "write JSON instead of text")
    rates = (2.0, 4.0, 6.0, 8.0, 10.0)
    parser.option("--rates", Numbers(0.1, 50), rates, "requests per second")
    parser.option(
        "--trials", Whole(2, MOST_TRIALS), 5,
        "loads per rate, one seed each; with 2 an interval says next to nothing",
    )  # fmt: skip
    parser.option("--seconds", Whole(10, 3600), 120, "how long requests arrive")
    parser.option("--seed", Whole(0, 10**9), 0, "the first seed")
    parser.option("--jobs", Whole(1, 64), min(os.cpu_count() or 1, 64), "processes")
    parser.option("--plot", PlotFile(), None, f"{PLOT_HELP}; the ladder alone")
    commands = parser.add_subparsers(
        dest="command", metavar="command", parser_class=argparse.ArgumentParser
    )
    fitting = commands.add_parser(
        "fit", help="fit the predictor to a file of measured prefills", allow_abbrev=False
    )
    fitting.add_argument("file", type=Path, help="lines of tokens,microseconds")
    fitting.add_argument("--cubic", action="store_true", help="a cubic instead of a line")
    fitting.add_argument("--json", action="store_true", help="write JSON instead of text")
    fitting.add_argument(
        "--plot", type=PlotFile(), metavar=PlotFile.metavar, help=f"{PLOT_HELP} ({PlotFile.limits})"
    )
    return parser


def ladder(arguments: argparse.Namespace) -> int:
    """Runs every variant on every load and writes the table; after Ctrl-C, what there is of it."""
    seeds = range(arguments.seed, arguments.seed + arguments.trials)
    # Seed by seed, so that a run stopped early has the whole table, from fewer seeds.
    jobs = [
        (variant, rate, seed, arguments.seconds)
        for seed in seeds
        for rate in arguments.rates
        for variant in VARIANTS
    ]
    trials: list[Trial] = []
    stopped = False
    try:
        for trial in run_jobs(run_trial, jobs, arguments.jobs):
            trials.append(trial)
            _progress(len(trials), len(jobs))
    except KeyboardInterrupt:
        stopped = True
    _end_progress()
    table = cells(trials)
    sys.stdout.write(_as_json(arguments, table, len(trials), len(jobs)) if arguments.json else (
        f"Modelled: {POST_COST.name}, {POST_COST.a_us / 1000:.6f} ms per token and "
        f"{POST_COST.c_us / 1000:.3f} ms per pass; {arguments.seconds} s of arrivals, "
        f"{arguments.trials} paired seeds from {arguments.seed}.\n\n{render(table)}\n"
    ))  # fmt: skip
    unsure, of_all = in_the_noise(table)
    if unsure and not arguments.json:
        sys.stdout.write(
            f"\nIn {unsure} of {of_all} differences of urgent attainment the interval is wider "
            f"than the difference: {arguments.trials} seeds do not show whether there is one. "
            "More do (--trials).\n"
        )
    drawn = not trials or write_plot(arguments.plot, lambda: _chart(arguments, table))
    if stopped:
        sys.stderr.write(f"Stopped after {len(trials)} of {len(jobs)} runs.\n")
        return 130
    return 0 if drawn else 1


def _chart(arguments: argparse.Namespace, table: Sequence[Cell]) -> Chart:
    ladder = {variant.name for variant in LADDER}
    return attainment_by_load(
        [cell for cell in table if cell.variant in ladder],
        f"The repair ladder: {arguments.trials} paired seeds, {arguments.seconds} s of arrivals",
        f"modelled: {POST_COST.name}; bars are 95 % intervals",
    )


def refit(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Fits the predictor to a sweep in a file, and says how well it fits."""
    path: Path = arguments.file
    try:
        sweep = read_sweep(path)
        fitted = fit_polynomial(sweep, 3 if arguments.cubic else 1)
    except OSError as error:
        parser.error(f"{path} cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        parser.error(f"{path} is not text in UTF-8")
    except ValueError as error:
        parser.error(f"{error}")
    points = sorted((tokens, fitted.predict_us(tokens)) for tokens, _ in sweep)
    name = "a cubic" if arguments.cubic else "a line"
    title = f"{path.name}: R² = {fitted.r_squared:.4f}"
    drawn = write_plot(arguments.plot, lambda: step_cost(sweep, {name: points}, title))
    if arguments.json:
        sys.stdout.write(json.dumps(dataclasses.asdict(fitted)) + "\n")
        return 0 if drawn else 1
    terms = [f"{value:.6g} us" for value in fitted.coefficients]
    powers = ["", " per token", " per token^2", " per token^3"]
    parts = " + ".join(term + power for term, power in zip(terms, powers, strict=False))
    sys.stdout.write(f"predicted TTFT = {parts}   (R^2 = {fitted.r_squared:.4f})\n")
    return 0 if drawn else 1


def _as_json(
    arguments: argparse.Namespace, table: Sequence[Cell], num_done: int, num_runs: int
) -> str:
    record = {
        "version": 1,
        "modelled": True,
        "cost": dataclasses.asdict(POST_COST),
        "seconds": arguments.seconds,
        "seeds": [arguments.seed, arguments.seed + arguments.trials - 1],
        "runs": [num_done, num_runs],
        "cells": [dataclasses.asdict(cell) for cell in table],
    }
    return json.dumps(record, allow_nan=False) + "\n"


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {total} runs")
    elif done * 10 // total != (done - 1) * 10 // total:
        sys.stderr.write(f"{done} of {total} runs\n")
    sys.stderr.flush()


def _end_progress() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
