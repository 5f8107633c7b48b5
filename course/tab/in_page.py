"""What a page calls: JSON in, JSON out."""

import inspect
import json

from course.registry import exercise


def check(said: str) -> str:
    """Judge an answer's text; its status, and the report as HTML."""
    import course.tab.proto as p

    args = json.loads(said)
    r = p.judge(args)
    return json.dumps({"status": r.status, "html": r._repr_html_()})


def worked(said: str) -> str:
    """The source of a right answer."""
    return json.dumps(inspect.getsource(exercise(json.loads(said)["exercise"]).right[0]))
