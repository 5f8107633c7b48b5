"""Small changes to a function's source, one at a time: what a slip could make of it."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

_COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "tril": "triu", "triu": "tril"}


def mutants(function: Callable[..., Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield ("old line -> new line", changed function) for every change that compiles."""
    source = textwrap.dedent(inspect.getsource(function))
    original = ast.unparse(ast.parse(source)).splitlines()
    for index, node in enumerate(ast.walk(ast.parse(source))):
        for variant in range(len(_variants(node))):
            tree = ast.parse(source)
            target = list(ast.walk(tree))[index]
            tree = _Replace(target, _variants(target)[variant]).visit(tree)
            namespace = dict(function.__globals__)
            exec(compile(ast.fix_missing_locations(tree), "<mutant>", "exec"), namespace)
            changed = ast.unparse(tree).splitlines()
            pairs = zip(original, changed, strict=False)
            old, new = next(((a, b) for a, b in pairs if a != b), ("", ""))
            yield f"{old.strip()} -> {new.strip()}", namespace[function.__name__]


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self.target, self.replacement = target, replacement

    def visit(self, node: ast.AST) -> Any:
        return self.replacement if node is self.target else self.generic_visit(node)


def _variants(node: ast.AST) -> list[ast.AST]:
    """What could stand in the node's place."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right):
            return [ast.Compare(left, [new()], right) for new in _COMPARE.get(type(op), ())]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return [ast.BinOp(left, _ARITHMETIC[type(op)](), right)]
        case ast.BoolOp(op=op, values=values):
            return [ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Constant(value=bool(value)):
            return [ast.Constant(not value)]
        case ast.Constant(value=int(value) | float(value)):
            return [ast.Constant(value + 1), ast.Constant(value - 1)]
        case ast.Name(id=name) if name in _NAMES:
            return [ast.Name(_NAMES[name], ast.Load())]
        case ast.Attribute(value=value, attr=name) if name in _NAMES:
            return [ast.Attribute(value, _NAMES[name], ast.Load())]
        case ast.Slice(lower=lower, upper=upper, step=step):
            halves = [ast.Slice(None, upper, step)] if lower else []
            return halves + ([ast.Slice(lower, None, step)] if upper else [])
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in _ARITHMETIC:
            return [ast.AugAssign(target, _ARITHMETIC[type(op)](), value), ast.Pass()]
        case ast.If(test=test, body=body, orelse=orelse):
            return [ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)]
        case ast.Assign() | ast.Break() | ast.Continue() | ast.Expr(value=ast.Call()):
            return [ast.Pass()]
        case _:
            return []
