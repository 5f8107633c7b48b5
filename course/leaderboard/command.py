"""`learn.py contest`: play with one's own parts, or verify and score the entries of others."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from course.files import explain
from course.leaderboard.ablation import Brought, card_of
from course.leaderboard.board import (
    MOST_SEEDS,
    BoardError,
    Line,
    line_of,
    read_board,
    with_line,
    write_board,
)
from course.leaderboard.own_parts import OwnParts, PartsError, find_own, play_mine
from course.leaderboard.tables import (
    board_table,
    card_sentence,
    card_table,
    sentence,
    workload_table,
)
from course.progress import work_folder
from nanogpt.contest import NAMES, Round, hidden_seeds
from nanogpt.figures.contest_curves import contest_scores
from nanogpt.figures.plot_option import PlotFile, write_plot
from nanogpt.validate import PartError

if TYPE_CHECKING:
    from course.calling.processes import ForkServer

_WIDE = 100  # columns, where no terminal says how many there are


class ContestError(Exception):
    """Why nothing can be played with what was asked for, in a sentence."""


def contest(arguments: Namespace) -> int:
    """Runs the verb; returns the exit status. `arguments` are those of `python -m course contest`.

    Raises: ContestError.
    """
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    try:
        if not 1 <= arguments.seeds <= MOST_SEEDS:
            raise ContestError(f"--seeds is 1 to {MOST_SEEDS}, and this is {arguments.seeds}.")
        if arguments.verify or arguments.score:
            return _judge_others(arguments, console)
        return _play(arguments, console)
    except (PartsError, BoardError) as error:
        raise ContestError(str(error)) from None
    except ValueError as error:
        raise ContestError(f"{error}.") from None
    except OSError as error:
        raise ContestError(explain(error)) from None


@dataclass(slots=True)
class _Played:
    """What has been played so far. Mutable: it grows, and Ctrl-C leaves what there is."""

    rounds: list[Round] = field(default_factory=list[Round])
    card: list[Brought] = field(default_factory=list[Brought])


def _play(arguments: Namespace, console: Console) -> int:
    own = find_own(arguments.file or work_folder() / "contest.py", is_wanted=bool(arguments.file))
    # Before the long wait: what could not be written after it.
    lines, plot = _existing(arguments.board), _plot_file(arguments.plot)
    seeds, labels = _seeds(arguments)
    played, stopped = _Played(), False
    tell: Callable[..., None] = (lambda *_: None) if arguments.json else console.print
    tell(own.sentence)
    try:
        _play_all(arguments, own, seeds, labels, played, tell)
    except KeyboardInterrupt:
        stopped = True
    if arguments.json:
        sys.stdout.write(_as_json(own, played, stopped) + "\n")
    drawn = not played.rounds or write_plot(
        plot, lambda: contest_scores(played.rounds, "The contest: promises kept")
    )
    if stopped:
        done, wanted = {each.workload for each in played.rounds}, arguments.workload or NAMES
        sys.stderr.write(
            f"Stopped with {len(done)} of {len(wanted)} workloads played; no leaderboard was "
            "changed.\n"
        )
        return 130
    if arguments.board:
        seed = None if arguments.salt else arguments.seed
        line = line_of(
            arguments.name, played.rounds, own.texts, first_seed=seed, salt=arguments.salt
        )
        if line.problem():
            raise ContestError(f"The entry {line.problem()}.")
        write_board(arguments.board, with_line(lines, line))
        tell(f"{arguments.board} has the entry {arguments.name!r}: {line.total} points.")
    return 0 if drawn else 1


def _play_all(
    arguments: Namespace,
    own: OwnParts,
    seeds: Sequence[int],
    labels: Sequence[str],
    played: _Played,
    tell: Callable[..., None],
) -> None:
    names = arguments.workload or NAMES
    for name in names:
        rounds = [play_mine(name, i, seed, own.functions) for i, seed in enumerate(seeds)]
        played.rounds += rounds
        tell(workload_table(rounds, labels))
        tell(sentence(rounds))
    if own.functions:
        played.card += card_of(own.functions, names, seeds[0])
        tell(card_table(played.card))
        tell(card_sentence(played.card))


def _seeds(arguments: Namespace) -> tuple[Sequence[int], list[str]]:
    """The seeds to play with, and how they are called."""
    if arguments.salt:
        seeds = hidden_seeds(arguments.salt, arguments.seeds)
        return seeds, [f"hidden {i + 1}" for i in range(arguments.seeds)]
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    return seeds, [f"seed {seed}" for seed in seeds]


def _plot_file(text: str | None) -> Path | None:
    try:
        return None if text is None else PlotFile()(text)
    except ArgumentTypeError as error:
        raise ContestError(f"--plot: {error}.") from None


def _existing(board: Path | None) -> list[Line]:
    return read_board(board) if board is not None and board.exists() else []


def _as_json(own: OwnParts, played: _Played, stopped: bool) -> str:
    record = {
        "version": 1,
        "modelled": True,
        "parts": sorted(own.functions),
        "rounds": [_round(each) for each in played.rounds],
        "report_card": [asdict(each) for each in played.card],
        "stopped": stopped,
    }
    return json.dumps(record, allow_nan=False)


def _round(each: Round) -> dict[str, object]:
    return {
        "workload": each.workload,
        "seed_number": each.number,
        "requests": each.num_calls,
        "bound": each.most,
        "scores": {
            name: {"points": score.points, "kept": list(score.kept), "problem": score.problem}
            for name, score in each.scores
        },
    }


def _judge_others(arguments: Namespace, console: Console) -> int:
    """Plays the entries of files again, in a sandbox; returns the exit status."""
    if sys.platform != "linux":
        raise ContestError("playing the parts of others needs Linux, whose sandbox keeps them in.")
    lines = [line for path in arguments.verify or arguments.score for line in read_board(path)]
    if arguments.score and not (arguments.salt and arguments.board):
        raise ContestError("--score takes --salt SALT and --board FILE.")

    from course.calling.processes import ForkServer
    from course.calling.sandbox import SandboxError, sandboxed

    try:
        server = ForkServer(marks=True) if arguments.unsafe else sandboxed()
    except SandboxError as error:
        raise ContestError(str(error)) from None
    if arguments.unsafe:
        console.print("Without a sandbox: what plays is other people's code.")
    try:
        if arguments.verify:
            return _verify(lines, server, arguments.salt, console)
        return _score(lines, server, arguments, console)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped; what is above stands, and no leaderboard was changed.\n")
        return 130
    finally:
        server.close()


def _verify(lines: Sequence[Line], server: ForkServer, salt: str | None, console: Console) -> int:
    from course.leaderboard.verifying import why_not

    wrong = 0
    for line in lines:
        why = why_not(line, server, salt)
        wrong += bool(why)
        name = line.name[:60]
        console.print(f"{name!r} {why}." if why else f"{name!r} holds: {line.total} points.")
    console.print(f"{len(lines) - wrong} of {len(lines)} entries hold.")
    return 1 if wrong else 0


def _score(
    lines: Sequence[Line], server: ForkServer, arguments: Namespace, console: Console
) -> int:
    from course.leaderboard.verifying import under_salt

    scored, failed = list[Line](), 0
    for line in lines:
        name = line.name[:60]
        try:
            new = under_salt(line, server, arguments.salt, arguments.seeds)
        except (PartError, ValueError) as error:
            failed += 1
            console.print(f"{name!r} was left out: {error}.")
            continue
        scored = with_line(scored, new)
        console.print(f"{name!r}: {new.total} points.")
    write_board(arguments.board, scored)
    console.print(board_table(scored))
    return 1 if failed else 0
