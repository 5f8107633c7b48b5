"""The course's server: marimo or Jupyter, and around it what they leave to their host.

`python -m course.launcher.host edit|run|jupyter ADDRESS PORT NAME` serves work/ at that address,
which the browser calls NAME. COURSE_TOKEN is the token; the end of the input is the end of the
launcher, and of the server. Runs in .venv, and marimo's kernels load this module again: nothing is
imported or done at its top.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import threading
import time

STOP_LIMIT_S = 4.0  # the launcher waits a little longer before it ends the server itself


def main(mode: str, address: str, port: str, name: str) -> None:
    """Serve until the launcher says stop, or is gone."""
    token = os.environ.pop("COURSE_TOKEN")
    lifeline = os.dup(0)  # no kernel inherits it
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    try:
        if mode == "jupyter":
            from course.jupyter.server import serve

            serve(address, int(port), name, token)
        else:
            _serve_marimo(mode, address, port, token)
    finally:
        _end_children()


def _serve_marimo(mode: str, address: str, port: str, token: str) -> None:
    from course.launcher import marimo_hooks, save_guard

    marimo_hooks.install(mode)
    if mode == "edit":
        save_guard.install()
    place = ("--host", address, "--port", port, "--token-password", token)
    watch = ("--watch",) if mode == "edit" else ()
    sys.argv = ["marimo", mode, "work", *place, "--headless", "--no-sandbox", *watch]
    runpy.run_module("marimo", run_name="__main__")


def _end_with(lifeline: int) -> None:
    """Wait for the end of the launcher, then stop as Ctrl-C stops."""
    os.read(lifeline, 1)
    if os.name == "nt":  # where os.kill ends the process at once, and no kernel is ended
        signal.raise_signal(signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(STOP_LIMIT_S)
    _end_children()
    os._exit(1)


def _end_children() -> None:
    """End the kernels that are left, since one that hangs in a call into C does not end itself."""
    import psutil

    left = psutil.Process().children(recursive=True)
    for process in left:
        with contextlib.suppress(psutil.Error):  # it has just ended by itself
            process.kill()
    psutil.wait_procs(left, timeout=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
