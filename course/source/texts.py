"""The Python text in the bytes of a .py file, or of a notebook: its code cells. Nothing is run."""

import ast
import sys
import warnings
from pathlib import Path
from typing import Any

from course.files import read_bytes
from course.source.cutting import CELL_MARK
from course.source.indentation import split_lines
from course.source.magics import UNREADABLE, as_python

_MOST_KB = 256  # of code
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_NOTEBOOK = "is no notebook that Jupyter could open: save it there again"


def notebook_text(path: Path) -> str:
    """The text of a notebook's cells, marimo's or Jupyter's.

    Raises: OSError when the file cannot be read, ValueError with the end of a sentence when it
    holds no text.
    """
    return text_of(".ipynb" if path.suffix.lower() == ".ipynb" else ".py", read_bytes(path))


def text_of(suffix: str, content: bytes) -> str:
    """The text, its lines ended by "\\n". Raises: ValueError with the end of a sentence."""
    text = _decoded(content)
    return text if suffix == ".py" else _code_cells(text)


def _decoded(content: bytes) -> str:
    if content.startswith(_UTF16):
        raise ValueError("is UTF-16 text: save it as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte, line = content[error.start], content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"is not UTF-8 text (a byte 0x{byte:02x} at line {line}): save it as UTF-8"
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(f"is no text (a zero byte at line {line}): save it as UTF-8 text")
    if not text.strip():
        raise ValueError("is empty: hand in the file with your answers")
    return "\n".join(split_lines(text))


def _code_cells(text: str) -> str:
    """The text of a notebook's code cells, as of a plain file."""
    # Where JupyterLab is, jsonschema would compile grammars of addresses for 1.5 s.
    sys.modules.setdefault("rfc3987_syntax", None)  # pyright: ignore[reportArgumentType]
    import nbformat  # here, for a class of marimo files does not need it

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a missing id
            notebook: Any = nbformat.reads(text, as_version=4)
        cells = [str(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    except Exception as error:  # it believes what it reads, and fails in as many ways
        raise ValueError(_NOTEBOOK) from error
    if sum(map(len, cells)) > _MOST_KB << 10:
        raise ValueError(f"is larger than {_MOST_KB} KB: leave out all but the lesson")
    if not any(cell.strip() for cell in cells):
        raise ValueError("has no code in it: hand in the notebook with your answers")
    return f"\n\n\n{CELL_MARK}\n".join(map(_as_statements, cells)) + "\n"


def _as_statements(cell: str) -> str:
    """The cell's code; a cell that Python cannot read becomes a string, as in marimo's files."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = as_python("\n".join(split_lines(cell)))
            ast.parse(code)
        return code
    except UNREADABLE:
        return f"app._unparsable_cell({cell!r})"
