"""`learn.py grade --container`: the same grader, with its sandbox, inside Docker or Podman.

For machines that are no Linux, or that give an ordinary user no namespaces: a container may make
its own when the engine's filter of system calls does not forbid it.
"""

import csv
import io
import os
import shutil
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from course.files import digest_of
from course.launcher.failure import Failure

ENGINES = ("docker", "podman")
_ROOT = Path(__file__).parents[2]
_CONTAINERFILE = Path("docs/hosting/Containerfile")
_LEFT_OUT = {"__pycache__", "__marimo__"}
_IN_IMAGE = ("course", "nanogpt", "solutions", "lessons", "widgets")


def grade_in_container(arguments: Namespace) -> int:
    """Builds the image where there is none of this course as it is; returns the exit status.

    `arguments` are those of `python -m course grade`. Raises: Failure.
    """
    if arguments.dask:
        raise Failure("--container grades on this machine: leave --dask out.")
    if os.name != "posix":
        raise Failure("--container needs macOS or Linux: on Windows, give it in WSL 2.")
    for path in (arguments.submissions, arguments.points):
        if path and not path.exists():  # which an engine would make, as a folder
            raise Failure(f"there is no {path}.")
    engine = _engine()
    image = f"serving-nanogpt:{digest_of(sorted(_files()), _ROOT)}"
    if not _succeeds([engine, "image", "inspect", image]):
        _build(engine, image)
    arguments.out.mkdir(parents=True, exist_ok=True)
    return _status_of([*_run(engine, arguments), image, *_graders(arguments)])


def _engine() -> str:
    """The first engine that answers: Docker's command may be there while Docker is not started."""
    installed = [name for name in ENGINES if shutil.which(name)]
    if not installed:
        raise Failure("--container needs Docker or Podman, and neither is installed.")
    for name in installed:
        if _succeeds([name, "info"]):
            return name
    tried = " and ".join(f"`{name} info`" for name in installed)
    raise Failure(f"no container can be started here: {tried} did not succeed.")


def _files() -> Iterator[Path]:
    """The image's files: another line of the course makes another image."""
    names = ("learn.py", "pyproject.toml", "requirements.lock", _CONTAINERFILE)
    yield from (_ROOT / name for name in names)
    for folder in _IN_IMAGE:
        for path in (_ROOT / folder).rglob("*"):
            if path.is_file() and not _LEFT_OUT.intersection(path.parts):
                yield path


def _build(engine: str, image: str) -> None:
    command = [engine, "build", "--tag", image, "--file", str(_ROOT / _CONTAINERFILE), str(_ROOT)]
    said = "Building the container's image: some minutes, once for each version of the course."
    sys.stderr.write(f"{said}\n")
    if _status_of(command):
        raise Failure(f"{engine} could not build the image; its own words stand above.")


def _run(engine: str, arguments: Namespace) -> list[str]:
    """What is inside sees the submissions and the points, writes the results, and nothing else."""
    mounts = [_mount(arguments.submissions, "readonly"), _mount(arguments.out)]
    if arguments.points:
        mounts.append(_mount(arguments.points, "readonly"))
    command = [engine, "run", "--rm", "--network", "none", "--read-only"]
    command += ["--tmpfs", "/tmp", "--cap-drop", "all", "--user", f"{os.getuid()}:{os.getgid()}"]
    # The grader's own sandbox is stricter, and needs what the engine's would forbid: namespaces.
    for unconfined in ("seccomp=unconfined", "apparmor=unconfined", "label=disable"):
        command += ["--security-opt", unconfined]
    if os.getuid() == 0:  # it needs no namespace of users, and gives its rights up by itself
        command += _each("--cap-add", ["SYS_ADMIN", "SETUID", "SETGID"])
    elif engine == "podman":
        command += ["--userns", "keep-id"]
    if sys.stdout.isatty():
        command.append("--tty")
    return [*command, *(part for mount in mounts for part in ("--mount", mount))]


def _mount(path: Path, *options: str) -> str:
    """A mount with the same path inside and outside, so that printed paths are right for both."""
    place = str(path.resolve())
    row = io.StringIO()
    fields = ["type=bind", f"source={place}", f"destination={place}", *options]
    csv.writer(row, lineterminator="").writerow(fields)
    return row.getvalue()


def _graders(arguments: Namespace) -> list[str]:
    """The same command without `--container`."""
    command = ["grade", str(arguments.submissions.resolve()), "--out", str(arguments.out.resolve())]
    command += _each("--layout", [arguments.layout])
    command += _each("--lesson", arguments.lesson)
    command += _each("--points", [arguments.points.resolve()] if arguments.points else [])
    command += _each("--seed", [] if arguments.seed is None else [arguments.seed])
    command += ["--workers", str(arguments.workers)]
    return [*command, "--unsafe"] if arguments.unsafe else command


def _each(option: str, values: Iterable[object]) -> list[str]:
    return [part for value in values for part in (option, str(value))]


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _status_of(command: Sequence[str]) -> int:
    """The exit status of a command that has the terminal and gets Ctrl-C; waits for its end."""
    # An exception that comes just as it ends would lose its status; this is no such thing, and
    # not inherited either.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.call(command)
    finally:
        signal.signal(signal.SIGINT, before)
