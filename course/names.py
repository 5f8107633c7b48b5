"""The names that a statement binds, changes and takes from outside."""

from __future__ import annotations

import ast
import copy
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


def names_of(node: ast.stmt) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The names that a statement binds, needs from outside, and needs in annotations alone."""
    stripped = _Stripped()
    bare = stripped.visit(copy.deepcopy(node))
    table = symtable.symtable(ast.unparse(ast.fix_missing_locations(bare)), "cell", "exec")
    symbols = table.get_symbols()
    binds = frozenset(s.get_name() for s in symbols if s.is_assigned() or s.is_imported())
    needs = {s.get_name() for s in symbols if s.is_referenced()}
    inner = table.get_children()
    while inner:
        scope = inner.pop()
        needs |= {s.get_name() for s in scope.get_symbols() if s.is_global()}
        inner += scope.get_children()
    return binds, frozenset(needs - binds), frozenset(stripped.names - needs - binds)


class _Stripped(ast.NodeTransformer):
    """Takes annotations away and keeps the names in them."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def _keep(self, annotation: ast.expr | None) -> None:
        if annotation is not None:
            found = ast.walk(annotation)
            self.names |= {node.id for node in found if isinstance(node, ast.Name)}

    def visit_arg(self, node: ast.arg) -> ast.arg:
        self._keep(node.annotation)
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._keep(node.returns)
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self._keep(node.annotation)
        self.generic_visit(node)
        if node.value is None:
            return ast.Pass()
        return ast.Assign([node.target], node.value)
