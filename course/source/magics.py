"""IPython's own lines in a notebook's cell: `%magic`, `%%magic`, `!shell`, `help?`."""

import ast
import re

from course.source.indentation import split_lines

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)  # what parsing can raise
_ELSEWHERE = {"file", "python", "python3", "pypy", "script", "timeit", "writefile"}
"""Cell magics below which Python stands that does not run in the notebook."""
_CELL_MAGIC = re.compile(r"%%(\w+)")
_TIMED = re.compile(r"^([ \t]*(?:[\w, \t]+=[ \t]*)?)%time[ \t]+(?=\S)")
_ASSIGNED = re.compile(r"^([ \t]*[\w, \t]+=[ \t]*)[%!].*$")
_LINE = re.compile(
    r"^([ \t]*)(?:[%!?].*|\*?[\w.]+\*?\?{1,2}[ \t]*"
    r"|(?:pip|conda|uv|ls|cd|cat|matplotlib)(?:[ \t]+[^=.(\[\s].*)?)$"
)


def as_python(source: str) -> str:
    """Return a cell's source with IPython's lines as what they leave behind, line for line.

    `%%time` and `%time x = f()` run Python, most others define nothing. A source that is Python
    as it stands comes back unchanged, as does one that is not even Python without these lines.
    """
    if _is_python(source):
        return source
    plain = "\n".join(_plain(split_lines(source)))
    return plain if _is_python(plain) else source


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except UNREADABLE:
        return False
    return True


def _plain(lines: list[str]) -> list[str]:
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    magic = _CELL_MAGIC.match(lines[first])
    if magic is not None and magic[1] in _ELSEWHERE:
        return [""] * len(lines)
    made: list[str] = []
    going_on = False  # from the line before, by its backslash
    for line in lines:
        plain = "" if going_on else _without(line)
        going_on = (going_on or plain != line) and line.endswith("\\")
        made.append(plain)
    return made


def _without(line: str) -> str:
    line = _TIMED.sub(r"\1", line)
    return _LINE.sub(r"\1pass", _ASSIGNED.sub(r"\1None", line))
