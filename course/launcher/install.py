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
from course.launcher.doctor import Finding
from course.launcher.failure import Failure, cannot_load, last_line, learn_command

UV = "uv==0.13.9"  # installed where no other is on the PATH
LOCK = "requirements.lock"  # pins what the pinned packages bring along
PYTORCH_INDEX = "https://download.pytorch.org/whl/cpu"  # uv has it from pyproject.toml
COURSE = "serving_nanogpt"
_BARE = {"pip", "setuptools", "wheel", "uv"}
_UV_VARIABLES = {  # pip's setting: uv's variable, and what separates several values there
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
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
            self._install(extras, lock)
            tried = self._load()
            if tried.returncode:
                raise Failure(cannot_load(tried.stderr))
            lock.truncate(0)
        print(f"Installed in {time.monotonic() - began:.0f} s.", flush=True)

    def holds(self, *extras: str) -> bool:
        """Whether the course of this folder is installed, with every pin of these extras."""
        if self.is_half_made() or not self.python.exists():
            return False
        held = {name: version.partition("+")[0] for name, version in packages(self.venv).items()}
        pins = (pin.split("==") for pin in self.pins(*extras))
        return self._is_from_here() and all(held.get(_normal(n)) == version for n, version in pins)

    def is_half_made(self) -> bool:
        """Whether the last installation was cut short."""
        return self.lock.exists() and self.lock.stat().st_size > 0

    def pins(self, *extras: str) -> list[str]:
        """Return what pyproject.toml pins for the course and these extras."""
        text = (self.root / "pyproject.toml").read_text(encoding="utf-8")
        project = tomllib.loads(text)["project"]
        pins = [*project.get("dependencies", ())]
        extras_left = [*extras]
        while extras_left:
            for each in project["optional-dependencies"][extras_left.pop()]:
                others = re.match(r"serving-nanogpt\[(.+)\]", each)
                extras_left += others[1].split(",") if others else []
                pins += [] if others else [each]
        return pins

    def obstacles(self) -> Iterator[str]:
        """Yield a sentence for each thing that would make an installation fail."""
        if self.is_half_made() or not self._works():
            yield from doctor.unsupported()  # this Python makes .venv, and is the one in it
        yield from doctor.before_install(self.root)

    def findings(self) -> Iterator[Finding]:
        """Look at .venv, and load PyTorch from it."""
        if self.is_half_made():
            yield Finding("wrong", f".venv is half made: {learn_command()} makes it anew.")
        elif not self.holds():
            yield Finding("note", f"the course is not installed yet: {learn_command()} does it.")
        elif (tried := self._load()).returncode:
            yield Finding("wrong", cannot_load(tried.stderr))
        else:
            yield from (Finding("ok", sentence) for sentence in self.describe())

    def describe(self) -> list[str]:
        """Return sentences on what is installed, and how."""
        held = packages(self.venv)
        installer = self._metadata("INSTALLER").strip()
        said = [f"The course is installed in {self.venv} by {installer}."]
        if torch := held.get("torch"):
            has_gpu = any(name.startswith("nvidia_") for name in held)
            build = "with GPU libraries, which the course does not use" if has_gpu else "CPU build"
            said.append(f"PyTorch {torch}, {build}.")
        return said

    def _metadata(self, name: str) -> str:
        """A file of the course's metadata in .venv; empty where the course is not installed."""
        found = [path for path in _metadata_folders(self.venv) if path.name.startswith(COURSE)]
        return (found[0] / name).read_text(encoding="utf-8") if found else ""

    def _is_from_here(self) -> bool:
        """Whether .venv has the course of this folder, not of one that it was copied from."""
        origin = json.loads(self._metadata("direct_url.json") or "{}")
        path = Path(url2pathname(urlsplit(origin.get("url", "")).path))
        return path.is_absolute() and path.exists() and path.samefile(self.root)

    def _works(self) -> bool:
        """Whether .venv has a running Python of a fitting version."""
        fits = f"{doctor.OLDEST} <= sys.version_info[:2] <= {doctor.NEWEST}"
        question = [self.python, "-c", f"import sys; sys.exit(not {fits})"]
        try:
            return subprocess.run(question, capture_output=True).returncode == 0
        except OSError:
            return False

    def _load(self) -> subprocess.CompletedProcess[str]:
        """Load PyTorch, which takes long the first time."""
        command = [self.python, "-I", "-c", "import torch"]
        return subprocess.run(command, capture_output=True, text=True, errors="replace")

    def _install(self, extras: Sequence[str], lock: IO[str]) -> None:
        """Make .venv and install; a failure leaves what was installed before."""
        anew = self.is_half_made() or not self._works()
        lock.write("Installing, or cut short.\n")
        lock.flush()
        try:
            if self.venv == self.root / ".venv":
                self._make_venv(anew)
            self._install_packages(extras, lock)
        except Failure:
            lock.truncate(0)
            raise

    def _make_venv(self, anew: bool) -> None:
        """Make .venv if asked; move away one that holds packages, but not the course."""
        names = packages(self.venv).keys()
        is_foreign = not (self.venv.is_dir() and (COURSE in names or names <= _BARE))
        if is_foreign and os.path.lexists(self.venv):
            aside = self.root / time.strftime(".venv-kept-%Y-%m-%d-%H%M%S")
            self.venv.rename(aside)
            print(f".venv was not made for the course: it is moved to {aside.name}.", flush=True)
        if not (anew or is_foreign):
            return
        print("Making .venv.", flush=True)
        python = getattr(sys, "_base_executable", None) or sys.executable
        made = subprocess.run(
            [python, "-m", "venv", "--clear", self.venv],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if made.returncode:
            helps = ""
            if sys.platform == "linux" and "ensurepip" in made.stdout:
                helps = "; on Debian and Ubuntu this helps: sudo apt install python3-venv"
            raise Failure(
                f"{python} could not make a virtual environment ({last_line(made.stdout)}){helps}."
            )

    def _install_packages(self, extras: Sequence[str], lock: IO[str]) -> None:
        """Install with uv, or else with pip; each shows its own progress."""
        course = f".[{','.join(extras)}]" if extras else "."
        wanted = ["--editable", course, "--constraint", LOCK]
        pip = [self.python, "-m", "pip", "--disable-pip-version-check"]
        listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True)
        environment = uv_environment(listed.stdout) | os.environ
        print("Installing the packages.", flush=True)
        uv = shutil.which("uv") or self.python.with_name("uv").with_suffix(self.python.suffix)
        if not os.path.exists(uv):
            self._run([*pip, "install", "-qq", "--retries=1", UV], lock)
        if self._run([uv, "pip", "install", f"--python={self.python}", *wanted], lock, environment):
            return
        print("uv cannot install here: going on with pip.", flush=True)
        if sys.platform == "linux" and "UV_NO_SOURCES" not in environment:
            wanted += [f"{pin}+cpu" for pin in self.pins() if pin.startswith("torch==")]
            wanted += ["--extra-index-url", PYTORCH_INDEX]
        if not self._run([*pip, "install", *wanted], lock):
            raise Failure("installing failed: the lines above say why, and docs/setup.md helps.")

    def _run(
        self, command: Sequence[str | Path], lock: IO[str], env: Mapping[str, str] = os.environ
    ) -> bool:
        """Run a program, which holds the lock as long as it runs; whether it succeeded."""
        held = () if os.name == "nt" else (lock.fileno(),)
        nothing = subprocess.DEVNULL
        try:
            return not subprocess.call(
                command, cwd=self.root, env=env, stdin=nothing, pass_fds=held
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
        name = name.rpartition(".")[2]
        if name in _UV_VARIABLES:
            variable, separator = _UV_VARIABLES[name]
            found[variable] = separator.join(str(ast.literal_eval(value)).split())
    if found.keys() & {"UV_INDEX", "UV_FIND_LINKS"}:
        found["UV_NO_SOURCES"] = "1"
    return found


@contextlib.contextmanager
def one_at_a_time(path: Path) -> Generator[IO[str]]:
    """Lock the file `path` and yield it; a program that inherits the file holds the lock too."""
    with path.open("a") as file:
        if not _is_locked(file):
            print("Waiting for another installation to end.", flush=True)
            while not _is_locked(file):
                time.sleep(0.2)
        yield file


def _is_locked(file: IO[str]) -> bool:
    """Try to lock the file for this process and those that inherit it."""
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


def _metadata_folders(venv: Path) -> list[Path]:
    folders = (*venv.glob("lib/python*/site-packages"), venv / "Lib" / "site-packages")
    return [path for folder in folders for path in folder.glob("*.dist-info")]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
