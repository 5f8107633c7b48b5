"""Runs the JavaScript tests, which are written with node's own test runner."""

import pytest
from support import ROOT, find_program, run

pytestmark = pytest.mark.process


def test_every_javascript_test_passes():
    node = find_program("node")
    files = [str(path) for path in sorted((ROOT / "tests" / "js").rglob("*.test.*js"))]
    assert files, "tests/js holds no test"
    done = run([node, "--test", *files], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout or "fail 0" in done.stdout, done.stdout
