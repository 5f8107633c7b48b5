"""A call of an answer, and all that is to be seen of it, in plain data.

Nothing that the function made is passed on itself: results, arguments and errors are copied or put
into words, so that the same check can judge a function that lives elsewhere.
"""

import dataclasses
import dis
import functools
import inspect
import io
import os
import random
import sys
import threading
from collections.abc import Callable
from types import CodeType
from typing import Any, TextIO, cast

import torch

from course.called import Opaque, Raised
from nanogpt.parts.guard import code_inside, describe_error
from nanogpt.parts.plain_values import as_items, as_mapping, as_number, as_tensor, as_truth, kind_of

# Lessons and checks come through here. A second thread of torch's would spin while it waits for
# the first, against the browser and the engine, and make small tensors 20 to 60 times slower.
torch.set_num_threads(1)

_MAX_STDOUT = 10_000  # characters
_MAX_SHOWN = 50_000  # of them, below a cell with a run: a page gets through so many at once
_CUT = "\n... (the rest was cut)\n"
_DEEPEST = 30  # containers in each other
_MOST_BITS = 1023  # of a whole number: the largest float has 1024
_LARGEST = 2**_MOST_BITS - 1  # the largest such number
_ATOMS = frozenset((bool, float, str, bytes, type(None)))
_RAISE = dis.opmap["RAISE_VARARGS"]
_OURS = ("nanogpt", "course", "widgets", "solutions")  # whose dataclasses are plain data


def observe(
    function: Callable[..., Any],
    given: tuple[Any, ...],
    seed: int,
    printed: "Printed",
    copied: Callable[[Any], Any],
) -> Any:
    """What `function(*given)` returns, `copied` into plain data.

    `random` and torch are seeded; what it prints goes to `printed`. Raises: whatever it raises.
    """
    random.seed(seed)
    # Without a GPU, torch.manual_seed keeps a copy of the stack for later, which takes 0.5 ms.
    torch.default_generator.manual_seed(seed)
    with printed:
        value = function(*given)
    return copied(value)


def raised(error: BaseException, function: Callable[..., Any]) -> Raised:
    """What the function raised, in words."""
    kinds = tuple(kind.__name__ for kind in type(error).__mro__)
    told, stub = describe_error(error, function), _unwritten(error)
    if stub is None:
        return Raised(kinds, told)
    own = getattr(inspect.unwrap(function), "__code__", stub)
    return Raised(kinds, told, True, None if stub in code_inside(own) else stub.co_name)


def _unwritten(error: BaseException) -> CodeType | None:
    """The code of the stub that raised: at a `raise` of its own, not within a call to a library."""
    trace = error.__traceback__
    if not isinstance(error, NotImplementedError) or trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return code if code.co_code[trace.tb_lasti] == _RAISE else None


def plain(value: Any, *, cloned: bool = True) -> Any:
    """A copy of `value` in plain data; what is not plain becomes `Opaque`.

    Subclasses and other libraries' scalars become what they stand for: see `plain_values`. Tensors
    keep their storages unless they are `cloned`.
    """
    return _plain(value, (), cloned)


def _plain(value: Any, around: tuple[int, ...], cloned: bool) -> Any:
    """The same, within the containers whose ids are `around`."""
    if type(value) is int:
        return _if_a_float_holds_it(value)
    if type(value) in _ATOMS:
        return value
    if len(around) > _DEEPEST or id(value) in around:
        return Opaque(f"{type(value).__name__} without a bottom")
    around = (*around, id(value))
    if isinstance(value, list | tuple):
        items = as_items(value) or []
        if not _all_plain(items):
            items = [_plain(item, around, cloned) for item in items]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", as_mapping(value))
        return {
            _plain(key, around, cloned): _plain(item, around, cloned)
            for key, item in entries.items()
        }
    if type(value) in (set, frozenset):
        return type(value)(_plain(item, around, cloned) for item in value)
    if isinstance(value, str):
        return str.__str__(value)
    tensor = as_tensor(value)
    if tensor is not None and tensor.dim() > 0:
        return tensor.clone() if cloned else tensor
    for scalar in (as_truth(value), as_number(value), as_items(value)):
        if scalar is not None:
            return _if_a_float_holds_it(scalar) if type(scalar) is int else scalar
    if _is_record(value):
        # Field by field, past __init__ and frozen: the record's own code is not asked.
        twin = object.__new__(type(value))
        for name in field_names(type(value)):
            object.__setattr__(twin, name, _plain(getattr(value, name), around, cloned))
        return twin
    return Opaque(kind_of(value))


def _all_plain(items: list[Any]) -> bool:
    """Whether plain data is all that they are. An answer may return a hundred thousand numbers."""
    kinds = set(map(type, items))
    if kinds == {int}:
        return max(items) <= _LARGEST and min(items) >= -_LARGEST
    return kinds <= _ATOMS


def _if_a_float_holds_it(number: int) -> int | Opaque:
    """Python computes with no larger float; no answer has to be larger."""
    bits = number.bit_length()
    return number if bits <= _MOST_BITS else Opaque(f"int of about {int(bits * 0.30103)} digits")


@functools.cache
def field_names(kind: type[Any]) -> tuple[str, ...]:
    """The names of a record's fields, in order: asked of every record of every call."""
    return tuple(field.name for field in dataclasses.fields(kind))


def _is_record(value: Any) -> bool:
    """Whether it is a record of the course or the engine, and no class that a learner made up."""
    kind = type(value)
    if not dataclasses.is_dataclass(kind) or kind.__module__.partition(".")[0] not in _OURS:
        return False
    return getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind


class _Diverted:
    """Within `with`, what this thread prints comes to `write`."""

    def __enter__(self) -> None:
        _ROUTER.add(self)

    def __exit__(self, *_: object) -> None:
        _ROUTER.remove()

    def write(self, text: str) -> int:
        """Do with it what is to be done; the number of characters, as of any stream."""
        raise NotImplementedError


class Printed(_Diverted):
    """Within `with`, what this thread prints is kept, up to a limit, instead of shown."""

    def __init__(self) -> None:
        self._buffer = io.StringIO()
        self._cut = False

    def write(self, text: str) -> int:
        """Keep as much of it as there is room for."""
        room = _MAX_STDOUT - self._buffer.tell()
        self._buffer.write(text[: max(0, room)])
        self._cut = self._cut or len(text) > room
        return len(text)

    def text(self) -> str:
        """All that was printed."""
        return self._buffer.getvalue() + (_CUT if self._cut else "")


class Shown(_Diverted):
    """Within `with`, what this thread prints is shown as always, but no more than a page bears."""

    def __init__(self) -> None:
        self._room = _MAX_SHOWN

    def write(self, text: str) -> int:
        """Pass on as much of it as there is room for, and say once that there is no more."""
        if self._room >= 0:
            cut = _CUT if len(text) > self._room else ""
            _ROUTER.under.write(text[: self._room] + cut)
            self._room -= len(text)
        return len(text)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function; all that its calls print together is shown up to the limit."""

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            with self:
                return function(*args, **named)

        return call


class _Router:
    """Stands in for `sys.stdout` while a call runs: its thread's text goes to its own buffer.

    Other threads keep printing where they did, so notebooks that share a process do not mix.
    """

    def __init__(self) -> None:
        self.under: TextIO = sys.stdout
        self.start_afresh()

    def start_afresh(self) -> None:
        """Forgets the other threads: in the child of a fork, which has none of them."""
        self._lock = threading.Lock()
        self._to: dict[int, _Diverted] = {}

    def add(self, diverted: _Diverted) -> None:
        with self._lock:
            if sys.stdout is not self:
                self.under, sys.stdout = sys.stdout, self
            self._to[threading.get_ident()] = diverted

    def remove(self) -> None:
        with self._lock:
            self._to.pop(threading.get_ident(), None)
            if not self._to and sys.stdout is self:
                sys.stdout = self.under

    def write(self, text: str) -> int:
        return self._to.get(threading.get_ident(), self.under).write(text)

    def flush(self) -> None:
        if threading.get_ident() not in self._to:
            self.under.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.under, name)


_ROUTER = _Router()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ROUTER.start_afresh)
