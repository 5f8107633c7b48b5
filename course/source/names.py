"""The names that a statement binds, changes and takes from outside."""

import ast
import symtable
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one statement.

    It `binds` some and `needs` others from outside; `annotations` stand only in annotations. It may
    change the values of `changes` when it runs (`x[0] = 1`, `n = x.pop()`).
    """

    binds: frozenset[str]
    needs: frozenset[str]
    annotations: frozenset[str]
    changes: frozenset[str]


def is_local(name: str) -> bool:
    """Whether marimo keeps the name to its cell."""
    return name.startswith("_") and not name.startswith("__")


def names_of(source: str, node: ast.stmt) -> Names:
    """Return the names of a statement.

    Raises: SyntaxError where Python refuses what its parser lets pass (a lost `nonlocal`).
    """
    symbols = symtable.symtable(source, "cell", "exec").get_symbols()
    binds = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
        binds = {"*"}
    # Annotations that stay text need no name.
    table = symtable.symtable(f"from __future__ import annotations\n{source}", "cell", "exec")
    needs = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    inner = table.get_children()
    while inner:
        scope = inner.pop()
        found = [s for s in scope.get_symbols() if s.is_global()]
        needs |= {s.get_name() for s in found}
        binds |= {s.get_name() for s in found if s.is_declared_global() and s.is_assigned()}
        inner += scope.get_children()
    return Names(
        binds=frozenset(binds),
        needs=frozenset(needs - binds),
        annotations=frozenset(_in_annotations(node) - needs - binds),
        changes=frozenset(_changed(node)),
    )


def _run_parts(node: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement that run with it, without a function's body."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = [*node.args.defaults, *node.args.kw_defaults]
            yield from [*node.decorator_list, *(each for each in defaults if each is not None)]
        case ast.ClassDef():
            yield from [*node.decorator_list, *node.bases, *(each.value for each in node.keywords)]
            for each in node.body:
                yield from _run_parts(each)
        case _:
            yield node


def _names_in(parts: Iterable[ast.AST]) -> set[str]:
    return {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)}


def _changed(node: ast.stmt) -> Iterator[str]:
    for each in _walk_run_parts(node):
        match each:
            case ast.Call(ast.Attribute() as place):
                yield from _root(place)
            case ast.Call(ast.Name("setattr" | "delattr"), [place, *_]):
                yield from _root(place)
            case _:
                yield from _stored(each)
    for decorator in getattr(node, "decorator_list", []):
        yield from _root(decorator)


def _stored(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()) as place:
            yield from _root(place)
        case ast.Subscript(ctx=ast.Store() | ast.Del()) as place:
            yield from _root(place)
        case _:
            pass


def _root(place: ast.expr) -> Iterator[str]:
    """The name that a chain such as `x.y[0].z()` begins with."""
    while isinstance(place, ast.Attribute | ast.Subscript | ast.Call):
        place = place.func if isinstance(place, ast.Call) else place.value
    if isinstance(place, ast.Name):
        yield place.id


def _walk_run_parts(node: ast.stmt) -> Iterator[ast.AST]:
    return (inner for part in _run_parts(node) for inner in ast.walk(part))


def _in_annotations(node: ast.stmt) -> set[str]:
    return _names_in(
        annotation
        for each in ast.walk(node)
        for field in ("annotation", "returns")
        if isinstance(annotation := getattr(each, field, None), ast.expr)
    )
