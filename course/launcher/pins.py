"""Renews requirements.lock: `python -m course.launcher.pins`, run by the Python of .venv.

Pins that still fit stay, and --upgrade takes the newest; options go to `uv pip compile`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from course.files import write_atomically
from course.launcher.install import LOCK
from course.launcher.installers import beside, configuration_in, environment_for

HEADER = """\
# The exact version of everything that requirements*.txt bring along, for every system and every
# Python from 3.11 on. Made by: python -m course.launcher.pins
# It constrains and asks for nothing. PyTorch is pinned in requirements.txt, and pins what belongs
# to it; hashes would tie its builds, which differ from index to index, to one of them.
"""
_OF_TORCH = re.compile(r"(triton|nvidia-[\w-]+|cuda-[\w-]+)==")
_COMPILE = (
    *("--universal", "--python-version=3.11", "--no-header", "--no-annotate", "--quiet"),
    *("--no-emit-package=torch", "--no-emit-package=serving-nanogpt", f"--output-file={LOCK}"),
)


def main(root: Path, options: Sequence[str]) -> int:
    """Write the lock file of the course in `root`; return uv's exit status."""
    python = Path(sys.executable)
    listed = subprocess.check_output([python, "-m", "pip", "config", "list"], text=True)
    environment = environment_for(configuration_in(listed), os.environ)
    files = sorted(path.name for path in root.glob("requirements*.txt"))
    status = subprocess.call(
        [beside(python), "pip", "compile", *_COMPILE, *files, *options],
        cwd=root,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
    )
    if status == 0:
        lines = (root / LOCK).read_text(encoding="utf-8").splitlines(keepends=True)
        pins = [line for line in lines if not line.startswith("#") and not _OF_TORCH.match(line)]
        write_atomically(root / LOCK, (HEADER + "".join(pins)).encode())
    return status


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), sys.argv[1:]))
