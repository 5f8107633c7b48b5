"""Submissions are found in the layout that is named, read, and never followed, run or trusted."""

import ast
import contextlib
import json
import os
import random
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moodle_class import notebook_of as cells
from support import write_files
from tiers import examples

from course.grading.handed_in import zips
from course.grading.handed_in.layouts import LAYOUTS, lesson_named
from course.grading.handed_in.submissions import Found, find_submissions
from course.lesson_map import LESSONS
from course.source.answer import missing, needed
from course.source.cutting import read_notebook

L01, L02, L02B = "l01_chunked_prefill", "l02_scheduling", "l02b_waiting"
STEMS = [lesson.stem for lesson in LESSONS]
ANSWER = "def chunk_size(budget, num_decodes, remaining):\n    return 1\n"


def put(folder: Path, files: Mapping[str, str | bytes], at: float = 1_000_000_000) -> Path:
    for name in files:
        os.utime(write_files(folder, {name: files[name]}) / name, (at, at))
    return folder


def packed(files: Mapping[str, str | bytes]) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(name, (2025, 3, 4, 5, 6, 8))
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


ONE = packed({"bob/l01.py": ANSWER * 9})


def students(found: Found) -> dict[tuple[str, str], str]:
    return {(each.student, each.lesson): each.source for each in found.submissions}


def skipped(found: Found) -> dict[str, str]:
    return {each.source: each.why for each in found.skipped}


def found_in(folder: Path, *lessons: str) -> dict[tuple[str, str], str]:
    return students(find_submissions(folder, lessons or STEMS))


def text_in(folder: Path) -> str:
    (only,) = find_submissions(folder, STEMS).submissions
    return only.text


# --- whose it is, and which lesson's ---------------------------------------------------------

OUTSIDE, NO_LESSON = "it lies outside the student's work/", "it is not named after a lesson"
TREES = {  # student, lesson and path, or "", the reason and the path of a file that is left out
    "folder": [
        ("Ada", L01, "Ada/l01_chunked_prefill.py"),
        ("Ada", L02, "Ada/deep/er/L02.ipynb"),
        ("Ben", L01, "Ben/course/work/l01.py"),
        ("", OUTSIDE, "Ben/course/lessons/l01.py"),
        ("Chen", L01, "Chen.zip/l01.py"),
        ("", NO_LESSON, "Chen.zip/helpers.py"),
    ],
    "moodle": [
        ("Ada Lovelace_1", L01, "Ada Lovelace_1_assignsubmission_file_/l01_chunked_prefill.py"),
        ("Ada Lovelace_2", L01, "Ada Lovelace_2_assignsubmission_file_/l01_chunked_prefill.py"),
        ("Bob O'Neil", L01, "Bob O'Neil_7_assignsubmission_file_l01.ipynb"),
        ("Cyd", L01, "Cyd_5_assignsubmission_file_/all.zip/work/l01.py"),
        ("", OUTSIDE, "Cyd_5_assignsubmission_file_/all.zip/l02.py"),
    ],
    "canvas": [
        ("lovelaceada", L01, "lovelaceada_12345_67890_l01_chunked_prefill.py"),
        ("oneilbob", L01, "oneilbob_LATE_77_99_l01_chunked_prefill-2.py"),
        ("weichen", L01, "weichen_78_98_all-1.zip/l01.ipynb"),
    ],
    "nbgrader": [
        ("ada", L01, "ada/l01/l01.ipynb"),
        ("", "another file is named after the lesson", "ada/l01/helpers.py"),
        ("ada", L02, "ada/l02_scheduling/queue.ipynb"),
        ("bob", L01, "bob/l01/chunks.ipynb"),
    ],
    "github": [
        ("ada", L01, "l01-ada/work/l01_chunked_prefill.py"),
        ("", OUTSIDE, "l01-ada/lessons/l01_chunked_prefill.py"),
        ("bob-li", L01, "l01-bob-li/l01_chunked_prefill.py"),
    ],
}


def class_of(layout: str, folder: Path) -> Path:
    """A folder in this layout, as the learning system names it, with a zip file of it beside it."""
    inside: dict[str, dict[str, str | bytes]] = {}
    files: dict[str, str | bytes] = {"README.md": "For the teacher."}
    for _, _, path in TREES[layout]:
        content = cells(ANSWER) if path.endswith(".ipynb") else ANSWER
        name, _, member = path.partition(".zip/")
        if member:
            inside.setdefault(f"{name}.zip", {})[member] = content
        else:
            files[path] = content
    files |= {name: packed(members) for name, members in inside.items()}
    place = put(
        folder / {"nbgrader": "submitted", "github": "l01-submissions"}.get(layout, "class"), files
    )
    place.with_suffix(".zip").write_bytes(packed(files))
    return place


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_is_read_as_a_folder_and_as_a_zip_file(layout: str, tmp_path: Path):
    folder = class_of(layout, tmp_path)
    for place, before in ((folder, ""), (folder.with_suffix(".zip"), f"{folder.name}.zip/")):
        found = find_submissions(place, STEMS, layout)
        taken = {(name, lesson): before + path for name, lesson, path in TREES[layout] if name}
        assert (found.misfit, found.doubts, students(found)) == ("", (), taken)
        assert {each.text.strip() for each in found.submissions} == {ANSWER.strip()}
        left = {before + path: why for name, why, path in TREES[layout] if not name}
        readme = {f"{before}README.md": "it is neither a .py, an .ipynb nor a .zip file"}
        assert skipped(found) == left | readme


@pytest.mark.parametrize("named", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_in_another_layout_is_refused_with_that_layout(
    layout: str, named: str, tmp_path: Path
):
    if layout != named:
        found = find_submissions(class_of(layout, tmp_path), STEMS, named)
        assert found.submissions == ()
        first = min(path.partition(".zip/")[0] for _, _, path in TREES[layout])
        assert f" does not have --layout {named} (" in found.misfit
        assert f"It holds {first}" in found.misfit
        assert found.misfit.endswith(f": --layout {layout} fits.")


def test_a_student_with_two_files_for_a_lesson_is_refused_and_the_others_are_graded(tmp_path: Path):
    two = ["ada/a/l01.py", "ada/l01_chunked_prefill.ipynb"]
    files = {two[0]: ANSWER, two[1]: cells(ANSWER), "ada/l02.py": ANSWER, "bob/l01.py": ANSWER}
    found = find_submissions(put(tmp_path, files), STEMS)
    assert [*students(found)] == [("ada", L02), ("bob", L01)]
    (doubt,) = found.doubts
    assert doubt.startswith(f"ada has several files for {L01}, and none is graded: ")
    assert all(path in doubt for path in two) and set(skipped(found)) == set(two)


def test_the_only_file_of_a_student_counts_under_any_name_when_one_lesson_is_graded(tmp_path: Path):
    files = ["ada.py", "bob.ipynb", "cyd/mine.py", "dan/mine.py", "dan/l01.py", "eve/l02.py"]
    put(tmp_path, {name: cells(ANSWER) if name == "bob.ipynb" else ANSWER for name in files})
    one = {"ada": "ada.py", "bob": "bob.ipynb", "cyd": "cyd/mine.py", "dan": "dan/l01.py"}
    assert found_in(tmp_path, L01) == {(name, L01): path for name, path in one.items()}
    assert found_in(tmp_path) == {("dan", L01): "dan/l01.py", ("eve", L02): "eve/l02.py"}


def test_a_file_is_named_after_its_lesson_by_stem_number_or_an_older_name():
    for lesson in LESSONS:
        names = (f"{lesson.stem}.py", f"{lesson.short}.ipynb", lesson.stem.upper(), lesson.short)
        assert {lesson_named(name) for name in names} == {lesson.stem}
    assert lesson_named("l07_fleet.py") == "l09_fleet"
    for name in ("ada_l01.py", "l01 (1).py", "l01.chunk_size.py", f"{L01}.2026-11-27-180002.py"):
        assert lesson_named(name) == ""  # as browsers and work/ name copies


@pytest.mark.parametrize("layout", ["folder", "moodle", "canvas"])
def test_no_student_can_hand_in_for_another(layout: str, tmp_path: Path):
    forms = {"folder": "{}{}", "moodle": "{}_1_assignsubmission_file_{}", "canvas": "{}_1_2_{}"}
    bobs = forms[layout].format("bob", ".py" if layout == "folder" else "l01.py")
    forged = [
        bobs,
        f"bob/{bobs}",
        "../bob/l01.py",
        "bob/l01.py",
        "bob_1_assignsubmission_file_/l01.py",
    ]
    evil = packed(dict.fromkeys(forged, ANSWER))
    place = put(tmp_path, {forms[layout].format("ada", ".zip"): evil, bobs: "pass"})
    put(place, {forms[layout].format("eve", f"/{bobs}" if layout == "folder" else bobs): ANSWER})
    found = find_submissions(place, [L01], layout)
    assert students(found)["bob", L01] == bobs
    named = {name for name, _ in students(found)} | {each.split()[0] for each in found.doubts}
    assert named <= {"ada", "bob", "eve"}


def test_what_is_for_another_lesson_or_for_none_is_told(tmp_path: Path):
    files = {"l02.py": ANSWER, "x.py": b"\xff", "l01_notes.txt": ANSWER, f"{L01}.py": ANSWER}
    put(tmp_path, {f"ada/{name}": content for name, content in files.items()})
    put(tmp_path, {f"{L01}.py": ANSWER})
    why = skipped(find_submissions(tmp_path, [L01, L02B]))
    assert why["ada/l01_notes.txt"] == "it is neither a .py, an .ipynb nor a .zip file"
    assert why["ada/l02.py"] == "it is for l02_scheduling, which is not graded now"
    assert why["ada/x.py"].startswith(f"{NO_LESSON}, and is not UTF-8 text (a byte 0xff at")
    assert why[f"{L01}.py"] == "it lies in no student's place: STUDENT/.../LESSON.py"


def test_results_within_the_class_are_no_submissions(tmp_path: Path):
    put(tmp_path, {"ada/l01.py": ANSWER, "marks/report.html": "", "marks/bob/l01.py": ANSWER})
    put(tmp_path, {"ada/marks/l02.py": ANSWER})
    found = find_submissions(tmp_path, STEMS, apart=tmp_path / "ada" / ".." / "marks")
    assert [*students(found)] == [("ada", L01), ("ada", L02)]


def test_what_tools_write_is_passed_over(tmp_path: Path):
    files = [".venv/l01.py", "__pycache__/l01.py", "__MACOSX/ada/._l01.py", "ada/.hidden/l01.py"]
    files += ["ada/__marimo__/l01.py", "ada/._l01.py", "ada/l01.py"]
    put(tmp_path / "folder", dict.fromkeys(files, ANSWER))
    put(tmp_path, {"class.zip": packed(dict.fromkeys(files, ANSWER))})
    for place in ("folder", "class.zip"):
        found = find_submissions(tmp_path / place, STEMS)
        assert [each.source[-10:] for each in found.submissions] == ["ada/l01.py"]
        assert set(skipped(found).values()) == {"it is hidden", "it is written by a tool"}


def test_notes_of_progress_beside_a_lesson_come_along(tmp_path: Path):
    noted = {"attempts": 3, "first_tried": "2026-11-02T10:00:00+00:00"}
    passed = json.dumps(noted | {"first_passed": "2026-11-02T10:12:30+00:00"})
    notes = {
        "l01.chunk_size": passed,
        "l01.plan_step": json.dumps(noted),
        "l02.admit": passed,
        "l01.chunk_mask": '{"attempts": -7, "first_tried": 3}',
        "l01.chunk_inputs": "[" * 10_000,
    }
    put(tmp_path, {f"ada/work/progress/exercises/{name}.json": t for name, t in notes.items()})
    put(tmp_path, {f"ada/work/{L01}.py": "x = 1\n", f"bob/{L01}.py": "x = 1\n"})
    ada, bob = find_submissions(tmp_path, [L01]).submissions
    assert ada.attempts == {"l01.chunk_size": 3, "l01.plan_step": 3}
    assert ada.minutes == {"l01.chunk_size": 12.5}
    assert bob.attempts == bob.minutes == {}


# --- files that cannot be read ---------------------------------------------------------------


def altered(offset: int, form: str, value: int) -> bytes:
    """A zip file whose list of members says something else of bob/l01.py."""
    at, first = ONE.rindex(b"bob/l01.py") - 46, ONE.index(b"bob/l01.py") - 30
    fresh = bytearray(ONE)
    struct.pack_into(form, fresh, at + offset, value)
    if offset < 28:  # it is said a second time before the member's bytes
        struct.pack_into(form, fresh, first + offset - 2, value)
    return bytes(fresh)


def unreadable() -> Iterator[tuple[str, str | bytes, str]]:
    """Files by suffix, each with the end of the sentence on it."""
    yield ".py", b"\xef\xbb\xbf \n\n", "is empty: hand in the file with your answers"
    yield ".py", b"# caf\xe9", "is not UTF-8 text (a byte 0xe9 at line 1): save it as UTF-8"
    yield ".py", ANSWER.encode("utf-16"), "is UTF-16 text: save it as UTF-8"
    yield ".py", b"x = 1\n\0", "is no text (a zero byte at line 2): save it as UTF-8 text"
    yield ".py", b"#" * 262_145, "is larger than 256 KB: leave out all but the lesson"
    for notebook in ("{", '{"nbformat": 4}', "[" * 100_000):
        yield ".ipynb", notebook, "is no notebook that Jupyter could open: save it there again"
    yield ".ipynb", cells(" \n"), "has no code in it: hand in the notebook with your answers"
    yield ".ipynb", cells("#" * 262_145), "is larger than 256 KB: leave out all but the lesson"
    yield ".ipynb", " " * 8_388_609, "is larger than 8 MB: leave out all but the lesson"
    no_text = packed({"ä/l01.py": ANSWER}).replace("ä".encode(), b"\xff\xff")
    for data in (b"PK nonsense", ONE[:-30], no_text, list_of_33_megabytes()):
        yield ".zip", data, "is damaged or no zip file: pack it again"
    many = packed({f"{number}.txt": "" for number in range(20_001)})
    yield ".zip", many, "holds more than 20,000 files: pack only the lessons' files"
    yield ".zip", altered(8, "<H", 1), "is locked with a password: pack it without one"
    unusual = "is packed in an unusual way: pack it as an ordinary zip file"
    yield ".zip", altered(10, "<H", zipfile.ZIP_LZMA), unusual
    yield ".zip", altered(38, "<I", stat.S_IFLNK << 16), "is a link: hand in the file itself"
    ordinary = "is no ordinary file: hand in the file itself"
    yield ".zip", altered(38, "<I", stat.S_IFIFO << 16), ordinary
    yield ".zip", altered(16, "<I", 5), "is damaged: pack it again"  # another checksum
    bomb = packed({"l01.ipynb": bytes(1_048_577) + b"#" * 7_000_000})
    yield ".zip", bomb, "unpacks to over 100 times its size: hand in only the lesson's file"
    deep = packed({"l01.zip": packed({"x.zip": ONE})})
    yield ".zip", deep, "lies too deep in other zip files: unpack them"
    for name in ("../l01.py", "/l01.py", "C:/bob/l01.py", r"..\bob\l01.py"):
        out = "has a name that leads out of the zip file: pack it again"
        yield ".zip", packed({name: ANSWER}), out


def list_of_33_megabytes() -> bytes:
    """A zip file whose list names its only member again and again."""
    start, end = ONE.index(b"PK\1\2"), ONE.index(b"PK\5\6")
    entries = ONE[start:end] * (33 * 1024 * 1024 // (end - start))
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(entries), start, 0)
    return ONE[:start] + entries + last


def test_a_file_that_cannot_be_read_is_a_sentence_and_stops_no_other(tmp_path: Path):
    for number, (suffix, content, problem) in enumerate(unreadable()):
        place = put(tmp_path / str(number), {f"ada/l01{suffix}": content, "bob/l01.py": ANSWER})
        ada, bob = find_submissions(place, [L01]).submissions
        assert (ada.student, ada.text, ada.problem.partition(" ")[2]) == ("ada", "", f"{problem}.")
        assert (bob.student, bob.text, bob.problem) == ("bob", ANSWER, "")
    put(tmp_path / "unnamed", {"ada.zip": b"PK nonsense"})  # which of several lessons it is for
    assert find_submissions(tmp_path / "unnamed", STEMS).submissions == ()


def test_texts_of_windows_and_old_macs_and_broken_and_long_ones_are_read(tmp_path: Path):
    lines = ANSWER.replace("\n", "\r\n"), ANSWER.replace("\n", "\r")
    for content in (ANSWER.encode("utf-8-sig"), *(each.encode() for each in lines)):
        assert text_in(put(tmp_path, {"ada/l01.py": content})) == ANSWER
    broken = "def chunk_size(:\n" + "(" * 5_000
    assert text_in(put(tmp_path, {"ada/l01.py": broken})) == broken
    assert len(text_in(put(tmp_path, {"ada/l01.py": b"#" * 262_144}))) == 262_144


def test_nothing_but_ordinary_files_is_opened(tmp_path: Path):
    put(tmp_path, {"secret/l01.txt": "key", "ada/l01.py/inside.py": ANSWER})
    for student, target in (("bob", "../secret/l01.txt"), ("cyd", "nowhere"), ("eve", "/dev/zero")):
        (tmp_path / student).mkdir()
        (tmp_path / student / "l01.py").symlink_to(target)
    (tmp_path / "cyd" / "folder").symlink_to(tmp_path)
    (tmp_path / "dan").mkdir()
    os.mkfifo(tmp_path / "dan" / "l01.ipynb")
    found = find_submissions(tmp_path, STEMS)
    assert [each.problem for each in found.submissions] == [
        "ada/l01.py is a folder: hand in the file itself.",
        "bob/l01.py is a link: hand in the file itself.",
        "cyd/l01.py is a link: hand in the file itself.",
        "dan/l01.ipynb is a pipe: hand in the file itself.",
        "eve/l01.py is a link: hand in the file itself.",
    ]
    assert [*skipped(found)] == ["cyd/folder", "secret/l01.txt"]


def test_what_may_not_be_read_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Refused by hand: root may read everything."""

    def refused(path: Path, *rest: object) -> object:
        if path in (tmp_path / "ada" / "l01.py", tmp_path / "bob"):
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", refused)
    monkeypatch.setattr(os, "open", refused)
    put(tmp_path, {"ada/l01.py": ANSWER, "bob/l01.py": ANSWER})
    found = find_submissions(tmp_path, STEMS)
    (ada,) = found.submissions
    assert ada.problem == "ada/l01.py cannot be read (Permission denied): hand it in again."
    assert skipped(found) == {"bob": "it cannot be read (Permission denied)"}


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
    names = [r"caf\udce9", r"line\nend", r"red\x1b[31m"]
    assert students(found) == {(name, L01): f"{name}/l01.py" for name in names}
    assert [each.split()[0] for each in found.doubts] == ["Zoë"]  # two folders, one name


@pytest.mark.parametrize("name", ["José/l01.py", r"José\l01.py", "./José//l01.py"])
def test_names_as_macos_and_windows_write_them_are_read(name: str, tmp_path: Path):
    said, place = bytearray(packed({name: ANSWER, "x/l01.py": ANSWER})), tmp_path / "class.zip"
    place.write_bytes(said)
    assert set(found_in(place)) == {("José", L01), ("x", L01)}
    for find, before in ((said.rindex, 38), (said.index, 24)):  # macOS does not say it is UTF-8
        at = find("José".encode()) - name.index("J") - before
        said[at : at + 2] = b"\0\0"
    place.write_bytes(said)
    assert set(found_in(place)) == {("José", L01), ("x", L01)}


def test_of_a_bomb_no_more_is_unpacked_than_a_file_may_have(tmp_path: Path):
    put(tmp_path, {"ada.zip": packed({"l01.py": bytes(64 * 1024 * 1024)})})
    tracemalloc.start()
    try:
        (ada,) = find_submissions(tmp_path, STEMS).submissions
        assert "is larger than 256 KB: " in ada.problem
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_each_students_part_of_a_class_may_unpack_to_so_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(zips, "_MOST_UNPACKED", 2 * 1024 * 1024)
    monkeypatch.setattr(zips, "_MOST_MEMBERS", 60)
    draw = random.Random(1)
    content = b"".join(draw.randbytes(100) + bytes(900) for _ in range(1_000))
    names = [f"s{n}/l0{m}.ipynb" for n in range(20) for m in (1, 2)]
    whole = {**dict.fromkeys(names, content), "s7/l03.ipynb": content}
    put(tmp_path, {"class.zip": packed(whole)})
    found = find_submissions(tmp_path / "class.zip", STEMS)
    too_much = [each.source for each in found.submissions if "is over 2 MB" in each.problem]
    assert (len(found.submissions), too_much) == (41, ["class.zip/s7/l03.ipynb"])
    ada = packed({f"l0{n}.ipynb": content for n in range(1, 5)})
    bob = packed({f"{n}.txt": "" for n in range(61)})
    found = find_submissions(put(tmp_path / "in", {"ada.zip": ada, "bob.zip": bob}), STEMS)
    said = [each.why for each in found.skipped] + [each.problem for each in found.submissions]
    assert sum("is over 2 MB" in each for each in said) == 2
    assert sum("holds more than 60 files" in each for each in said) == 1


FIELDS = {  # extra fields of a member with its time in UTC
    "Info-ZIP": struct.pack("<HHBI", 0x5455, 5, 1, 1_800_000_000),
    "after another": struct.pack("<HHIHHBI", 0x7875, 4, 0, 0x5455, 5, 1, 1_800_000_000),
    "Windows": struct.pack("<HHIHHQQQ", 10, 32, 0, 1, 24, 134_444_736_000_000_000, 0, 0),
    "older": struct.pack("<HHII", 0x5855, 8, 1, 1_800_000_000),
    "none": b"",
    "too short": struct.pack("<HHB", 0x5455, 1, 1),
    "another": struct.pack("<HHI", 0x7875, 4, 0) + b"\0",
}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_zip_says_when_in_utc_or_by_a_clock_without_a_zone(kind: str, tmp_path: Path):
    buffer = BytesIO()
    member = zipfile.ZipInfo("ada/l01.py", (2027, 1, 15, 9, 0, 0))
    member.extra = FIELDS[kind]
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(member, ANSWER)
    (tmp_path / "class.zip").write_bytes(buffer.getvalue())
    (ada,) = find_submissions(tmp_path / "class.zip", STEMS).submissions
    in_utc = list(FIELDS).index(kind) < 4
    assert ada.submitted_at == ("2027-01-15T08:00:00+00:00" if in_utc else "2027-01-15T09:00:00")


# --- notebooks -------------------------------------------------------------------------------


def test_a_notebooks_cells_are_cut_apart(tmp_path: Path):
    notebook = cells(
        "%matplotlib inline\nimport math\n",
        ["_TABLE = {}\n", "# a comment\n", "def helper():\n", "    return _TABLE"],
        "def chunk_size(:\n    broken",
        "%%time\nfiles = !ls\ndef chunk_mask(past, new):\n    %time pass\n    return helper()",
        "text = '''\n%kept\n'''\nhelp?",
        "text = '''\n%kept\n'''",
        "?print\n\0",
        "half = '\ud800'",
        "",
    )
    text = text_in(put(tmp_path, {"ada/l01.ipynb": notebook}))
    text.encode()
    read = read_notebook(text)
    found = [item.node.name for item in read.statements if isinstance(item.node, ast.FunctionDef)]
    assert found == ["helper", "chunk_mask"]
    assert read.broken[0].names() == ["chunk_size"]
    needs = needed(read, ["chunk_mask"])
    first_lines = [item.source.splitlines()[0] for item in needs.statements]
    own_cell = ["pass", "files = None", "def chunk_mask(past, new):"]
    assert first_lines == ["_TABLE = {}", "# a comment", *own_cell]
    assert missing(read, needs) == {}
    assert text.count("%kept") == 1 and "%time" not in text and "!ls" not in text


WHOLE = {
    "class.zip": packed({"ada/l01.py": ANSWER, "bob.zip": ONE, "cyd/l01.ipynb": cells(ANSWER)}),
    "ada.ipynb": cells(ANSWER, "%ls").encode(),
}


@examples(0.5)
@given(name=st.sampled_from([*WHOLE]), data=st.data())
def test_damaged_files_are_a_sentence(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
):
    bad = bytearray(WHOLE[name])
    for at in data.draw(st.lists(st.integers(0, len(bad) - 1), min_size=1, max_size=8)):
        bad[at] = data.draw(st.integers(0, 255))
    length = data.draw(st.one_of(st.just(len(bad)), st.integers(0, len(bad))))
    place = put(tmp_path_factory.mktemp("damaged"), {name: bytes(bad[:length])})
    with contextlib.suppress(ValueError):  # the class's own zip file
        found = find_submissions(place / name if name == "class.zip" else place, [L01])
        assert all(bool(each.text) != bool(each.problem) for each in found.submissions)


MOODLE = "Ada_1_assignsubmission_file_"
FOLDERS = ["", "ada", "bob/", "l01", "work", "submitted", ".git", "l01.py", "x.zip", "ä\n", MOODLE]
FILES = ["l01.py", "l01-1.py", "l01_ada.ipynb", "ada_1_2_l01.py", "ada_LATE_3_4_l02-1.py", "x.py"]
FILES += ["ada.zip", "l01.zip", "README.md", ".l01.py", "L02B (2).PY", "l01", f"{MOODLE}l01.py"]
CONTENTS = [b"", b"\xff\xfe", ANSWER.encode(), cells(ANSWER).encode(), b"{}", b"PK", ONE]
CONTENTS.append(packed({"l01.py": ANSWER, "../l02.py": "", "bob/x.py": ANSWER, "a.zip": ONE}))
DRAWN = st.dictionaries(
    st.tuples(*map(st.sampled_from, (FOLDERS, FOLDERS, FILES))),
    st.sampled_from(CONTENTS),
    max_size=9,
)


@given(
    tree=DRAWN,
    lessons=st.sampled_from([[L01], [L02B, L01], STEMS]),
    layout=st.sampled_from([*LAYOUTS]),
)
def test_each_file_is_submitted_once_or_skipped_with_a_reason(
    tree: dict[tuple[str, str, str], bytes],
    lessons: list[str],
    layout: str,
    tmp_path_factory: pytest.TempPathFactory,
):
    place = tmp_path_factory.mktemp("tree") / "class"
    place.mkdir()
    for parts, content in tree.items():
        try:
            put(place, {str(Path(*parts)): content})
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue  # a file stands where another's folder should
    found = find_submissions(place, lessons, layout)
    if found.misfit:
        assert found.submissions == ()
        return
    assert len(students(found)) == len(found.submissions)
    assert all(student and lesson in lessons for student, lesson in students(found))
    assert all(bool(each.text) != bool(each.problem) for each in found.submissions)
    assert all(each.why for each in found.skipped)
    sources = [each.source for each in (*found.submissions, *found.skipped)]
    assert len(sources) == len(set(sources))
    for path in filter(Path.is_file, place.rglob("*")):
        shown = str(path.relative_to(place)).replace("\n", r"\n")
        told = any(each == shown or each.startswith(f"{shown}/") for each in sources)
        is_below = any(shown.startswith(f"{each}/") for each in sources)
        assert told != is_below, shown
