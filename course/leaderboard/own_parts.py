"""Which parts of the engine are one's own in the contest: passed answers, and a file of one's own.

A part is known by its text, which is all that it needs: what is read here can be shared, and runs
in child processes only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from course.answers import load_parts
from course.calling.answers import load
from course.calling.channel import LostError, TooSlowError
from course.calling.jobs import RunError, run
from course.calling.policies import SavedPolicy
from course.calling.processes import own_starter
from course.files import read_bytes
from course.registry import exercises
from course.source.cutting import read_notebook
from course.source.surroundings import surroundings
from nanogpt.contest import BASELINES, Entry, Round, Score, play, play_round, workload
from nanogpt.contest import rank as reference_rank
from nanogpt.parts import Parts

PLAYED = (
    "rank", "plan_step", "admit", "choose_victim", "resume", "chunk_inputs", "chunk_mask", "record",
)  # fmt: skip
"""What an engine of the contest asks: its rank, and seven fields of `Parts`."""

MINE = "mine"
"""The name under which one's own parts play."""

PLAY_S = 60.0
"""Seconds of computing that they may take for a workload."""


class PartsError(Exception):
    """Why a file of parts cannot play, in a sentence."""


@dataclass(frozen=True, slots=True)
class OwnParts:
    """Saved functions by part, and where they come from in a sentence."""

    functions: Mapping[str, SavedPolicy]
    sentence: str

    @property
    def texts(self) -> dict[str, str]:
        """By the same names, all that each function needs."""
        return {part: function.text for part, function in self.functions.items()}


def entry_of(functions: Mapping[str, Callable[..., Any]]) -> Entry:
    """The entry MINE with these parts; the others are the reference."""
    parts = {part: function for part, function in functions.items() if part != "rank"}
    return Entry(MINE, Parts(**parts), functions.get("rank", reference_rank))


def play_mine(
    name: str, number: int, seed: int, functions: Mapping[str, Callable[..., Any]]
) -> Round:
    """One workload: the baselines play here, and the entry MINE in a process of its own."""
    made, entry = workload(name, seed), entry_of(functions)
    try:
        score = run(play, made, entry, limit_s=PLAY_S)
    except RunError as error:
        score = Score(len(made.calls), (), 0, 0, str(error))
    played = play_round(name, number, seed, BASELINES)
    return replace(played, scores=(*played.scores, (MINE, score)))


def find_own(file: Path, *, is_wanted: bool) -> OwnParts:
    """The passed answers that play, and before them what the file has, if it is there.

    Raises: PartsError for a file that defines no part or a broken one, or, if it `is_wanted`, that
    is not there; OSError when it cannot be read.
    """
    answers = load_parts()
    mine: dict[str, SavedPolicy] = {
        item.part: getattr(answers.parts, item.part)
        for item in exercises()
        if item.part in PLAYED and answers.whose.get(item.part) == "yours"
    }
    sentences = [f"From your lessons: {_listed(mine)}."] if mine else []
    if file.exists():
        written = read_parts(file)
        mine.update(written)
        sentences.append(f"From {file.name}: {_listed(written)}.")
    elif is_wanted:
        raise PartsError(f"There is no file {file}; name one with functions called {_any()}.")
    if not mine:
        sentences = [
            f"No part is yours yet, so the reference plays: pass an exercise whose function the "
            f"engine uses, or write a function called {_any()} into {file}."
        ]
    return OwnParts(mine, " ".join(sentences))


def read_parts(file: Path) -> dict[str, SavedPolicy]:
    """The parts that a file defines. Raises: PartsError, OSError."""
    try:
        content = read_bytes(file).decode()
    except ValueError:
        raise PartsError(f"{file} is not text in UTF-8.") from None
    notebook = read_notebook(content)
    wanted = [part for part in PLAYED if notebook.binding(part)]
    try:
        with own_starter().start() as channel:
            loaded = load(channel, content, wanted)
    except (LostError, TooSlowError) as error:
        why = error.words if isinstance(error, LostError) else f"took {error.cpu_s:.0f} s"
        raise PartsError(f"{file} cannot play: reading it {why}.") from None
    problems = [problem for part in wanted for problem in loaded.problems[part]]
    problems += [f"`{part}` is no function." for part in wanted if part not in loaded.answers]
    if problems:
        raise PartsError(f"{file} cannot play: {problems[0]}")
    if not wanted:
        broken = f" {notebook.broken[0]}" if notebook.broken else ""
        raise PartsError(f"{file} defines no part; it takes functions called {_any()}.{broken}")
    return {
        part: SavedPolicy(surroundings(notebook, notebook.binding(part)).text(), part)
        for part in wanted
    }


def _listed(parts: Mapping[str, object]) -> str:
    return ", ".join(part for part in PLAYED if part in parts)


def _any() -> str:
    return f"{', '.join(PLAYED[:-1])} or {PLAYED[-1]}"
