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
            takes = [each.arg for each in node.args.args]
            gives = [each.id for each in ast.walk(last) if isinstance(each, ast.Name)]
            of = set[str]().union(*(depends[name] for name in takes))
            framed = bool(of) and output != "None"
            of.update(_ANSWER.findall(code := "\n".join(map(ast.unparse, body))))
            depends |= dict.fromkeys(gives, of)
            if takes or gives:
                cells[place] = {"code": code, "output": output, "takes": takes, "gives": gives}
                cells[place] |= {"of": sorted(of), "framed": framed}
    return {"setup": "\n".join(map(ast.unparse, setup)), "cells": cells}
