"""Makes .venv and installs the course into it: with uv from where pip is configured to, or pip."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from course.launcher.failure import Failure, cannot_load

UV = "uv==0.13.9"  # installed where no other is on the PATH
LOCK = "requirements.lock"  # pins what the pinned packages bring along
PYTORCH_INDEX = "https://download.pytorch.org/whl/cpu"  # uv has it from pyproject.toml
INSTALLING_FAILED = "installing failed: the lines above say why, and docs/setup.md helps."
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
        self.mark = root / ".installing"  # there during an installation, and after one cut short

    def ensure(self, *extras: str) -> None:
        """Install the course with these extras of pyproject.toml, unless it is installed."""
        if self.holds(*extras):
            return
        began = time.monotonic()
        if self.is_half_made() or not self.python.exists():
            self._make_venv()
        self.mark.touch()
        try:
            self._install_packages(extras)
        except Failure:  # what was installed before still works
            self.mark.unlink()
            raise
        if fault := self.fault():
            raise Failure(fault)
        self.mark.unlink()
        print(f"Installed in {time.monotonic() - began:.0f} s.", flush=True)

    def holds(self, *extras: str) -> bool:
        """Whether the course is installed, with every pin of these extras."""
        if self.is_half_made() or not self.python.exists():
            return False
        held = {package.partition("+")[0] for package in self.packages()}
        pins = {pin.lower().replace("-", "_") for pin in self.pins(*extras)}
        return pins <= held and any(each.startswith("serving_nanogpt==") for each in held)

    def is_half_made(self) -> bool:
        """Whether the last installation was cut short."""
        return self.mark.exists()

    def pins(self, *extras: str) -> list[str]:
        """Return what pyproject.toml pins for the course and these extras."""
        text = (self.root / "pyproject.toml").read_text(encoding="utf-8")
        project = tomllib.loads(text)["project"]
        by_extra = project["optional-dependencies"]
        wanted = [*project["dependencies"], *(pin for name in extras for pin in by_extra[name])]
        return [pin for pin in wanted if "==" in pin]  # an extra may also name other extras

    def packages(self) -> list[str]:
        """Return what is installed, such as "torch==2.13.0+cpu", with "_" for "-" in names."""
        inside = "site-packages/*.dist-info"
        found = [*self.venv.glob(f"lib/python*/{inside}"), *self.venv.glob(f"Lib/{inside}")]
        return [path.stem.lower().replace("-", "==") for path in found]

    def fault(self) -> str:
        """Load PyTorch, which takes long the first time; return why that fails, or ""."""
        command = [self.python, "-I", "-c", "import torch"]
        tried = subprocess.run(command, capture_output=True, text=True, errors="replace")
        return cannot_load(tried.stderr) if tried.returncode else ""

    def _make_venv(self) -> None:
        """Make .venv, anew if it is half made."""
        print("Making .venv.", flush=True)
        self.mark.touch()
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
        """Run a program; whether it succeeded."""
        try:
            return not subprocess.call(command, cwd=self.root, env=env, stdin=subprocess.DEVNULL)
        except OSError:  # it is not there, or for another kind of machine
            return False


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
