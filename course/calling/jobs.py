"""Whole runs in a child process: an engine, a fleet or a server with a learner's functions in it.

A job is a function and its arguments; both travel by cloudpickle, and the result comes back as
records of the project.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from course.calling.channel import LostError, TooSlowError
from course.calling.errors import BACKSTOP, describe_timeout, place_in
from course.calling.functions import Pickler, functions_in, packed
from course.calling.loading import file_of
from course.calling.processes import Starter, own_starter
from course.calling.results import PROJECT, CallResult
from course.source.answer import Answer
from nanogpt.checkpoints.weights import load_model
from nanogpt.model import GPT

Value = TypeVar("Value")

_JOB_S = 10.0  # of computing
_CALL_S = 2.0
_MOST_RESULT = 64 << 20  # bytes
_ELSEWHERE = {
    "builtins": {"set", "frozenset", "complex", "slice", "range", "bytearray"},
    "collections": {"Counter", "OrderedDict", "defaultdict", "deque"},
    "torch._utils": {"_rebuild_tensor_v2"},
}


class RunError(Exception):
    """Why a run with a learner's functions stopped: one sentence that its author can act on."""


def run(
    job: Callable[..., Value], *args: Any, limit_s: float = _JOB_S, starter: Starter | None = None
) -> Value:
    """Return the result of `job(*args)` in a child process; its prints are relayed.

    The job and its arguments may hold learners' functions. Raises: RunError.
    """
    found = list(functions_in((job, args)))
    try:
        message = {"do": "run", **packed((job, args), _JobPickler)}
        with (starter or own_starter()).start() as channel:
            reply = channel.exchange(message, limit_s, BACKSTOP * limit_s, most=_MOST_RESULT)
        printed, why = reply.take("stdout", str), reply.take("why", str, type(None))
        if printed:
            sys.stdout.write(printed)
        if why is not None:
            raise RunError(why)
        return _Records(io.BytesIO(reply.take("value", bytes))).load()
    except LostError as lost:
        raise RunError(f"the run {lost.words}") from None
    except TooSlowError as slow:
        raise RunError(_stopped(slow, limit_s, found)) from None
    except TypeError as error:
        raise RunError(
            f"the run could not be sent to the process that computes it: {error}"
        ) from None
    except pickle.UnpicklingError as error:
        raise RunError(f"the run came back with {error}") from None


def call(function: Answer | Callable[..., Any], args: tuple[Any, ...]) -> CallResult:
    """One call of a learner's function on plain data, in a process of its own."""
    from course.calling.answers import answering

    try:
        with answering(function, getattr(function, "__name__", "function")) as answer:
            return answer.call(args, limit_s=_CALL_S, wall_s=BACKSTOP * _CALL_S)
    except (LostError, TooSlowError, TypeError):
        return CallResult(None, (), None, True, "", 0.0)


def _stopped(
    slow: TooSlowError, limit_s: float, yours: Sequence[Answer | Callable[..., Any]]
) -> str:
    """The sentence for a run that was stopped, naming the function in which it was."""
    for each in yours:
        name = each.name if isinstance(each, Answer) else each.__name__
        place = place_in(slow.dump, each, file_of(name))
        if place:
            return f"your {name} {describe_timeout(slow.cpu_s, limit_s, place)}"
    return f"the run {describe_timeout(slow.cpu_s, limit_s)}"


def _storage(content: bytes) -> Any:
    """A tensor's storage, read without torch's own reader, which could run code."""
    return torch.load(io.BytesIO(content), weights_only=True)


class _Records(pickle.Unpickler):
    """Reads the project's own records only, and no class of a learner's."""

    def find_class(self, module: str, name: str) -> Any:
        """Raises: UnpicklingError for any other class."""
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return _storage
        if name in _ELSEWHERE.get(module, ()):
            return super().find_class(module, name)
        if module.partition(".")[0] in PROJECT and "." not in name:
            found = super().find_class(module, name)
            if getattr(found, "__module__", None) == module:  # and nothing that it imports
                return found
        raise pickle.UnpicklingError(f"a {name} of {module}, which is no plain data")


@functools.cache
def shipped(dtype: torch.dtype) -> GPT:
    """The shipped model in this format, loaded once for all runs of this process."""
    return load_model(dtype=dtype)


def is_shipped(model: GPT) -> bool:
    """Whether it is the shipped model to the last bit, with nothing added to it."""
    own = shipped(next(model.parameters()).dtype)
    alike = (model.config, model.training, vars(model).keys()) == (
        own.config, own.training, vars(own).keys(),
    )  # fmt: skip
    pairs = zip(model.parameters(), own.parameters(), strict=False)
    return alike and all(torch.equal(one, other) for one, other in pairs)


class _JobPickler(Pickler):
    """Writes a job with the shipped model by name, and any other model by its weights."""

    def reducer_override(self, obj: Any) -> Any:
        """How an object is written, where that is not as usual."""
        if isinstance(obj, GPT) and is_shipped(obj):
            return shipped, (next(obj.parameters()).dtype,)
        return super().reducer_override(obj)
