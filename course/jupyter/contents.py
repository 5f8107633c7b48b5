"""Shows each lesson under work/ to Jupyter as a notebook, and saves it as the lesson.

There is one file, `l01_x.py`, whichever notebook it is open in; `l01_x.ipynb` is only its name
here. A page's save is refused where the file was changed outside the page: what the page held is
kept beside it then, with a sentence that Jupyter shows.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.web import HTTPError

from course.files import explain, keep, note, read_bytes, write_atomically
from course.jupyter.cell_ids import cell_id
from course.jupyter.convert import to_lesson, to_notebook

Model: TypeAlias = dict[str, Any]
_LESSON = re.compile(r"(l\d\d[a-z]?_\w+|index|glossary)\.(?:ipynb|py)")
_OURS = "serving_nanogpt"


class LessonContents(AsyncLargeFileManager):
    """Jupyter's usual files, of which the lessons are notebooks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._seen: dict[str, str] = {}  # what a page has last read or written, by the page's id

    def lesson(self, path: str) -> Path | None:
        """Return the file of the lesson that a path names, if it is one."""
        match = _LESSON.fullmatch(path.strip("/"))
        file = Path(self.root_dir) / f"{match[1]}.py" if match else None
        return file if file and file.is_file() else None

    async def file_exists(self, path: str) -> bool:
        """Whether there is a file of this name, or a lesson."""
        return self.lesson(path) is not None or bool(await super().file_exists(path))

    async def get(
        self,
        path: str,
        content: bool = True,
        type: str | None = None,
        format: str | None = None,
        require_hash: bool = False,
    ) -> Model:
        """Return a lesson as a notebook; anything else as Jupyter does."""
        lesson = self.lesson(path)
        if lesson is not None and type in (None, "notebook"):
            return self._model(lesson, content)
        model: Model = await super().get(path, content, type, format, require_hash)
        if model["type"] == "directory" and model["content"]:
            lessons = [self.lesson(item["path"]) for item in model["content"]]
            model["content"] = [
                item if lesson is None else self._model(lesson, False)
                for item, lesson in zip(model["content"], lessons, strict=True)
            ]
        return model

    async def save(self, model: Model, path: str = "") -> Model:
        """Save a page's notebook as the lesson's file.

        Raises: HTTPError 409 where the page has not seen what the file holds.
        """
        lesson = self.lesson(path)
        if lesson is None or model["type"] != "notebook":
            saved: Model = await super().save(model, path)
            return saved
        # In the server's one thread: saves come one after another, and CPython 3.11 parses two
        # texts at once only to fail (SystemError: AST constructor recursion depth mismatch).
        return self._save(lesson, model["content"])

    async def create_checkpoint(self, path: str) -> Model:
        """Make none of a lesson: what gives way is kept in work/kept/."""
        if self.lesson(path) is None:
            made: Model = await super().create_checkpoint(path)
            return made
        return {"id": "none", "last_modified": datetime.now(UTC)}

    async def list_checkpoints(self, path: str) -> list[Model]:
        """Return none for a lesson."""
        if self.lesson(path) is not None:
            return []
        found: list[Model] = await super().list_checkpoints(path)
        return found

    def _model(self, lesson: Path, content: bool) -> Model:
        model: Model = self._base_model(f"{lesson.stem}.py")
        model |= {"name": f"{lesson.stem}.ipynb", "path": f"{lesson.stem}.ipynb"}
        # Jupyter would ask which version is to be lost if it saw that the file has changed.
        model |= {"type": "notebook", "last_modified": model["created"]}
        model |= {"hash": "", "hash_algorithm": ""}
        if content:
            model |= {"format": "json", "content": self._notebook(lesson)}
        return model

    def _notebook(self, lesson: Path) -> dict[str, Any]:
        text = _read(lesson)
        page = secrets.token_hex(8)
        notebook = to_notebook(text)
        notebook["metadata"][_OURS] = {"page": page}
        for place, cell in enumerate(notebook["cells"]):
            cell["id"] = cell_id(page, place)
            cell["metadata"]["trusted"] = True  # it has no output but its own run's
        self._seen[page] = text
        return notebook

    def _save(self, lesson: Path, notebook: dict[str, Any]) -> Model:
        page, on_disk = notebook["metadata"].get(_OURS, {}).get("page"), _read(lesson)
        seen = self._seen.get(page, "")
        text = to_lesson(notebook, seen or on_disk)
        if text == seen:  # only outputs are new
            return self._model(lesson, False)
        if on_disk not in (seen, text):
            kept, _ = keep(lesson, text.encode())
            reason = f"{lesson.name} was changed outside this page. What the page holds gave way."
            raise HTTPError(409, f"{note(kept, reason)} The page shows the file again.")
        if text != on_disk:
            try:
                write_atomically(lesson, text.encode())
            except OSError as error:
                raise HTTPError(500, f"The lesson could not be saved: {explain(error)}") from error
        self._seen[page] = text
        return self._model(lesson, False)


def _read(lesson: Path) -> str:
    try:
        return read_bytes(lesson).decode("utf-8", "replace")
    except OSError as error:
        raise HTTPError(500, explain(error)) from error
