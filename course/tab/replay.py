"""A lesson's cells in a page: what they show with the reader's functions, on recorded texts."""

import functools
import html
import json
from typing import Any

from course.attempt import Attempt
from course.calling.loading import LocalAnswer
from course.files import write_atomically
from course.report import Report
from course.saved_answers import answer_path
from course.tab import figures as figures  # before lessons import what draws with matplotlib
from course.tab.stand_ins import Nothing
from nanogpt.recorded_texts import RecordedTexts
from widgets.picture import Widget


def replay(said: str) -> str:
    """The output of a cell; null where it needs what a page does not have, such as a model."""
    args = json.loads(said)
    try:
        lesson = _Lesson(args["setup"], *(json.dumps(args[name]) for name in ("texts", "passed")))
        return json.dumps(lesson.show(**args["shown"]))
    except Exception:
        return "null"


class _Markdown(str):
    def _repr_html_(self) -> str:
        return f"<div data-markdown>{html.escape(self)}</div>"


@functools.lru_cache(1)
class _Lesson:
    """A lesson's names. Mutable: the cells that have run, and the answers that they ran with."""

    def __init__(self, setup: str, texts: str, passed: str) -> None:
        for exercise_id, text in json.loads(passed).items():
            write_atomically(answer_path(exercise_id), text.encode())
        model = RecordedTexts({int(i): tokens for i, tokens in json.loads(texts).items()})
        self._space: dict[str, Any] = {}
        exec(setup, self._space)
        marimo = Nothing(md=_Markdown, vstack=lambda texts: _Markdown("\n\n".join(texts)))
        self._space |= {"load_model": lambda **_: model, "mo": marimo, "attempt": self._attempt}
        self._done: dict[str, Any] = {}
        self._answers: Any = None

    def show(self, cells: list[Any], text: str, written: Any) -> dict[str, Any]:
        """The output of the last of these cells with the answers `written` in a lesson's text."""
        self._answers = text, written
        for cell in cells:
            key = (text, written) if cell["of"] else ()
            if self._done.get(cell["place"]) != key or cell is cells[-1]:
                exec(cell["code"], self._space)
                self._done[cell["place"]] = key
        shown = eval(cells[-1]["output"], self._space)
        if isinstance(shown, Widget):
            return {"kind": type(shown).__module__.rpartition(".")[2], "state": vars(shown)}
        return {"html": "" if shown is None else shown._repr_html_()}

    def _attempt(self, exercise_id: str, _: object) -> Attempt:
        text, written = self._answers
        report = Report(exercise_id, written.get(exercise_id, "not_started"), (), 0, "")
        return Attempt(report, LocalAnswer(text, exercise_id.partition(".")[2]))
