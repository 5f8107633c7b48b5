"""A lesson's file as a Jupyter notebook, and back.

marimo makes the notebook. On the way back every cell that still reads as it was shown is the
file's own, to the letter, so that a save changes nothing but what a learner changed.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import replace
from typing import Any, TypeAlias

from marimo._ast.app import InternalApp
from marimo._ast.load import load_notebook_ir
from marimo._convert.common.format import markdown_to_marimo
from marimo._convert.converters import MarimoConvert
from marimo._convert.ipynb.from_ir import convert_from_ir_to_ipynb
from marimo._schemas.serialization import CellDef  # pyright: ignore[reportMissingTypeStubs]

Cell: TypeAlias = dict[str, Any]
KERNEL = {"name": "serving-nanogpt", "display_name": "Serving NanoGPT", "language": "python"}
_MARIMO_LINK = re.compile(r"\(/\?file=(\w+)\.py(?:&view-as=present)?\)")
_JUPYTER_LINK = re.compile(r"\((\w+)\.ipynb\)")


def to_notebook(text: str) -> dict[str, Any]:
    """Return a lesson as a notebook, without outputs; links lead to notebooks."""
    notebook: dict[str, Any] = json.loads(_as_ipynb(text))
    for cell in notebook["cells"]:
        cell["source"] = _source(cell)
        if cell["cell_type"] == "markdown":
            cell["source"] = _MARIMO_LINK.sub(r"(\1.ipynb)", cell["source"])
    notebook["metadata"]["kernelspec"] = dict(KERNEL)
    return notebook


def to_lesson(notebook: dict[str, Any], before: str) -> str:
    """Return `before`, a lesson's file, with what a notebook's cells hold now."""
    ir = MarimoConvert.from_py(before).to_ir()
    known: dict[tuple[str, str], list[CellDef]] = {}
    for cell, mine in zip(to_notebook(before)["cells"], ir.cells, strict=True):
        known.setdefault((cell["cell_type"], cell["source"]), []).append(mine)
    cells: list[CellDef] = []
    for cell in notebook["cells"]:
        same = known.get((cell["cell_type"], _source(cell)))
        cells.append(same.pop(0) if same else _cell(cell))
    while cells and not cells[-1].code.strip():  # Jupyter adds an empty cell at the end
        cells.pop()
    return MarimoConvert.from_ir(replace(ir, cells=cells)).to_py()


@functools.lru_cache(32)  # a save needs again what was shown
def _as_ipynb(text: str) -> str:
    app = InternalApp(load_notebook_ir(MarimoConvert.from_py(text).to_ir()))
    return convert_from_ir_to_ipynb(app, sort_mode="top-down")


def _source(cell: Cell) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _cell(cell: Cell) -> CellDef:
    """A learner's cell; marimo's notes on it are in the notebook's metadata."""
    notes = cell["metadata"].get("marimo", {})
    name, options = notes.get("name", "_"), dict(notes.get("config", {}))
    if name.startswith("*"):  # a function's, which names itself
        name = "_"
    if cell["cell_type"] == "code":
        return CellDef(code=_source(cell), name=name, options=options)
    words = _JUPYTER_LINK.sub(r"(/?file=\1.py)", _source(cell))
    code = markdown_to_marimo(words, notes.get("md_prefix", "r"))
    return CellDef(code=code, name=name, options=options or {"hide_code": True})
