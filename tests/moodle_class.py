"""A made-up class of lesson 1 in a zip file, as Moodle exports it: `python moodle_class.py ZIP`.

What its students hand in is made of the exercises' own right and wrong answers.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import zipfile
from io import BytesIO
from pathlib import Path

from course.exercise import Exercise
from course.registry import lesson_exercises

LESSON = "l01_chunked_prefill"
DAY, LATE = (2026, 12, 1, 18, 0, 0), (2026, 12, 3, 9, 30, 0)
_IMPORTS = "from collections.abc import Callable\n\nimport torch\nfrom torch import Tensor\n"
_ENDLESS = "    while True:\n        pass\n"


def right(item: Exercise) -> str:
    """The worked answer, as a text."""
    return inspect.getsource(item.right[0])


def wrong(item: Exercise, key: str) -> str:
    """What a person with this wrong idea writes, where that is a single expression."""
    idea = next(each for each in item.misconceptions if each.key == key)
    tree = ast.parse(f"({inspect.getsource(idea.written[0]).strip()})")
    way = next(each for each in ast.walk(tree) if isinstance(each, ast.Lambda))
    return f"def {item.task.signature}:\n    return {ast.unparse(way.body)}\n"


def file_of(answers: dict[str, str], exercises: int | None = None) -> str:
    """A lesson's file: right answers to its first exercises, and these in place of their own."""
    items = lesson_exercises(LESSON)[:exercises]
    return "\n\n".join([_IMPORTS, *(answers.get(item.name, right(item)) for item in items)])


def notebook_of(text: str) -> str:
    """The same as a Jupyter notebook of one cell."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    return json.dumps(
        {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [cell | {"source": text}]}
    )


def zip_of(files: dict[str, bytes], late: str = "?") -> bytes:
    """Files in a zip file; what is below the folder `late` comes two days after the others."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(name, LATE if name.startswith(late) else DAY)
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def moodle_class() -> bytes:
    """The zip file of six students, of whom each hands in something else."""
    items = {item.name: item for item in lesson_exercises(LESSON)}
    head = f"def {items['chunk_mask'].task.signature}:\n"
    handed_in = {
        "Ada Lovelace_101/l01_chunked_prefill.py": file_of({}),
        "Ben Okri_102/l01_chunked_prefill.ipynb": notebook_of(
            file_of({"chunk_size": wrong(items["chunk_size"], "ignores_decodes")})
        ),
        "Ben Okri_102/notes.txt": "What I tried first\n",
        "Chen Wei_103/l01_chunked_prefill.py": file_of({"chunk_mask": head + _ENDLESS}),
        "Dilek Ay_104/l01_chunked_prefill.py": file_of({}, exercises=2),
        "Emeka Obi_105/l01_chunked_prefill.py": file_of({}),
        "Fatima Nour_106/essay.docx": "Why chunks?",
    }
    named = {
        name.replace("/", "_assignsubmission_file_/"): text.encode(
            "utf-16" if name.startswith("Emeka") else "utf-8"
        )
        for name, text in handed_in.items()
    }
    return zip_of(named, late="Dilek")


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(moodle_class())
