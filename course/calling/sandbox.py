"""The sandbox for marks: bubblewrap, in which an answer sees Python and its libraries only.

Inside it has a file system of its own, read-only, with none of the course but what serves its
calls; no network, no other process, no rights, and limits on memory, files and tasks.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from course.calling.processes import ForkServer
from course.launcher.failure import Failure

_ROOT = Path(__file__).parents[2]
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_NOBODY = "65534"
_OURS = (
    "course/__init__.py",
    "course/calling/*.py",
    "course/files.py",
    "course/moves.py",
    "course/same_values.py",
    "course/source/*.py",
    "nanogpt/__init__.py*",
    "nanogpt/child_process.py",
    "nanogpt/validate.py",
    "nanogpt/views/*.py",
)
"""The project's files that an answer's process needs: none holds no answer to an exercise."""


class SandboxError(Failure):
    """Why there is no sandbox on this machine, in a sentence."""


def sandboxed() -> ForkServer:
    """Starts processes in a sandbox. Raises: SandboxError."""
    command = _command()
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise SandboxError(
            f"bubblewrap cannot make a sandbox here ({_last_line(tried.stderr)}): allow user "
            "namespaces, grade with --container, or go on without a sandbox with --unsafe."
        )
    return ForkServer(command, needs="marks")


def _command() -> list[str]:
    if sys.platform != "linux" or (bwrap := shutil.which("bwrap")) is None:
        raise SandboxError(
            "there is no bubblewrap here: install the package `bubblewrap` (Debian, Ubuntu, "
            "Fedora, Arch), grade with --container, or go on without a sandbox with --unsafe."
        )
    words = [bwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    words += ["--as-pid-1", "--cap-drop", "ALL", "--uid", _NOBODY, "--gid", _NOBODY]
    words += ["--dev", "/dev"]
    for path in _readable():
        words += ["--ro-bind", str(path), str(path)]
    return [*words, "--remount-ro", "/", "--remount-ro", "/dev", "--chdir", str(_ROOT), "--"]


def _readable() -> list[Path]:
    """The paths of Python, its libraries, the installed packages, and the modules for calls."""
    names = [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    names += [*_LIBRARIES, str(Path(sys.base_prefix) / "lib"), sys.executable, "/usr/bin/true"]
    paths = {Path(name) for each in names for name in (each, os.path.realpath(each))}
    paths.add(Path(sys.prefix) / "pyvenv.cfg")
    there = {path for path in paths if path.exists()}
    outer = [path for path in there if not there.intersection(path.parents)]
    return sorted(outer) + sorted(path for each in _OURS for path in _ROOT.glob(each))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it did not say why"])[-1]
