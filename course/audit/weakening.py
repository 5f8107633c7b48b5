"""Right answers made weaker on purpose: each one forgets something that a check has to ask about.

Three kinds: an argument (or a field of it) is seen less sharply, the result is given less sharply,
or a piece of the source is left out.
"""

import ast
import contextlib
import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor

from course.audit.mutants import rewritten
from course.calling.errors import code_inside
from course.exercise import Function

Blur = Callable[[Any], Any]
Calls = Sequence[tuple[Any, ...]]


def weakenings(function: Function, calls: Calls) -> Iterator[tuple[str, Function]]:
    """Yields (name, weaker function). `calls` are arguments that its check asked about."""
    names = list(inspect.signature(function).parameters)
    used = {name for code in code_inside(function.__code__) for name in code.co_names}
    for index, name in enumerate(names):
        values = [args[index] for args in calls if index < len(args)]
        for how, blur in _blurs(name, values, used):
            yield how, _seeing(function, index, blur)
        if any(isinstance(value, list) and value for value in values):
            yield f"{name} changed in place", _changing(function, index)
    results = _results(function, calls[:12]) if names else ()  # without arguments it is constant
    for how, blur in _blurs("result", list(results), used):
        yield how, _giving(function, blur)
    for _, line, changed in rewritten(function, _left_out, _without_annotations):
        yield line, changed


def _results(function: Function, calls: Calls) -> Iterator[Any]:
    for args in calls:
        with contextlib.suppress(ValueError):  # which may be what the answer has to do
            yield function(*copy.deepcopy(args))


def _seeing(function: Function, index: int, blur: Blur) -> Function:
    def weaker(*args: Any) -> Any:
        return function(*args[:index], blur(args[index]), *args[index + 1 :])

    return weaker


def _giving(function: Function, blur: Blur) -> Function:
    return lambda *args: blur(function(*args))


def _changing(function: Function, index: int) -> Function:
    def weaker(*args: Any) -> Any:
        value = function(*copy.deepcopy(args))
        args[index].extend(args[index][:1])
        return value

    return weaker


# --- seen less sharply -------------------------------------------------------------------------


def _blurs(name: str, values: Sequence[Any], used: set[str]) -> Iterator[tuple[str, Blur]]:
    """(what is lost, how), for values like these; the first of them stands for all in one.

    Of a record only the fields in `used` are looked at.
    """
    known = [value for value in values if value is not None]
    if not known:
        return
    first = known[0]
    if callable(first) or inspect.isgenerator(first):
        return
    if not isinstance(first, list):
        yield f"{name} always {_short(first)}", lambda value: copy.deepcopy(first)
    if isinstance(first, bool | str):
        return
    if isinstance(first, int | float):
        if any(isinstance(value, float) and value % 1 for value in known):
            yield f"{name} rounded", _number(round)
            yield f"{name} rounded to hundredths", _number(lambda value: round(value, 2))
        else:
            yield f"{name} at most 7", _number(lambda value: min(value, 7))
            yield f"{name} at least 1", _number(lambda value: max(value, 1))
    elif dataclasses.is_dataclass(first):
        yield from _field_blurs(name, known, used, lambda blur: blur)
    elif isinstance(first, Tensor):
        if first.is_floating_point():
            yield f"{name} rounded", lambda value: value.round()
    elif isinstance(first, list | tuple):
        yield from _sequence_blurs(name, known, used)


def _sequence_blurs(name: str, values: Sequence[Any], used: set[str]) -> Iterator[tuple[str, Blur]]:
    items = [item for value in values for item in value]
    kind = type(values[0])
    yield f"{name}: only the first", lambda value: value[:1]
    yield f"{name}: not the last", lambda value: value[:-1]
    if not items:
        return
    if kind is list:
        yield f"{name}: reversed", lambda value: value[::-1]
        if all(isinstance(item, int | float) for item in items):
            yield f"{name}: sorted", sorted
            yield f"{name}: without repeats", lambda value: list(dict.fromkeys(value))
    if dataclasses.is_dataclass(items[0]):
        yield from _field_blurs(name, items, used, lambda blur: lambda value: [*map(blur, value)])


def _field_blurs(
    name: str, records: Sequence[Any], used: set[str], lift: Callable[[Blur], Blur]
) -> Iterator[tuple[str, Blur]]:
    for field in dataclasses.fields(records[0]):
        if field.name in used:
            values = [getattr(record, field.name) for record in records]
            for how, blur in _blurs(f"{name}.{field.name}", values, used):
                yield how, lift(_on_field(field.name, blur))


def _on_field(name: str, blur: Blur) -> Blur:
    def blurred(record: Any) -> Any:
        value = getattr(record, name)
        return record if value is None else dataclasses.replace(record, **{name: blur(value)})

    return blurred


def _number(blur: Blur) -> Blur:
    return lambda value: blur(value) if isinstance(value, int | float) else value


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 24 else f"{text[:21]}..."


# --- left out of the source --------------------------------------------------------------------


def _without_annotations(source: str) -> ast.Module:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Name("object", ast.Load())
    return tree


def _left_out(node: ast.AST) -> list[ast.AST]:
    """The node without one of its pieces, for each piece."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            return [left, right] if isinstance(node.op, ast.Add | ast.Mult) else [left]
        case ast.BoolOp(op=op, values=values):
            rests = [[v for v in values if v is not each] for each in values]
            return [ast.BoolOp(op, rest) if len(rest) > 1 else rest[0] for rest in rests]
        case ast.Call(func=ast.Name(id="min" | "max"), args=[_, _, *_]):
            return list(node.args)
        case ast.Call(func=ast.Name(id="sorted" | "reversed"), args=[first]):
            return [ast.Call(ast.Name("list", ast.Load()), [first], [])]
        case ast.Call(func=ast.Name(id="int" | "round" | "abs"), args=[first]):
            return [first]
        case ast.comprehension(ifs=[_, *_]):
            return [ast.comprehension(node.target, node.iter, [], node.is_async)]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.Tuple(elts=[first, second, *rest], ctx=ast.Load()):
            shorter = [[e for e in node.elts if e is not each] for each in node.elts]
            hundred = ast.BinOp(first, ast.Mult(), ast.Constant(100))
            weighed = [ast.BinOp(hundred, ast.Add(), second), *rest]
            return [ast.Tuple(elts, ast.Load()) for elts in (*shorter, weighed)]
        case _:
            return []
