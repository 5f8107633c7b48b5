"""What other programs say of the whole tree: ruff, pyright, and node of the JavaScript."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest
from support import ROOT, find_program, run, unavailable


@pytest.mark.parametrize("command", [["format", "--check"], ["check"]], ids=["format", "lint"])
def test_ruff_has_nothing_to_say(command: list[str]):
    done = run([sys.executable, "-m", "ruff", *command], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_tests_measure_a_page_only_at_rest():
    """A box always, and what a script finds in an assert: right after a change both still move."""
    looks = {ast.Assert: r"\.bounding_box\(|\.evaluate(_all)?\("}
    looks |= dict.fromkeys((ast.Assign, ast.Expr, ast.Return), r"\.bounding_box\(")
    bare = [
        f"{path.name}:{each.lineno}"
        for path in (ROOT / "tests").rglob("*.py")
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if type(each) in looks and re.search(looks[type(each)], said := ast.unparse(each))
        if "at_rest(" not in said
    ]
    assert bare == []


def test_no_docstring_begins_with_what():
    """Each says what the thing is or does, not "What it is"."""
    elsewhere = re.compile(r"course/(source/|lesson_data/l(0[6-9]|1))")
    opening = re.compile(r'^ *"""What .*', re.M)
    assert {
        (name, line)
        for package in ("nanogpt", "course", "widgets", "benchmarks")
        for path in (ROOT / package).rglob("*.py")
        if not elsewhere.match(name := path.relative_to(ROOT).as_posix())
        for line in opening.findall(path.read_text(encoding="utf-8"))
    } == set()


GUARDED = (  # these ask first whether the system has what they use, or run on Linux only
    *("course/grading/", "course/calling/", "course/harness.py", "course/__main__.py"),
    "nanogpt/experiments/pool.py",
)


@pytest.mark.process
@pytest.mark.nightly
@pytest.mark.parametrize("platform", ["Linux", "Darwin", "Windows"])
def test_pyright_finds_no_error(platform: str):
    """Its own program comes from npm at its first run, and stays on the machine."""
    options = ["-p", "pyproject.toml", "--pythonplatform", platform, "--outputjson"]
    done = run([sys.executable, "-m", "pyright", *options], cwd=ROOT)
    if "npm" in done.stderr and not done.stdout:
        unavailable("pyright's own program could not be fetched from npm")
    found = [
        f"{file}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in json.loads(done.stdout)["generalDiagnostics"]
        for file in [Path(each["file"]).relative_to(ROOT).as_posix()]
        if platform == "Linux" or not file.startswith(GUARDED)
    ]
    assert found == []


@pytest.mark.process
def test_every_javascript_test_passes():
    node = find_program("node")
    files = [str(path) for path in sorted((ROOT / "tests" / "js").rglob("*.test.*js"))]
    assert files, "tests/js holds no test"
    done = run([node, "--test", *files], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
