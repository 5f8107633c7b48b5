"""The npm package whose Python the site's pages run: found, or fetched by npm, for the tests."""

import base64
import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from support import ROOT, find_program

from course.tab.site_part import HASH, PYODIDE

FOLDER = "SERVING_NANOGPT_PYODIDE"
"""The environment variable that may name the unpacked package."""


def pyodide_package() -> Path:
    """The folder of the unpacked package; skips where npm cannot fetch it."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    kept = ROOT / ".venv" / f"pyodide-{PYODIDE}"
    if not kept.is_dir():
        packed = ["pack", f"pyodide@{PYODIDE}", "--pack-destination", str(ROOT / ".venv")]
        npm = find_program("npm")
        done = subprocess.run([npm, *packed], capture_output=True, text=True, cwd=ROOT)
        archive = ROOT / ".venv" / f"pyodide-{PYODIDE}.tgz"
        if done.returncode:
            pytest.skip(f"npm cannot fetch pyodide: {done.stderr.strip()[-300:]}")
        digest = hashlib.sha512(archive.read_bytes()).digest()
        assert f"sha512-{base64.b64encode(digest).decode()}" == HASH
        with tarfile.open(archive) as packed_files:
            packed_files.extractall(kept)
    return kept / "package"
