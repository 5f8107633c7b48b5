"""What students handed in is found in every layout, read, and never followed, run or trusted."""

import ast
import json
import os
import random
import stat
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT

from course.grading.handed_in.submissions import Found, find_submissions
from course.lesson_map import LESSONS, entries
from course.source.cutting import read_notebook

L01, L02, L02B = "l01_chunked_prefill", "l02_scheduling", "l02b_waiting"
STEMS = [lesson.stem for lesson in LESSONS]
ANSWER = "def chunk_size(budget, num_decodes, remaining):\n    return 1\n"
LINK = stat.S_IFLNK | 0o777


def put(folder: Path, files: Mapping[str, str | bytes], at: float = 1_000_000_000) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (at, at))
    return folder


def packed(files: Mapping[str, str | bytes]) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(name, (2025, 3, 4, 5, 6, 8))
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def cells(*sources: str | list[str]) -> str:
    made = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 1, "source": source}
        for source in sources
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": made})


def students(found: Found) -> dict[tuple[str, str], str]:
    return {(each.student, each.lesson): each.source for each in found.submissions}


def found_in(folder: Path, *lessons: str) -> dict[tuple[str, str], str]:
    return students(find_submissions(folder, lessons or STEMS))


def text_in(folder: Path) -> str:
    (only,) = find_submissions(folder, STEMS).submissions
    assert only.problem == ""
    return only.text


def problem_in(folder: Path, lessons: tuple[str, ...] = tuple(STEMS)) -> str:
    (only,) = find_submissions(folder, lessons).submissions
    assert only.text == ""
    return only.problem


LAYOUTS = {
    "a folder for each student": ["ada/l01_chunked_prefill.py", "bob/deep/er/still/l01.py"],
    "moodle": [
        "Ada Lovelace_123456_assignsubmission_file_/l01_chunked_prefill.py",
        "Bob O'Neil_7_assignsubmission_file/l01.ipynb",
    ],
    "moodle without folders": [
        "Ada Lovelace_123456_assignsubmission_file_l01_chunked_prefill.py",
        "Bob O'Neil_7_assignsubmission_file_l01.py",
    ],
    "canvas": [
        "lovelaceada_12345_67890_l01_chunked_prefill.py",
        "oneilbob_LATE_77_99_l01_chunked_prefill-2.py",
    ],
    "gradescope": [
        "assignment_77_export/submission_1234/l01_chunked_prefill.py",
        "assignment_77_export/submission_99/l01.py",
    ],
    "nbgrader": ["submitted/ada/l01/l01.ipynb", "submitted/bob/l01/answers.ipynb"],
    "github classroom": [
        "l01-submissions/l01-ada/work/l01_chunked_prefill.py",
        "l01-submissions/l01-bob/lessons/l01_chunked_prefill.py",
    ],
    "names in files": ["ada_l01.py", "l01-Bob.ipynb"],
    "names after the title": ["ada-L01-chunked-prefill.py", "l01_chunked_prefill_bob (1).PY"],
    "names and no lesson": ["ada.py", "bob.ipynb"],
    "a folder for the lesson": ["l01/ada.py", "l01/bob/x.py"],
    "a folder around the class": ["Class of 25/ada/l01.py", "Class of 25/bob/l01.py"],
}
NAMES = {
    "moodle": ("Ada Lovelace", "Bob O'Neil"),
    "moodle without folders": ("Ada Lovelace", "Bob O'Neil"),
    "canvas": ("lovelaceada", "oneilbob"),
    "gradescope": ("submission_1234", "submission_99"),
    "names in files": ("ada", "Bob"),
}


@pytest.mark.parametrize("where", ["folder", "zip", "zip in a folder"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_tells_the_students_and_their_files(layout: str, where: str, tmp_path: Path):
    files = {name: cells(ANSWER) if name.endswith("ipynb") else ANSWER for name in LAYOUTS[layout]}
    files["README.md"] = "What this is."
    if where == "folder":
        place, before = put(tmp_path / "class", files), ""
    else:
        put(tmp_path / "class", {"class.zip": packed(files)})
        place = tmp_path / "class" / ("class.zip" if where == "zip" else "")
        before = "class.zip/"
    found = find_submissions(place, STEMS)
    ada, bob = NAMES.get(layout, ("ada", "bob"))
    assert students(found) == {
        (ada, L01): before + LAYOUTS[layout][0],
        (bob, L01): before + LAYOUTS[layout][1],
    }
    assert {each.text.strip() for each in found.submissions} == {ANSWER.strip()}
    assert {each.problem for each in found.submissions} == {""}
    day = "2001-09-09T01:46:40+00:00" if where == "folder" else "2025-03-04T05:06:08+00:00"
    assert {each.submitted_at for each in found.submissions} == {day}
    assert [each.source for each in found.skipped] == [f"{before}README.md"]


def test_students_zip_files_are_looked_into(tmp_path: Path):
    put(
        tmp_path,
        {
            "ada.zip": packed({"homework/l01.py": ANSWER, "homework/l02.py": "x = 1"}),
            "bob_l01.zip": packed({"deep/down/answers.py": ANSWER}),
            "Cyd Doe_5_assignsubmission_file_/all.zip": packed({"l01.py": ANSWER}),
            "eve_LATE_1_2_all-1.ZIP": packed({"l01.py": ANSWER}),
        },
    )
    assert found_in(tmp_path) == {
        ("ada", L01): "ada.zip/homework/l01.py",
        ("ada", L02): "ada.zip/homework/l02.py",
        ("bob", L01): "bob_l01.zip/deep/down/answers.py",
        ("Cyd Doe", L01): "Cyd Doe_5_assignsubmission_file_/all.zip/l01.py",
        ("eve", L01): "eve_LATE_1_2_all-1.ZIP/l01.py",
    }


def test_one_students_folder_is_theirs(tmp_path: Path):
    put(tmp_path, {"ada/l01.py": ANSWER, "ada/l02_scheduling.py": ANSWER, "ada/l02b (1).py": "x"})
    expected = {"l01": "l01.py", "l02": "l02_scheduling.py", "l02b": "l02b (1).py"}
    by_stem = {stem: expected[stem.partition("_")[0]] for stem in (L01, L02, L02B)}
    assert found_in(tmp_path) == {("ada", stem): f"ada/{f}" for stem, f in by_stem.items()}
    assert found_in(tmp_path / "ada") == {("ada", stem): f for stem, f in by_stem.items()}


def test_a_file_that_names_no_student_is_the_folders(tmp_path: Path):
    put(tmp_path, dict.fromkeys([f"25/Class/{w}l01.py" for w in ("", "ada/", "bob/")], ANSWER))
    assert {name for name, _ in found_in(tmp_path)} == {"Class", "ada", "bob"}


def test_a_copy_of_the_whole_course_gives_the_work_in_it(tmp_path: Path):
    for student in ("ada", "bob"):
        put(
            tmp_path / f"course-{student}",
            {f"lessons/{L01}.py": "stub", "solutions/l01_chunked_prefill/chunk_size.py": ANSWER},
            at=2_000_000_000,
        )
    put(tmp_path / "course-ada", {f"work/{L01}.py": ANSWER, "work/mine.py": ANSWER})
    found = find_submissions(tmp_path, STEMS)
    assert students(found) == {
        ("course-ada", L01): f"course-ada/work/{L01}.py",
        ("course-bob", L01): f"course-bob/lessons/{L01}.py",
    }
    assert {each.source: each.why for each in found.skipped} == {
        f"course-ada/lessons/{L01}.py": f"course-ada/work/{L01}.py is taken, which lies in work/",
        **{
            f"course-{student}/{rest}": f"course-{student}/{best}/{L01}.py is taken, which says in "
            "its name which lesson it is"
            for student, best, rest in (
                ("ada", "work", "work/mine.py"),
                ("ada", "work", "solutions/l01_chunked_prefill/chunk_size.py"),
                ("bob", "lessons", "solutions/l01_chunked_prefill/chunk_size.py"),
            )
        },
    }


def test_no_student_can_hand_in_for_another(tmp_path: Path):
    forged = {
        "bob_1_2_l01.py": "",
        "Bob_1_assignsubmission_file_/l01.py": "",
        "../bob/l01.py": ANSWER,
        "bob/l01.py": ANSWER,
        "work/bob_l01.py": ANSWER,
    }
    put(tmp_path, {"ada.zip": packed(forged), "bob/l01.py": "pass"})
    put(tmp_path / "eve", {name: text for name, text in forged.items() if ".." not in name})
    assert {name for name, _ in found_in(tmp_path)} == {"ada", "bob", "eve"}
    assert found_in(tmp_path)["bob", L01] == "bob/l01.py"


@pytest.mark.parametrize(
    ("files", "taken", "why"),
    [
        (["ada/l01.py", "ada/l01-2.py", "ada/l01-10.py"], "ada/l01-10.py", "has the higher number"),
        (["ada/l01.py", "ada/l01 (1).py"], "ada/l01 (1).py", "has the higher number"),
        (["ada_1_2_l01.py", "ada_1_3_l01-1.py"], "ada_1_3_l01-1.py", "has the higher number"),
        (["ada_1_2_x.py", "ada_LATE_1_3_x-1.py"], "ada_LATE_1_3_x-1.py", "has the higher number"),
        (["ada/l01.py", "ada/x/l01.py"], "ada/x/l01.py", "comes later"),
        (["ada/x/l01.py", "ada/y/l01.py"], "ada/y/l01.py", "comes later"),
        (["ada.py", "ada (3).py"], "ada (3).py", "has the higher number"),
        (["ada/answers.py", "ada/L01.py"], "ada/L01.py", "says in its name which lesson it is"),
    ],
)
def test_the_newest_is_taken_and_the_others_are_told(
    files: list[str], taken: str, why: str, tmp_path: Path
):
    put(tmp_path, dict.fromkeys([*files, "bob/l01.py"], ANSWER))
    found = find_submissions(tmp_path, [L01])
    assert students(found)["ada", L01] == taken
    assert {each.source: each.why for each in found.skipped} == {
        name: f"{taken} is taken, which {why}" for name in files if name != taken
    }


def test_of_equal_names_the_newer_is_taken_and_one_that_can_be_read(tmp_path: Path):
    put(tmp_path, {"ada/new/l01.py": ANSWER, "bob/new/l01.py": b"\xff"}, at=1_500_000_000)
    put(tmp_path, {"ada/old/l01.py": ANSWER, "bob/old/l01.py": ANSWER})
    found = find_submissions(tmp_path, [L01])
    assert students(found) == {("ada", L01): "ada/new/l01.py", ("bob", L01): "bob/old/l01.py"}
    assert [each.why for each in found.skipped] == [
        "ada/new/l01.py is taken, which is newer",
        "bob/new/l01.py is not UTF-8 text (a byte 0xff at line 1): save it as UTF-8. "
        "bob/old/l01.py is taken, which can be read",
    ]


def test_namesakes_stay_two_students(tmp_path: Path):
    one, two = "Ann Lee_1_assignsubmission_file_", "Ann Lee_2_assignsubmission_file_"
    put(tmp_path, {f"{one}/l01.py": ANSWER, f"{two}/l01.py": ANSWER, f"{two}/l02.py": ANSWER})
    put(tmp_path, {"lee_5_1_l01.py": ANSWER, "lee_5_2_l02.py": ANSWER})
    assert {name for name, _ in found_in(tmp_path)} == {"Ann Lee_1", "Ann Lee_2", "lee"}
    assert {name for name, _ in found_in(tmp_path, L02)} == {"Ann Lee", "lee"}


def test_a_lesson_is_known_by_its_functions(tmp_path: Path):
    for lesson in LESSONS:
        for entry in entries(lesson):
            function = entry.id.partition(".")[2]
            put(tmp_path, {f"{function}.py": f"@app.function\ndef {function}(:\n    pass\n"})
            found = find_submissions(tmp_path, STEMS)
            assert [each.lesson for each in found.submissions] == [lesson.stem]
            (tmp_path / f"{function}.py").unlink()


def test_of_two_lessons_functions_the_most_count(tmp_path: Path):
    both = "def sort_key(): 0\ndef admit(): 0\n" + ANSWER
    put(tmp_path, {"ada.py": both, "bob.py": "def aged_key(): 0\ndef sort_key(): 0\n"})
    assert set(found_in(tmp_path)) == {("ada", L02), ("bob", L02B)}


def test_what_is_for_another_lesson_or_for_none_is_told(tmp_path: Path):
    put(tmp_path, {"ada/l02.py": ANSWER, "ada/chat.py": "print('hi')", "ada/x.py": b"\xff"})
    put(tmp_path, {"ada/l01_notes.txt": ANSWER, "ada/l99.py": "x = 1", "ada/l01": ANSWER})
    found = find_submissions(tmp_path, [L01, L02B])
    kind = "it is neither a .py, an .ipynb nor a .zip file"
    none = "it names no lesson and defines no exercise's function"
    assert found.submissions == ()
    assert {each.source: each.why for each in found.skipped} == {
        "ada/l01": kind,
        "ada/l01_notes.txt": kind,
        "ada/l02.py": "it is for l02_scheduling, which is not graded now",
        "ada/l99.py": none,
        "ada/chat.py": none,
        "ada/x.py": "it names no lesson, and is not UTF-8 text (a byte 0xff at line 1): "
        "save it as UTF-8",
    }


def test_a_file_that_cannot_be_read_counts_for_the_only_lesson_graded(tmp_path: Path):
    put(tmp_path, {"ada.zip": b"PK nonsense"})
    assert problem_in(tmp_path, (L01,)) == "ada.zip is damaged or no zip file: pack it again."
    assert find_submissions(tmp_path, STEMS).submissions == ()


def test_what_tools_write_is_passed_over(tmp_path: Path):
    ours = [".venv/l01.py", "__pycache__/l01.py", "__MACOSX/ada/._l01.py", "ada/.hidden/l01.py"]
    ours += ["ada/__marimo__/l01.py", "ada/._l01.py", "ada/.ipynb_checkpoints/l01.ipynb"]
    files = dict.fromkeys([*ours, "ada/.DS_Store", "ada/l01.py"], ANSWER)
    put(tmp_path / "folder", files)
    put(tmp_path / "zip", {"class.zip": packed(files)})
    for place in ("folder", "zip"):
        found = find_submissions(tmp_path / place, STEMS)
        assert [each.source[-10:] for each in found.submissions] == ["ada/l01.py"]
        assert {each.why for each in found.skipped} == {"it is hidden", "it is written by a tool"}
        assert len(found.skipped) == 8


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty: hand in the file with your answers"),
        (b"\xef\xbb\xbf \n\n", "is empty: hand in the file with your answers"),
        (b"# ok\r\n# ok\n# caf\xe9", "is not UTF-8 text (a byte 0xe9 at line 3): save it as UTF-8"),
        (ANSWER.encode("utf-16"), "is UTF-16 text: save it as UTF-8"),
        (b"x = 1\n\0", "is no text (a zero byte at line 2): save it as UTF-8 text"),
        (b"#" * 262_145, "is larger than 256 KB: leave out all but the lesson"),
        (b"#" * 5_000_000, "is larger than 256 KB: leave out all but the lesson"),
    ],
)
def test_a_text_that_is_none_is_a_sentence(content: bytes, problem: str, tmp_path: Path):
    put(tmp_path / "folder", {"ada/l01.py": content})
    assert problem_in(tmp_path / "folder") == f"ada/l01.py {problem}."
    with zipfile.ZipFile(tmp_path / "ada.zip", "w") as archive:
        archive.writestr("l01.py", content)
    assert problem_in(tmp_path / "ada.zip") == f"ada.zip/l01.py {problem}."


@pytest.mark.parametrize(
    "content",
    [
        ANSWER.encode("utf-8-sig"),
        ANSWER.replace("\n", "\r\n").encode(),
        ANSWER.replace("\n", "\r").encode(),
    ],
)
def test_windows_and_old_macs_texts_are_read(content: bytes, tmp_path: Path):
    assert text_in(put(tmp_path, {"ada/l01.py": content})) == ANSWER


def test_what_python_cannot_read_is_handed_on(tmp_path: Path):
    broken = "def chunk_size(:\n" + "(" * 5_000
    assert text_in(put(tmp_path, {"ada/l01.py": broken})) == broken


def test_the_largest_file_is_read(tmp_path: Path):
    assert len(text_in(put(tmp_path, {"ada/l01.py": b"#" * 262_144}))) == 262_144


def test_nothing_but_ordinary_files_is_opened(tmp_path: Path):
    put(tmp_path, {"secret/l01.txt": "key", "ada/l01.py/inside.py": ANSWER})
    for student in ("bob", "cyd", "dan", "eve"):
        (tmp_path / student).mkdir()
    (tmp_path / "bob" / "l01.py").symlink_to(tmp_path / "secret" / "l01.txt")
    (tmp_path / "cyd" / "l01.py").symlink_to("nowhere")
    (tmp_path / "cyd" / "folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "dan" / "l01.ipynb")
    (tmp_path / "eve" / "l01.py").symlink_to("/dev/zero")
    found = find_submissions(tmp_path, STEMS)
    assert [each.problem for each in found.submissions] == [
        "ada/l01.py is a folder: hand in the file itself.",
        "bob/l01.py is a link: hand in the file itself.",
        "cyd/l01.py is a link: hand in the file itself.",
        "dan/l01.ipynb is a pipe: hand in the file itself.",
        "eve/l01.py is a link: hand in the file itself.",
    ]
    assert [each.source for each in found.skipped] == ["cyd/folder", "secret/l01.txt"]


def test_what_may_not_be_read_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Refused by hand: root may read everything."""
    put(tmp_path, {"ada/l01.py": ANSWER, "bob/l01.py": ANSWER})

    def refused(path: Path, *rest: object) -> object:
        if path in (tmp_path / "ada" / "l01.py", tmp_path / "bob"):
            raise PermissionError(13, "Permission denied")
        return listdir(path, *rest)

    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", refused)
    monkeypatch.setattr(os, "open", refused)
    found = find_submissions(tmp_path, STEMS)
    (only,) = found.submissions
    assert only.problem == "ada/l01.py cannot be read (Permission denied): hand it in again."
    assert [(each.source, each.why) for each in found.skipped] == [
        ("bob", "it cannot be read (Permission denied)")
    ]


def test_a_place_that_is_none_is_an_error(tmp_path: Path):
    put(tmp_path, {"l01.py": ANSWER, "class.zip": b"nothing"})
    with pytest.raises(FileNotFoundError):
        find_submissions(tmp_path / "nowhere", STEMS)
    with pytest.raises(ValueError, match=r"l01\.py is neither a folder nor a zip file"):
        find_submissions(tmp_path / "l01.py", STEMS)
    with pytest.raises(ValueError, match=r"class\.zip is damaged or no zip file: pack it again"):
        find_submissions(tmp_path / "class.zip", STEMS)
    with pytest.raises(ValueError, match="There is no lesson 'l77'"):
        find_submissions(tmp_path, ["l77"])


def test_a_name_shows_what_it_is_made_of(tmp_path: Path):
    raw = os.fsencode(tmp_path)
    for name in (b"caf\xe9", b"red\x1b[31m", b"line\nend", "Zoë".encode(), "Zoe\u0308".encode()):
        os.mkdir(raw + b"/" + name)
        with open(raw + b"/" + name + b"/l01.py", "w") as file:
            file.write(ANSWER)
    found = find_submissions(tmp_path, STEMS)
    names = ["Zoë", r"caf\udce9", r"line\nend", r"red\x1b[31m"]
    assert [each.student for each in found.submissions] == names
    assert [each.source for each in found.submissions] == [f"{name}/l01.py" for name in names]
    assert [each.source for each in found.skipped] == ["Zoë/l01.py"]


def changed(data: bytes, name: str, offset: int, form: str, value: int) -> bytes:
    """A zip file whose list of members says something else of one member."""
    at = data.rindex(name.encode()) - 46
    old = struct.unpack_from(form, data, at + offset)[0]
    fresh = bytearray(data)
    struct.pack_into(form, fresh, at + offset, value)
    if offset < 28:  # it is said a second time before the member's bytes
        first = data.index(name.encode()) - 30
        assert struct.unpack_from(form, data, first + offset - 2)[0] == old
        struct.pack_into(form, fresh, first + offset - 2, value)
    return bytes(fresh)


ONE = packed({"bob/l01.py": ANSWER * 9})
BOMB = bytes(1_048_577) + b"#" * 7_000_000


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (changed(ONE, "bob/l01.py", 8, "<H", 1), "is locked with a password: pack it without one"),
        (
            changed(ONE, "bob/l01.py", 10, "<H", zipfile.ZIP_LZMA),
            "is packed in an unusual way: pack it as an ordinary zip file",
        ),
        (
            changed(ONE, "bob/l01.py", 10, "<H", 99),
            "is packed in an unusual way: pack it as an ordinary zip file",
        ),
        (changed(ONE, "bob/l01.py", 38, "<I", LINK << 16), "is a link: hand in the file itself"),
        (
            changed(ONE, "bob/l01.py", 38, "<I", stat.S_IFIFO << 16),
            "is no ordinary file: hand in the file itself",
        ),
        (changed(ONE, "bob/l01.py", 16, "<I", 5), "is damaged: pack it again"),
        (changed(ONE, "bob/l01.py", 24, "<I", 9), "is damaged: pack it again"),
        (changed(ONE, "bob/l01.py", 20, "<I", 9), "is damaged: pack it again"),
        (
            packed({"bob/l01.py": b"#" * 262_145}),
            "is larger than 256 KB: leave out all but the lesson",
        ),
        (
            packed({"bob/l01.ipynb": BOMB}),
            "unpacks to over 100 times its size: hand in the lesson's file alone",
        ),
        (
            packed({"bob/l01.zip": packed({"x.zip": packed({"l01.py": ANSWER})})}),
            "lies too deep in other zip files: unpack them",
        ),
    ],
)
def test_a_bad_member_stops_no_other(data: bytes, problem: str, tmp_path: Path):
    put(tmp_path / "class", {"all.zip": data, "ada/l01.py": ANSWER})
    found = find_submissions(tmp_path / "class", [L01])
    problems = [each.problem.partition(" ")[2] for each in found.submissions if each.problem]
    assert problems == [f"{problem}."]
    assert [each.student for each in found.submissions if not each.problem] == ["ada"]


@pytest.mark.parametrize(
    "name",
    ["../l01.py", "/l01.py", "C:/bob/l01.py", r"..\bob\l01.py", "bob/../../l01.py", "//x/l01.py"],
)
def test_a_name_that_leads_out_of_a_zip_is_refused(name: str, tmp_path: Path):
    put(tmp_path, {"ada.zip": packed({name: ANSWER, "fine/l02.py": ANSWER}), "bob/l02.py": "x"})
    found = find_submissions(tmp_path, STEMS)
    assert [(each.student, each.problem) for each in found.submissions] == [
        ("ada", "ada.zip/l01.py has a name that leads out of the zip file: pack it again."),
        ("ada", ""),
        ("bob", ""),
    ]


def test_of_members_with_one_name_the_last_is_taken(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "ada.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("l01.py"), "first")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(zipfile.ZipInfo("l01.py"), "last")
    found = find_submissions(tmp_path, STEMS)
    assert [(each.text, each.submitted_at) for each in found.submissions] == [("last", "")]
    assert [each.why for each in found.skipped] == ["ada.zip/l01.py is taken, which comes later"]


@pytest.mark.parametrize("name", ["José/l01.py", r"José\l01.py", "./José//l01.py"])
def test_names_as_macos_and_windows_write_them_are_read(name: str, tmp_path: Path):
    data = packed({name: ANSWER, "x/l01.py": ANSWER})
    assert b"Jos\xc3\xa9" in data
    for flags in (0x800, 0):  # macOS writes UTF-8 and does not say so
        at = data.rindex("José".encode()) - 46 - name.index("J")
        said = data[: at + 8] + struct.pack("<H", flags) + data[at + 10 :]
        at = data.index("José".encode()) - 30 - name.index("J")
        said = said[: at + 6] + struct.pack("<H", flags) + said[at + 8 :]
        (tmp_path / "class.zip").write_bytes(said)
        assert set(found_in(tmp_path / "class.zip")) == {("José", L01), ("x", L01)}


def test_a_zip_of_names_that_are_no_text_is_a_sentence(tmp_path: Path):
    data = packed({"ä/l01.py": ANSWER}).replace("ä".encode(), b"\xff\xff")
    put(tmp_path, {"l01_ada.zip": data, "bob/l01.py": ANSWER})
    found = find_submissions(tmp_path, STEMS)
    assert [each.problem for each in found.submissions] == [
        "l01_ada.zip is damaged or no zip file: pack it again.",
        "",
    ]


def test_a_cut_zip_is_a_sentence(tmp_path: Path):
    put(tmp_path, {"l01_ada.zip": ONE[:-30]})
    assert problem_in(tmp_path) == "l01_ada.zip is damaged or no zip file: pack it again."


def test_a_zip_of_too_many_files_is_refused_whole(tmp_path: Path):
    data = packed(dict.fromkeys([f"{n}.txt" for n in range(20_001)], ""))
    put(tmp_path, {"l01_ada.zip": data})
    assert problem_in(tmp_path).endswith("holds more than 20,000 files: pack the lessons' files "
                                         "alone.")  # fmt: skip


def test_a_list_of_members_is_not_unfolded_whatever_its_length(tmp_path: Path):
    start = ONE.index(b"PK\1\2")
    entry = ONE[start : ONE.index(b"PK\5\6")]
    often = 33 * 1024 * 1024 // len(entry)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, often * len(entry), start, 0)
    put(tmp_path, {"l01_ada.zip": ONE[:start] + entry * often + end})
    assert problem_in(tmp_path) == "l01_ada.zip is damaged or no zip file: pack it again."


def test_of_a_bomb_no_more_is_unpacked_than_a_file_may_have(tmp_path: Path):
    put(tmp_path, {"ada.zip": packed({"l01.py": bytes(64 * 1024 * 1024)})})
    tracemalloc.start()
    try:
        assert problem_in(tmp_path).endswith("is larger than 256 KB: leave out all but the lesson.")
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.process
def test_a_zip_unpacks_to_so_much_and_says_so_of_the_rest(tmp_path: Path):
    noise = random.Random(1).randbytes(800_000)
    content = b"".join(noise[at : at + 100] + bytes(900) for at in range(0, len(noise), 100))
    put(tmp_path, {"class.zip": packed({f"s{n:02}/l01.ipynb": content for n in range(40)})})
    found = find_submissions(tmp_path / "class.zip", STEMS)
    told = [each.problem.partition(" ")[2] for each in found.submissions]
    rest = "is too much: all of its zip file is over 256 MB."
    assert [each == rest for each in told] == [False] * 33 + [True] * 7


@pytest.mark.process
@pytest.mark.parametrize("n", range(3))
def test_random_bytes_are_a_sentence(n: int, tmp_path: Path):
    """A thousand zip files and a thousand notebooks, whole ones with some bytes changed."""
    source = random.Random(n)
    files = {"ada/l01.py": ANSWER, "bob.zip": ONE, "cyd/l01.ipynb": cells(ANSWER)}
    whole = {"l01.zip": packed(files), "l01.ipynb": cells(ANSWER, "%ls").encode()}
    for name, data in whole.items():
        for turn in range(350):
            bad = bytearray(data)
            for _ in range(source.randrange(1, 9)):
                bad[source.randrange(len(bad))] = source.randrange(256)
            if turn % 3 == 0:
                del bad[source.randrange(len(bad)) :]
            if turn % 50 == 0:
                bad = bytearray(source.randbytes(200))
            (tmp_path / name).write_bytes(bad)
            find_submissions(tmp_path, [L01])


def functions(text: str) -> list[str]:
    statements = read_notebook(text).statements
    return [item.node.name for item in statements if isinstance(item.node, ast.FunctionDef)]


def test_a_notebooks_cells_are_cut_apart(tmp_path: Path):
    notebook = cells(
        "%matplotlib inline\nimport math\n",
        ["_TABLE = {}\n", "# a comment\n", "def helper():\n", "    return _TABLE"],
        "def chunk_size(:\n    broken",
        "%%time\nfiles = !ls\ndef chunk_mask(past, new):\n    %time pass\n    return helper()",
        "text = '''\n%kept\n'''\nhelp?",
        "text = '''\n%kept\n'''",
        "?print\n\0",
        "",
    )
    text = text_in(put(tmp_path, {"ada/l01.ipynb": notebook}))
    read = read_notebook(text)
    assert functions(text) == ["helper", "chunk_mask"]
    assert [broken.names() for broken in read.broken] == [["chunk_size"], []]
    needed, unknown = read.needed_by(read.binding("chunk_mask"))
    assert [item.source.splitlines()[0] for item in needed] == [
        "_TABLE = {}",
        "# a comment",
        "def chunk_mask(past, new):",
    ]
    assert unknown == []
    assert text.count("%kept") == 1
    assert "%time" not in text
    assert "!ls" not in text


@pytest.mark.parametrize(
    ("notebook", "problem"),
    [
        ("{", "is no notebook that Jupyter could open: save it there again"),
        ("[]", "is no notebook that Jupyter could open: save it there again"),
        ("{}", "is no notebook that Jupyter could open: save it there again"),
        ('{"nbformat": 4}', "is no notebook that Jupyter could open: save it there again"),
        ("[" * 100_000, "is no notebook that Jupyter could open: save it there again"),
        (cells(), "has no code in it: hand in the notebook with your answers"),
        (cells(" \n", ""), "has no code in it: hand in the notebook with your answers"),
        (cells("#" * 262_145), "is larger than 256 KB: leave out all but the lesson"),
        (" " * 8_388_609, "is larger than 8 MB: leave out all but the lesson"),
        ("", "is empty: hand in the file with your answers"),
    ],
)  # fmt: skip
def test_a_notebook_that_is_none_is_a_sentence(notebook: str, problem: str, tmp_path: Path):
    put(tmp_path, {"ada/l01.ipynb": notebook})
    assert problem_in(tmp_path) == f"ada/l01.ipynb {problem}."


READS_A_NOTEBOOK = """
import sys
from course.grading.handed_in.texts import text_of
text_of(".ipynb", sys.argv[1].encode())
print("nbformat" in sys.modules, "lark" in sys.modules)
"""


def test_a_notebook_is_read_without_compiling_grammars_of_addresses():
    """They would take longer than all else that grading one file imports."""
    command = [sys.executable, "-c", READS_A_NOTEBOOK, cells(ANSWER)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "True False\n"


def test_an_old_notebook_and_one_with_large_outputs_are_read(tmp_path: Path):
    cell = {"cell_type": "code", "language": "python", "metadata": {}, "outputs": []}
    sheet = {"cells": [{**cell, "input": ANSWER, "prompt_number": 1}], "metadata": {}}
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [sheet]}
    assert text_in(put(tmp_path / "old", {"l01.ipynb": json.dumps(old)})).strip() == ANSWER.strip()
    new = json.loads(cells(ANSWER))
    new["cells"][0]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "x" * 4_000_000}
    ]
    assert text_in(put(tmp_path / "new", {"l01.ipynb": json.dumps(new)})).strip() == ANSWER.strip()


def test_surrogates_in_a_notebook_do_not_get_into_the_text(tmp_path: Path):
    notebook = cells(ANSWER, "x = '\ud800'")
    assert functions(text_in(put(tmp_path, {"l01.ipynb": notebook}))) == ["chunk_size"]
    text_in(tmp_path).encode()


MARIMO_EXPORT = """
import sys
from marimo._cli.cli import main
for lesson, target in zip(sys.argv[1::2], sys.argv[2::2]):
    main(["export", "ipynb", lesson, "-o", target], standalone_mode=False)
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a class for each lesson: one student, with marimo's export of the lesson."""
    folder = tmp_path_factory.mktemp("exported")
    files: list[Path] = []
    for stem in STEMS:
        files += [ROOT / "lessons" / f"{stem}.py", folder / stem / "ada" / f"{stem}.ipynb"]
        files[-1].parent.mkdir(parents=True)
    # One process for all of them: it spends its time on importing marimo.
    command = [sys.executable, "-c", MARIMO_EXPORT, *map(str, files)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return folder


@pytest.mark.process
@pytest.mark.parametrize("stem", STEMS)
def test_marimos_own_notebook_of_a_lesson_gives_back_every_function(stem: str, exported: Path):
    lesson = ROOT / "lessons" / f"{stem}.py"
    pristine = read_notebook(lesson.read_text(encoding="utf-8"))
    (only,) = find_submissions(exported / stem, STEMS).submissions
    assert (only.lesson, only.problem) == (stem, "")
    read = read_notebook(only.text)
    assert read.broken == ()
    names = [entry.id.partition(".")[2] for lesson in LESSONS if lesson.stem == stem
             for entry in entries(lesson)]  # fmt: skip
    for name in names:
        expected = [item.source for item in pristine.binding(name)]
        assert [item.source for item in read.binding(name)] == expected
        assert len(expected) == 1
    for name in names:
        theirs = {item.source for item in pristine.needed_by(pristine.binding(name))[0]}
        assert {item.source for item in read.needed_by(read.binding(name))[0]} == theirs


FOLDERS = st.sampled_from(
    [
        "", "ada", "bob/", "l01", "work", "lessons", "submitted", ".git", "l01.py", "x.zip", "ä\n",
        "Ada_1_assignsubmission_file_", "Ada_2_assignsubmission_file_", "submission_3",
    ]
)  # fmt: skip
FILES = st.sampled_from(
    [
        "l01.py", "l01-1.py", "l01_ada.ipynb", "ada_1_2_l01.py", "ada_LATE_3_4_l02-1.py", "x.py",
        "x.ipynb", "ada.zip", "l01.zip", "README.md", ".l01.py", "L02B (2).PY", "l01", "_.py",
        "Ada_1_assignsubmission_file_l01.py",
    ]
)  # fmt: skip
CONTENTS = st.sampled_from(
    [
        b"", b"\xff\xfe", ANSWER.encode(), b"x = 1", cells(ANSWER).encode(), b"{}", b"PK", ONE,
        packed({"l01.py": ANSWER, "../l02.py": "", "bob/x.py": ANSWER, "a.zip": ONE}),
    ]
)  # fmt: skip
TREES = st.dictionaries(st.tuples(FOLDERS, FOLDERS, FILES), CONTENTS, max_size=9)


def leaves(data: bytes, name: str, deep: int = 2) -> int:
    """How many files a file stands for, as the standard library's own reader counts them."""
    if not name.lower().endswith(".zip") or not deep:
        return 1
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            return sum(leaves(archive.read(each), each, deep - 1) for each in archive.namelist())
    except zipfile.BadZipFile:
        return 1


@pytest.mark.process
@settings(max_examples=150)
@given(tree=TREES, lessons=st.sampled_from([[L01], [L02B, L01], STEMS]), shuffled=st.randoms())
def test_each_file_is_submitted_once_or_skipped_with_a_reason(
    tree: dict[tuple[str, str, str], bytes],
    lessons: list[str],
    shuffled: random.Random,
    tmp_path_factory: pytest.TempPathFactory,
):
    made: list[Found] = []
    expected: set[str] = set()
    for n in range(2):
        place = tmp_path_factory.mktemp("tree") / "class"
        place.mkdir()
        names = sorted(tree)
        if n:
            shuffled.shuffle(names)
        for parts in sorted(names, key=lambda parts: len(Path(*parts).parts)) if not n else names:
            path = place.joinpath(*parts)
            try:
                put(place, {str(path.relative_to(place)): tree[parts]})
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # a file stands where another's folder should
        made.append(find_submissions(place, lessons))
        expected = {str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()}
        found = made[-1]
        sources = [each.source for each in (*found.submissions, *found.skipped)]
        keys = [(each.student, each.lesson) for each in found.submissions]
        assert len(keys) == len(set(keys))
        assert all(student and lesson in lessons for student, lesson in keys)
        assert all(bool(each.text) != bool(each.problem) for each in found.submissions)
        assert all(each.why for each in found.skipped)
        for name in expected:
            shown = name.replace("\n", r"\n")
            told = [s for s in sources if s == shown or s.startswith(f"{shown}/")]
            above = [s for s in sources if shown.startswith(f"{s}/")]
            wanted = 0 if above else leaves((place / name).read_bytes(), name)
            assert len(told) == wanted, name


def test_notes_of_progress_beside_a_lesson_come_along(tmp_path):
    noted = {"attempts": 3, "first_tried": "2026-11-02T10:00:00+00:00"}
    passed = noted | {"first_passed": "2026-11-02T10:12:30+00:00"}
    files = {
        "ada/work/l01_chunked_prefill.py": "x = 1\n",
        "ada/work/progress/exercises/l01.chunk_size.json": json.dumps(passed),
        "ada/work/progress/exercises/l01.plan_step.json": json.dumps(noted),
        "ada/work/progress/exercises/l02.admit.json": json.dumps(passed),
        "ada/work/progress/exercises/l01.chunk_mask.json": '{"attempts": -7, "first_tried": 3}',
        "ada/work/progress/exercises/l01.chunk_inputs.json": "[" * 10_000,
        "ada/work/other.json": json.dumps(passed),
        "bob/l01_chunked_prefill.py": "x = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = find_submissions(tmp_path, ["l01_chunked_prefill"])
    ada, bob = found.submissions
    assert ada.attempts == {"l01.chunk_size": 3, "l01.plan_step": 3}
    assert ada.minutes == {"l01.chunk_size": 12.5}
    assert bob.attempts == bob.minutes == {}
    assert [each.source for each in found.skipped] == ["ada/work/other.json"]
