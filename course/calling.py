"""The one way a check reaches an answer: plain data in, plain data out, under a limit.

Nothing is shared with the function: arguments are copied before the call and the result is copied
after it, so that the same check can drive a function that lives elsewhere.
"""

import copy
import dataclasses
import io
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO, cast

import torch

from nanogpt.guard import run_limited

# Lessons and checks come through here. A second thread of torch's would spin while it waits for
# the first, against the browser and the engine, and make small tensors 20 to 60 times slower.
torch.set_num_threads(1)

_MAX_STDOUT = 10_000  # characters
_CUT = "\n... (the rest was cut)\n"


@dataclass(frozen=True, slots=True)
class Called:
    """What one call came to. `args_after` are the copies it was given, as it left them.

    `error` is what it raised; `value` and `args_after` are None and () when it did not return.
    """

    value: Any
    args_after: tuple[Any, ...]
    error: BaseException | None
    timed_out: bool
    stdout: str
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Opaque:
    """Stands for a result that is not plain data (a generator, a class): only its type's name."""

    type_name: str

    def __repr__(self) -> str:
        return f"<a {self.type_name}>"


def call(
    function: Callable[..., Any], args: tuple[Any, ...], *, limit_s: float = 2.0, seed: int = 0
) -> Called:
    """Calls `function` on copies of `args`, with `random` and torch seeded.

    Plain data is numbers, strings, lists, tuples, dicts, sets, tensors and dataclasses of these.
    Never raises for what the function does; see `run_limited` for the limit.
    """
    given = copy.deepcopy(args)
    torch = sys.modules.get("torch")  # an exercise without tensors does not load it
    grad = torch is not None and torch.is_grad_enabled()
    printed = _Printed()

    def run() -> tuple[Any, tuple[Any, ...]]:
        random.seed(seed)
        if torch is not None:
            torch.set_grad_enabled(grad)  # per thread, and this is another one than the caller's
            torch.manual_seed(seed)
        with printed:
            value = function(*given)
        return plain(value), tuple(plain(item) for item in given)

    outcome = run_limited(run, (), limit_s=limit_s)
    value, args_after = (None, ()) if outcome.value is None else outcome.value
    return Called(
        value, args_after, outcome.error, outcome.timed_out, printed.text(), outcome.cpu_s
    )


def plain(value: Any) -> Any:
    """A copy of `value` in plain data; what is not plain becomes `Opaque`."""
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(plain(item) for item in value)
    if type(value) is dict:
        mapping = cast("dict[Any, Any]", value)
        return {plain(key): plain(item) for key, item in mapping.items()}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().clone()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Field by field, past __init__ and frozen: the record's own code is not asked.
        twin = object.__new__(type(value))
        for field in dataclasses.fields(value):
            object.__setattr__(twin, field.name, plain(getattr(value, field.name)))
        return twin
    return Opaque(type(value).__name__)


class _Printed:
    """Within `with`, what this thread prints is kept, up to a limit, instead of shown."""

    def __init__(self) -> None:
        self._buffer = io.StringIO()
        self._cut = False

    def __enter__(self) -> None:
        _ROUTER.add(self)

    def __exit__(self, *_: object) -> None:
        _ROUTER.remove()

    def write(self, text: str) -> int:
        room = _MAX_STDOUT - self._buffer.tell()
        self._buffer.write(text[: max(0, room)])
        self._cut = self._cut or len(text) > room
        return len(text)

    def text(self) -> str:
        return self._buffer.getvalue() + (_CUT if self._cut else "")


class _Router:
    """Stands in for `sys.stdout` while a call runs: its thread's text goes to its own buffer.

    Other threads keep printing where they did, so notebooks that share a process do not mix.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._to: dict[int, _Printed] = {}
        self._under: TextIO = sys.stdout

    def add(self, printed: _Printed) -> None:
        with self._lock:
            if sys.stdout is not self:
                self._under, sys.stdout = sys.stdout, self
            self._to[threading.get_ident()] = printed

    def remove(self) -> None:
        with self._lock:
            self._to.pop(threading.get_ident(), None)
            if not self._to and sys.stdout is self:
                sys.stdout = self._under

    def write(self, text: str) -> int:
        return self._to.get(threading.get_ident(), self._under).write(text)

    def flush(self) -> None:
        if threading.get_ident() not in self._to:
            self._under.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._under, name)


_ROUTER = _Router()
