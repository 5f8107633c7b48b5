"""A made-up class of lesson 1 in a zip file, as Moodle exports it: `python moodle_class.py ZIP`.

What its students hand in is made of the exercises' own right and wrong answers.
"""

from __future__ import annotations

import inspect
import json
import sys
import zipfile
from io import BytesIO
from pathlib import Path

from course.registry import lesson_exercises

LESSON = "l01_chunked_prefill"
DAY, LATE = (2026, 12, 1, 18, 0, 0), (2026, 12, 3, 9, 30, 0)
_IMPORTS = "from collections.abc import Callable\n\nimport torch\nfrom torch import Tensor\n"


def file_of(answers: dict[str, str], exercises: int | None = None) -> str:
    """A lesson's file: right answers to its first exercises, and these in place of their own."""
    right = {each.name: each.right[0] for each in lesson_exercises(LESSON)[:exercises]}
    texts = (answers.get(name, inspect.getsource(worked)) for name, worked in right.items())
    return "\n\n".join([_IMPORTS, *texts])


def notebook_of(*cells: str | list[str]) -> str:
    """A Jupyter notebook with these code cells."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    made = [cell | {"source": source} for source in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": made})


def moodle_class() -> bytes:
    """The zip file of six students, of whom each hands in something else; one is two days late."""
    heads = {item.name: f"def {item.signature}:\n" for item in lesson_exercises(LESSON)}
    ignores_decodes = heads["chunk_size"] + "    return min(token_budget, remaining)\n"
    handed_in = {
        "Ada Lovelace_101/l01_chunked_prefill.py": file_of({}),
        "Ben Okri_102/l01_chunked_prefill.ipynb": notebook_of(
            file_of({"chunk_size": ignores_decodes})
        ),
        "Ben Okri_102/notes.txt": "What I tried first\n",
        "Chen Wei_103/l01_chunked_prefill.py": file_of(
            {"chunk_mask": heads["chunk_mask"] + "    while True:\n        pass\n"}
        ),
        "Dilek Ay_104/l01_chunked_prefill.py": file_of({}, exercises=2),
        "Emeka Obi_105/l01_chunked_prefill.py": file_of({}),
        "Fatima Nour_106/essay.docx": "Why chunks?",
    }
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in handed_in.items():
            path = name.replace("/", "_assignsubmission_file_/")
            member = zipfile.ZipInfo(path, LATE if name.startswith("Dilek") else DAY)
            content = text.encode("utf-16" if name.startswith("Emeka") else "utf-8")
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(moodle_class())
