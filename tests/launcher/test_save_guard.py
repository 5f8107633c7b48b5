"""A lesson's file between a page and an editor, without either: what is written, what is kept."""

import errno
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from launching import LESSON
from starlette.exceptions import HTTPException

STUB = "raise NotImplementedError"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "work" / "l01_chunks.py"
    path.parent.mkdir()
    path.write_text(LESSON.format(title="Chunks"))
    return path


@pytest.fixture
def lesson(file: Path) -> Any:
    from course.launcher.save_guard import LessonFile

    return LessonFile(str(file))


@pytest.fixture
def reload(lesson: Any, file: Path) -> Callable[[], None]:
    """Have the page take in what the file holds now."""
    return lambda: lesson.reload_and_mark_content_as_last_save(file.read_text())


def held(lesson: Any, old: str = "", new: str = "") -> Any:
    """What a page would save that holds the lesson with `old` replaced."""
    cells = list(lesson.app.cell_manager.cell_data())
    return SimpleNamespace(
        cell_ids=[cell.cell_id for cell in cells],
        codes=[cell.code.replace(old, new) for cell in cells],
        names=[cell.name for cell in cells],
        configs=[cell.config for cell in cells],
        filename=str(lesson.path),
        layout=None,
        persist=True,
    )


def edit(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))


def kept(file: Path) -> list[str]:
    return [copy.read_text() for copy in file.parent.glob("kept/*.py")]


def test_a_page_saves_over_what_it_has_seen_and_nothing_is_kept(
    lesson: Any, file: Path, reload: Callable[[], None]
):
    changes = ((STUB, "return 1"), ("return 1", "return 0"))  # an editor's, in between
    for old, new in (*changes, ("plan_step(decodes", "plan_step((decodes"), ("step((", "step(")):
        edit(file, old, new)
        reload()
    windows = "number = 1\r\n    return number"  # pasted from another system
    for old, new in (("return 0", windows), ("return number", "return 2")):
        lesson.save(held(lesson, old, new))
    assert "return 2" in file.read_text()
    file.unlink()
    lesson.save(held(lesson, "return 2", "return 3"))
    assert "return 3" in file.read_text()
    assert kept(file) == []


def test_a_page_does_not_save_over_what_it_has_not_seen(lesson: Any, file: Path):
    edit(file, STUB, "return 1  # from the editor")
    lesson.save(held(lesson, STUB, "return 2"))
    assert "return 1  # from the editor" in file.read_text()
    [copy] = kept(file)
    assert "return 2" in copy
    why = (file.parent / "kept" / "why.txt").read_text()
    assert re.search(r"l01_chunks\.py was changed outside the page.* kept as work/kept/l01_ch", why)


def test_nor_over_what_an_editor_writes_while_the_page_is_being_saved(
    lesson: Any, file: Path, monkeypatch
):
    """Making the file's text out of the cells takes long enough on a busy machine."""
    to_code = lesson._save_file

    def edit_then_save(*arguments: Any, **options: Any) -> Any:
        edit(file, STUB, "return 1  # from the editor")
        return to_code(*arguments, **options)

    monkeypatch.setattr(lesson, "_save_file", edit_then_save)
    lesson.save(held(lesson, STUB, "return 2"))
    assert "return 1  # from the editor" in file.read_text()
    assert ["return 2" in copy for copy in kept(file)] == [True]


def test_a_lesson_that_cannot_be_written_stays_whole_and_the_page_is_told(
    lesson: Any, file: Path, monkeypatch
):
    before = file.read_text()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(HTTPException, match=r"could not be saved: .*chunks\.py: the disk is full"):
        lesson.save(held(lesson, STUB, "return 2"))
    assert file.read_text() == before
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_page_that_has_not_heard_of_the_change_yet_saves_a_moment_later(
    lesson: Any, file: Path, reload: Callable[[], None], monkeypatch
):
    stale = held(lesson)
    edit(file, STUB, "return 1")
    reload()
    lesson.save(stale)
    assert "return 1" in file.read_text()
    monkeypatch.setattr("course.launcher.save_guard.PAGE_HEARS_S", 0.0)
    lesson.save(stale)  # by now the learner has taken the change back
    assert "return 1" not in file.read_text()


def test_lines_typed_in_the_page_are_kept_when_a_file_without_them_arrives(
    lesson: Any, file: Path, reload: Callable[[], None]
):
    stale = file.read_text()
    lesson.save(held(lesson, STUB, "return 2"))
    file.write_text(stale.replace("# Chunks", "# New chunks"))
    reload()
    assert ["return 2" in copy for copy in kept(file)] == [True]


def test_what_stands_in_no_cell_is_kept_once(lesson: Any, file: Path, reload: Callable[[], None]):
    edit(file, "@app.function", "def helper():\n    return 7\n\n\n@app.function")
    reload()
    type(lesson)(str(file))
    assert ["def helper()" in copy for copy in kept(file)] == [True]


def test_a_file_that_is_no_lesson_leaves_the_page_as_it_is(
    lesson: Any, file: Path, reload: Callable[[], None]
):
    for text, why in (("\n", "an empty file is no lesson"), ("print(1)\n", "not a marimo")):
        file.write_text(text)
        with pytest.raises(Exception, match=why):
            reload()
    assert kept(file) == ["print(1)\n"]
    lesson.save(held(lesson, STUB, "return 3"))
    assert "return 3" in file.read_text()
