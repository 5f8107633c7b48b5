"""Which parts of the engine are one's own in the contest: passed answers, and a file of one's own.

A part is known by its text, which is all that it needs: what is read here can be shared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.answers import load_parts, saved_text
from course.files import read_bytes
from course.registry import exercises
from course.source.cutting import read_notebook
from course.source.notebook import load
from course.source.surroundings import surroundings
from nanogpt.contest import Entry
from nanogpt.contest import rank as reference_rank
from nanogpt.parts import Parts

PLAYED = (
    "rank", "plan_step", "admit", "choose_victim", "resume", "chunk_inputs", "chunk_mask", "record",
)  # fmt: skip
"""What an engine of the contest asks: its rank, and seven fields of `Parts`."""

MINE = "mine"
"""The name under which one's own parts play."""


class PartsError(Exception):
    """Why a file of parts cannot play, in a sentence."""


@dataclass(frozen=True, slots=True)
class OwnParts:
    """Functions by part, their texts by the same names, and where they come from in a sentence."""

    functions: Mapping[str, Callable[..., Any]]
    texts: Mapping[str, str]
    sentence: str


def entry_of(functions: Mapping[str, Callable[..., Any]]) -> Entry:
    """The entry MINE with these parts; the others are the reference."""
    parts = {part: function for part, function in functions.items() if part != "rank"}
    return Entry(MINE, Parts(**parts), functions.get("rank", reference_rank))


def find_own(file: Path, *, is_wanted: bool) -> OwnParts:
    """The passed answers that play, and before them what the file has, if it is there.

    Raises: PartsError for a file that defines no part or a broken one, or, if it `is_wanted`, that
    is not there; OSError when it cannot be read.
    """
    answers = load_parts()
    mine = {
        item.part: (getattr(answers.parts, item.part), saved_text(item))
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
    functions = {part: function for part, (function, _) in mine.items()}
    texts = {part: text for part, (_, text) in mine.items()}
    return OwnParts(functions, texts, " ".join(sentences))


def read_parts(file: Path) -> dict[str, tuple[Callable[..., Any], str]]:
    """The parts that a file defines, each with its text. Raises: PartsError, OSError."""
    try:
        notebook = read_notebook(read_bytes(file).decode())
    except ValueError:
        raise PartsError(f"{file} is not text in UTF-8.") from None
    wanted = [part for part in PLAYED if notebook.binding(part)]
    loaded = load(notebook, file, wanted)
    problems = [problem for part in wanted for problem in loaded.problems[part]]
    problems += [f"`{part}` is no function." for part in wanted if part not in loaded.functions]
    if problems:
        raise PartsError(f"{file} cannot play: {problems[0]}")
    if not wanted:
        broken = f" {notebook.broken[0]}" if notebook.broken else ""
        raise PartsError(f"{file} defines no part; it takes functions called {_any()}.{broken}")
    return {
        part: (loaded.functions[part], surroundings(notebook, notebook.binding(part)).text())
        for part in wanted
    }


def _listed(parts: Mapping[str, object]) -> str:
    return ", ".join(part for part in PLAYED if part in parts)


def _any() -> str:
    return f"{', '.join(PLAYED[:-1])} or {PLAYED[-1]}"
