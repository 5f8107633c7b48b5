"""The other end of a channel: the process that runs an answer, and nothing that judges it.

It is asked to load a text's functions and to call them, and says in plain data what came of it.
What is written here may be overwritten by the answer: nothing that matters depends on it.
"""

from __future__ import annotations

import functools
import linecache
import os
import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import torch

from course.answering import argument_names, called_by
from course.called import Opaque
from course.grading.isolation.channel import MOST_REPLY_BYTES
from course.grading.isolation.wire import Storages, WireError, decode, encode
from course.grading.isolation.wire_records import RECORDS
from course.kept_results import KeptResults
from course.observed_call import Printed, observe, plain, raised
from course.source.cells import Notebook
from course.source.cutting import read_notebook
from course.source.notebook import load
from nanogpt.parts.plain_values import kind_of

_LENGTH = struct.Struct(">I")
_OURS = {"benchmarks", "course", "learn", "lessons", "nanogpt", "solutions", "tests", "widgets"}
_NAME = "answers.py"  # of the file, in the words of an error


class Answers:
    """The functions that this process answers for. Mutable: what is loaded, what is under way."""

    def __init__(self, channel: int, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._channel = channel
        self._functions = dict(functions)
        self._results = defaultdict[str, KeptResults](KeptResults)
        self._generators: list[tuple[Callable[..., Any], Generator[Any, Any, Any]]] = []

    def serve(self) -> None:
        """Answer until the channel is closed."""
        while (content := self._receive()) is not None:
            said, storages = decode(content, RECORDS, outward=True)
            reply = getattr(self, f"_{said.pop('do')}")(**said)
            self._send(reply, storages)

    def _load(self, text: str, names: list[str]) -> dict[str, Any]:
        """Take functions out of a lesson's text; say what each is called with and calls."""
        lines = [f"{line}\n" for line in text.split("\n")]
        linecache.cache[_NAME] = (len(text), None, lines, _NAME)  # for the words of errors
        loaded = load(_cut(text), Path(_NAME), names)
        self._functions.update(loaded.functions)
        return {
            "arguments": {name: argument_names(f) for name, f in loaded.functions.items()},
            "problems": loaded.problems,
        }

    def _callees(self, name: str, names: list[str]) -> dict[str, Any]:
        """Say which functions with these names a function calls; they can be asked like it."""
        called = dict(called_by(self._functions[name], names))
        self._functions.update({f"{name}.{each}": f for each, f in called.items()})
        return {"arguments": {f"{name}.{each}": argument_names(f) for each, f in called.items()}}

    def _call(
        self, name: str, args: tuple[Any, ...], seed: int, grad: bool, shared: bool, left: bool
    ) -> dict[str, Any]:
        """Call a function; with `left`, say how it left its arguments.

        With `shared`, tensors keep their storages and generators stay.
        """
        torch.set_grad_enabled(grad)
        function, printed = self._functions[name], Printed()
        keep = self._results[name].keep
        copied = functools.partial(self._shared, function, keep) if shared else keep
        said: dict[str, Any] = {"value": None, "args_after": None, "error": None, "generator": None}
        try:
            value = observe(function, args, seed, printed, copied)
            after = (plain(item, cloned=not shared) for item in args)
            said["args_after"] = tuple(after) if left else None
            if isinstance(value, _Kept):
                said["generator"] = value.number
            else:
                said["value"] = value
        except BaseException as error:  # SystemExit and MemoryError too are the function's own
            said["error"] = raised(error, function)
        return {**said, "stdout": printed.text()}

    def _changed_result(self, name: str) -> dict[str, Any]:
        """Say which result of a function a later call of it has changed."""
        return {"value": self._results[name].changed()}

    def _shared(self, function: Callable[..., Any], keep: Callable[[Any], Any], value: Any) -> Any:
        if not isinstance(value, Generator):
            keep(value)
            return plain(value, cloned=False)
        self._generators.append((function, value))  # pyright: ignore[reportUnknownArgumentType]
        return _Kept(len(self._generators) - 1)

    def _go_on(self, generator: int, how: str, args: tuple[Any, ...]) -> dict[str, Any]:
        """Send to a generator, or close it."""
        function, moves = self._generators[generator]
        said: dict[str, Any] = {"value": None, "error": None, "ended": False}
        printed = Printed()
        try:
            with printed:
                value = getattr(moves, how)(*args)
            said["value"] = plain(value)
        except StopIteration:
            said["ended"] = True
        except BaseException as error:
            said["error"] = raised(error, function)
        return {**said, "stdout": printed.text()}

    def _send(self, said: dict[str, Any], storages: Storages) -> None:
        try:
            frame = encode(said, RECORDS, storages, most=MOST_REPLY_BYTES)
        except WireError:  # the most that can be said of it is what it is
            kind = f"{kind_of(said['value'])} too large to look at"
            frame = encode({**said, "value": Opaque(kind), "args_after": None}, RECORDS, storages)
        content = _LENGTH.pack(len(frame.content)) + frame.content
        while content:
            content = content[os.write(self._channel, content) :]

    def _receive(self) -> bytes | None:
        head = self._read(_LENGTH.size)
        return None if head is None else self._read(*_LENGTH.unpack(head))

    def _read(self, length: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < length:
            part = os.read(self._channel, length - len(parts))
            if not part:
                return None
            parts += part
        return bytes(parts)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A generator that stays here, by its number."""

    number: int


@functools.lru_cache(1)
def _cut(text: str) -> Notebook:
    return read_notebook(text)  # once for all of a lesson's exercises


class _NotTheCourse(MetaPathFinder):
    """Refuses in words what an answer may not import: the course's own modules."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Raises: ModuleNotFoundError for a module of the course."""
        if fullname.partition(".")[0] in _OURS:
            raise ModuleNotFoundError(
                f"an answer may import the standard library, torch and numpy alone, not {fullname}"
            )


def serve(channel: int, functions: Mapping[str, Callable[..., Any]]) -> None:
    """Answer for these functions and those that are loaded; ends the process."""
    sys.meta_path.insert(0, _NotTheCourse())
    try:
        Answers(channel, functions).serve()
    finally:
        sys.stdout.flush()
        os._exit(0)
