"""A learner's functions as they travel, pickled with all that they use."""

import functools
import inspect
import io
import linecache
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import CodeType
from typing import Any

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from course.calling.results import PROJECT
from course.source.answer import Answer

_DEEPEST = 5  # containers, records and closures in each other, where functions are looked for
_IMPORTABLE = {"__main__", "nanogpt", "course", "widgets", "torch", "numpy"} | (
    sys.stdlib_module_names
)


def functions_in(value: Any, depth: int = 0) -> Iterator[Any]:
    """The functions that are no module's of ours, in containers, records and closures too.

    A learner's answer comes as its `Answer`.
    """
    if depth > _DEEPEST:
        return
    inside: Iterable[Any] = ()
    if isinstance(value, Answer):
        yield value
    elif hasattr(value, "__code__"):
        if str(value.__module__).partition(".")[0] not in PROJECT:
            yield value
        with suppress(ValueError):  # a cell without contents
            inside = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    elif isinstance(value, dict):
        inside = value.values()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    elif isinstance(value, list | tuple):
        inside = value  # pyright: ignore[reportUnknownVariableType]
    elif hasattr(value, "__dataclass_fields__"):
        inside = [getattr(value, name, None) for name in value.__dataclass_fields__]
    for each in inside:
        yield from functions_in(each, depth + 1)


class Pickler(cloudpickle.Pickler):
    """Writes what cloudpickle does, weak dictionaries (of `singledispatch`), and the learner's
    functions under `lru_cache`.
    """

    def reducer_override(self, obj: Any) -> Any:
        """How an object is written, where that is not as usual."""
        if isinstance(obj, weakref.WeakKeyDictionary):
            return weakref.WeakKeyDictionary, (dict[Any, Any](obj),)
        if isinstance(obj, functools._lru_cache_wrapper) and _is_theirs(obj):  # pyright: ignore[reportPrivateUsage]
            return functools.lru_cache(**obj.cache_parameters()), (obj.__wrapped__,)
        return super().reducer_override(obj)


def _is_theirs(function: Any) -> bool:
    """Whether a child process cannot import the function."""
    package = str(function.__module__).partition(".")[0]
    return package == "__main__" or package not in _IMPORTABLE


def packed(value: Any, pickler: type[cloudpickle.Pickler] = Pickler) -> dict[str, Any]:
    """A value as a child process unpacks it, its functions with all that they use.

    Raises: TypeError naming what cannot travel.
    """
    yours = list(functions_in(value))
    for function in yours:
        module = sys.modules.get(getattr(function, "__module__", None) or "__main__")
        if module is not None and module.__name__.partition(".")[0] not in _IMPORTABLE:
            cloudpickle.register_pickle_by_value(module)
    try:
        pickler(file := io.BytesIO()).dump(value)
    except Exception as error:  # a file, a lock, a generator: each has an error of its own
        raise TypeError(str(error)) from None
    return {
        "content": file.getvalue(),
        "sources": {name: text for each in yours for name, text in _sources(each).items()},
        "path": [each for each in sys.path if each],
        "recursion_limit": sys.getrecursionlimit(),
    }


def _sources(function: Callable[..., Any]) -> dict[str, str]:
    """The text of the function's cell, which only this process knows, by the cell's name."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(code, CodeType):
        return {}
    return {code.co_filename: "".join(linecache.getlines(code.co_filename)).rstrip("\n")}
