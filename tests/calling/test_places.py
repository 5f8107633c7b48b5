"""A function that does not return, wherever it is judged: a notebook, the terminal, the grader."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import RESOURCE
from tiers import some

from course import attempt as attempts
from course import exercise as exercises
from course import harness
from course.__main__ import main
from course.attempt import attempt
from course.calling.processes import START_METHOD, Starter, own_starter
from course.progress import work_folder

pytestmark = pytest.mark.process
HEAD = "import os, sys, time\n\n\ndef next_inputs(tokens, cached):\n"
BODIES = {
    "return sum(range(10**12))": ("timeout", "took longer than 1 s of computing"),
    "os._exit(0)": ("crashed", "ended the whole Python process (`os._exit`?)"),
    "return len(bytearray(10 << 30))": ("raised", "raised MemoryError on its line 2"),
    "time.sleep(600)": ("timeout", "had not finished after 4 s, nearly all of it waiting"),
    "sys.exit(0)": ("raised", "raised SystemExit on its line 2"),
}
RIGHT = """n = 0
    while n < min(len(cached), len(tokens) - 1) and tokens[n] == cached[n]:
        n += 1
    return tokens[n:]"""


@pytest.fixture(params=["as here", "spawn"], scope="module")
def starter(request: pytest.FixtureRequest) -> Iterator[Starter]:
    """What a notebook starts its processes with."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "spawn":
            patched.setenv(START_METHOD, "spawn")
        made = own_starter.__wrapped__()
    yield made
    made.close()


def made_in_a_notebook(lines: str) -> attempts.Attempt:
    path, space = work_folder() / "cell.py", dict[str, Any]()
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{HEAD}    {lines}\n")
    exec(compile(path.read_text(), path, "exec"), space)
    return attempt("l00.next_inputs", lambda: space["next_inputs"])


@pytest.mark.parametrize("lines", some(BODIES, 4))
def test_in_a_notebook_the_lesson_goes_on_with_the_reference(
    lines: str, starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exercises, "own_starter", lambda: starter)
    made = made_in_a_notebook(lines)
    status, words = BODIES[lines]
    assert made.report.status == status and words in made.report.idea, made.report.idea
    if status != "raised":  # else it raises in the runs below as well
        assert made.function is None and made.or_reference(len) is len
        assert "Below, the reference stands in for your `next_inputs`." in made._repr_html_()
    assert made_in_a_notebook(RIGHT).report.status == "passed"


@pytest.mark.parametrize("lines", some(BODIES, 3))
def test_in_the_terminal_the_command_ends_with_the_sentence(
    lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = work_folder() / "l00_kv_cache.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"{HEAD}    {lines}\n")
    assert main(["check", "l00.next_inputs"]) == 1
    assert BODIES[lines][1] in capsys.readouterr().out
    path.write_text(f"{HEAD}    {RIGHT}\n")
    assert main(["check", "l00.next_inputs"]) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="grading is for Linux")
def test_the_grader_goes_on_to_the_next_submission_also_without_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("_CALL_LIMIT_S", "_ALL_CALLS_LIMIT_S", "_ALL_CALLS_WALL_S"):
        monkeypatch.setattr(harness, name, getattr(harness, name) / 4)
    handed_in = tmp_path / "in"
    for name in ("Ada", "Ben"):
        (handed_in / name).mkdir(parents=True)
    kills = next(each for each in RESOURCE if each.name == "kill the parent")
    (handed_in / "Ada" / "l01.py").write_text(kills.text)
    (handed_in / "Ben" / "l00.py").write_text(f"{HEAD}    {RIGHT}\n")
    out = str(tmp_path / "out")
    assert main(["grade", str(handed_in), "--out", out, "--workers", "1", "--unsafe"]) == 0
    book = (tmp_path / "out" / "gradebook.csv").read_text()
    assert "Ada" in book and "Ben" in book, (book, capsys.readouterr().out)
