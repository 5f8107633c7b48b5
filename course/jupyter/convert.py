"""A lesson's file as a Jupyter notebook, and back.

On the way back every cell that still reads as it was shown is the file's own, to the letter, so
that a save changes only what a learner changed.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import replace
from typing import Any, TypeAlias

from course.marimo_internals import CellDef, MarimoConvert
from course.source.magics import UNREADABLE

Cell: TypeAlias = dict[str, Any]
KERNEL = {"name": "serving-nanogpt", "display_name": "Serving NanoGPT", "language": "python"}
PYTHON = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}
_HIDDEN = {"jupyter": {"source_hidden": True}, "tags": ["remove-input"]}
_MARIMO_LINK = re.compile(r"\(/\?file=(\w+)\.py(?:&view-as=present)?\)")
_JUPYTER_LINK = re.compile(r"\((\w+)\.ipynb\)")


def to_notebook(text: str) -> dict[str, Any]:
    """Return a lesson as a notebook, without outputs; links lead to notebooks."""
    return {
        "cells": [_shown(cell) for cell in MarimoConvert.from_py(text).to_ir().cells],
        "metadata": {"kernelspec": dict(KERNEL), "language_info": dict(PYTHON)},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def to_lesson(notebook: dict[str, Any], before: str) -> str:
    """Return `before`, a lesson's file, with what a notebook's cells hold now."""
    ir = MarimoConvert.from_py(before).to_ir()
    known: dict[tuple[str, str], list[Any]] = {}
    for own in ir.cells:
        shown = _shown(own)
        known.setdefault((shown["cell_type"], shown["source"]), []).append(own)
    cells: list[Any] = []
    for cell in notebook["cells"]:
        same = known.get((cell["cell_type"], _source(cell)))
        cells.append(same.pop(0) if same else _written(cell))
    while cells and not cells[-1].code.strip():  # Jupyter adds an empty cell at the end
        cells.pop()
    return MarimoConvert.from_ir(replace(ir, cells=cells)).to_py()


def _shown(own: Any) -> Cell:
    """A lesson's cell in the notebook; its metadata has the name and options that a save needs."""
    options = {key: value for key, value in own.options.items() if key != "name"}
    is_named = type(own) is CellDef or own.name == "setup"  # a function's cell has its name
    notes = {"config": options, "name": own.name if is_named else "_"}
    markdown = _markdown(own.code)
    if markdown is not None:
        source = _MARIMO_LINK.sub(r"(\1.ipynb)", markdown)
        return {"cell_type": "markdown", "metadata": {"marimo": notes}, "source": source}
    metadata = {"marimo": notes, **(_HIDDEN if options.get("hide_code") else {})}
    code = {"cell_type": "code", "metadata": metadata, "source": own.code}
    return {**code, "execution_count": None, "outputs": []}


def _markdown(code: str) -> str | None:
    """The text of a cell that is only `mo.md("…")`; None for another cell."""
    try:
        body = ast.parse(code).body
    except UNREADABLE:
        return None
    match body:
        case [
            ast.Expr(ast.Call(ast.Attribute(ast.Name("mo"), "md"), [ast.Constant(str(text))], []))
        ]:
            return inspect.cleandoc(text).strip()
        case _:
            return None


def _source(cell: Cell) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _written(cell: Cell) -> Any:
    """The lesson's cell for a cell that a learner wrote or changed."""
    notes = cell["metadata"].get("marimo", {})
    name, options = notes.get("name", "_"), dict(notes.get("config", {}))
    if cell["cell_type"] == "code":
        return CellDef(code=_source(cell), name=name, options=options)
    words = _JUPYTER_LINK.sub(r"(/?file=\1.py)", _source(cell)).replace('"""', r"\"\"\"")
    code = f'mo.md(r"""\n{words}\n""")'
    return CellDef(code=code, name=name, options=options or {"hide_code": True})
