"""Stand-ins for the packages that a page's Python does not have.

Modules of the course import them, and no check of an exercise without tensors needs more of them
than their names: a class for each capitalized name, and nothing for each other one.
"""

import builtins
import dataclasses
import json
import pickle
import sys
from collections.abc import Mapping, MutableSequence
from copy import deepcopy
from dataclasses import asdict
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, BinaryIO

_MISSING = ("torch", "cloudpickle", "msgspec", "marimo", "anywidget", "traitlets", "safetensors")
_COURSE = ("course", "nanogpt", "solutions", "widgets", "lessons")
_IN_ANSWERS = ("torch", "numpy")


class Nothing:
    """Whatever is made of it is nothing again; it keeps its named arguments only."""

    def __init__(self, *_: Any, **named: Any) -> None:
        vars(self).update(named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *_: Any, **_named: Any) -> Any:
        """Return nothing."""
        return Nothing()


class _Package(ModuleType):
    __path__: MutableSequence[str] = []  # noqa: RUF012 (the import system asks the class)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Nothing,), {}) if name[0].isupper() else Nothing()
        setattr(self, name, made)
        return made


class _Struct:
    def __init_subclass__(cls, *, frozen: bool = False, **_: Any) -> None:
        for name in [name for name, value in vars(cls).items() if value == []]:
            setattr(cls, name, dataclasses.field(default_factory=list[Any]))
        made: Any = dataclasses.dataclass(unsafe_hash=frozen)(cls)
        made.__struct_fields__ = tuple(each.name for each in dataclasses.fields(made))


_KEPT: dict[int, Any] = {}  # jobs, which stay in this process


class _Pickler:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def dump(self, value: Any) -> None:
        _KEPT[id(value)] = value
        pickle.dump(_Kept(id(value)), self._file)


class _Kept(int):
    def __reduce__(self) -> Any:
        return _take, (int(self),)


def _take(key: int) -> Any:
    return deepcopy(_KEPT.pop(key))


NAMES: dict[str, dict[str, Any]] = {
    "anywidget": {"AnyWidget": type("AnyWidget", (Nothing,), {"_esm": "", "_css": ""})},
    "cloudpickle": {"Pickler": _Pickler},
    "msgspec": {
        "Struct": _Struct,
        "convert": lambda value, *_, **_named: value,
        "to_builtins": lambda value, **_: value,
        "json": SimpleNamespace(encode=partial(json.dumps, default=asdict), decode=json.loads),
        "structs": SimpleNamespace(replace=dataclasses.replace, asdict=vars),
    },
}  # fmt: skip


class _Finder:
    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.partition(".")[0] in _MISSING:
            return ModuleSpec(name, self, is_package=True)  # pyright: ignore[reportArgumentType]
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(NAMES.get(module.__name__, {}))


_import = builtins.__import__


def _import_for_answers(
    name: str, space: Mapping[str, Any] | None = None, *rest: Any, **named: Any
) -> ModuleType:
    """`import` as a statement of an answer has it: without the course, as in the course.

    Raises: ModuleNotFoundError.
    """
    if space is not None and str(space.get("__name__")).startswith("<"):
        package = name.partition(".")[0]
        if package in _COURSE:
            raise ModuleNotFoundError(
                f"an answer may import only the standard library, torch and numpy, not {name}"
            )
        if package in _IN_ANSWERS:
            raise ModuleNotFoundError(f"{package} does not run in a browser")
    return _import(name, space, *rest, **named)


def install() -> None:
    """Let the course's modules import what is not here, and answers only what they may."""
    sys.meta_path.append(_Finder())  # pyright: ignore[reportArgumentType]
    builtins.__import__ = _import_for_answers
