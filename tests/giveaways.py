"""Code of an answer in what a learner reads before it is written."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

_PIECES = ast.BinOp | ast.Compare | ast.BoolOp | ast.IfExp | ast.ListComp | ast.Subscript


def given_away(text: str, function: Callable[..., Any]) -> list[str]:
    """The pieces of the function's code, of at least three names or numbers, that the text holds.

    Spaces and backquotes do not matter, and neither does an order such as `left <= right`.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    pieces = [node for node in ast.walk(tree) if isinstance(node, _PIECES) and _size(node) >= 3]
    return [ast.unparse(node) for node in pieces if _bare(ast.unparse(node)) in _bare(text)]


def _size(node: ast.AST) -> int:
    return sum(isinstance(each, ast.Name | ast.Constant) for each in ast.walk(node))


def _bare(text: str) -> str:
    return "".join(text.replace("`", "").split())
