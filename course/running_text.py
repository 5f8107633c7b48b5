"""The text of the notebook that runs in this process, and of a function in it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from course.files import read_bytes
from course.source.answer import Answer, answer_in
from course.source.cells import Notebook, Statement
from course.source.cutting import read_cells, read_notebook


def text_of(function: Callable[..., Any], name: str) -> Answer | None:
    """The text of the function that the running notebook calls `name`.

    Where no notebook runs, or its cell was left out for a function of the course, that of the
    function's own file. None where there is no text.
    """
    running = _running()
    if running is not None:
        found = running.binding(name)
        if found and not (found[0].is_function and _is_the_courses(function)):
            return answer_in(running, name)
    return text_in_file(function, name)


def text_in_file(function: Callable[..., Any], name: str = "") -> Answer | None:
    """The text of a function in its own file, under this name or its own."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
        text = read_bytes(Path(file or "")).decode()
    except (OSError, TypeError, ValueError):
        return None
    own = str(getattr(function, "__name__", name))
    name = name or own
    alias = "" if own == name else f"\n\n{name} = {own}\n"
    notebook = _with_others(read_notebook(f"{text}{alias}"))
    return answer_in(notebook, name) if notebook.binding(own) else None


def _with_others(notebook: Notebook) -> Notebook:
    """The notebook with other solutions' statements in place of the imports that take from them."""
    found: list[Statement] = []
    for item in notebook.statements:
        module = str(getattr(item.node, "module", ""))
        if module.startswith("solutions.") and "._" not in module:
            text = Path(sys.modules[module].__file__ or "").read_text(encoding="utf-8")
            others = _with_others(read_notebook(text)).statements
            found += [replace(each, cell=each.cell - 1) for each in others]
        else:
            found.append(item)
    return replace(notebook, statements=tuple(found))


def _running() -> Notebook | None:
    """The cells that marimo or Jupyter runs here."""
    if "marimo" in sys.modules:
        from course.marimo_internals import safe_get_context

        running = safe_get_context()
        if running is not None:
            return read_cells(cell.code for cell in running.graph.cells.values())
    jupyter = sys.modules.get("course.jupyter.reactive")
    sources = jupyter.sources() if jupyter is not None else []
    return read_cells(sources) if sources else None


def _is_the_courses(function: Callable[..., Any]) -> bool:
    return str(getattr(function, "__module__", "")).startswith("solutions.")
