"""learn.py run as a learner runs it: a process of its own, in a copy of the course."""

import contextlib
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from marimo_texts import cell, notebook, stub
from support import run

LESSON = notebook(
    "with app.setup:\n    import marimo as mo\n",
    cell('mo.md("""\n# {title}\n""")'),
    stub("plan_step", "decodes, budget", "Plan one step."),
)

NOTHING_TO_INSTALL = """[project]
name = "serving-nanogpt"
version = "0"
dependencies = []
[project.optional-dependencies]
jupyter = []
live = []
dev = []
"""


def write_lesson(course: Path, stem: str, text: str) -> None:
    (course / "lessons" / f"{stem}.py").write_text(text)


def learn(course: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "learn.py", *arguments], cwd=course, **options)


@contextlib.contextmanager
def started(
    command: list[str], cwd: Path, until: str = r"http://\S+", **options: object
) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """A program that runs and has said something with this pattern; its words up to there."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=cwd, **pipes, **options) as process:
        assert process.stdout
        said = ""
        try:
            while not re.search(until, said):
                line = process.stdout.readline()
                assert line, f"it ended without {until}: {said}"
                said += line
            yield process, said
        finally:
            process.terminate()
            process.communicate(timeout=60)


def wait_for(condition: Callable[[], bool], what: str = "it", limit_s: float = 60) -> None:
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, f"{what} did not happen within {limit_s:g} s"
        time.sleep(0.005)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def family(pid: int) -> list[psutil.Process]:
    """The processes that this one has started, and those that they have."""
    return psutil.Process(pid).children(recursive=True)


def listening(processes: list[psutil.Process]) -> set[tuple[str, int]]:
    """The addresses and ports at which they wait for connections."""
    found = [each for process in processes for each in process.net_connections("inet")]
    return {(each.laddr.ip, each.laddr.port) for each in found if each.status == psutil.CONN_LISTEN}


def children(pid: int) -> list[int]:
    """Ids of the processes that this one has started; none once it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [child.pid for child in psutil.Process(pid).children()]
    return []


def running(pids: list[int]) -> list[int]:
    """Those that have not ended; one that nothing has waited for yet has."""

    def runs(pid: int) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        return False

    return [pid for pid in pids if runs(pid)]
