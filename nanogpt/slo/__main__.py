"""`python -m nanogpt.slo` makes the repair ladder's table; `python -m nanogpt.slo fit FILE` a fit.

All times are modelled: no GPU is needed, and the same arguments give the same table on any number
of processes.
"""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from nanogpt.experiments import slo_table
from nanogpt.experiments.pool import run_reported
from nanogpt.figures.curves import attainment_by_load, step_cost
from nanogpt.figures.drawing import PLOT_HELP, plot_file, write_plot
from nanogpt.slo.load import POST_COST
from nanogpt.slo.predictor import fit_polynomial, read_sweep
from nanogpt.slo.variants import LADDER

_NUMBERS = (
    ("--trials", 2, slo_table.MOST_TRIALS, 5, "loads per rate; 2 give very wide intervals"),
    ("--seconds", 10, 3600, 120, "time in which requests arrive"),
    ("--seed", 0, 10**9, 0, "the first seed"),
    ("--jobs", 1, 64, min(os.cpu_count() or 1, 64), "processes"),
)
"""(option, least, most, default, help) of each option that is a whole number."""


def main(argv: Sequence[str]) -> int:
    """Run one command; return the exit status."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command == "fit":
        return refit(parser, arguments)
    for option, least, most, _, _ in _NUMBERS:
        value = getattr(arguments, option[2:])
        if not least <= value <= most:
            parser.error(f"{option} is {value}; it must be from {least} to {most}")
    given = arguments.rates
    if not all(0.1 <= rate <= 50 for rate in given) or len({*given}) < len(given):
        parser.error(f"--rates are {given}; they must be different, from 0.1 to 50")
    return ladder(arguments)


def _parser() -> argparse.ArgumentParser:
    output = argparse.ArgumentParser(add_help=False)
    output.add_argument("--json", action="store_true", help="write JSON instead of text")
    output.add_argument("--plot", type=plot_file, metavar="FILE", help=PLOT_HELP)
    parser = argparse.ArgumentParser(
        "python -m nanogpt.slo",
        description="Simulates SLO-aware preemption of prefills: variants by load, as a table.",
        allow_abbrev=False,
        parents=[output],
    )
    parser.add_argument(
        "--rates", type=rates, default="2,4,6,8,10", metavar="X,X",
        help="requests per second (different ones, 0.1 to 50; default: %(default)s)",
    )  # fmt: skip
    for option, least, most, default, text in _NUMBERS:
        text = f"{text} ({least} to {most}; default: %(default)s)"
        parser.add_argument(option, type=int, default=default, metavar="N", help=text)
    commands = parser.add_subparsers(dest="command", metavar="command")
    text = "fit the predictor to a file of measured prefills"
    fitting = commands.add_parser(
        "fit", help=text, description=f"{text.capitalize()}.", allow_abbrev=False, parents=[output]
    )
    fitting.add_argument("file", type=Path, help="lines of tokens,microseconds")
    fitting.add_argument("--cubic", action="store_true", help="a cubic instead of a line")
    return parser


def rates(text: str) -> tuple[float, ...]:
    """Numbers with commas between them."""
    return tuple(map(float, text.split(",")))


def ladder(arguments: argparse.Namespace) -> int:
    """Run every variant on every load and write the table; after Ctrl-C, of the runs so far."""
    # Seed by seed, so that a run stopped early has the whole table, from fewer seeds.
    jobs = [
        (variant, rate, seed, arguments.seconds)
        for seed in range(arguments.seed, arguments.seed + arguments.trials)
        for rate in arguments.rates
        for variant in slo_table.VARIANTS
    ]
    trials, stopped = run_reported(slo_table.run_trial, jobs, arguments.jobs, "runs")
    table = slo_table.cells(trials)
    if arguments.json:
        record = {
            "version": 1,
            "modelled": True,
            "cost": dataclasses.asdict(POST_COST),
            "seconds": arguments.seconds,
            "seeds": [arguments.seed, arguments.seed + arguments.trials - 1],
            "runs": [len(trials), len(jobs)],
            "cells": [dataclasses.asdict(cell) for cell in table],
        }
        sys.stdout.write(json.dumps(record, allow_nan=False) + "\n")
    else:
        sys.stdout.write(_as_text(arguments, table))
    in_ladder = {variant.name for variant in LADDER}
    title = f"The repair ladder: {arguments.trials} paired seeds, {arguments.seconds} s of arrivals"
    drawn = not trials or write_plot(
        arguments.plot,
        lambda: attainment_by_load(
            [cell for cell in table if cell.variant in in_ladder],
            title,
            f"modelled: {POST_COST.model.name}; bars are 95 % intervals",
        ),
    )
    return 130 if stopped else 0 if drawn else 1


def _as_text(arguments: argparse.Namespace, table: Sequence[slo_table.Cell]) -> str:
    cost = POST_COST.model
    text = (
        f"Modelled: {cost.name}, {cost.token_us / 1000:.6f} ms per token, at least "
        f"{cost.floor_us / 1000:.3f} ms, and {cost.fixed_us / 1000:.3f} ms per pass, "
        f"{POST_COST.request_us / 1000:.3f} ms per request; {arguments.seconds} s of arrivals, "
        f"{arguments.trials} paired seeds from {arguments.seed}.\n\n{slo_table.render(table)}\n"
    )
    unsure, of_all = slo_table.in_the_noise(table)
    if unsure:
        text += (
            f"\nIn {unsure} of {of_all} differences of urgent attainment the interval is wider "
            f"than the difference: {arguments.trials} seeds do not show whether there is one. "
            "More do (--trials).\n"
        )
    return text


def refit(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Fit the predictor to a sweep in a file, and write how well it fits."""
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
    powers = ["", " per token", " per token^2", " per token^3"]
    terms = zip(fitted.coefficients, powers, strict=False)
    formula = " + ".join(f"{value:.6g} us{power}" for value, power in terms)
    sys.stdout.write(f"predicted TTFT = {formula}   (R^2 = {fitted.r_squared:.4f})\n")
    return 0 if drawn else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
