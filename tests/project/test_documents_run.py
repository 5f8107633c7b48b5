"""The commands of docs/grading.md and docs/instructors.md, run as they stand there: nightly."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from support import ROOT, need_sandbox, run

pytestmark = [pytest.mark.process, pytest.mark.nightly]
PAGE = "".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("grading.md", "instructors.md")
)
PYTHON = f"{shlex.quote(sys.executable)} -P -m course"


def as_run_here(command: str) -> str:
    """The command for a folder that is not the course's; nothing is installed."""
    command = command.replace(".venv/bin/python ", f"{shlex.quote(sys.executable)} ")
    command = re.sub(r"^python3 learn\.py\b", lambda _: PYTHON, command)
    return command.replace(" tests/", f" {shlex.quote(str(ROOT))}/tests/")


def said(output: str) -> list[str]:
    """The lines that do not depend on time."""
    kept: list[str] = []
    for line in output.lstrip("\ufeff").replace("\r\n", "\n").splitlines():
        done = re.match(r"(\d+) of (\d+) graded: ", line)
        if not done or done[1] == done[2]:
            kept.append(line.rstrip())
    return kept


def test_every_command_of_the_page_says_what_the_page_shows_below_it(tmp_path: Path):
    need_sandbox()
    sessions = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (points,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "points.toml").write_text(points, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    shown, heard = {}, {}
    for part in re.split(r"^\$ ", "".join(sessions), flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        shown[command] = said(output)
        here = f"{{ {as_run_here(command)}\n}} 2>&1"
        heard[command] = said(run(["sh", "-c", here], cwd=tmp_path, env=environment).stdout)
    assert len(shown) >= 7
    assert heard == shown
    table = PAGE.split("\n| in `RESULTS`", 1)[1].split("\n\n")[0]
    results = set(re.findall(r"^\| `([\w.]+)/?`", table, re.MULTILINE))
    assert results == {path.name for path in (tmp_path / "marks").iterdir()}
