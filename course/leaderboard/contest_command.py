"""`learn.py contest`: play with one's own policies, or verify and score the entries of others."""

from __future__ import annotations

import json
import platform
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from course.calling.processes import ForkServer
from course.calling.sandbox import SandboxError, sandboxed
from course.launcher.failure import Failure
from course.leaderboard.board import (
    MOST_SEEDS,
    BoardEntry,
    board_entry,
    board_rows,
    check_name,
    read_board,
    under_salt,
    why_not,
    with_entry,
    write_board,
)
from course.leaderboard.contest_tables import card_rows, card_sentence, rows_of, sentence, table
from course.leaderboard.own_policies import (
    Contribution,
    OwnPolicies,
    card_of,
    find_own,
    play_mine,
)
from course.progress import work_folder
from nanogpt.contest import NAMES, Round, hidden_seeds
from nanogpt.figures.curves import contest_scores
from nanogpt.figures.drawing import plot_file, write_plot
from nanogpt.validate import PolicyError

_WIDE = 100  # columns, where no terminal says how many there are


def contest(arguments: Namespace) -> int:
    """Runs the verb; returns the exit status. `arguments` are those of `python -m course contest`.

    Raises: Failure.
    """
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    try:
        if not 1 <= arguments.seeds <= MOST_SEEDS:
            raise Failure(f"--seeds is 1 to {MOST_SEEDS}, and this is {arguments.seeds}.")
        if arguments.verify or arguments.score:
            return _judge_others(arguments, console)
        return _play(arguments, console)
    except (ValueError, ArgumentTypeError) as error:
        raise Failure(f"{error}.") from None


def _play(arguments: Namespace, console: Console) -> int:
    own = find_own(arguments.file or work_folder() / "contest.py", is_wanted=bool(arguments.file))
    # Before the long wait: what could not be written after it.
    board: Path | None = arguments.board
    check_name(arguments.name)
    if board is not None and board.suffix == ".jsonl":
        raise Failure(f"A leaderboard is one JSON document: call it {board.with_suffix('.json')}.")
    entries = read_board(board) if board is not None and board.exists() else []
    plot = _plot_file(arguments.plot)
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
    title = "The contest: SLOs met"
    drawn = not rounds or write_plot(plot, lambda: contest_scores(rounds, title))
    if stopped:
        done, wanted = {each.workload for each in rounds}, arguments.workload or NAMES
        sys.stderr.write(
            f"Stopped with {len(done)} of {len(wanted)} workloads played; no leaderboard was "
            "changed.\n"
        )
        return 130
    if board is not None:
        seed = None if arguments.salt else arguments.seed
        name, salt = arguments.name, arguments.salt
        entry = board_entry(name, rounds, own.texts, first_seed=seed, salt=salt)
        write_board(board, with_entry(entries, entry))
        tell(f"{board} has the entry {name!r}: {entry.total} points.")
    return 0 if drawn else 1


def _play_all(
    arguments: Namespace,
    own: OwnPolicies,
    rounds: list[Round],
    card: list[Contribution],
    tell: Callable[..., None],
) -> None:
    """Play into `rounds` and `card`; Ctrl-C leaves there what has been played."""
    if arguments.salt:
        seeds: Sequence[int] = hidden_seeds(arguments.salt, arguments.seeds)
        labels = [f"hidden {i + 1}" for i in range(arguments.seeds)]
    else:
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


def _judge_others(arguments: Namespace, console: Console) -> int:
    """Plays the entries of files again, in a sandbox; returns the exit status."""
    if platform.system() != "Linux":
        raise Failure("other people's policies need a sandbox, which only Linux has.")
    entries = [each for path in arguments.verify or arguments.score for each in read_board(path)]
    if arguments.score and not (arguments.salt and arguments.board):
        raise Failure("--score takes --salt SALT and --board FILE.")
    try:
        server = ForkServer(marks=True) if arguments.unsafe else sandboxed()
    except SandboxError as error:
        raise Failure(str(error)) from None
    if arguments.unsafe:
        console.print("Without a sandbox: what plays is other people's code.")
    judge = _verify if arguments.verify else _score
    try:
        return judge(entries, server, arguments, console)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped; what is above stands, and no leaderboard was changed.\n")
        return 130
    finally:
        server.close()


def _verify(
    entries: Sequence[BoardEntry], server: ForkServer, arguments: Namespace, console: Console
) -> int:
    wrong = 0
    for entry in entries:
        why = why_not(entry, server, arguments.salt)
        wrong += bool(why)
        console.print(f"{entry.name!r} {why or f'holds: {entry.total} points'}.")
    console.print(f"{len(entries) - wrong} of {len(entries)} entries hold.")
    return 1 if wrong else 0


def _score(
    entries: Sequence[BoardEntry], server: ForkServer, arguments: Namespace, console: Console
) -> int:
    scored: list[BoardEntry] = []
    failed = 0
    for entry in entries:
        try:
            new = under_salt(entry, server, arguments.salt, arguments.seeds)
        except PolicyError as error:
            failed += 1
            console.print(f"{entry.name!r} was left out: {error}.")
            continue
        scored = with_entry(scored, new)
        console.print(f"{entry.name!r}: {new.total} points.")
    write_board(arguments.board, scored)
    console.print(table(board_rows(scored)))
    return 1 if failed else 0
