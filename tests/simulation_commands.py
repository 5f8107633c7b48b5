"""The commands of the simulations: called in this process, or started as one of their own."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import psutil
import pytest
from support import ROOT

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of a POSIX terminal")


def call(main: Callable[[Sequence[str]], int], *arguments: str) -> tuple[Any, str, str]:
    """(exit status, standard output, standard error) of a command that runs in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status: Any = main(arguments)
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()


@contextmanager
def started(module: str, *arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """The command in a process group of its own, which does not outlive the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, text=True, start_new_session=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def all_gone(processes: Sequence[psutil.Process]) -> bool:
    """Whether they end within a minute."""
    return not psutil.wait_procs(processes, timeout=60)[1]
