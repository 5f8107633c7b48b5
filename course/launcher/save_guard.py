"""Lets a lesson be open in the browser and in an editor at once, and loses neither's work.

marimo shows in the page what an editor writes (`--watch`), but each side can overwrite what the
other has just written and it never saw. Here the file wins, since writing it was deliberate, and
what only the page held is kept beside it; so is what a page cannot show and would save away.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from course.files import explain, keep, note, write_atomically
from course.marimo_internals import (
    LIFESPAN_REGISTRY,
    AppFileManager,
    BannerNotification,
    FileChangeCoordinator,
    substitute,
)

# What stands around the cells: marimo writes it anew at every save.
AROUND_CELLS = re.compile(
    r"import marimo$|__generated_with|app = marimo\.App|@app\.|with app\.setup|(async )?def _\(|"
    r"return\b|if __name__|app\.run\(\)|\W*$"
)
PAGE_HEARS_S = 1.0  # as long as a page waits before it saves a change of its own
PAGE_TELLS_S = 0.5  # a page tells its server what was typed once nothing was for a while
_servers: list[Any] = []  # marimo's session manager, once the server has started


class LessonFile(AppFileManager):
    """A notebook's file that is written only over a version that the page has seen."""

    def __init__(self, filename: str | Path | None, **options: Any) -> None:
        self._seen: str | None  # what the file held when it was last read or written here
        self._brought: Counter[str]  # the cells' lines when they last came from the file
        self._replaced: dict[str, str | None] = {}  # codes that the file just changed; None: new
        self._replaced_at = 0.0
        super().__init__(filename, **options)
        self.storage.write = self.write  # the last thing that marimo calls, when the text is made
        self._came_from_file()

    def save(self, request: Any, **options: Any) -> str:
        """Save what a page holds, unless it has not heard yet of what came from the file."""
        if time.monotonic() < self._replaced_at + PAGE_HEARS_S:
            held = dict(zip(request.cell_ids, request.codes, strict=True))
            if any(held.get(cell_id) == code for cell_id, code in self._replaced.items()):
                return self.to_code()  # the page saves again once it has heard
        return super().save(request, **options)

    def _load_app(self, path: str | None) -> Any:
        self._seen = self._on_disk()
        return super()._load_app(path)

    def write(self, path: Path, contents: str) -> None:
        """Write what a page holds, whole or not at all; or keep it and show the page the file.

        Raises: HTTPException, which the page shows, when the disk refuses it.
        """
        on_disk = self._on_disk()
        if on_disk not in (None, self._seen) and not self.content_matches_last_save(on_disk):
            self._keep_page(on_disk, contents, self._cell_lines())
            for server in _servers:  # whose watch ends when a file is away for five seconds
                change = server.trigger_file_change(str(self.path))
                asyncio.run_coroutine_threadsafe(change, asyncio.get_running_loop())
            return
        try:
            write_atomically(path, contents.encode("utf-8"))
        except OSError as error:
            reason = f"The lesson could not be saved: {explain(error)}"
            raise HTTPException(500, reason) from error
        self._seen = io.StringIO(contents, newline=None).read()  # with the line ends of a read file

    def reload_and_mark_content_as_last_save(self, content: str | None) -> Any:
        """Take the file's version into the page.

        Raises: ValueError for an empty file, and what marimo raises at one that is no notebook;
        the page then goes on with what it has.
        """
        page = self.to_code(), self._cell_lines()
        before = self._codes()
        if content is not None and not content.strip():
            self._seen = content
            raise ValueError("an empty file is no lesson; perhaps it is just being written")
        try:
            result = super().reload_and_mark_content_as_last_save(content)
        except Exception as error:
            self._keep_file(f"cannot be read as a lesson ({error}), so the page keeps its own.")
            raise
        after = self._codes()
        self._replaced = {i: before.get(i) for i in before | after if before.get(i) != after.get(i)}
        self._replaced_at = time.monotonic()
        self._keep_page(self._seen or "", *page)
        self._came_from_file()
        return result

    def _came_from_file(self) -> None:
        """Note the cells as they are now; keep the file if they lack a part of it."""
        self._brought = self._cell_lines()
        dropped = _lines(self._seen or "") - (_lines(self.to_code()) | self._brought)
        first = next((line for line in dropped if not AROUND_CELLS.match(line)), None)
        if first is not None:
            self._keep_file(f"has a line that stands in no cell, which the page drops: {first}.")

    def _keep_page(self, arriving: str, text: str, cells: Counter[str]) -> None:
        """Keep the page's version if the arriving one lacks lines that were typed there."""
        typed, edited = cells - self._brought, _lines(arriving) - self._brought
        if typed - edited:
            what = "was changed outside the page, and the page shows that now. What you typed in "
            self._tell(text, f"{what}the page meanwhile gave way.")

    def _keep_file(self, what: str) -> None:
        """Keep the file's own version, which the page's next save will overwrite."""
        self._seen = self._on_disk()
        if self._seen is not None:
            self._tell(self._seen, what)

    def _tell(self, text: str, what: str) -> None:
        """Keep a version, unless it is kept already, and say why: in why.txt and above the page."""
        file = Path(self.path or "")
        kept, is_new = keep(file, text.encode())
        if not is_new:
            return
        sentence = note(kept, f"{file.name} {what}")
        banner = BannerNotification(title="Two versions of this lesson", description=sentence)
        for server in _servers:
            for session in server.sessions.values():
                if session.app_file_manager is self:
                    session.notify(banner, from_consumer_id=None)

    def _codes(self) -> dict[str, str]:
        return {str(cell.cell_id): cell.code for cell in self.app.cell_manager.cell_data()}

    def _cell_lines(self) -> Counter[str]:
        return _lines("\n".join(self.app.cell_manager.codes()))

    def _on_disk(self) -> str | None:
        try:
            return Path(self.path or "").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None


class PatientCoordinator(FileChangeCoordinator):
    """Takes a file's new version into the page once the page has told what it holds."""

    async def handle_change(self, file_path: Path, session: Any) -> Any:
        """Wait a little, then do what marimo does."""
        await asyncio.sleep(PAGE_TELLS_S)
        return await super().handle_change(file_path, session)


def install() -> None:
    """Have every lesson that marimo opens in this process guarded."""
    substitute("AppFileManager", LessonFile)
    substitute("FileChangeCoordinator", PatientCoordinator)
    LIFESPAN_REGISTRY.register("save guard", _remember_server)


@contextlib.asynccontextmanager
async def _remember_server(app: Any) -> AsyncGenerator[None]:
    _servers.append(app.state.session_manager)
    yield
    _servers.clear()


def _lines(text: str) -> Counter[str]:
    return Counter(line.strip() for line in text.splitlines() if line.strip())
