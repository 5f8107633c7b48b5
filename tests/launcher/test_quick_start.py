"""A command loads what it needs: the terminal answers without waiting for torch."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "numpy", "matplotlib", "marimo"}

LIGHT = [
    ["-c", "import nanogpt, nanogpt.fleet, nanogpt.slo"],
    ["-m", "nanogpt.fleet", "--help"],
    ["-m", "nanogpt.fleet", "--duration", "1", "--json"],
    ["-m", "nanogpt.slo", "--help"],
    ["-m", "benchmarks.fleet", "--help"],
    ["learn.py", "--help"],
    ["learn.py", "progress"],
    ["learn.py", "doctor"],
    ["learn.py", "check", "--help"],
    ["learn.py", "audit", "--help"],
    ["learn.py", "grade", "--help"],
    ["learn.py", "demo", "--help"],
    ["learn.py", "site", "--help"],
]


@pytest.mark.parametrize("command", LIGHT, ids=" ".join)
def test_a_command_that_computes_nothing_loads_no_framework(command: list[str]) -> None:
    """The interpreter names every module that it loads, in the processes that it starts, too."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    loaded = set(re.findall(r"^import time: .*\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert done.returncode == 0 and "site" in loaded
    assert loaded & HEAVY == set()
