"""How what is made of records leaves the grader: pages from templates, text in whole files."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from course.files import write_atomically
from course.grading.results import words
from course.style import prose, themed


def page(template: str, **values: Any) -> str:
    """An HTML page of a template's name and what it asks for; all of it is escaped."""
    return _templates().get_template(template).render(values)


def write_text(path: Path, text: str) -> Path:
    r"""Writes a file whole or not at all, in UTF-8; half a character stands as its \udcff.

    Raises: OSError.
    """
    write_atomically(path, text.encode("utf-8", "backslashreplace"))
    return path


@cache
def _templates() -> Environment:
    folder = Path(__file__).parent / "templates"
    found = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "prose": lambda text: Markup(prose(text)),
        "number": words.number,
        "count": words.count,
    }
    values: dict[str, Any] = {
        "colours": Markup(themed("sng-page")),
        "statuses": words.STATUSES,
        "exercise_title": words.exercise_title,
        "lesson_title": words.lesson_title,
        "tally": words.tally,
        "stopped_at": words.stopped_at,
    }
    found.filters.update(filters)
    found.globals.update(values)
    return found
