"""The other end of a channel: the process that runs answers, and nothing that judges them.

It loads functions, calls them and runs jobs with them, and describes in plain data what came of it.
An answer may overwrite what stands here: nothing that decides about a mark depends on it.
"""

from __future__ import annotations

import contextlib
import dis
import faulthandler
import gc
import inspect
import io
import linecache
import os
import pickle
import random
import signal
import socket
import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from types import CodeType
from typing import Any

from course.calling.channel import MOST_REPLY_BYTES, PACKED, RECORDS
from course.calling.errors import FILE, blame, code_inside, raised
from course.calling.loading import load
from course.calling.plain_values import kind_of
from course.calling.results import Opaque
from course.calling.values import KeptResults, plain
from course.calling.wire import MOST_BYTES, Storages, WireError, decode, encode

_LENGTH = struct.Struct(">I")
_OURS = {"benchmarks", "course", "learn", "lessons", "nanogpt", "solutions", "tests", "widgets"}
_MAX_STDOUT = 10_000  # characters
_MAX_SHOWN = 50_000  # of a run, below its cell: a page gets through so many at once
_CUT = "\n... (the rest was cut)\n"


class Printed(io.TextIOBase):
    """A stream that keeps what is printed, up to a limit."""

    def __init__(self, most: int = _MAX_STDOUT) -> None:
        self._most = most
        self._buffer = io.StringIO()
        self._is_cut = False

    def write(self, text: str) -> int:
        """Keep as much of it as there is room for."""
        room = self._most - self._buffer.tell()
        self._buffer.write(text[: max(0, room)])
        self._is_cut = self._is_cut or len(text) > room
        return len(text)

    def text(self) -> str:
        """All that was printed."""
        return self._buffer.getvalue() + (_CUT if self._is_cut else "")


@dataclass(slots=True)
class _Loaded:
    """The functions of one check, their last results, and the generators under way. Mutable."""

    functions: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    results: defaultdict[str, KeptResults] = field(
        default_factory=lambda: defaultdict[str, KeptResults](KeptResults)
    )
    generators: list[tuple[Callable[..., Any], Generator[Any, Any, Any]]] = field(
        default_factory=list[tuple[Callable[..., Any], Generator[Any, Any, Any]]]
    )


class Answers:
    """Replies to what answers are asked. Mutable: the state of the check under way."""

    def __init__(self) -> None:
        self._state = _Loaded()

    def reply(self, said: dict[str, Any]) -> dict[str, Any]:
        """The reply to a message, both in plain data."""
        return getattr(self, f"_{said['do']}")(**{k: v for k, v in said.items() if k != "do"})

    def _load(self, text: str, names: list[str]) -> dict[str, Any]:
        """Load functions from an answer's text, with sentences on what each of them lacks.

        A check begins with it, and nothing of the one before is kept.
        """
        self._state = _Loaded()
        with contextlib.redirect_stdout(Printed(0)):
            loaded = load(text, FILE, names)
        return {**self.take(loaded.functions), "problems": loaded.problems}

    def _unpickle(self, name: str, **packed: Any) -> dict[str, Any]:
        """Take a function of the course's own."""
        self._state = _Loaded()
        try:
            return self.take({name: _unpacked(**packed)})
        except BaseException as error:
            return {"arguments": {}, "error": raised(error, pickle.loads)}

    def take(self, functions: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
        """Add functions to the check; the names of their arguments."""
        self._state.functions.update(functions)
        return {"arguments": {name: argument_names(f) for name, f in functions.items()}}

    def _callees(self, name: str, names: list[str]) -> dict[str, Any]:
        """List the functions with these names that a function calls; they can be called too."""
        called = _called_by(self._state.functions[name], names)
        return self.take({f"{name}.{each}": function for each, function in called})

    def _call(
        self, name: str, args: tuple[Any, ...], seed: int, grad: bool, shared: bool, left: bool
    ) -> dict[str, Any]:
        """Call a function; with `left`, say how it left its arguments.

        `random` and torch are seeded. With `shared`, tensors keep their storages and generators
        stay here.
        """
        function, printed = self._state.functions[name], Printed()
        random.seed(seed)
        if (torch := sys.modules.get("torch")) is not None:  # which many answers do without
            torch.set_grad_enabled(grad)
            # torch.manual_seed keeps a copy of the stack for later, which takes 0.5 ms.
            torch.default_generator.manual_seed(seed)
        said: dict[str, Any] = {"value": None, "args_after": None, "error": None, "generator": None}
        try:
            with contextlib.redirect_stdout(printed):
                value = function(*args)
            if shared and isinstance(value, Generator):
                self._state.generators.append((function, value))  # pyright: ignore[reportUnknownArgumentType]
                said["generator"] = len(self._state.generators) - 1
            else:
                said["value"] = self._state.results[name].keep(value, cloned=not shared)
            after = (plain(item, cloned=not shared) for item in args)
            said["args_after"] = tuple(after) if left else None
        except BaseException as error:  # SystemExit and MemoryError too are the function's own
            said["error"] = raised(error, function)
        return {**said, "stdout": printed.text()}

    def _run(self, **packed: Any) -> dict[str, Any]:
        """Run a job; its result is pickled, and `why` says why it failed."""
        import torch  # which a check may do without

        torch.set_grad_enabled(False)
        printed = Printed(_MAX_SHOWN)
        said: dict[str, Any] = {"value": b"", "why": None}
        try:
            with contextlib.redirect_stdout(printed):
                job, args = _unpacked(**packed)
                said["value"] = pickle.dumps(job(*args), protocol=5)
        except BaseException as error:  # SystemExit and MemoryError too
            said["why"] = blame(error)
        return {**said, "stdout": printed.text()}

    def _changed_result(self, name: str) -> dict[str, Any]:
        """Find a result of a function that a later call of it has changed."""
        return {"value": self._state.results[name].changed()}

    def _go_on(self, generator: int, how: str, args: tuple[Any, ...]) -> dict[str, Any]:
        function, moves = self._state.generators[generator]
        said: dict[str, Any] = {"value": None, "error": None, "ended": False}
        printed = Printed()
        try:
            with contextlib.redirect_stdout(printed):
                value = getattr(moves, how)(*args)
            said["value"] = plain(value)
        except StopIteration:
            said["ended"] = True
        except BaseException as error:
            said["error"] = raised(error, function)
        return {**said, "stdout": printed.text()}


class _Served:
    """One channel, on which answers reply in frames."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def serve(self, answers: Answers) -> None:
        """Reply until the channel is closed."""
        while (content := self._receive()) is not None:
            said, storages = decode(content, RECORDS, packed=PACKED)
            self._send(answers.reply(said), storages)

    def _send(self, said: dict[str, Any], storages: Storages) -> None:
        try:
            most = MOST_BYTES if said.get("why", "") != "" else MOST_REPLY_BYTES
            frame = encode(said, RECORDS, storages, most=most)
        except WireError:  # the most that can be said of it is its type
            kind = f"{kind_of(said['value'])} too large to look at"
            frame = encode({**said, "value": Opaque(kind), "args_after": None}, RECORDS, storages)
        self._channel.sendall(_LENGTH.pack(len(frame.content)) + frame.content)

    def _receive(self) -> bytes | None:
        head = self._read(_LENGTH.size)
        return None if head is None else self._read(*_LENGTH.unpack(head))

    def _read(self, length: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < length:
            part = self._channel.recv(length - len(parts))
            if not part:
                return None
            parts += part
        return bytes(parts)


def _unpacked(
    content: bytes, sources: dict[str, str], path: list[str], recursion_limit: int
) -> Any:
    """The value of `functions.packed`; `sources` are the texts of cells, for errors.

    Modules are found where the process that asks finds them, such as beside a notebook.
    """
    sys.path += [each for each in path if each not in sys.path]
    sys.setrecursionlimit(recursion_limit)
    linecache.cache.update({file: _cached(text) for file, text in sources.items()})
    return pickle.loads(content)


def _cached(text: str) -> tuple[int, None, list[str], str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    return len(text), None, lines, FILE


def argument_names(function: Callable[..., Any]) -> list[str]:
    """The function's own names for its arguments; none where it has no signature."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _called_by(
    function: Callable[..., Any], names: Sequence[str]
) -> list[tuple[str, Callable[..., Any]]]:
    """The functions of these names that this one names among its globals."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return []
    named = {
        each.argval
        for part in code_inside(code)
        for each in dis.get_instructions(part)
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")  # an attribute may have the same name
    }
    space: dict[str, Any] = getattr(function, "__globals__", {})
    found = [(name, space.get(name)) for name in names if name in named]
    return [(name, it) for name, it in found if callable(it) and it is not function]


class _NotTheCourse(MetaPathFinder):
    """Refuses an import of the course's own modules, with a sentence."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Raises: ModuleNotFoundError for a module of the course."""
        if fullname.partition(".")[0] in _OURS:
            raise ModuleNotFoundError(
                "an answer may import only the standard library, torch and numpy, not " + fullname
            )


def refuse_the_course() -> None:
    """From here on an import of the course's own modules fails with a sentence."""
    sys.meta_path.insert(0, _NotTheCourse())


def serve(channel: socket.socket) -> None:
    """Answer over this channel until it is closed; ends the process."""
    faulthandler.enable(all_threads=True)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    gc.freeze()
    sys.stderr = Printed(0)  # what lies behind it is for the fault handler, and has no limit
    try:
        channel.send(b"r")  # ready; where credentials go along, they say which process this is
        _Served(channel).serve(Answers())
    finally:
        os._exit(0)
