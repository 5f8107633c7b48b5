"""The cells of a lesson as a page's Python runs them, which has no marimo."""

import ast
import re
from typing import Any

_ANSWER = re.compile(r"\battempt\('([\w.]+)'")


def cells_of(lesson: str) -> dict[str, Any]:
    """A lesson's `setup`, and by place those of its `cells` that take or give a name.

    Each has its `code`, the expression of its `output`, and the answers that it is `of`. One that
    shows what others make of answers has a frame in the page.
    """
    tree = ast.parse(lesson)
    [setup] = [node.body for node in tree.body if isinstance(node, ast.With)]
    cells: dict[int, Any] = {}
    depends: dict[str, set[str]] = {}
    nodes = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    for place, node in enumerate(nodes):
        if isinstance(node, ast.FunctionDef) and node.name == "_":
            *body, last = node.body
            output = ast.unparse(body.pop()) if isinstance(body[-1], ast.Expr) else "None"
            cell: dict[str, Any] = {"code": "\n".join(map(ast.unparse, body)), "output": output}
            cell["takes"] = [each.arg for each in node.args.args]
            cell["gives"] = [each.id for each in ast.walk(last) if isinstance(each, ast.Name)]
            own = set(_ANSWER.findall(cell["code"]))
            of = own.union(*(depends[name] for name in cell["takes"]))
            depends |= dict.fromkeys(cell["gives"], of)
            cell |= {"of": sorted(of), "framed": bool(of - own) and output != "None"}
            if cell["takes"] or cell["gives"]:
                cells[place] = cell
    return {"setup": "\n".join(map(ast.unparse, setup)), "cells": cells}
