"""The README's moving picture: a wrong answer, the check's words, the right answer, and its run.

`python -m course.publish.replay_svg` writes docs/images/replay.svg from two checks and a run of the
engine. It needs no script and no font, follows light and dark, and shows its end where motion is
reduced.
"""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from pygments.lexers import PythonLexer
from pygments.token import Keyword, Operator

from course.publish import showcase
from course.publish.page_templates import render
from course.report import Report
from nanogpt import Trace, decode
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.trace import StepRecord, WaitRecord

FILE = Path(__file__).parents[2] / "docs" / "images" / "replay.svg"
_SHOWN = {" ": "·", "\n": "⏎"}
_LETTERS_A_LINE = 41


def picture(wrong: Report, right: Report, trace: Trace) -> str:
    """The SVG: the code as it is typed, both verdicts, and the run, a column for each step."""
    lines = showcase.RIGHT.splitlines()
    edited = next(at for at, line in enumerate(lines) if showcase.FIX in line)
    steps = [
        {"cells": list(_cells(step, waiting)), "tokens": step.used_tokens}
        for step, waiting in zip(trace.steps, wait_reasons(trace), strict=True)
    ]
    values = {
        "lines": [_code(line) for line in lines],
        "edited": edited,
        "typed": len(lines[edited].removesuffix(showcase.FIX).strip()),
        "added": len(showcase.FIX),
        "verdicts": [_verdict(wrong), _verdict(right)],
        "steps": steps,
        "num_requests": len(trace.requests),
        "token_budget": trace.token_budget,
    }
    return render("replay.svg", **values) + "\n"


def _code(line: str) -> dict[str, object]:
    """A line's indentation, its length without it, and its pieces: (is a keyword, text)."""
    words = line.strip()
    pieces = [
        (kind in Keyword or kind in Operator.Word, text)
        for kind, text in PythonLexer().get_tokens(words)
    ]
    return {"indent": len(line) - len(words), "length": len(words), "pieces": pieces[:-1]}


def _verdict(report: Report) -> dict[str, object]:
    """A report's words; the time of its checks is left out, because it differs from run to run."""
    return {
        "passed": report.status == "passed",
        "word": report.verdict,
        "name": report.name,
        "tally": f"{report.passed} of {len(report.checks)} checks passed",
        "idea": textwrap.wrap(report.idea, _LETTERS_A_LINE),
        "example": report.example,
        "passes": report.checks[: report.passed],
    }


def _cells(step: StepRecord, waits: Sequence[WaitRecord]) -> Iterator[tuple[str, int, str]]:
    """The look, row and words of a step's cells."""
    for work in step.work:
        is_token = work.kind == "decode" and work.sampled is not None
        words = decode([work.sampled or 0]) if is_token else f"{work.end - work.start}"
        yield "one" if is_token else "full", work.request_id, _SHOWN.get(words, words)
    yield from (("wait", each.request_id, "") for each in waits)


if __name__ == "__main__":
    reports = showcase.report(showcase.WRONG), showcase.report(showcase.RIGHT)
    FILE.write_text(picture(*reports, showcase.run(showcase.RIGHT)), encoding="utf-8")
