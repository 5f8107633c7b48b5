"""The style of the whole tree, held by ruff and pyright."""

import sys

import pytest
from support import ROOT, run, unavailable


@pytest.mark.parametrize("command", [["format", "--check"], ["check"]], ids=["format", "lint"])
def test_ruff_has_nothing_to_say(command: list[str]):
    done = run([sys.executable, "-m", "ruff", *command], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
def test_pyright_finds_no_error():
    """Its own program comes from npm at its first run, and stays on the machine."""
    done = run([sys.executable, "-m", "pyright", "--warnings", "-p", "pyproject.toml"], cwd=ROOT)
    if "npm" in done.stderr and "error" not in done.stdout:
        unavailable("pyright's own program could not be fetched from npm")
    assert done.returncode == 0, done.stdout + done.stderr
