"""The site's part that runs Python in a page: editors, the interpreter, and the course's code."""

import ast
import contextlib
import json
import re
import shutil
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from course.launcher.failure import Failure
from course.publish.notebook_blocks import Block, Code, Exercise
from course.registry import exercises
from course.source.cutting import read_notebook
from course.tab.lesson_cells import cells_of

PYODIDE = "314.0.7"
"""The version of the npm package whose files `learn.py site OUT --pyodide FOLDER` takes."""
HASH = (
    "sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE"
    "5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
)
"""The hash of its archive, as npm writes it."""
_INTERPRETER = (
    "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip",
)  # fmt: skip
_LEFT_OUT = re.compile(
    r"(_pyio|_pyrepl|cProfile|compileall|configparser|curses|doctest|ftplib|imaplib|mailbox|optparse|"
    r"pdb|pickletools|plistlib|poplib|profile|pstats|pydoc|smtplib|sqlite3|tarfile|trace|unittest|"
    r"wave|webbrowser|wsgiref|xml|xmlrpc|zoneinfo)\b|asyncio/(proactor|windows)|http/(cookiejar|server)|"
    r"logging/[ch]|multiprocessing/(ma|po|sh)|encodings/(?!__init__|a|cp437|idna|latin_1|raw|un|utf)"
)
_TENSORS = "torch."  # in the signature of an exercise that computes with them
_ROOT = Path(__file__).parents[2]
_STATIC = Path(__file__).parent / "static"
_NOT_NEEDED = ("grading", "jupyter", "leaderboard", "live", "publish", "audit")


def write(folder: Path, pyodide: Path) -> None:
    """Write the folder tab/ of a site. Raises: Failure where `pyodide` is another package."""
    check_package(pyodide)
    tab = folder / "tab"
    (tab / "pyodide").mkdir(parents=True)
    *files, library = _INTERPRETER
    for name in files:
        shutil.copyfile(pyodide / name, tab / "pyodide" / name)
    _write_library(pyodide / library, tab / "pyodide" / library)
    for name in ("tab.js", "worker.js", "editor.js"):
        shutil.copyfile(_STATIC / name, tab / name)
    with zipfile.ZipFile(tab / "course.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in _sources():
            archive.write(path, path.relative_to(_ROOT))
    for stem in {item.lesson for item in exercises()}:
        (tab / f"{stem}.json").write_text(json.dumps(cells_of(_lesson(stem))), encoding="utf-8")


def _write_library(whole: Path, some: Path) -> None:
    """Write Python's own modules again, without comments and what no answer has a use for."""
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(some, "w", zipfile.ZIP_DEFLATED) as new:
        for name in filter(lambda each: not _LEFT_OUT.match(each), old.namelist()):
            text: bytes | str = old.read(name)
            with contextlib.suppress(SyntaxError):  # of a Python newer than this one
                text = ast.unparse(ast.parse(text)) if name.endswith(".py") else text
            new.writestr(name, text, compresslevel=9)


def check_package(pyodide: Path) -> None:
    """Raises: Failure unless the folder holds the npm package in the version that was tried."""
    try:
        version = json.loads((pyodide / "package.json").read_text("utf-8"))["version"]
    except (OSError, ValueError, KeyError, TypeError):
        version = "none"
    lacks = [name for name in _INTERPRETER if not (pyodide / name).is_file()]
    if version != PYODIDE or lacks:
        found = f"version {version}" + (f" without {', '.join(lacks)}" if lacks else "")
        raise Failure(
            f"{pyodide} must be the unpacked npm package pyodide {PYODIDE} (npm pack "
            f"pyodide@{PYODIDE}), and is {found}."
        )


def _sources() -> Iterable[Path]:
    """The Python that checks import, and the styles of their reports; no tensors' exercises."""
    left_out = {
        _ROOT / "solutions" / item.lesson / f"{item.name}.py"
        for item in exercises()
        if _TENSORS in read_notebook(_lesson(item.lesson)).binding(item.name)[0].source
    }
    for package in ("nanogpt", "course", "solutions", "widgets"):
        for path in sorted((_ROOT / package).rglob("*.*")):
            is_needed = package != "course" or path.relative_to(_ROOT).parts[1] not in _NOT_NEEDED
            if is_needed and path.suffix in (".py", ".pyi", ".toml") and path not in left_out:
                yield path
    yield from sorted((_ROOT / "course" / "static").glob("*.css"))


def with_editors(blocks: Sequence[Block]) -> list[Block]:
    """A lesson's blocks, with an editor in place of each exercise's stub."""
    found: list[Block] = []
    for block in blocks:
        if isinstance(block, Exercise):
            at = max(i for i, each in enumerate(found) if isinstance(each, Code) and each.label)
            stub = found[at]
            assert isinstance(stub, Code)
            if _TENSORS in stub.source:
                found.append(replace(block, needs_tensors=True))
            else:
                found[at] = replace(block, stub=stub.source)
        else:
            found.append(block)
    return found


def _lesson(stem: str) -> str:
    return (_ROOT / "lessons" / f"{stem}.py").read_text("utf-8")
