"""Names with a leading underscore, which each cell of marimo has for itself, under other names."""

import ast
import copy
import symtable
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from course.source.names import is_local

Tree = TypeVar("Tree", bound=ast.AST)


def rename(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Give names at the top of a cell other names, in place, and wherever functions use them."""
    if names:
        _Renaming(names).visit(tree)
    return ast.fix_missing_locations(tree)


def private_names(source: str) -> set[str]:
    """Return the private names that a cell binds at its top. Raises: SyntaxError."""
    return set(filter(is_local, _bound(source)))


def _bound(source: str) -> set[str]:
    symbols = symtable.symtable(source, "cell", "exec").get_symbols()
    return {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}


class _Renaming(ast.NodeTransformer):
    """Follows Python's scopes: what a function binds itself keeps its name."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names  # as the scope sees them
        self.around = names  # as functions within it do: they pass over a class

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        node.names = [self.names.get(name, name) for name in node.names]
        return node

    def visit_alias(self, node: ast.alias) -> ast.AST:
        new = self.names.get(node.asname or node.name)
        node.asname = new or node.asname
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = node.name and self.names.get(node.name, node.name)
        return self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> ast.AST:
        node.name = node.name and self.names.get(node.name, node.name)
        return self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        node.rest = node.rest and self.names.get(node.rest, node.rest)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        own = _own_of(node)
        node.name = self.names.get(node.name, node.name)
        self._each([*node.decorator_list, node.args])
        node.returns = node.returns and self.visit(node.returns)
        self._inside(node.body, own)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._each([node.args])
        arguments = [each for each in ast.walk(node.args) if isinstance(each, ast.arg)]
        self._inside([node.body], {each.arg for each in arguments})
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        body = ast.unparse(ast.Module([*node.body], []))
        node.name = self.names.get(node.name, node.name)
        self._each([*node.decorator_list, *node.bases, *node.keywords])
        self._inside(node.body, _bound(body), is_class=True)
        return node

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> ast.AST:
        first = node.generators[0]
        first.iter = self.visit(first.iter)
        iterated, first.iter = first.iter, ast.Constant(None)
        targets = [each for part in node.generators for each in ast.walk(part.target)]
        own = {each.id for each in targets if isinstance(each, ast.Name)}
        names, self.names = self.names, _less(self.around, own)
        self.generic_visit(node)
        self.names, first.iter = names, iterated
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _inside(self, body: Iterable[ast.AST], own: set[str], *, is_class: bool = False) -> None:
        before = self.names, self.around
        self.names = _less(self.around, own)
        if not is_class:
            self.around = self.names
        self._each(body)
        self.names, self.around = before

    def _each(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


class _Alone(ast.NodeTransformer):
    """Makes a function stand by itself: its names of other scopes become its own."""

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        return ast.copy_location(ast.Pass(), node)


def _own_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """A function's local names."""
    alone: Any = copy.deepcopy(node)
    alone.decorator_list = alone.type_params = []
    alone.body = [_Alone().visit(each) for each in alone.body]
    alone.args.defaults = [ast.Constant(None) for _ in alone.args.defaults]
    alone.args.kw_defaults = [each and ast.Constant(None) for each in alone.args.kw_defaults]
    source = f"from __future__ import annotations\n{ast.unparse(ast.fix_missing_locations(alone))}"
    [table] = symtable.symtable(source, "cell", "exec").get_children()
    return {s.get_name() for s in table.get_symbols() if s.is_local()}


def _less(names: Mapping[str, str], own: set[str]) -> dict[str, str]:
    return {name: new for name, new in names.items() if name not in own}
