"""Carry a learner's answers from an old copy of a lesson into the new pristine one.

Works on source text with `ast` alone, so that nothing of the learner's is run.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Carried:
    """The new lesson with the learner's answers in it.

    `names` were carried over; `left` holds (name, reason) for answers that were not.
    """

    text: str
    names: tuple[str, ...]
    left: tuple[tuple[str, str], ...]

    def sentences(self) -> list[str]:
        """Say what was carried over and what was not."""
        said = [f"Carried over: {', '.join(self.names)}."] if self.names else []
        return said + [f"Not carried over: {name}, because {why}." for name, why in self.left]


@dataclass(frozen=True, slots=True)
class _Function:
    """A function's source from its `def` line on, dedented, and what stands above it."""

    node: ast.FunctionDef
    source: str
    decorators: tuple[str, ...]


def names_of_functions(text: str) -> set[str]:
    """Return the names of a notebook's functions, stubs among them."""
    return set(_functions(text))


def carry(
    old: str, new: str, passed: Mapping[str, str] | None = None, *, without: Container[str] = ()
) -> Carried:
    """Return `new` with the learner's functions of `old` in place of its stubs.

    `passed` maps function names to saved sources of passed answers: they stand in for functions
    that `old` no longer holds in readable form (a cell left with a syntax error, say). Stubs named in `without` stay as they are.
    """
    answers = {name: _only_function(source) for name, source in (passed or {}).items()}
    answers |= {name: found for name, found in _functions(old).items() if not _is_stub(found)}
    stubs = {n: stub for n, stub in _functions(new).items() if _is_stub(stub) and n not in without}
    names: list[str] = []
    left: list[tuple[str, str]] = []
    replaced: list[tuple[_Function, _Function]] = []
    for name, stub in stubs.items():
        answer = answers.get(name)
        if answer is None:
            continue
        if _num_args(answer) != _num_args(stub):
            counts = f"{_num_args(stub)} arguments instead of {_num_args(answer)}"
            left.append((name, f"it now takes {counts}"))
            continue
        replaced.append((stub, answer))
        names.append(name)
    return Carried(_replace(new, replaced), tuple(names), tuple(left))


def _replace(text: str, replaced: list[tuple[_Function, _Function]]) -> str:
    """Put each answer where its stub stood, from the last one up, so that line numbers hold."""
    lines = text.splitlines()
    for stub, answer in sorted(replaced, key=lambda pair: -pair[0].node.lineno):
        first = stub.node.lineno - 1
        until = first + len(stub.source.splitlines())
        lines[first:until] = [*answer.decorators, *answer.source.splitlines()]
    return "\n".join(lines) + "\n"


def _functions(text: str) -> dict[str, _Function]:
    """Return a notebook's functions by name: `@app.function` ones, and those inside cells.

    A function that uses another cell's name is saved inside an `@app.cell`.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    lines = text.splitlines()
    found: dict[str, _Function] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _is_marked(node, "cell"):
            inner = [n for n in node.body if isinstance(n, ast.FunctionDef)]
            found |= {n.name: _function(n, lines) for n in inner}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _is_marked(node, "function"):
            found[node.name] = _function(node, lines)
    return found


def _only_function(source: str) -> _Function | None:
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return None
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    return _function(functions[0], source.splitlines()) if len(functions) == 1 else None


def _function(node: ast.FunctionDef, lines: list[str]) -> _Function:
    """Cut a function out, with the comments that close its body."""
    indent = node.col_offset
    until = node.end_lineno or node.lineno
    for number in range(until, len(lines)):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        if line.strip().startswith("#"):
            until = number + 1
    inside = _inside_strings(node)
    cut = [
        line if number in inside else line[indent:]
        for number, line in enumerate(lines[node.lineno - 1 : until], node.lineno)
    ]
    own = [d for d in node.decorator_list if not ast.unparse(d).startswith("app.")]
    return _Function(node, "\n".join(cut), tuple(f"@{ast.unparse(d)}" for d in own))


def _inside_strings(function: ast.FunctionDef) -> set[int]:
    """Return the numbers of the lines that begin inside a string: their indentation is meant."""
    return {
        number
        for node in ast.walk(function)
        if isinstance(node, ast.Constant | ast.JoinedStr)
        for number in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    }


def _is_marked(node: ast.FunctionDef, kind: str) -> bool:
    marks = [ast.unparse(d).partition("(")[0] for d in node.decorator_list]
    return f"app.{kind}" in marks


def _is_stub(function: _Function) -> bool:
    """Whether the body is at most a docstring and `raise NotImplementedError`."""
    body = function.node.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    return len(body) == 1 and ast.unparse(body[0]).startswith("raise NotImplementedError")


def _num_args(function: _Function) -> int:
    args = function.node.args
    return len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs)
