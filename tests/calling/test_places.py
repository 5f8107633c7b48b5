"""A function that does not return, wherever it is judged: a notebook, the terminal, the grader."""

import sys
from pathlib import Path
from typing import Any

import pytest
from hostile import RESOURCE
from support import write_files

from course import harness
from course.__main__ import main
from course.attempt import Attempt, attempt

pytestmark = pytest.mark.process
HEAD = "import os\n\n\ndef next_inputs(tokens, cached):\n"
BODIES = {  # what else an answer may do, and in which kind of process: test_contract.py
    "return sum(range(10**12))": ("timeout", "took longer than 1 s of computing"),
    "os._exit(0)": ("crashed", "ended the whole Python process (`os._exit`?)"),
}
RIGHT = """n = 0
    while n < min(len(cached), len(tokens) - 1) and tokens[n] == cached[n]:
        n += 1
    return tokens[n:]"""


def made_in_a_notebook(file: Path, lines: str) -> Attempt:
    """The attempt of a page that has this body in the lesson's file."""
    space = dict[str, Any]()
    file.write_text(f"{HEAD}    {lines}\n")
    exec(compile(file.read_text(), file, "exec"), space)
    return attempt("l00.next_inputs", lambda: space["next_inputs"])


@pytest.mark.parametrize("lines", BODIES)
def test_a_notebook_goes_on_with_the_reference_and_the_terminal_ends_with_the_sentence(
    lines: str, learner_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learner_folder.mkdir()
    file, (status, words) = learner_folder / "l00_kv_cache.py", BODIES[lines]
    made = made_in_a_notebook(file, lines)
    assert made.report.status == status and words in made.report.idea, made.report.idea
    assert made.function is None and made.or_reference(len) is len
    assert "Below, the reference stands in for your `next_inputs`." in made._repr_html_()
    assert main(["check", "l00.next_inputs"]) == 1
    assert words in capsys.readouterr().out
    assert made_in_a_notebook(file, RIGHT).report.status == "passed"
    assert main(["check", "l00.next_inputs"]) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="grading is for Linux")
def test_the_grader_goes_on_to_the_next_submission_also_without_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("_CALL_LIMIT_S", "_ALL_CALLS_LIMIT_S", "_ALL_CALLS_WALL_S"):
        monkeypatch.setattr(harness, name, getattr(harness, name) / 4)
    kills = next(each for each in RESOURCE if each.name == "kill the parent")
    files = {"Ada/l01.py": kills.text, "Ben/l00.py": f"{HEAD}    {RIGHT}\n"}
    handed_in = write_files(tmp_path / "in", files)
    out = str(tmp_path / "out")
    assert main(["grade", str(handed_in), "--out", out, "--workers", "1", "--unsafe"]) == 0
    book = (tmp_path / "out" / "gradebook.csv").read_text()
    assert "Ada" in book and "Ben" in book, (book, capsys.readouterr().out)
