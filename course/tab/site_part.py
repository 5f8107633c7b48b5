"""The site's part that runs Python in a page: editors, the interpreter, and the course's code."""

import ast
import json
import shutil
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from course.launcher.failure import Failure
from course.publish.notebook_blocks import Block, Code, Exercise

PYODIDE = "314.0.7"
"""The version of the npm package whose files `learn.py site OUT --pyodide FOLDER` takes."""
NEED_TENSORS = frozenset(
    ("cached_attention", "chunk_mask", "full_mask", "pack", "split_kv", "evict", "compare_logits")
)
"""The exercises that compute with tensors, which the interpreter of a page does not have."""
_INTERPRETER = (
    "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip",
)  # fmt: skip
_ROOT = Path(__file__).parents[2]
_STATIC = Path(__file__).parent / "static"
_NOT_NEEDED = ("grading", "jupyter", "launcher", "leaderboard", "live", "publish", "audit")


def write(folder: Path, pyodide: Path) -> None:
    """Write the folder tab/ of a site. Raises: Failure where `pyodide` is another package."""
    check_package(pyodide)
    tab = folder / "tab"
    (tab / "pyodide").mkdir(parents=True)
    for name in _INTERPRETER:
        shutil.copyfile(pyodide / name, tab / "pyodide" / name)
    for name in ("tab.js", "worker.js", "editor.js"):
        shutil.copyfile(_STATIC / name, tab / name)
    with zipfile.ZipFile(tab / "course.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in _sources():
            archive.write(path, path.relative_to(_ROOT))
    large = [tab / "course.zip", *(tab / "pyodide" / name for name in _INTERPRETER[2:])]
    sizes = sum(each.stat().st_size for each in large if each.suffix != ".json")
    (tab / "sizes.json").write_text(json.dumps({"bytes": sizes}), encoding="utf-8")


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
    """The course's Python that a check imports, and the styles of its report."""
    for package in ("nanogpt", "course", "solutions"):
        for path in sorted((_ROOT / package).rglob("*.py")):
            if package != "course" or path.relative_to(_ROOT).parts[1] not in _NOT_NEEDED:
                yield path
    yield from sorted((_ROOT / "course" / "static").glob("*.css"))


def with_editors(stem: str, blocks: Sequence[Block]) -> list[Block]:
    """The blocks of a lesson, with an editor in place of each exercise's stub."""
    prelude = _prelude((_ROOT / "lessons" / f"{stem}.py").read_text("utf-8"))
    found: list[Block] = []
    for block in blocks:
        if not isinstance(block, Exercise):
            found.append(block)
        elif block.name in NEED_TENSORS:
            found.append(replace(block, needs_tensors=True))
        else:
            at = max(i for i, each in enumerate(found) if isinstance(each, Code) and each.label)
            stub = found.pop(at)
            assert isinstance(stub, Code)
            found.append(replace(block, stub=stub.source, prelude=prelude))
    return found


def _prelude(lesson: str) -> str:
    """The imports of a lesson's setup cell that answers may use."""
    (setup,) = (each for each in ast.parse(lesson).body if isinstance(each, ast.With))
    lines = [
        ast.unparse(each)
        for each in setup.body
        if isinstance(each, ast.Import | ast.ImportFrom)
        and not ast.unparse(each).split()[1].startswith(("course", "marimo", "widgets"))
    ]
    return "\n".join(lines)
