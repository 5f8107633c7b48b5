"""The learner's files under work/: brought in, reset, updated, damaged in every way, never lost."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from launching import LESSON
from support import ROOT

from course import files
from course.launcher.workspace import Workspace

OLD, NEW = LESSON.format(title="Old"), LESSON.format(title="New")
STEMS = ("l01_chunks", "l02_more", "l03_most")
STUB, MINE = "    raise NotImplementedError", "    return decodes[:budget]"
SOLVED, CARRIED = OLD.replace(STUB, MINE), NEW.replace(STUB, MINE)
KEPT = r"work/kept/l02_more\.\d{4}-\d\d-\d\d-\d{6}\.py"


@pytest.fixture
def new(tmp_path: Path) -> Workspace:
    """A course of three lessons that nobody has opened yet."""
    lessons = tmp_path / "lessons"
    lessons.mkdir()
    (lessons / "index.py").write_text("# the map\n")
    for stem in STEMS:
        (lessons / f"{stem}.py").write_text(OLD)
    return Workspace(tmp_path)


@pytest.fixture
def space(new: Workspace) -> Workspace:
    """The same lessons brought in and solved; each has a newer version."""
    new.bring_in()
    for stem in STEMS:
        (new.work / f"{stem}.py").write_text(SOLVED)
        (new.pristine / f"{stem}.py").write_text(NEW)
    return new


def kept(space: Workspace) -> list[bytes]:
    return [each.read_bytes() for each in sorted((space.work / "kept").glob("l02_more.*"))]


def assert_the_others_were_updated(space: Workspace) -> None:
    for stem in ("l01_chunks", "l03_most"):
        assert (space.work / f"{stem}.py").read_text() == CARRIED


def test_what_is_missing_is_copied_and_what_is_newer_replaces_only_what_was_not_touched(
    new: Workspace,
):
    (new.pristine / "data").mkdir()
    (new.pristine / "course.css").touch()
    new.bring_in()
    copied = {path.relative_to(new.work).as_posix() for path in new.work.rglob("*.*")}
    lessons = {f"{stem}.py" for stem in STEMS}
    assert copied == {"index.py", *lessons, "course.css", ".pristine.json"}
    (new.work / "l01_chunks.py").write_text(SOLVED)
    assert new.newer() == new.bring_in() == []
    (new.pristine / "l02_more.py").write_text(NEW)
    assert new.newer() == ["l02_more.py"]
    (new.pristine / "l04_last.py").write_text(OLD)
    assert new.update() == ["l04_last.py is new.", "l02_more.py was brought up to date."]
    assert (new.work / "l02_more.py").read_text() == NEW
    assert (new.work / "l01_chunks.py").read_text() == SOLVED
    assert not (new.work / "kept").exists()
    assert new.update() == []


def test_a_reset_keeps_every_version_of_the_learners_once(space: Workspace):
    versions = [SOLVED, SOLVED.replace("budget", "budget + 0")]
    for mine in (*versions, *versions):
        (space.work / "l02_more.py").write_text(mine)
        copy = space.reset("l02")
        assert copy and copy.read_text() == mine
        assert (space.work / "l02_more.py").read_text() == NEW
    assert sorted(kept(space)) == sorted(mine.encode() for mine in versions)


@pytest.mark.parametrize(
    ("mine", "named"),
    [
        (SOLVED.replace("budget]", "budget] # \udcff"), "the cell of `plan_step` at line 18"),
        ("\x00" * 100, "the cell at line 1"),
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


def test_a_passed_answer_of_a_cell_that_was_broken_since_is_carried(space: Workspace):
    answers, head = space.work / "answers", "def plan_step(decodes, budget):\n"
    answers.mkdir()
    for name, result in (("l02.{}", "'passed'"), ("l00.{}", "1"), ("l02.{}.try", "0")):
        path = answers / f"{name.format('plan_step')}.py"
        path.write_text(f"{head}    return {result}\n")
    (space.work / "l02_more.py").write_text("def plan_step(:")
    assert "Carried over: plan_step." in space.update()
    assert f"{head}    return 'passed'\n" in (space.work / "l02_more.py").read_text()


def test_what_is_no_file_is_left_and_named_and_the_others_are_updated(space: Workspace):
    mine = space.work / "l02_more.py"
    mine.unlink()
    mine.mkdir()
    what = "a folder stands in its place"
    assert f"l02_more.py was left as it is: {mine}: {what}: move it away." in space.update()
    assert_the_others_were_updated(space)
    with pytest.raises(OSError, match="l02_more") as refused:
        space.reset("l02")
    assert files.explain(refused.value) == f"{mine}: {what}: move it away."


DAMAGED = ("[", "[" * 100_000, "[1]", '{"l02_more.py": [3]}')


def test_an_answer_that_cannot_be_read_is_named_and_stops_nothing(space: Workspace):
    bad = space.work / "answers" / "l02.plan_step.py"
    bad.mkdir(parents=True)
    (space.work / "l02_more.py").unlink()
    (space.work / ".pristine.json").unlink()
    assert len([said for said in space.update() if str(bad) in said]) == 1
    assert (space.work / "l02_more.py").read_text() == NEW
    assert_the_others_were_updated(space)


@pytest.mark.parametrize("record", ["in order", *DAMAGED])
def test_an_update_keeps_touched_lessons_and_carries_their_answers(space: Workspace, record: str):
    """A damaged record of what they were copied from costs no answer."""
    if record != "in order":
        (space.work / ".pristine.json").write_text(record)
    said = space.update()
    told = f"l02_more.py was brought up to date; yours is kept as {KEPT}."
    assert [bool(re.fullmatch(told, each)) for each in said].count(True) == 1
    assert said.count("Carried over: plan_step.") == 3
    assert [(space.work / f"{stem}.py").read_text() for stem in STEMS] == [CARRIED] * 3
    assert kept(space) == [SOLVED.encode()]
    assert space.update() == []


@pytest.mark.parametrize("place", [f"{STEMS[1]}.py", "kept", ".pristine.json"])
def test_a_full_disk_leaves_everything_whole(space: Workspace, monkeypatch, place: str):
    replace, refused = os.replace, []

    def refuse(part: str, to: Path) -> None:
        if refused or place in Path(to).relative_to(space.work).as_posix():
            refused.append(to)
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(part, to)

    monkeypatch.setattr(files.os, "replace", refuse)
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
    assert mine.is_symlink() and elsewhere.read_text() == CARRIED
    assert elsewhere.stat().st_mode & 0o777 == 0o600


def test_what_passed_in_a_lesson_that_is_split_moves_to_its_second_half(space: Workspace):
    answers, head = space.work / "answers", "def judge(text):\n"
    answers.mkdir()
    (answers / "l01.judge.py").write_text(f"{head}    return text == 'mine'\n")
    (space.pristine / "l01b_half.py").write_text(
        OLD.replace("plan_step(decodes, budget)", "judge(text)")
    )
    said = space.update()
    assert said[:2] == ["l01b_half.py is new.", "Carried over: judge."]
    assert f"{head}    return text == 'mine'\n" in (space.work / "l01b_half.py").read_text()
    assert space.update() == []
    copy = space.reset("l01b")
    assert copy and copy.name.startswith("l01b_half.")
    assert (space.work / "l01b_half.py").read_text() == (
        space.pristine / "l01b_half.py"
    ).read_text()


OWN_SETTINGS = {  # what a learner may have chosen, and the lessons' in its place
    ("runtime", "auto_instantiate"): (False, True),
    ("runtime", "auto_reload"): ("autorun", "off"),
    ("runtime", "on_cell_change"): ("lazy", "autorun"),
    ("runtime", "watcher_on_save"): ("lazy", "autorun"),
    ("runtime", "output_max_bytes"): (1, 8_000_000),
    ("runtime", "std_stream_max_bytes"): (1, 1_000_000),
    ("runtime", "pythonpath"): (["/elsewhere"], []),
    ("save", "autosave"): ("off", "after_delay"),
    ("save", "autosave_delay"): (60_000, 1_000),
    ("save", "format_on_save"): (True, False),
    ("display", "cell_output"): ("above", "below"),
    ("experimental", "execution_type"): ("strict", "relaxed"),
    ("keymap", "preset"): ("vim", "vim"),
}


@pytest.mark.process
def test_a_learners_own_marimo_settings_leave_what_a_lesson_needs(tmp_path: Path):
    own = [
        f"{table}.{key} = {json.dumps(mine)}\n" for (table, key), (mine, _) in OWN_SETTINGS.items()
    ]
    (tmp_path / ".marimo.toml").write_text("".join(own))
    work = tmp_path / "work"
    work.mkdir()
    shutil.copy(ROOT / "lessons" / "pyproject.toml", work)
    command = [sys.executable, "-m", "marimo", "config", "show"]
    shown = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=60)
    headings = r"^.*(?:Project overrides|User config) from .*$"
    texts = re.split(headings, shown.stdout, flags=re.MULTILINE)[1:]
    overrides, user = (tomllib.loads(text) for text in texts)
    found = {
        (table, key): overrides.get(table, {}).get(key, user[table].get(key))
        for table, key in OWN_SETTINGS
    }
    assert found == {name: ours for name, (_, ours) in OWN_SETTINGS.items()}
