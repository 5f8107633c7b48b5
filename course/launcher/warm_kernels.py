"""Kernels forked from a process that has the large imports behind it.

marimo starts a new Python for each open lesson, which imports marimo, torch and anywidget before
its first cell runs: two to three seconds. Here they are imported once, while the learner reads the
first page. What lessons use of the course is not among them, so that a kernel started after an
update has the new modules. Where torch cannot be trusted after a fork, which is everywhere but on
Linux, kernels start as marimo starts them.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import sys
import threading
from typing import Any

PRELOADED = (
    "marimo._runtime.runtime",
    "anywidget",
    "numpy",
    "torch",
    "course.launcher.frozen",
)


def install() -> None:
    """Have this process's marimo take its kernels from there, and start importing."""
    if sys.platform != "linux":
        return
    from marimo._session.managers import kernel

    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(list(PRELOADED))

    def instead(method: str) -> Any:
        return forking

    setattr(kernel, "get_context", instead)  # noqa: B010 (it is not exported)
    threading.Thread(target=multiprocessing.forkserver.ensure_running, daemon=True).start()
