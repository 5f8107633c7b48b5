"""What students handed in is found in every layout, read, and never followed, run or trusted."""

import ast
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
from support import ROOT
from tiers import examples

from course.grading.handed_in import zips
from course.grading.handed_in.naming import COURSE
from course.grading.handed_in.submissions import Found, find_submissions
from course.lesson_map import LESSONS, entries
from course.source.answer import missing, needed
from course.source.cutting import read_notebook

L01, L02, L02B = "l01_chunked_prefill", "l02_scheduling", "l02b_waiting"
STEMS = [lesson.stem for lesson in LESSONS]
ANSWER = "def chunk_size(budget, num_decodes, remaining):\n    return 1\n"


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

OWNERS = {  # whose a file is
    "folders": {"ada/l01_chunked_prefill.py": "ada", "bob/deep/er/still/l01.py": "bob"},
    "moodle": {
        "Ada Lovelace_1_assignsubmission_file_/l01_chunked_prefill.py": "Ada Lovelace_1",
        "Ada Lovelace_2_assignsubmission_file_/l01_chunked_prefill.py": "Ada Lovelace_2",
        "Bob O'Neil_7_assignsubmission_file_l01.ipynb": "Bob O'Neil",
    },
    "canvas": {
        "lovelaceada_12345_67890_l01_chunked_prefill.py": "lovelaceada",
        "oneilbob_LATE_77_99_l01_chunked_prefill-2.py": "oneilbob",
    },
    "gradescope": {
        "assignment_77_export/submission_1234/l01_chunked_prefill.py": "submission_1234",
        "assignment_77_export/submission_99/l01.py": "submission_99",
    },
    "nbgrader": {"submitted/ada/l01/l01.ipynb": "ada", "submitted/bob/l01/x.ipynb": "bob"},
    "classroom": {
        "l01-submissions/l01-ada/work/l01_chunked_prefill.py": "ada",
        "l01-submissions/l01-bob/lessons/l01_chunked_prefill.py": "bob",
    },
    "names in files": {"ada-L01-chunked-prefill.py": "ada", "l01-Bob (1).ipynb": "Bob"},
    "names and no lesson": {"ada.py": "ada", "bob.ipynb": "bob"},
    "the lesson's folder": {"l01/ada.py": "ada", "l01/bob/x.py": "bob"},
    "a folder around": {"25/Cl/l01.py": "Cl", "25/Cl/ada/l01.py": "ada", "25/Cl/bob/l01.py": "bob"},
    "sections": {
        "Section 1/Ada/l01.py": "Ada_Section 1",
        "Section 3/Ada/l01.py": "Ada_Section 3",
        "Section 1/Ben/work/l01.py": "Ben",
        "CS101 Section 2 - Tuesday/chen.py": "chen",
        "Lab B (Smith)/Dee_2_assignsubmission_file_/l01.py": "Dee",
        "Tuesday/l01_eve.py": "eve",
    },
    "sections alone": {"Section 1/l01.py": "Section 1", "Section 2/x/l01.py": "x"},
    "accounts like sections": {"lab3/mine.py": "mine_lab3", "lab4/mine.py": "mine_lab4"},
    "weeks and dates": {
        "2026_12_01_ada_l01.py": "ada",
        "ben_01-12-2026_l01.py": "ben",
        "Week 3/chen.py": "chen",
        "2026-12-01 18.30/dee/x.py": "dee",
        "wk_2/2026.12.1/eve/l01.py": "eve",
        "20231105_l01.py": "20231105",
        "kw12/l01.py": "kw12",
        "fay_week3_l01-2.py": "fay",
        "April 3/l01.py": "April 3",
    },
    "saved answers": {"ada_l01.chunk_size.py": "ada", "ben_1_2_l01.chunk_size.try-1.py": "ben"},
    "zips": {
        "bob_l01.zip/deep/down/answers.py": "bob",
        "Cyd Doe_5_assignsubmission_file_/all.zip/l01.py": "Cyd Doe",
        "eve_LATE_1_2_all-1.ZIP/l01.py": "eve",
    },
}


@pytest.mark.parametrize("layout", OWNERS)
def test_a_layout_tells_the_students_and_their_files(layout: str, tmp_path: Path):
    files: dict[str, str | bytes] = {"README.md": "What this is."}
    for path in OWNERS[layout]:
        content = cells(ANSWER) if path.endswith(".ipynb") else ANSWER
        name, suffix, member = path.partition(".zip/" if ".zip" in path else ".ZIP/")
        files[name + suffix.rstrip("/")] = packed({member: content}) if member else content
    folder = put(tmp_path / "folder", files)
    zipped = put(tmp_path / "zipped", {"class.zip": packed(files)})
    places = {folder: "", zipped / "class.zip": "class.zip/"}
    for place, before in (places if layout == "zips" else {**places, zipped: "class.zip/"}).items():
        found = find_submissions(place, STEMS)
        expected = {(name, L01): before + path for path, name in OWNERS[layout].items()}
        assert students(found) == expected
        assert {each.text.strip() for each in found.submissions} == {ANSWER.strip()}
        if layout != "zips":
            day = "2025-03-04T05:06:08" if before else "2001-09-09T01:46:40+00:00"
            assert {each.submitted_at for each in found.submissions} == {day}
        assert [*skipped(found)] == [f"{before}README.md"]


def test_a_folder_with_one_students_files_is_theirs(tmp_path: Path):
    put(tmp_path, {"ada/l01.py": ANSWER, "ada/l02_scheduling.py": ANSWER, "ada/l02b (1).py": "x"})
    files = {L01: "l01.py", L02: "l02_scheduling.py", L02B: "l02b (1).py"}
    assert found_in(tmp_path) == {("ada", stem): f"ada/{file}" for stem, file in files.items()}
    assert found_in(tmp_path / "ada") == {("ada", stem): file for stem, file in files.items()}


def the_course() -> dict[str, str | bytes]:
    """Its own Python files, as a clone or a download of it has them, and an answer in work/."""
    paths = [path for name in COURSE for path in (ROOT / name).rglob("*.py")]
    files = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths}
    work = {f"{L01}.py": ANSWER, "mine.py": ANSWER, "contest.py": ANSWER}
    return {**files, "learn.py": "", **{f"work/{name}": text for name, text in work.items()}}


@pytest.mark.parametrize("above", ["", "ada/", "course-ada/deep/"])
def test_a_copy_of_the_whole_course_gives_the_work_in_it(above: str, tmp_path: Path):
    handed_in = put(
        tmp_path / "ada", {f"{above}{name}": text for name, text in the_course().items()}
    )
    student, _, _ = above.partition("/")
    found = find_submissions(handed_in, STEMS)
    lessons = {stem: f"{above}lessons/{stem}.py" for stem in STEMS}
    expected = lessons | {L01: f"{above}work/{L01}.py"}
    assert students(found) == {(student or "ada", stem): path for stem, path in expected.items()}
    why = skipped(found)
    assert why[f"{above}solutions"] == "it is a folder of the course itself"
    assert len(why) < 30
    assert why[lessons[L01]] == f"{expected[L01]} is taken, which lies in work/"
    assert found.doubts == ()


def test_copies_of_the_whole_course_are_a_student_each(tmp_path: Path):
    put(tmp_path, {f"course-{name}/{path}": text for path, text in the_course().items()
                   for name in ("ada", "bob")})  # fmt: skip
    assert {name for name, _ in found_in(tmp_path, L01)} == {"course-ada", "course-bob"}


@pytest.mark.parametrize(
    ("above", "student"),
    [
        ("ada/work/", "ada"),
        ("", "class"),
        ("Ada_1_assignsubmission_file_", "Ada"),
    ],
)
def test_what_the_course_keeps_beside_a_lesson_is_not_taken_for_it(
    above: str, student: str, tmp_path: Path
):
    kept = [f"answers/l01.chunk_size{end}.py" for end in ("", ".try", ".try-1", " (2)")]
    kept += [f"kept/{L01}.2026-11-27-180002{end}.py" for end in ("", "-2")]
    for flat in (True, False) if above in ("", "ada/work/") else (True,):
        names = [each.rpartition("/")[2] if flat else each for each in kept]
        place = tmp_path / str(flat) / "class"
        for text in (ANSWER, b"\xff"):
            put(place, {f"{above}{L01}.py": text})
            put(place, {f"{above}{name}": ANSWER for name in names}, at=2_000_000_000)
            found = find_submissions(place, [L01])
            assert students(found) == {(student, L01): f"{above}{L01}.py"}
            assert len(found.skipped) == len(kept)


def test_several_names_within_what_counts_as_one_students_are_told(tmp_path: Path):
    files = ["North/Ada/l01.py", "North/ben.py", "South/work/l01.py", "South/lessons/l01.py"]
    found = find_submissions(put(tmp_path, dict.fromkeys(files, ANSWER)), STEMS)
    assert {name for name, _ in students(found)} == {"North", "South"}
    (doubt,) = found.doubts
    assert doubt.startswith(
        "North counts as one student, of whose files for a lesson one is graded"
    )
    assert "graded: Ada, ben. If these are students, grade that folder by itself." in doubt


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
    ("files", "why"),
    [
        (["ada/l01.py", "ada/l01-2.py", "ada/l01-10.py"], "has the higher number"),
        (["ada/l01.py", "ada/l01 (1).py"], "has the higher number"),
        (["ada_1_2_x.py", "ada_LATE_1_3_x-1.py"], "has the higher number"),
        (["ada/x/l01.py", "ada/y/l01.py"], "comes later"),
        (["ada/answers.py", "ada/L01.py"], "says in its name which lesson it is"),
    ],
)
def test_of_several_files_the_last_of_these_is_taken_and_the_others_are_told(
    files: list[str], why: str, tmp_path: Path
):
    put(tmp_path, dict.fromkeys([*files, "bob/l01.py"], ANSWER))
    found, taken = find_submissions(tmp_path, [L01]), files[-1]
    assert students(found)["ada", L01] == taken
    assert skipped(found) == dict.fromkeys(files[:-1], f"{taken} is taken, which {why}")
    put(tmp_path, {files[0]: ANSWER}, at=1_500_000_000)
    if why == "comes later":
        why = skipped(find_submissions(tmp_path, [L01]))[taken]
        assert why == f"{files[0]} is taken, which is newer"
    put(tmp_path, {taken: b"\xff"})
    assert found_in(tmp_path, L01)["ada", L01] != taken  # one that can be read


def test_a_lesson_is_known_by_the_most_of_its_functions(tmp_path: Path):
    for lesson in LESSONS:
        for entry in entries(lesson):
            function = entry.id.partition(".")[2]
            put(tmp_path, {f"{function}.py": f"@app.function\ndef {function}(:\n    pass\n"})
            assert [stem for _, stem in found_in(tmp_path)] == [lesson.stem]
            (tmp_path / f"{function}.py").unlink()
    both = "def sort_key(): 0\ndef admit(): 0\n" + ANSWER
    put(tmp_path, {"ada.py": both, "bob.py": "def aged_key(): 0\ndef sort_key(): 0\n"})
    assert set(found_in(tmp_path)) == {("ada", L02), ("bob", L02B)}


def test_what_is_for_another_lesson_or_for_none_is_told(tmp_path: Path):
    put(tmp_path, {"l02.py": ANSWER, "l99.py": "x = 1", "x.py": b"\xff", "l01_notes.txt": ANSWER})
    found = find_submissions(tmp_path, [L01, L02B])
    assert found.submissions == ()
    why = skipped(found)
    assert why["l01_notes.txt"] == "it is neither a .py, an .ipynb nor a .zip file"
    assert why["l02.py"] == "it is for l02_scheduling, which is not graded now"
    assert why["l99.py"] == "it names no lesson and defines no exercise's function"
    assert why["x.py"].startswith("it names no lesson, and is not UTF-8 text (a byte 0xff at")


def test_results_within_the_class_are_no_submissions(tmp_path: Path):
    put(tmp_path, {"ada/l01.py": ANSWER, "marks/report.html": "", "marks/bob/l01.py": ANSWER})
    put(tmp_path, {"ada/marks/l01.py": ANSWER})
    found = find_submissions(tmp_path, STEMS, apart=tmp_path / "ada" / ".." / "marks")
    assert [each.student for each in found.submissions] == ["ada"]
    assert [*skipped(found)] == ["ada/l01.py"]


def test_what_tools_write_is_passed_over(tmp_path: Path):
    files = [".venv/l01.py", "__pycache__/l01.py", "__MACOSX/ada/._l01.py", "ada/.hidden/l01.py"]
    files += ["ada/__marimo__/l01.py", "ada/._l01.py", "ada/l01.py"]
    put(tmp_path / "folder", dict.fromkeys(files, ANSWER))
    put(tmp_path / "zip", {"class.zip": packed(dict.fromkeys(files, ANSWER))})
    for place in ("folder", "zip"):
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
    names = ["Zoë", r"caf\udce9", r"line\nend", r"red\x1b[31m"]
    assert students(found) == {(name, L01): f"{name}/l01.py" for name in names}
    assert [*skipped(found)] == ["Zoë/l01.py"]


@pytest.mark.parametrize("name", ["José/l01.py", r"José\l01.py", "./José//l01.py"])
def test_names_as_macos_and_windows_write_them_are_read(name: str, tmp_path: Path):
    said = bytearray(packed({name: ANSWER, "x/l01.py": ANSWER}))
    assert set(found_in(put(tmp_path, {"class.zip": bytes(said)}))) == {("José", L01), ("x", L01)}
    for find, before in ((said.rindex, 38), (said.index, 24)):  # macOS does not say it is UTF-8
        at = find("José".encode()) - name.index("J") - before
        said[at : at + 2] = b"\0\0"
    assert set(found_in(put(tmp_path, {"class.zip": bytes(said)}))) == {("José", L01), ("x", L01)}


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
    names = [f"s{n}/{m}/l01.ipynb" for n in range(20) for m in range(2)]
    whole = {**dict.fromkeys(names, content), "s7/3.ipynb": content}
    folder, marks = tmp_path / "folder", tmp_path / "folder" / "marks"
    put(folder, {"class.zip": packed(whole), "README.md": "", "marks/report.html": ""})
    for place in (folder, folder / "class.zip"):
        found = find_submissions(place, [L01], apart=marks)
        assert len(found.submissions) == 20
        too_much = [each.source for each in found.skipped if "is over 2 MB" in each.why]
        assert too_much == ["class.zip/s7/3.ipynb"]
    put(folder, {"ada.zip": packed({f"{n}/l01.ipynb": content for n in range(4)})})
    put(folder, {"bob.zip": packed({f"{n}.txt": "" for n in range(61)})})
    found = find_submissions(folder, [L01])
    said = [each.why for each in found.skipped] + [each.problem for each in found.submissions]
    assert sum("is over 2 MB" in each for each in said) == 2 + 39
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
    put(tmp_path, {"class.zip": buffer.getvalue()})
    (ada,) = find_submissions(tmp_path, STEMS).submissions
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
    assert first_lines == ["_TABLE = {}", "# a comment", "def chunk_mask(past, new):"]
    assert missing(read, needs) == {}
    assert text.count("%kept") == 1 and "%time" not in text and "!ls" not in text


WHOLE = {
    "l01.zip": packed({"ada/l01.py": ANSWER, "bob.zip": ONE, "cyd/l01.ipynb": cells(ANSWER)}),
    "l01.ipynb": cells(ANSWER, "%ls").encode(),
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
    for found in find_submissions(place, [L01]).submissions:
        assert bool(found.text) != bool(found.problem)


MOODLE = "Ada_1_assignsubmission_file_"
FOLDERS = ["", "ada", "bob/", "l01", "work", "submitted", ".git", "l01.py", "x.zip", "ä\n", MOODLE]
FILES = ["l01.py", "l01-1.py", "l01_ada.ipynb", "ada_1_2_l01.py", "ada_LATE_3_4_l02-1.py", "x.py"]
FILES += ["ada.zip", "l01.zip", "README.md", ".l01.py", "L02B (2).PY", "l01", f"{MOODLE}l01.py"]
CONTENTS = [b"", b"\xff\xfe", ANSWER.encode(), cells(ANSWER).encode(), b"{}", b"PK", ONE]
CONTENTS.append(packed({"l01.py": ANSWER, "../l02.py": "", "bob/x.py": ANSWER, "a.zip": ONE}))
TREES = st.dictionaries(
    st.tuples(*map(st.sampled_from, (FOLDERS, FOLDERS, FILES))),
    st.sampled_from(CONTENTS),
    max_size=9,
)


@given(tree=TREES, lessons=st.sampled_from([[L01], [L02B, L01], STEMS]))
def test_each_file_is_submitted_once_or_skipped_with_a_reason(
    tree: dict[tuple[str, str, str], bytes],
    lessons: list[str],
    tmp_path_factory: pytest.TempPathFactory,
):
    place = tmp_path_factory.mktemp("tree") / "class"
    place.mkdir()
    for parts, content in tree.items():
        try:
            put(place, {str(Path(*parts)): content})
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue  # a file stands where another's folder should
    found = find_submissions(place, lessons)
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
