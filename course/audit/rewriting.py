"""A function's source, changed in one piece at a time and compiled anew."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from course.exercise import Function


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
