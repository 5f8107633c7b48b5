"""A warm process that answers' processes are forked from: it has torch, and nothing to hide.

`python -m course.grading.isolation.warm_process FD` is told over the socket FD what to start; a
start is one message with two ends to pass on: the channel, and a pipe for what becomes of the
process.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from course.grading.isolation import kernel
from course.grading.isolation.jail import Jail, JailError

Serve: TypeAlias = Callable[[int, Mapping[str, Callable[..., Any]]], None]

_MOST_FILES = 64  # that it has open


def main(orders: socket.socket) -> None:
    """Start what is ordered, until there are no more orders."""
    from course.grading.isolation import child  # which brings torch along

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that judges
    gc.collect()
    gc.freeze()  # what is here is no garbage, and a look at it would copy it all
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        said, places, _, _ = socket.recv_fds(orders, 4096, 2)
        if not said:
            return
        channel, tells = places
        if os.fork() == 0:
            orders.close()
            _supervise(channel, tells, json.loads(said), child.serve)
        os.close(channel)
        os.close(tells)


def _supervise(channel: int, tells: int, layers: Collection[str], serve: Serve) -> None:
    """Leave the namespaces, start the process that serves, and tell what becomes of it."""
    try:
        jail = Jail(layers)
        jail.leave()
        kernel.end_with_parent(signal.SIGKILL)  # now: it is forgotten when rights are given up
        ready, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            os.close(tells)
            _be_kept_in(jail, channel, go, serve)
        os.close(channel)
        os.close(go)
        problem = os.read(ready, 4096)
        if problem != b"ready":
            raise JailError(problem.decode() or "the process ended before it began.")
        _tell(tells, {"pid": pid})
        _, status, used = os.wait4(pid, 0)
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        _tell(tells, {"signal": ended_by, "most_bytes": used.ru_maxrss << 10})
    except JailError as error:
        _tell(tells, {"problem": str(error)})
    finally:
        os._exit(0)


def _be_kept_in(jail: Jail, channel: int, go: int, serve: Serve) -> None:
    try:
        null = os.open("/dev/null", os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        for number in set(range(3, _MOST_FILES)) - {channel, go, *jail.places}:
            with contextlib.suppress(OSError):
                os.close(number)
        jail.close()
        os.write(go, b"ready")
    except (JailError, OSError) as error:
        os.write(go, str(error).encode())
        os._exit(1)
    os.close(go)
    serve(channel, {})


def _tell(tells: int, what: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(tells, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
