"""The learner's folder damaged in every way: one sentence each, and nothing of theirs is lost."""

import asyncio
import errno
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from launching import LESSON
from marimo._utils.file_watcher import PollingFileWatcher

from course import files
from course.launcher.failure import Failure
from course.launcher.workspace import Workspace

OLD, NEW = LESSON.format(title="Old"), LESSON.format(title="New")
STEMS = ("l01_chunks", "l02_more", "l03_most")
MINE = "    return decodes[:budget]"
SOLVED = OLD.replace("    raise NotImplementedError", MINE)
CARRIED = NEW.replace("    raise NotImplementedError", MINE)
BROKEN = 'app._unparsable_cell(\n    r"""\n    note = =\n    """,\n    name="_"\n)\n\n\n'
KEPT = re.compile(r"work/kept/l02_more\.\d{4}-\d\d-\d\d-\d{6}\.py")


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    """Three lessons that were brought in and solved; each has a newer version."""
    lessons = tmp_path / "lessons"
    lessons.mkdir()
    (lessons / "index.py").write_text("# the map\n")
    for stem in STEMS:
        (lessons / f"{stem}.py").write_text(OLD)
    space = Workspace(tmp_path)
    space.bring_in()
    for stem in STEMS:
        (space.work / f"{stem}.py").write_text(SOLVED)
        (lessons / f"{stem}.py").write_text(NEW)
    return space


def kept(space: Workspace) -> list[bytes]:
    return [each.read_bytes() for each in sorted((space.work / "kept").glob("l02_more.*"))]


def assert_the_others_were_updated(space: Workspace) -> None:
    for stem in ("l01_chunks", "l03_most"):
        assert (space.work / f"{stem}.py").read_text() == CARRIED


@pytest.mark.parametrize(
    ("mine", "named"),
    [
        (SOLVED.replace("budget]", "budget] # \udcff"), "the cell of `plan_step` at line 18"),
        (SOLVED.replace("budget]", "budget] # \x00"), "the cell of `plan_step` at line 18"),
        (SOLVED.replace("budget]", "budget"), "the cell of `plan_step` at line 18"),
        ("\x00" * 100, "the cell at line 1"),
        ("\udcff\udcfe", "the cell at line 1"),
        ("def (", "the cell at line 1"),
        ("(" * 1000, "the cell at line 1"),
    ],
)
def test_an_update_goes_on_over_a_lesson_that_cannot_be_read(
    space: Workspace, mine: str, named: str
):
    content = mine.encode("utf-8", "surrogateescape")
    (space.work / "l02_more.py").write_bytes(content)
    said = space.update()
    assert_the_others_were_updated(space)
    assert (space.work / "l02_more.py").read_text() == NEW
    assert kept(space) == [content]
    assert any(named in each and "cannot be read" in each for each in said), said
    assert space.update() == []


def test_the_sound_cells_of_a_broken_lesson_are_carried(space: Workspace):
    broken = SOLVED.replace("@app.function", f"{BROKEN}@app.function")
    (space.work / "l02_more.py").write_text(broken)
    said = space.update()
    assert (space.work / "l02_more.py").read_text() == CARRIED
    assert kept(space) == [broken.encode()]
    assert said[-5:-2] == [
        said[-5],
        "Carried over: plan_step.",
        "Left out: the cell at line 18 cannot be read (invalid syntax).",
    ]
    assert KEPT.search(said[-5])


@pytest.mark.parametrize("mine", ["", " \n\n"])
def test_an_empty_lesson_is_as_new_and_leaves_no_empty_copy(space: Workspace, mine: str):
    (space.work / "l02_more.py").write_text(mine)
    assert "l02_more.py was brought up to date; yours was empty." in space.update()
    assert (space.work / "l02_more.py").read_text() == NEW
    assert kept(space) == []


def test_a_version_that_is_kept_is_not_kept_again(space: Workspace):
    for _ in range(3):
        (space.work / "l02_more.py").write_text(SOLVED)
        space.reset("l02")
    assert kept(space) == [SOLVED.encode()]


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_left_and_named_and_the_others_are_updated(space: Workspace, kind: str):
    mine = space.work / "l02_more.py"
    mine.unlink()
    mine.mkdir() if kind == "folder" else os.mkfifo(mine)
    what = "a folder stands in its place" if kind == "folder" else "it is no ordinary file"
    assert f"l02_more.py was left as it is: {mine}: {what}: move it away." in space.update()
    assert_the_others_were_updated(space)
    with pytest.raises(Failure, match=f"{what}: move it away"):
        space.reset("l02")


@pytest.mark.parametrize("kind", ["file", "link"])
def test_something_else_in_the_folders_place_is_named_with_what_to_do(tmp_path: Path, kind: str):
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons" / "index.py").touch()
    work = tmp_path / "work"
    work.touch() if kind == "file" else work.symlink_to("nowhere")
    what = "a file" if kind == "file" else "a link that leads nowhere"
    for verb in ("bring_in", "update"):
        with pytest.raises(Failure, match=f"{work} is {what}, .* move it away"):
            getattr(Workspace(tmp_path), verb)()


@pytest.mark.parametrize("record", ["[", "[1]", '{"l02_more.py": [3]}', "[" * 100_000, "pipe"])
def test_a_damaged_record_costs_no_answer(space: Workspace, record: str):
    file = space.work / ".pristine.json"
    file.unlink()
    os.mkfifo(file) if record == "pipe" else file.write_text(record)
    space.update()
    for stem in STEMS:
        assert (space.work / f"{stem}.py").read_text() == CARRIED
    assert kept(space) == [SOLVED.encode()]
    assert space.update() == []


@pytest.mark.parametrize("place", [f"{STEMS[1]}.py", "kept", ".pristine.json"])
def test_a_full_disk_leaves_everything_whole(space: Workspace, monkeypatch, place: str):
    def write(path: Path, content: bytes) -> None:
        if place in path.relative_to(space.work).as_posix():
            monkeypatch.setattr(files.os, "replace", refuse)
        real_write(path, content)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    real_write = files.write_atomically
    for module in ("workspace", "kept"):
        monkeypatch.setattr(f"course.launcher.{module}.write_atomically", write)
    said = space.update()
    assert any("the disk is full: make room." in each for each in said), said
    for stem in STEMS:
        assert (space.work / f"{stem}.py").read_text() in (SOLVED, CARRIED)
    assert {*kept(space)} <= {SOLVED.encode()}
    assert {each.name for each in space.work.rglob(".*")} == {".pristine.json"}, "no half is left"
    monkeypatch.undo()
    space.update()
    assert (space.work / "l02_more.py").read_text() == CARRIED
    assert kept(space) == [SOLVED.encode()]


def test_a_link_stays_one_and_a_file_keeps_its_permissions(space: Workspace, tmp_path: Path):
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text(SOLVED)
    elsewhere.chmod(0o600)
    mine = space.work / "l02_more.py"
    mine.unlink()
    mine.symlink_to(elsewhere)
    space.update()
    assert mine.is_symlink()
    assert elsewhere.read_text() == CARRIED
    assert elsewhere.stat().st_mode & 0o777 == 0o600


def test_a_new_file_has_the_permissions_that_the_learner_wants(tmp_path: Path):
    before = os.umask(0o077)
    try:
        files.write_atomically(tmp_path / "new", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_an_open_page_notices_what_is_written(tmp_path: Path, monkeypatch):
    """marimo watches by the time of the last change, which a file that is renamed brings along."""
    monkeypatch.setattr(PollingFileWatcher, "POLL_SECONDS", 0.01)
    lesson = tmp_path / "l01.py"
    lesson.write_text("old")

    async def watch() -> str:
        noticed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def read(path: Path) -> None:
            noticed.set_result(path.read_text())

        watcher = PollingFileWatcher(lesson, read, asyncio.get_running_loop())
        watcher.start()
        files.write_atomically(lesson, b"new")
        try:
            return await asyncio.wait_for(noticed, 60)
        finally:
            watcher.stop()

    with ThreadPoolExecutor(1) as thread:  # in this one a browser of other tests may have a loop
        assert thread.submit(asyncio.run, watch()).result() == "new"
