"""What other programs say of the whole tree: ruff, pyright, and node of the JavaScript."""

import sys

import pytest
from support import ROOT, find_program, run, unavailable


@pytest.mark.parametrize("command", [["format", "--check"], ["check"]], ids=["format", "lint"])
def test_ruff_has_nothing_to_say(command: list[str]):
    done = run([sys.executable, "-m", "ruff", *command], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.nightly
@pytest.mark.parametrize("platform", ["Linux", "Darwin", "Windows"])
def test_pyright_finds_no_error(platform: str):
    """Its own program comes from npm at its first run, and stays on the machine."""
    options = ["--warnings", "-p", "pyproject.toml", "--pythonplatform", platform]
    done = run([sys.executable, "-m", "pyright", *options], cwd=ROOT)
    if "npm" in done.stderr and "error" not in done.stdout:
        unavailable("pyright's own program could not be fetched from npm")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
def test_every_javascript_test_passes():
    node = find_program("node")
    files = [str(path) for path in sorted((ROOT / "tests" / "js").rglob("*.test.*js"))]
    assert files, "tests/js holds no test"
    done = run([node, "--test", *files], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
