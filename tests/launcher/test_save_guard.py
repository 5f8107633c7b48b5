"""A lesson's file between a page and an editor, without either: what is written, what is kept."""

import errno
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from launching import LESSON
from marimo._server.models.models import SaveNotebookRequest
from marimo._session.notebook import file_manager
from marimo._utils.http import HTTPException

from course.launcher import save_guard
from course.launcher.save_guard import LessonFile

STUB = "raise NotImplementedError"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "work" / "l01_chunks.py"
    path.parent.mkdir()
    path.write_text(LESSON.format(title="Chunks"))
    return path


@pytest.fixture
def lesson(file: Path) -> LessonFile:
    return LessonFile(str(file))


def held(lesson: LessonFile, old: str = "", new: str = "") -> SaveNotebookRequest:
    """What a page would save that holds the lesson with `old` replaced."""
    cells = list(lesson.app.cell_manager.cell_data())
    return SaveNotebookRequest(
        cell_ids=[cell.cell_id for cell in cells],
        codes=[cell.code.replace(old, new) for cell in cells],
        names=[cell.name for cell in cells],
        configs=[cell.config for cell in cells],
        filename=str(lesson.path),
    )


def edit(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))


def reload(lesson: LessonFile, file: Path) -> None:
    lesson.reload_and_mark_content_as_last_save(file.read_text())


def kept(file: Path) -> list[str]:
    return [copy.read_text() for copy in file.parent.glob("kept/*.py")]


def test_a_page_saves_over_what_it_has_seen_and_nothing_is_kept(lesson: LessonFile, file: Path):
    lesson.save(held(lesson, STUB, "return 1"))
    lesson.save(held(lesson, "return 1", "return 2"))
    assert "return 2" in file.read_text()
    assert kept(file) == []


def test_a_page_does_not_save_over_what_it_has_not_seen(lesson: LessonFile, file: Path):
    edit(file, STUB, "return 1  # from the editor")
    lesson.save(held(lesson, STUB, "return 2"))
    assert "return 1  # from the editor" in file.read_text()
    [copy] = kept(file)
    assert "return 2" in copy
    why = (file.parent / "kept" / "why.txt").read_text()
    assert re.search(r"l01_chunks\.py was changed outside the page.* kept as work/kept/l01_ch", why)


def test_nor_over_what_an_editor_writes_while_the_page_is_being_saved(
    lesson: LessonFile, file: Path, monkeypatch
):
    """Making the file's text out of the cells takes long enough on a busy machine."""
    made = file_manager.get_notebook_serializer(file)

    def serialize(notebook) -> str:
        text = made.serialize(notebook)
        edit(file, STUB, "return 1  # from the editor")
        return text

    slow = SimpleNamespace(serialize=serialize, extract_header=made.extract_header)
    with monkeypatch.context() as patch:
        patch.setattr(file_manager, "get_notebook_serializer", lambda path: slow)
        lesson.save(held(lesson, STUB, "return 2"))
    assert "return 1  # from the editor" in file.read_text()
    assert ["return 2" in copy for copy in kept(file)] == [True]


def test_what_was_pasted_with_another_systems_line_ends_is_known_again(
    lesson: LessonFile, file: Path
):
    lesson.save(held(lesson, STUB, "number = 1\r\n    return number"))
    lesson.save(held(lesson, "return number", "return 2 * number"))
    assert "return 2 * number" in file.read_text()
    assert kept(file) == []


def test_a_lesson_that_cannot_be_written_stays_whole_and_the_page_is_told(
    lesson: LessonFile, file: Path, monkeypatch
):
    before = file.read_text()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(
        HTTPException, match=r"could not be saved: .*l01_chunks\.py: the disk is full"
    ):
        lesson.save(held(lesson, STUB, "return 2"))
    assert file.read_text() == before
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_after_the_page_has_seen_it_the_page_saves_again(lesson: LessonFile, file: Path):
    edit(file, STUB, "return 1")
    reload(lesson, file)
    lesson.save(held(lesson, "return 1", "return 2"))
    assert "return 2" in file.read_text()
    assert kept(file) == []


def test_a_page_that_has_not_heard_of_the_change_yet_saves_a_moment_later(
    lesson: LessonFile, file: Path, monkeypatch
):
    stale = held(lesson)
    edit(file, STUB, "return 1")
    reload(lesson, file)
    lesson.save(stale)
    assert "return 1" in file.read_text()
    monkeypatch.setattr(save_guard, "PAGE_HEARS_S", 0.0)
    lesson.save(stale)  # by now the learner has taken the change back
    assert "return 1" not in file.read_text()


def test_lines_typed_in_the_page_are_kept_when_a_file_without_them_arrives(
    lesson: LessonFile, file: Path
):
    stale = file.read_text()
    lesson.save(held(lesson, STUB, "return 2"))
    file.write_text(stale.replace("# Chunks", "# New chunks"))
    reload(lesson, file)
    assert ["return 2" in copy for copy in kept(file)] == [True]


def test_lines_that_the_editor_takes_out_again_are_not_kept(lesson: LessonFile, file: Path):
    edit(file, STUB, "return 1")
    reload(lesson, file)
    edit(file, "return 1", "return 2")
    reload(lesson, file)
    assert kept(file) == []


def test_what_stands_in_no_cell_is_kept_once(lesson: LessonFile, file: Path):
    edit(file, "@app.function", "def helper():\n    return 7\n\n\n@app.function")
    reload(lesson, file)
    LessonFile(str(file))
    assert ["def helper()" in copy for copy in kept(file)] == [True]


def test_a_half_typed_cell_is_taken_over_and_not_kept(lesson: LessonFile, file: Path):
    edit(file, "def plan_step(decodes", "def plan_step((decodes")
    reload(lesson, file)
    assert "plan_step((decodes" in lesson.to_code()
    assert kept(file) == []


@pytest.mark.parametrize(("text", "copies"), [("", 0), ("\n", 0), ("print('no lesson')\n", 1)])
def test_a_file_that_is_no_lesson_leaves_the_page_as_it_is(
    lesson: LessonFile, file: Path, text: str, copies: int
):
    file.write_text(text)
    with pytest.raises(Exception, match=r"not a marimo notebook|an empty file is no lesson"):
        reload(lesson, file)
    assert kept(file) == [text] * copies
    lesson.save(held(lesson, STUB, "return 3"))
    assert "return 3" in file.read_text()


def test_a_lesson_that_was_deleted_is_written_again(lesson: LessonFile, file: Path):
    file.unlink()
    lesson.save(held(lesson, STUB, "return 3"))
    assert "return 3" in file.read_text()
