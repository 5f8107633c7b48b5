"""The course open in Chromium, for benchmarks that wait as a learner waits."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from course.launcher.doctor import is_temporary, port_is_free
from course.launcher.server import FIRST_PAGE, ONE_THREAD
from course.launcher.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome",
    "google-chrome-stable",
)  # fmt: skip
HOST = "127.0.0.1"


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        raise SystemExit("Chromium is not installed.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def course() -> Iterator[str]:
    """The address of a new learner's course, whose work/ lies outside the temporary folders."""
    home = Path.home() / ".cache" if is_temporary(ROOT) else ROOT / ".browser-test"
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=home))
    shutil.copytree(ROOT / "lessons", folder / "lessons")
    workspace = Workspace(folder)
    workspace.bring_in()
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    own = {"PYTHONPATH": str(ROOT), "SERVING_NANOGPT_WORK": str(workspace.work)}
    server = subprocess.Popen(
        [sys.executable, "-m", "course.launcher.host", "edit", HOST, str(port), HOST],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **ONE_THREAD, **own},
    )
    assert server.stdin
    try:
        server.stdin.write(b"benchmark\n")
        server.stdin.flush()
        while port_is_free(port):
            if server.poll() is not None:
                raise RuntimeError(f"the course's server ended with status {server.returncode}")
            time.sleep(0.05)
        yield f"http://{HOST}:{port}{FIRST_PAGE['edit']}benchmark"
    finally:
        server.stdin.close()  # the end of its input is its own
        server.wait(timeout=30)
        shutil.rmtree(folder)
