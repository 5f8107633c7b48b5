"""Words for what a learner's function raised, and for the line at which it was stopped.

Lines count from the `def`. Frames of other code are left out: the line named is the last one of
the function itself.
"""

import dis
import inspect
import linecache
import re
import sys
import sysconfig
from bdb import BdbQuit
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from course.calling.policies import Policy
from course.calling.results import PROJECT, Raised
from course.source.answer import Answer
from course.source.cutting import read_notebook
from nanogpt.validate import PolicyError

FILE = "answers.py"
"""The file that errors of an answer name in the process that checks it."""
BACKSTOP = 4.0
"""Wall seconds allowed per second of limit: a busy machine is not the learner's fault."""
_MAX_MESSAGE, _MAX_KIND, _MAX_LINE = 200, 60, 100  # characters
_ROOT = Path(__file__).parents[2]
_NOT_A_LEARNERS = (
    *(str(_ROOT / name) for name in PROJECT),
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    sys.base_prefix + "/lib",
)
_RAISE = dis.opmap["RAISE_VARARGS"]


def raised(error: BaseException, function: Callable[..., Any]) -> Raised:
    """An exception of the function as data."""
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


def describe_error(error: BaseException, function: Callable[..., Any]) -> str:
    """Say which exception the call raised and where in the function, as the end of a sentence."""
    return _described(error, getattr(function, "__code__", None))


def _described(error: BaseException, code: object) -> str:
    kind, message = shortened(type(error).__name__, _MAX_KIND), _message(error)
    # A debugger stops at the line after the one that starts it.
    place = None if isinstance(error, BdbQuit) else _own_line(error, code)
    if place is None:
        return f"raised {kind}{': ' if message else ''}{message}"
    number, text = place
    return f"raised {kind} on its line {number}{': ' if message else ''}{message}" + (
        f" (`{shortened(text, _MAX_LINE)}`)" if text else ""
    )


def blame(error: BaseException) -> str:
    """Say in a sentence why a run stopped: the learner's function that raised, if one did.

    That is the last one that was called as a policy, or else the outermost one. A PolicyError names
    the policy itself.
    """
    trace, around, found = error.__traceback__, None, None
    if isinstance(error, PolicyError):
        trace = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_a_learners(code) and (found is None or around is Policy.__call__.__code__):
            found = code
        trace, around = trace.tb_next, code
    if found is not None:
        return f"your {found.co_name} {_described(error, found)}"
    said = _message(error)
    return (
        said if isinstance(error, ValueError | PolicyError) else f"{type(error).__name__}: {said}"
    )


def is_a_learners(code: CodeType) -> bool:
    """Whether the code stands in no file of the project, of Python or of a package."""
    file = code.co_filename
    return not file.startswith(_NOT_A_LEARNERS) and not file.startswith("<frozen")


def describe_timeout(cpu_s: float, limit_s: float, where: str = "") -> str:
    """Why the call was stopped, as the end of a sentence: it computed too long, or it waited."""
    if cpu_s >= limit_s:
        return f"took longer than {limit_s:g} s of computing and was stopped{where}"
    wall = f"had not finished after {BACKSTOP * limit_s:g} s"
    if cpu_s >= 0.1 * limit_s:  # a busy machine, or both
        return f"{wall}, {cpu_s:.1f} s of them computing, and was stopped{where}"
    return f"{wall}, nearly all of it waiting (a sleep, a lock, an input?), and was given up{where}"


def _message(error: BaseException) -> str:
    """The error's text on one line."""
    if isinstance(error, BdbQuit):  # which has none
        return "nobody can type into a debugger here, so take it out"
    try:
        text = " ".join(str(error).split())
    except BaseException:  # `__str__` may be the learner's too
        text = ""
    if type(error) is NameError:
        text += ": import it, or define it"
    return shortened(text, _MAX_MESSAGE)


def _own_line(error: BaseException, code: object) -> tuple[int, str] | None:
    """(line counted from `def`, its text) of the deepest frame in a function's own code."""
    if not isinstance(code, CodeType):
        return None
    own, found, trace = code_inside(code), None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in own:
            found = trace.tb_lineno
        trace = trace.tb_next
    return None if found is None else _counted(code, found)


def place_in(dump: str, origin: Answer | Callable[..., Any] | None, file: str = FILE) -> str:
    """The line in a dump of Python's fault handler, as a part of a sentence, or "".

    It is a line of the function `origin`, whose text has the name `file` if it is an answer's.
    """
    code, places = getattr(origin, "__code__", None), dict[int, tuple[int, str]]()
    if isinstance(origin, Answer) and dump:
        texts = origin.text.split("\n")
        for item in read_notebook(origin.text).binding(origin.name):
            first = item.line - 1 + item.node.lineno
            last = item.line - 1 + (item.node.end_lineno or 1)
            places |= {n: (n - first + 1, texts[n - 1].strip()) for n in range(first, last + 1)}
    elif isinstance(code, CodeType):
        lines = {line for each in code_inside(code) for _, _, line in each.co_lines() if line}
        file, places = code.co_filename, {line: _counted(code, line) for line in lines}
    for where, line in re.findall(r'File "([^"\n]*)", line (\d{1,7}) in', dump):
        if where == file and int(line) in places:
            number, text = places[int(line)]
            return f" on its line {number}" + (f" (`{shortened(text, _MAX_LINE)}`)" if text else "")
    return ""


def _counted(code: CodeType, line: int) -> tuple[int, str]:
    return line - _def_line(code) + 1, linecache.getline(code.co_filename, line).strip()


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
