"""Runs a pristine notebook once, as a newcomer's browser would, and takes down what it shows."""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from marimo import Html

from course.attempt import Attempt
from course.controls import Beside, is_control
from course.prediction import Withheld
from course.registry import exercise
from course.site.blocks import Block, Code, Drawing, Exercise, Prose
from course.site.choice import choice
from course.task import TaskCard
from widgets.base import Widget
from widgets.standalone import state

_EXHIBIT = 'data-yours="exhibit"'


def visit(stem: str, *, solutions: bool) -> list[Block]:
    """What the notebook shows, cell by cell; with `solutions`, each exercise's worked answer too.

    Raises: what a cell raises; ValueError for an output that a page without a kernel cannot show.
    """
    app = importlib.import_module(f"lessons.{stem}").app
    outputs, _ = app.run()
    cells = [cell for cell in app._cell_manager.cell_data() if cell.name != "setup"]
    reader = _Reader(stem, solutions)
    for cell, output in zip(cells, outputs, strict=True):
        if not cell.config.hide_code:
            reader.code(cell.code)
        reader.output(output)
    return reader.blocks


class _Reader:
    """The blocks so far; a cell below a task or an exhibit's heading is labelled."""

    def __init__(self, stem: str, solutions: bool) -> None:
        self.prefix = stem.partition("_")[0]
        self.solutions = solutions
        self.blocks: list[Block] = []
        self.label = ""
        self.drawn = 0
        self.chosen = 0

    def code(self, source: str) -> None:
        self.blocks.append(Code(source.strip(), self.label))
        self.label = ""

    def output(self, value: Any) -> None:
        self.blocks += self._blocks(value)
        if isinstance(value, TaskCard):
            self.label = "Your code goes here"
        elif self.blocks and isinstance(last := self.blocks[-1], Prose) and _EXHIBIT in last.html:
            self.label = "The exhibit"

    def _blocks(self, value: Any) -> Iterator[Block]:
        if isinstance(value, Beside):
            self.chosen += 1
            value = choice(f"{self.prefix}-choice-{self.chosen}", value)
        if value is None or is_control(value):
            return
        if isinstance(value, Widget):
            kind = type(value).__module__.rpartition(".")[2]
            self.drawn += 1
            yield Drawing(f"{self.prefix}-{self.drawn}-{kind}", kind, state(value))
        elif isinstance(value, Attempt):
            yield self._exercise(value.report.exercise)
        else:
            yield Prose(_html(value), isinstance(value, Withheld))

    def _exercise(self, name: str) -> Exercise:
        if not self.solutions:
            return Exercise(name)
        return Exercise(name, inspect.getsource(exercise(name).right[0]).strip())


def _html(value: Any) -> str:
    """The HTML of a card, a figure or Markdown.

    Raises: ValueError where it needs a kernel.
    """
    html = str(value.text if isinstance(value, Html) else value._repr_html_())
    if found := re.search(r"<(marimo-[\w-]+)", html):
        raise ValueError(f"a page without a kernel cannot show a {found[1]}")
    return html
