"""`learn.py contest`: play with one's own policies."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from course.launcher.failure import Failure
from course.leaderboard.contest_tables import card_rows, card_sentence, rows_of, sentence, table
from course.leaderboard.own_policies import (
    Contribution,
    OwnPolicies,
    card_of,
    find_own,
    play_mine,
)
from course.progress import work_folder
from nanogpt.contest import NAMES, Round
from nanogpt.figures.curves import contest_scores
from nanogpt.figures.drawing import plot_file, write_plot

MOST_SEEDS = 20
_WIDE = 100  # columns, where no terminal says how many there are


def contest(arguments: Namespace) -> int:
    """Runs the verb; returns the exit status. `arguments` are those of `python -m course contest`.

    Raises: Failure.
    """
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    try:
        if arguments.seeds > MOST_SEEDS:
            raise Failure(f"--seeds is 1 to {MOST_SEEDS}, and this is {arguments.seeds}.")
        return _play(arguments, console)
    except (ValueError, ArgumentTypeError) as error:
        raise Failure(f"{error}.") from None


def _play(arguments: Namespace, console: Console) -> int:
    own = find_own(arguments.file or work_folder() / "contest.py", is_wanted=bool(arguments.file))
    plot = _plot_file(arguments.plot)  # before the long wait: it may not be writable after it
    rounds: list[Round] = []
    card: list[Contribution] = []
    tell: Callable[..., None] = (lambda *_: None) if arguments.json else console.print
    tell(own.sentence)
    stopped = False
    try:
        _play_all(arguments, own, rounds, card, tell)
    except KeyboardInterrupt:
        stopped = True
    if arguments.json:
        sys.stdout.write(_as_json(own, rounds, card, stopped) + "\n")
    drawn = not rounds or write_plot(plot, lambda: contest_scores(rounds, "The contest: SLOs met"))
    if stopped:
        done, wanted = {each.workload for each in rounds}, arguments.workload or NAMES
        sys.stderr.write(f"Stopped with {len(done)} of {len(wanted)} workloads played.\n")
        return 130
    return 0 if drawn else 1


def _play_all(
    arguments: Namespace,
    own: OwnPolicies,
    rounds: list[Round],
    card: list[Contribution],
    tell: Callable[..., None],
) -> None:
    """Play into `rounds` and `card`; Ctrl-C leaves there what has been played."""
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    labels = [f"seed {seed}" for seed in seeds]
    names = arguments.workload or NAMES
    for name in names:
        played = [play_mine(name, i, seed, own.functions) for i, seed in enumerate(seeds)]
        rounds += played
        tell(table(rows_of(played, labels)))
        tell(sentence(played))
    if own.functions:
        card += card_of(own.functions, names, seeds[0])
        tell(table(card_rows(card)))
        tell(card_sentence(card))


def _plot_file(text: str | None) -> Path | None:
    try:
        return None if text is None else plot_file(text)
    except ArgumentTypeError as error:
        raise Failure(f"--plot: {error}.") from None


def _as_json(
    own: OwnPolicies, rounds: Sequence[Round], card: Sequence[Contribution], stopped: bool
) -> str:
    record = {
        "version": 1,
        "modelled": True,
        "policies": sorted(own.functions),
        "rounds": [
            {
                "workload": each.workload,
                "seed_number": each.number,
                "requests": each.num_calls,
                "bound": each.most,
                "scores": {
                    name: {"points": one.points, "kept": list(one.kept), "problem": one.problem}
                    for name, one in each.scores
                },
            }
            for each in rounds
        ],
        "report_card": [asdict(each) for each in card],
        "stopped": stopped,
    }
    return json.dumps(record, allow_nan=False)
