"""A learner's function as a part: limited, and with words for why it failed.

Knows tracebacks and dataclasses of parts; `limits` runs what is called here.
"""

import dataclasses
import linecache
from bdb import BdbQuit
from collections.abc import Callable, Collection, Mapping
from types import CodeType
from typing import Any, TypeAlias, TypeVar

from nanogpt.parts.limits import call_limited, describe_timeout, run_limited
from nanogpt.validate import PartError

Record = TypeVar("Record")
Check: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

_MAX_MESSAGE, _MAX_KIND, _MAX_LINE = 200, 60, 100  # characters


def guarded(
    name: str,
    function: Callable[..., Any],
    limit_s: float = 1.0,
    about: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """`function` with a limit on every call. The result raises: PartError, naming the part.

    `about` is whose lines an error names, when `function` only calls it.
    """

    def call(*args: Any) -> Any:
        outcome = call_limited(name, function, args, limit_s)
        if outcome.timed_out:
            raise PartError(f"your {name} {describe_timeout(outcome.cpu_s, limit_s)}")
        if outcome.error is not None:
            raise PartError(
                f"your {name} {describe_error(outcome.error, about or function)}"
            ) from None
        return outcome.value

    return call


def guard_fields(
    parts: Record, reference: Record, checks: Mapping[str, Check], skipped: Collection[str] = ()
) -> Record:
    """The same record of parts, those that are not the reference's wrapped in a limit and checks.

    `checks` make of a timed part one whose answers are looked at, by field; `skipped` stay bare.
    """
    record: Any = parts  # a dataclass
    wrapped: dict[str, Callable[..., Any]] = {}
    for field in dataclasses.fields(record):
        part = getattr(record, field.name)
        if part is not getattr(reference, field.name) and field.name not in skipped:
            timed = guarded(field.name, part)
            wrapped[field.name] = checks[field.name](timed) if field.name in checks else timed
    return dataclasses.replace(record, **wrapped)


def describe_error(error: BaseException, function: Callable[..., Any]) -> str:
    """What the call raised and where in the function, as the end of a sentence.

    Lines count from the `def`. Frames of other code are left out: the line named is the last one
    of the function itself, which called them.
    """
    kind, message = shortened(type(error).__name__, _MAX_KIND), _message(error)
    place = _own_line(error, function)
    if place is None:
        return f"raised {kind}{': ' if message else ''}{message}"
    number, text = place
    return f"raised {kind} on its line {number}{': ' if message else ''}{message}" + (
        f" (`{shortened(text, _MAX_LINE)}`)" if text else ""
    )


def _message(error: BaseException) -> str:
    """The error's own text on one line. Asked under a limit: `__str__` may be the learner's too."""
    if isinstance(error, BdbQuit):  # which has none
        return "nobody can type into a debugger here, so take it out"
    outcome = run_limited(str, (error,), limit_s=0.2)
    text = " ".join(outcome.value.split()) if isinstance(outcome.value, str) else ""
    return shortened(text, _MAX_MESSAGE)


def _own_line(error: BaseException, function: Callable[..., Any]) -> tuple[int, str] | None:
    """(line counted from `def`, its text) of the deepest frame in the function's own code."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    own, found, trace = code_inside(code), None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in own:
            found = trace.tb_lineno
        trace = trace.tb_next
    return None if found is None else own_line(function, found)


def own_line(function: Callable[..., Any], number: int) -> tuple[int, str] | None:
    """(line counted from `def`, its text) of line `number` of the file, if it is the function's."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    lines = {line for each in code_inside(code) for _, _, line in each.co_lines()}
    if number not in lines:
        return None
    return number - _def_line(code) + 1, linecache.getline(code.co_filename, number).strip()


def code_inside(code: CodeType) -> set[CodeType]:
    """The code object and those of the functions, lambdas and comprehensions written inside it."""
    inside = {code}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inside |= code_inside(constant)
    return inside


def _def_line(code: CodeType) -> int:
    """The line of the `def`, below any decorators (where `co_firstlineno` points)."""
    number = first = code.co_firstlineno
    text = linecache.getline(code.co_filename, number).lstrip()
    if not text.startswith("@"):
        return first
    while text and not text.startswith(("def ", "async def ")):
        number += 1
        text = linecache.getline(code.co_filename, number).lstrip()
    return number if text else first


def shortened(text: str, most: int) -> str:
    """The text, with an ellipsis for its end where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
