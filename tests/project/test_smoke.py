"""macOS and Windows, as far as Linux can say: their smoke test, and the packages they would get."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import SAVED
from smoke import by_name
from support import ROOT, copy_course, lend_python, run, unavailable

from course.launcher.install import uv_environment

pytestmark = pytest.mark.process
QUICK = ("first_run", "encodings", "answers", "progress_files")
OWN_TIERS = ("quick_tests",)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Path]:
    """A course in a path with a space and an é, with CRLF, run by a Python that is elsewhere."""
    SAVED.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="it is é ", dir=SAVED) as folder:
        course = copy_course(Path(folder))
        for path in course.rglob("*"):
            if path.suffix in (".py", ".js", ".css", ".html", ".txt", ".lock", ".toml"):
                path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        (course / "sitecustomize.py").write_bytes((ROOT / "tests" / "elsewhere.py").read_bytes())
        lend_python(course, sys.executable)
        yield course


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=[] if step in QUICK else pytest.mark.nightly)
        for step in by_name()
        if step not in OWN_TIERS
    ],
)
def test_a_step_of_the_smoke_test_passes_as_elsewhere(elsewhere: Path, step: str):
    command = [sys.executable, str(ROOT / "tests" / "smoke.py"), "--in", str(elsewhere), step]
    done = run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(elsewhere)})
    assert done.returncode == 0, done.stdout + done.stderr


SYSTEMS = (  # llguidance, of the extra `grammar`, has no wheels for glibc before 2.31
    "x86_64-manylinux_2_31",
    "aarch64-manylinux_2_31",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
)


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_pinned_packages_have_wheels_for_every_system_and_python(system: str, version: str):
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        unavailable("uv is not installed")
    listed = run([sys.executable, "-m", "pip", "config", "list"], cwd=ROOT).stdout
    done = run(
        [
            *(uv, "pip", "compile", "--quiet", "--only-binary=:all:", "--all-extras"),
            *(f"--python-platform={system}", f"--python-version={version}"),
            *("--constraint=requirements.lock", "pyproject.toml"),
        ],
        cwd=ROOT,
        env={**os.environ, **uv_environment(listed), "MACOSX_DEPLOYMENT_TARGET": "14.0"},
    )
    if "Failed to fetch" in done.stderr:
        unavailable("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
