"""The functions that a page calls in its worker: JSON in, JSON out."""

import inspect
import json

from course.calling.errors import describe_timeout
from course.registry import exercise
from course.report import Report
from course.source.answer import Answer, answer_in
from course.source.cutting import read_notebook


def prepare(said: str) -> str:
    """Import what checks of these exercises need."""
    for each in json.loads(said)["exercises"]:
        exercise(each)
    return "null"


def check(said: str) -> str:
    """Judge an exercise's answer in a lesson's text; `whole` is what other lessons need of it."""
    args = json.loads(said)
    item = exercise(args["exercise"])
    report = item.check_answer(Answer(args["text"], item.name))
    return _shown(report, whole=answer_in(read_notebook(args["text"]), item.name).text)


def lost(said: str) -> str:
    """The report of a check whose interpreter ended, or was ended after `seconds` of silence."""
    args = json.loads(said)
    item = exercise(args["exercise"])
    if args["seconds"] is None:
        idea = f"Your `{item.name}` ended Python in this page: {args['words']}"
        return _shown(Report(item.id, "crashed", (), 0, idea))
    idea = f"Your `{item.name}` {describe_timeout(args['seconds'], 1.0)}."
    return _shown(Report(item.id, "timeout", (), 0, idea))


def worked(said: str) -> str:
    """The source of a right answer."""
    return json.dumps(inspect.getsource(exercise(json.loads(said)["exercise"]).right[0]))


def _shown(report: Report, whole: str = "") -> str:
    html = report._repr_html_()  # pyright: ignore[reportPrivateUsage]
    return json.dumps({"status": report.status, "html": html, "whole": whole})
