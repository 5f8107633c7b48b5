"""Behind the lessons' pictures: data, and code that no learner needs to read.

A module or two for each lesson, under its number: `course.lesson_data.l00_kv_cache`.
"""

import json
from pathlib import Path
from typing import Any

_DATA = Path(__file__).resolve().parents[2] / "lessons" / "data"


def recorded(name: str) -> Any:
    """The contents of lessons/data/NAME.json, measured or run once: nobody should wait for them.

    Raises: FileNotFoundError for a name without a file.
    """
    return json.loads(data_path(f"{name}.json").read_text(encoding="utf-8"))


def data_path(name: str) -> Path:
    """Where a file of lessons/data/ lies."""
    return _DATA / name
