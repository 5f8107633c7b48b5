"""The learner's functions out of a notebook file, even when another cell of it is broken.

Only the functions, and the imports of the standard library and torch, are run; no cell is.
"""

import __future__

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from nanogpt.guard import run_limited

_LIMIT_S = 2.0
IMPORTED = sys.stdlib_module_names | {"torch"}  # all that an exercise may need


def load_functions(path: Path) -> dict[str, Callable[..., Any]]:
    """The notebook's functions by name. A function whose definition fails is left out.

    Raises: OSError and UnicodeDecodeError when the file cannot be read.
    """
    body = _statements(path.read_text(encoding="utf-8"))
    space: dict[str, Any] = {"__name__": path.stem}
    for statement in _imports(body):
        run_limited(exec, (_compiled(statement, path), space), limit_s=60.0)
    functions = _functions(body)
    for function in functions:
        run_limited(exec, (_compiled(function, path), space), limit_s=_LIMIT_S)
    return {item.name: space[item.name] for item in functions if item.name in space}


def _statements(text: str) -> list[ast.stmt]:
    """The file's top-level statements; of a file with a syntax error, those of its sound cells."""
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError):
        pass
    lines = text.splitlines()
    starts = [0] + [n for n, line in enumerate(lines) if line.startswith(("@app.", "with app."))]
    body: list[ast.stmt] = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        block = "\n".join(lines[start:end])
        try:
            body += ast.parse("\n" * start + block).body  # keeps the line numbers
        except (SyntaxError, ValueError):
            continue
    return body


def _imports(body: list[ast.stmt]) -> list[ast.stmt]:
    """The allowed imports at the top level and in the setup cell."""
    setups = [item for item in body if isinstance(item, ast.With)]
    found = [*body, *(inner for setup in setups for inner in setup.body)]
    return [item for item in found if _is_allowed_import(item)]


def _is_allowed_import(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import(names):
            modules = [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            modules = [module]
        case _:
            return False
    return all(module.partition(".")[0] in IMPORTED for module in modules)


def _functions(body: list[ast.stmt]) -> list[ast.FunctionDef]:
    """`@app.function` functions, and those that marimo keeps in a cell: decorators taken off.

    The latter come first, so that a function of its own wins over a namesake within a cell.
    """
    own: list[ast.FunctionDef] = []
    within: list[ast.FunctionDef] = []
    for item in body:
        if not isinstance(item, ast.FunctionDef):
            continue
        marks = {ast.unparse(mark).partition("(")[0] for mark in item.decorator_list}
        if "app.cell" in marks:
            within += [inner for inner in item.body if isinstance(inner, ast.FunctionDef)]
        else:
            own.append(item)
    for item in own:
        item.decorator_list = []
    return [*within, *own]


def _compiled(statement: ast.stmt, path: Path) -> CodeType:
    """Code whose annotations stay text: a name used only there need not be known."""
    flags = __future__.annotations.compiler_flag
    return compile(ast.Module([statement], []), str(path), "exec", flags, True)
