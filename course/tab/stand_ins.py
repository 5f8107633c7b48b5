"""Stand-ins for the packages that a page's Python does not have.

Modules of the course import them, and no check of an exercise without tensors needs more of them
than their names: a class for each capitalized name, and nothing for each other one.
"""

import builtins
import dataclasses
import sys
from collections.abc import Mapping, MutableSequence
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, dataclass_transform

_MISSING = ("torch", "cloudpickle", "psutil", "safetensors", "msgspec", "marimo", "anywidget")
_COURSE = ("course", "nanogpt", "solutions", "widgets", "lessons")
_IN_ANSWERS = ("torch", "numpy")


class _Named(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing()


class _Nothing(metaclass=_Named):
    """Whatever is made of it is nothing again: `torch.finfo(torch.float64).eps`."""

    def __init__(self, *_: Any, **_named: Any) -> None:
        pass

    def __init_subclass__(cls, **_: Any) -> None:
        pass

    def __class_getitem__(cls, _: Any) -> type["_Nothing"]:
        return cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing()

    def __call__(self, *_: Any, **_named: Any) -> Any:
        return _Nothing()

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __or__


class _Package(ModuleType):
    __path__: MutableSequence[str] = []  # noqa: RUF012 (the import system asks the class)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (_Nothing,), {}) if name[0].isupper() else _Nothing()
        setattr(self, name, made)
        return made


@dataclass_transform()
class _AsDataclass(type):
    """Makes dataclasses of `msgspec.Struct`'s subclasses."""

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], **how: Any) -> Any:
        made: type[Any] = super().__new__(mcs, name, bases, space)
        return dataclasses.dataclass(frozen="frozen" in how)(made) if bases else made

    def __init__(cls, *args: Any, **_: Any) -> None:
        super().__init__(*args)


class _Struct(metaclass=_AsDataclass):
    pass


class _Finder:
    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        return ModuleSpec(name, self, is_package=True) if _package(name) in _MISSING else None  # pyright: ignore[reportArgumentType]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "msgspec":
            vars(module).update(Struct=_Struct, structs=SimpleNamespace(asdict=vars))


_import = builtins.__import__


def _import_for_answers(
    name: str, space: Mapping[str, Any] | None = None, *rest: Any, **named: Any
) -> ModuleType:
    """`import` as a statement of an answer has it: without the course, as in the course.

    Raises: ModuleNotFoundError.
    """
    if space is not None and str(space.get("__name__")).startswith("<"):
        if _package(name) in _COURSE:
            raise ModuleNotFoundError(
                f"an answer may import only the standard library, torch and numpy, not {name}"
            )
        if _package(name) in _IN_ANSWERS:
            raise ModuleNotFoundError(f"{_package(name)} does not run in a browser")
    return _import(name, space, *rest, **named)


def _package(name: str) -> str:
    return name.partition(".")[0]


def install() -> None:
    """Let the course's modules import what is not here, and answers only what they may."""
    sys.meta_path.append(_Finder())  # pyright: ignore[reportArgumentType]
    builtins.__import__ = _import_for_answers
