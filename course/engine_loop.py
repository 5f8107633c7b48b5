"""The engine's loop as a lesson shows it: the real source as code, with one line lit.

The text is read from `Engine.step` and `Scheduler.schedule`, so it cannot drift from the engine.
"""

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from course import progress
from course.style import stylesheet, themed
from nanogpt.engine import Engine
from nanogpt.scheduler import Scheduler

_CSS = themed("sng-loop") + stylesheet("loop")

POLICIES = {
    "self.select_victims(": ("l02.choose_victim", "l02.requeue"),
    "self.select_admissible(": ("l02.sort_key", "l02.admit"),
    "self.kv.cache.match(": (
        "l07.block_hashes", "l07.longest_match", "l07.match_tiers", "l07.load_or_compute",
    ),
    "self._plan(": ("l01.plan_step",),
    "self._rows(": ("l01.chunk_inputs",),
    "self.cache.transaction(": ("l07.allocate", "l07.evict_order"),
    "self.executor.execute(": (
        "l01.chunk_mask", "l03.prepare_inputs", "l03.full_mask", "l03.split_kv", "l03.pack",
        "l04.visible", "l04.rolling_buffer_index", "l04.evict",
    ),
    "self.sampler.sample(": (
        "l08.rejection_sample", "l08.allowed", "l08.must_close", "l08.draft_masks",
    ),
    "self.scheduler.update(": ("l04.kv_usage", "l07.spill", "l08.roll_back_kv", "l08.advance"),
}  # fmt: skip
"""The policies that a line of the loop calls, as the ids of the exercises that build them."""
_AROUND = 5  # lines shown before and after the lit one


@dataclass(frozen=True, slots=True)
class EngineLoop:
    """The loop as HTML; `lit` is a piece of the line that the lesson is about.

    Shows the lines around it, and all of them when unfolded, or at once if `whole`. Lines whose
    policies the learner has passed say so. Raises: ValueError unless exactly one line has `lit`.
    """

    lit: str
    whole: bool = False

    def __post_init__(self) -> None:
        found = [line for _, lines in _SOURCES for line in lines if self.lit in line]
        if len(found) != 1:
            raise ValueError(f"{len(found)} lines of the loop have {self.lit!r}; it must be one")

    def _repr_html_(self) -> str:
        loop = "".join(_block(name, map(self._line, lines)) for name, lines in _SOURCES)
        if not self.whole:
            loop = f"{self._excerpt()}<details><summary>The whole loop</summary>{loop}</details>"
        return f'<style>{_CSS}</style><figure class="sng-loop">{loop}</figure>'

    def _excerpt(self) -> str:
        """The lines around the lit one."""
        [(name, lines, at)] = [
            (name, lines, at)
            for name, lines in _SOURCES
            for at, line in enumerate(lines)
            if self.lit in line
        ]
        return _block(name, map(self._line, lines[max(0, at - _AROUND) : at + _AROUND + 1]))

    def _line(self, line: str) -> str:
        mine = yours(line)
        note = f'<span class="sng-yours">yours: {escape(", ".join(mine))}</span>' if mine else ""
        row = f"<code>{_coloured(line) or ' '}{note}\n</code>"
        return f"<mark>{row}</mark>" if self.lit in line else row


def engine_loop(lit: str, *, whole: bool = False) -> EngineLoop:
    """The engine's loop with one line lit, found by a piece of it: `engine_loop("self._plan(")`."""
    return EngineLoop(lit, whole)


def _block(name: str, rows: Iterable[str]) -> str:
    return f"<figcaption>{escape(name)}</figcaption><pre>{''.join(rows)}</pre>"


@functools.cache
def _coloured(line: str) -> str:
    """A line as HTML: keywords, strings, numbers and comments in spans."""
    from pygments import highlight  # 30 ms, which the terminal need not wait for
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    lexer = PythonLexer(stripnl=False, ensurenl=False)
    return highlight(line, lexer, HtmlFormatter(nowrap=True, classprefix="sng-")).rstrip("\n")


def yours(line: str) -> list[str]:
    """Names of the policies that the line calls and that the learner has passed."""
    ids = [each for piece, ids in POLICIES.items() if piece in line for each in ids]
    saved = [(each, progress.load(each)) for each in ids] if progress.enabled() else []
    return [each.partition(".")[2] for each, done in saved if done is not None and done.ever_passed]


def source_lines(method: Callable[..., Any]) -> list[str]:
    """The lines of a method's source without its docstring, dedented."""
    source = textwrap.dedent(inspect.getsource(method))
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.FunctionDef)
    lines, doc = source.splitlines(), body.body[0]
    if ast.get_docstring(body) is not None:
        del lines[doc.lineno - 1 : doc.end_lineno]
    return lines


_SOURCES = (
    ("Engine.step, nanogpt/engine.py", source_lines(Engine.step)),
    ("Scheduler.schedule, nanogpt/scheduler.py", source_lines(Scheduler.schedule)),
)
