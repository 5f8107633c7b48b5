"""Small changes to a function's source, one at a time: what a slip could make of it."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from course.exercise import Function

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


def mutants(function: Function) -> Iterator[tuple[str, Function]]:
    """Yields (name, function) for every change that compiles.

    A name is such as "chunk_size_by_cases(): if num_decodes {>= => >} budget:".
    """
    for old, new, changed in rewritten(function, _variants):
        yield f"{function.__name__}(): {marked(old, new)}", changed


def marked(old: str, new: str) -> str:
    """The line with the words that change in braces: "x = 1" and "x = 2" are "x = {1 => 2}"."""
    before, after = _words(old), _words(new)
    start = _num_shared(before, after)
    end = _num_shared(before[start:][::-1], after[start:][::-1])
    if end and min(len(before), len(after)) == start + end:
        end -= 1  # a word that goes or comes is shown with its neighbour
    was, now = ("".join(words[start : len(words) - end]) for words in (before, after))
    kept = "".join(before[len(before) - end :])
    return f"{''.join(before[:start])}{{{was} => {now}}}{kept}"


def _num_shared(before: list[str], after: list[str]) -> int:
    pairs = zip(before, after, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _words(line: str) -> list[str]:
    return re.findall(r"[\w.]+|\s+|[<>=!]=|//|\*\*|.", line)


def _variants(node: ast.AST) -> Sequence[ast.AST]:
    """The nodes that could replace the node."""
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


def rewritten(
    function: Function,
    instead_of: Callable[[ast.AST], Sequence[ast.AST]],
    parse: Callable[[str], ast.Module] = ast.parse,
) -> Iterator[tuple[str, str, Function]]:
    """Yields (old line, new line, changed function) for all that may stand in a node's place.

    The lines are the first that differ, stripped.
    """
    source = textwrap.dedent(inspect.getsource(function))
    original = ast.unparse(parse(source)).splitlines()
    for index, node in enumerate(ast.walk(parse(source))):
        for variant in range(len(instead_of(node))):
            tree = parse(source)
            target = list(ast.walk(tree))[index]
            tree = _Replace(target, instead_of(target)[variant]).visit(tree)
            space = dict(function.__globals__)
            exec(compile(ast.fix_missing_locations(tree), "<changed>", "exec"), space)
            pairs = zip(original, ast.unparse(tree).splitlines(), strict=False)
            old, new = next(((a.strip(), b.strip()) for a, b in pairs if a != b), ("", ""))
            yield old, new, space[function.__name__]


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self.target, self.replacement = target, replacement

    def visit(self, node: ast.AST) -> Any:
        return self.replacement if node is self.target else self.generic_visit(node)
