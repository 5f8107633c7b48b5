"""The names that a statement binds, changes and takes from outside."""

from __future__ import annotations

import ast
import symtable


def is_local(name: str) -> bool:
    """Whether marimo keeps the name to its cell."""
    return name.startswith("_") and not name.startswith("__")


def changed_by(node: ast.stmt) -> set[str]:
    """The names whose values a statement may change in place: `x[0] = 1`, `x.append(2)`."""
    match node:
        case ast.Assign(targets=places):
            pass
        case ast.AugAssign(target=place):
            places = [place]
        case ast.Expr(ast.Call(ast.Attribute() as place)):
            places = [place]
        case _:
            places = []
    names: set[str] = set()
    for place in places:
        while isinstance(place, ast.Attribute | ast.Subscript):
            place = place.value
        names |= {place.id} if isinstance(place, ast.Name) else set()
    return names


def names_of(source: str, node: ast.stmt) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The names that a statement binds, needs from outside, and needs in annotations alone.

    Raises: SyntaxError where Python refuses what its parser lets pass (a lost `nonlocal`).
    """
    symbols = symtable.symtable(source, "cell", "exec").get_symbols()
    binds = frozenset(s.get_name() for s in symbols if s.is_assigned() or s.is_imported())
    # Annotations that stay text need no name.
    table = symtable.symtable(f"from __future__ import annotations\n{source}", "cell", "exec")
    needs = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    inner = table.get_children()
    while inner:
        scope = inner.pop()
        needs |= {s.get_name() for s in scope.get_symbols() if s.is_global()}
        inner += scope.get_children()
    return binds, frozenset(needs - binds), frozenset(_in_annotations(node) - needs - binds)


def _in_annotations(node: ast.stmt) -> set[str]:
    found = [
        annotation
        for each in ast.walk(node)
        for field in ("annotation", "returns")
        if isinstance(annotation := getattr(each, field, None), ast.expr)
    ]
    return {n.id for each in found for n in ast.walk(each) if isinstance(n, ast.Name)}
