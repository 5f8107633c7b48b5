"""Makes .venv and installs the course into it: with uv from where pip is configured to, or pip."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from course.launcher import doctor
from course.launcher.failure import Failure, cannot_load

UV = "uv==0.13.9"  # installed where no other is on the PATH
LOCK = "requirements.lock"  # pins what the pinned packages bring along
PYTORCH_INDEX = "https://download.pytorch.org/whl/cpu"  # uv has it from pyproject.toml
COURSE = "serving_nanogpt"
NEEDED_GB = 3  # an installation with the CPU build of PyTorch, and room to unpack it
INSTALLING_FAILED = "installing failed: the lines above say why, and docs/setup.md helps."
_BARE = {"pip", "setuptools", "wheel", "uv"}
_UV_VARIABLES = {  # uv's names of pip's settings
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}


class Installation:
    """The course of the folder `root` in a virtual environment, by default `root`/.venv."""

    def __init__(self, root: Path, venv: Path | None = None) -> None:
        self.root = root
        self.venv = venv or root / ".venv"
        self.python = self.venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        # Locked during an installation, and not empty after one that was cut short.
        self.lock = self.venv.parent / ".installing"

    def ensure(self, *extras: str) -> None:
        """Install the course with these extras of pyproject.toml, unless it is installed."""
        if self.holds(*extras):
            return
        for sentence in self.obstacles():
            raise Failure(sentence)
        with one_at_a_time(self.lock) as lock:
            if self.holds(*extras):
                return  # another launcher has installed it by now
            began = time.monotonic()
            for sentence in doctor.notes(self.root):
                print(f"learn.py: note: {sentence}", flush=True)
            is_new = self._needs_python()
            lock.write("Installing, or cut short.\n")
            lock.flush()
            try:
                if self.venv == self.root / ".venv":
                    self._make_venv(is_new)
                self._install_packages(extras)
            except Failure:  # what was installed before still works
                lock.truncate(0)
                raise
            if fault := self.fault():
                raise Failure(fault)
            lock.truncate(0)
        print(f"Installed in {time.monotonic() - began:.0f} s.", flush=True)

    def holds(self, *extras: str) -> bool:
        """Whether the course of this folder is installed, with every pin of these extras."""
        if self._needs_python() or not self._is_from_here():
            return False
        held = {name: version.partition("+")[0] for name, version in packages(self.venv).items()}
        pins = (pin.split("==") for pin in self.pins(*extras))
        return all(held.get(_normal(name)) == version for name, version in pins)

    def is_half_made(self) -> bool:
        """Whether the last installation was cut short."""
        return self.lock.exists() and self.lock.stat().st_size > 0

    def pins(self, *extras: str) -> list[str]:
        """Return what pyproject.toml pins for the course and these extras."""
        text = (self.root / "pyproject.toml").read_text(encoding="utf-8")
        project = tomllib.loads(text)["project"]
        by_extra = project["optional-dependencies"]
        pins = [*project.get("dependencies", ()), *(p for name in extras for p in by_extra[name])]
        for pin in pins:  # those of an extra that another one names come to the end
            if others := re.match(r"serving-nanogpt\[(.+)\]", pin):
                pins += [p for name in others[1].split(",") for p in by_extra[name]]
        return [pin for pin in pins if "==" in pin]

    def obstacles(self) -> Iterator[str]:
        """Yield a sentence for each thing that would make an installation fail."""
        if self._needs_python() and (sentence := doctor.unsupported()):
            yield sentence
        free_gb = shutil.disk_usage(self.root).free / 1e9
        if free_gb < NEEDED_GB and not self.venv.exists():
            yield f"the disk has {free_gb:.1f} GB free, and {NEEDED_GB} GB are needed: make room."

    def fault(self) -> str:
        """Load PyTorch, which takes long the first time; return why that fails, or ""."""
        command = [self.python, "-I", "-c", "import torch"]
        tried = subprocess.run(command, capture_output=True, text=True, errors="replace")
        return cannot_load(tried.stderr) if tried.returncode else ""

    def describe(self) -> str:
        """Say what is installed, and how."""
        torch, installer = packages(self.venv).get("torch"), self._metadata("INSTALLER").strip()
        return f"The course is installed in {self.venv} by {installer}, with PyTorch {torch}."

    def _needs_python(self) -> bool:
        """Whether .venv is to be made, by the Python that runs this."""
        return self.is_half_made() or not self.python.exists()

    def _metadata(self, name: str) -> str:
        """A file of the course's metadata in .venv; empty where the course is not installed."""
        found = [path for path in _metadata_folders(self.venv) if path.name.startswith(COURSE)]
        return (found[0] / name).read_text(encoding="utf-8") if found else ""

    def _is_from_here(self) -> bool:
        """Whether .venv has the course of this folder, not of one that it was copied from."""
        origin = json.loads(self._metadata("direct_url.json") or "{}")
        path = Path(url2pathname(urlsplit(origin.get("url", "")).path))
        return path.is_absolute() and path.exists() and path.samefile(self.root)

    def _make_venv(self, is_new: bool) -> None:
        """Make .venv if asked; move away one that holds packages, but not the course."""
        names = packages(self.venv).keys()
        is_foreign = COURSE not in names and not names <= _BARE
        if is_foreign:
            aside = self.root / time.strftime(".venv-kept-%Y-%m-%d-%H%M%S")
            self.venv.rename(aside)
            print(f".venv was not made for the course: it is moved to {aside.name}.", flush=True)
        if is_new or is_foreign:
            print("Making .venv.", flush=True)
            python = getattr(sys, "_base_executable", None) or sys.executable
            if not self._run([python, "-m", "venv", "--clear", self.venv]):
                raise Failure(INSTALLING_FAILED)

    def _install_packages(self, extras: Sequence[str]) -> None:
        """Install with uv, or else with pip; each shows its own progress."""
        course = f".[{','.join(extras)}]" if extras else "."
        wanted = ["--editable", course, "--constraint", LOCK]
        pip = [self.python, "-m", "pip", "--disable-pip-version-check"]
        listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True)
        environment = uv_environment(listed.stdout) | os.environ
        print("Installing the packages.", flush=True)
        uv = shutil.which("uv") or self.python.with_name("uv").with_suffix(self.python.suffix)
        if not os.path.exists(uv):
            self._run([*pip, "install", "-qq", "--retries=1", UV])
        if self._run([uv, "pip", "install", f"--python={self.python}", *wanted], environment):
            return
        print("uv cannot install here: going on with pip.", flush=True)
        if sys.platform == "linux" and "UV_NO_SOURCES" not in environment:
            wanted += [f"{pin}+cpu" for pin in self.pins() if pin.startswith("torch==")]
            wanted += ["--extra-index-url", PYTORCH_INDEX]
        if not self._run([*pip, "install", *wanted]):
            raise Failure(INSTALLING_FAILED)

    def _run(self, command: Sequence[str | Path], env: Mapping[str, str] = os.environ) -> bool:
        """Run a program, which holds the lock as long as it runs; whether it succeeded."""
        is_closed = os.name == "nt"  # where a program cannot take over a lock
        nothing = subprocess.DEVNULL
        try:
            return not subprocess.call(
                command, cwd=self.root, env=env, stdin=nothing, close_fds=is_closed
            )
        except OSError:  # it is not there, or for another kind of machine
            return False


def packages(venv: Path) -> dict[str, str]:
    """Return the installed packages' versions by name, such as {"torch": "2.13.0+cpu"}."""
    names = (folder.name.removesuffix(".dist-info") for folder in _metadata_folders(venv))
    return {_normal(name): version for name, _, version in (each.partition("-") for each in names)}


def uv_environment(listed: str) -> dict[str, str]:
    """Translate pip's settings, as `pip config list` prints them, to uv's variables.

    Where pip has an extra index or a folder of wheels, PyTorch comes from there, and not from the
    index in pyproject.toml.
    """
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # pip's: the newest version of all indexes
    lines = listed.splitlines()
    for line in sorted(lines, key=lambda line: line.startswith(":env:")):  # the environment wins
        name, _, value = line.partition("=")
        if variable := _UV_VARIABLES.get(name.rpartition(".")[2]):
            separator = "," if variable == "UV_FIND_LINKS" else " "
            found[variable] = separator.join(str(ast.literal_eval(value)).split())
    if found.keys() & {"UV_INDEX", "UV_FIND_LINKS"}:
        found["UV_NO_SOURCES"] = "1"
    return found


@contextlib.contextmanager
def one_at_a_time(path: Path) -> Generator[IO[str]]:
    """Lock the file `path` and yield it; a program that inherits the file holds the lock too."""
    with path.open("a") as file:
        os.set_inheritable(file.fileno(), True)
        if not _is_locked(file):
            print("Waiting for another installation to end.", flush=True)
            while not _is_locked(file):
                time.sleep(0.2)
        yield file


def _is_locked(file: IO[str]) -> bool:
    """Try to lock the file for this process; whether it is locked now."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _metadata_folders(venv: Path) -> Iterator[Path]:
    packages = next(venv.glob("lib/python*/site-packages"), venv / "Lib" / "site-packages")
    return packages.glob("*.dist-info")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
