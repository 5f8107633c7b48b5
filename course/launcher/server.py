"""Starts the one local server that shows the course, and stops it cleanly."""

import argparse
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from pathlib import Path
from typing import IO

from course.files import explain
from course.launcher import doctor
from course.launcher.failure import Failure, last_line

DEFAULT_PORT = 2718
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
MODEL = "SERVING_NANOGPT_MODEL"  # the folder of lesson 10's own server, if it has one
STOP_LIMIT_S = 5
ROOM_FOR_A_START = 16384  # bytes
OWN_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)  # Windows has no sessions
FIRST_PAGE = {
    "edit": "/?file=index.py&view-as=present&access_token=",
    "run": "/?file=index.py&access_token=",
    "jupyter": "/lab/tree/index.ipynb?token=",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that opens the course."""
    hosts = ("127.0.0.1", "0.0.0.0")
    parser.add_argument("--host", choices=hosts, default=hosts[0], help="0.0.0.0: in a container")
    parser.add_argument("--port", type=_port, help=f"from 1024 to 65535, {DEFAULT_PORT} if free")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--model", type=Path, help="a hub model's folder, for lesson 10's server")


def _port(text: str) -> int:
    if not text.isdecimal() or not 1024 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is out of range: it must be from 1024 to 65535")
    return int(text)


def choose_port(wanted: int | None) -> int:
    """Return the wanted port, or the usual one, or else any free one."""
    port = wanted or DEFAULT_PORT
    if doctor.port_is_free(port):
        return port
    if wanted:
        raise Failure(f"port {port} is taken by another program: choose another with --port.")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free: int = probe.getsockname()[1]
    print(f"Port {port} is taken (perhaps the course is open already), so this is {free}.")
    return free


def choose_host() -> str:
    """Return a name for this machine under which no other server has ever been.

    A cookie belongs to a host, whatever the port: the learner's cookie for 127.0.0.1 would go to
    every local server. Browsers resolve *.localhost by themselves. Safari, however, asks the
    system, which does not know the name and may ask another machine.
    """
    return "127.0.0.1" if sys.platform == "darwin" else f"course-{secrets.token_hex(4)}.localhost"


def serve(mode: str, python: Path, root: Path, options: argparse.Namespace) -> int:
    """Show work/ until Ctrl-C. `mode` is one of marimo's, "edit" or "run", or "jupyter".

    To this machine only, unless it is a container that listens for its host (`--host 0.0.0.0`).
    """
    port = choose_port(options.port)
    if mode == "edit" and doctor.is_temporary(root):
        print(f"learn.py: warning: {doctor.TEMPORARY.format(root)}", file=sys.stderr)
    asked = _requests_to_stop()
    if options.model:
        os.environ[MODEL] = str(options.model.resolve())
    token, host = secrets.token_urlsafe(16), choose_host()
    log, is_open, why = root / "work" / "server.log", False, "no output"
    server = _start([mode, options.host, str(port), host], python, root, token, log)
    try:
        while server.poll() is None and not asked:
            if not is_open and (is_open := answers(port)):
                address = f"http://{host}:{port}{FIRST_PAGE[mode]}{token}"
                print(f"The course is open at\n\n  {address}\n\nStop it with Ctrl-C.", flush=True)
                if not options.no_browser and doctor.has_display():
                    webbrowser.open(address)
            time.sleep(0.2 if is_open else 0.02)
        if not asked:
            with contextlib.suppress(OSError):  # it could not be written
                why = last_line(log.read_text(encoding="utf-8", errors="replace"))
            raise Failure(f"the course server ended by itself: {why}.")
    finally:
        try:
            server.communicate(timeout=STOP_LIMIT_S)  # closes its input, at which it ends
        except subprocess.TimeoutExpired:
            server.kill()
    print("\nStopped. Your work is in work/.")
    return 0


def _requests_to_stop() -> list[int]:
    """Return a list that receives the signals that mean stop: of Ctrl-C and a closed terminal.

    An exception could interrupt `subprocess` while it holds a lock, and waiting for the server
    would then never end.
    """
    asked: list[int] = []
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, lambda number, _: asked.append(number))
    return asked


def _start(
    arguments: list[str], python: Path, root: Path, token: str, log: Path
) -> subprocess.Popen[bytes]:
    """Start the server in a session of its own, so that Ctrl-C reaches only the launcher.

    The server's input stays open as long as the launcher lives, and the server ends with it.
    """
    ours = {"COURSE_TOKEN": token, "PYTHONPATH": str(root), "MARIMO_SKIP_UPDATE_CHECK": "1"}
    with _output(log) as output:
        return subprocess.Popen(
            [python, "-m", "course.launcher.host", *arguments],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            creationflags=OWN_GROUP,
            env=os.environ | ours | ONE_THREAD,
        )


def _output(log: Path) -> IO[bytes]:
    """Open the server's log with room for what a server prints as it starts.

    A print that fails would end the server, so where there is no room there is no log.
    """
    try:
        log.touch(mode=0o600)  # servers print the token
        log.write_bytes(b"\n" * ROOM_FOR_A_START)
        return log.open("r+b")
    except OSError as error:
        print(f"learn.py: warning: the server has no log: {explain(error)}", file=sys.stderr)
        return open(os.devnull, "wb")


def answers(port: int) -> bool:
    """Whether a server listens on this port of 127.0.0.1."""
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False
