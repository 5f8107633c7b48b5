"""docs/instructors.md, held to the program: its commands, its output, its tables, its files."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
import yaml
from moodle_class import LESSON, file_of
from support import ROOT, need_layers

from course import harness
from course.__main__ import main
from course.grading import grade
from course.grading.handed_in import pieces, zips
from course.grading.handed_in.submissions import find_submissions
from course.grading.isolation import channel, jail, remote
from course.grading.record import LAYERS, Status
from course.grading.results import scheme
from course.grading.results.scheme import Scheme, SchemeError, read_scheme
from course.grading.results.words import STATUSES
from course.lesson_map import LESSONS, find_lesson
from course.observed_call import _MAX_STDOUT
from course.registry import lesson_exercises

PAGE = (ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
SESSIONS = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
(POINTS,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PYTHON = f"{shlex.quote(sys.executable)} -P -m course"


def rows(head: str) -> list[list[str]]:
    """The cells of the table whose first line begins so."""
    table = PAGE.split(f"\n| {head}", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def commands() -> list[tuple[str, str]]:
    """Each command of the page, with the output that stands below it."""
    found: list[tuple[str, str]] = []
    for session in SESSIONS:
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def as_run_here(command: str) -> str:
    """The command for a folder that is not the course's; nothing is installed."""
    program, _, rest = command.partition(" ")
    if program == ".venv/bin/python":
        command = f"{shlex.quote(sys.executable)} {rest}"
    command = re.sub(r"^python3 learn\.py\b", lambda _: PYTHON, command)
    return command.replace(" tests/", f" {shlex.quote(str(ROOT))}/tests/")


def said(output: str) -> list[str]:
    """The lines that do not depend on time."""
    kept: list[str] = []
    for line in output.lstrip("\ufeff").replace("\r\n", "\n").splitlines():
        done = re.match(r"(\d+) of (\d+) graded: ", line)
        if (done and done[1] != done[2]) or re.fullmatch(r"l\w+: \d+ s", line):
            continue
        kept.append(re.sub(r"^( (?:l\d\d\w*\.|all).*) \d+ *$", r"\1", line).rstrip())
    return kept


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return kept | {"SERVING_NANOGPT_WORK": str(folder / "work")}


def shell(command: Sequence[str] | str, folder: Path, **more: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=folder,
        env=environment(folder) | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A folder in which every command of the page was given, and what each said."""
    need_layers(*LAYERS)
    folder = tmp_path_factory.mktemp("class")
    (folder / "points.toml").write_text(POINTS, encoding="utf-8")
    heard: dict[str, list[str]] = {}
    for command, _ in commands():
        if not command.startswith("git "):
            heard[command] = said(shell(as_run_here(command), folder).stdout)
    return folder, heard


def test_the_page_shows_commands_of_every_kind() -> None:
    shown = [command for command, _ in commands()]
    assert len(set(shown)) == len(shown) >= 9
    for verb in ("grade", "audit"):
        assert any(command.startswith(f"python3 learn.py {verb} ") for command in shown)


@pytest.mark.process
@pytest.mark.parametrize(("command", "output"), commands(), ids=[each for each, _ in commands()])
def test_a_command_says_what_the_page_shows(
    command: str, output: str, followed: tuple[Path, dict[str, list[str]]], tmp_path: Path
) -> None:
    if not command.startswith("git "):
        assert followed[1][command] == said(output)
        return
    if not (ROOT / ".git").exists():
        pytest.skip("the course is no git repository here")
    made = tmp_path / "autograder.zip"
    done = shell(command.replace("-o autograder.zip", f"-o {shlex.quote(str(made))}"), ROOT)
    assert (done.returncode, done.stdout) == (0, output)
    with zipfile.ZipFile(made) as archive:
        assert {"setup.sh", "run_autograder", "learn.py"} <= set(archive.namelist())


@pytest.mark.process
def test_every_file_of_the_results_is_on_the_page(followed: tuple[Path, object]) -> None:
    there = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in (followed[0] / "marks").iterdir()
    }
    assert {row[0].strip("`") for row in rows("in `RESULTS`")} == there


@pytest.mark.process
def test_what_the_page_says_of_the_class_is_so(followed: tuple[Path, object]) -> None:
    found = (followed[0] / "marks" / "records").glob("*.json")
    records = [json.loads(path.read_text(encoding="utf-8")) for path in found]
    marks = {
        (record["student"].split()[0], mark["exercise"]): mark
        for record in records
        for mark in record["marks"]
    }
    assert marks["Ben", "l01.chunk_size"]["misconception"] == "ignores_decodes"
    assert marks["Chen", "l01.chunk_mask"]["status"] == "timeout"
    assert {mark["status"] for (name, _), mark in marks.items() if name == "Ada"} == {"passed"}
    assert {tuple(record["layers"]) for record in records} == {LAYERS}


def test_every_status_is_on_the_page_as_it_is_shown() -> None:
    told = {row[0].strip("`"): row[1] for row in rows("status |")}
    assert told == {
        status: f"{STATUSES[status].letter} {STATUSES[status].word}" for status in get_args(Status)
    }


def test_every_layer_is_on_the_page() -> None:
    assert [row[0].strip("`") for row in rows("layer |")] == list(LAYERS)


def keys_in_the_code() -> set[str]:
    """What the points file may have, by the calls that refuse everything else."""
    tables: dict[str, tuple[str, ...]] = {}
    for node in ast.walk(ast.parse(Path(scheme.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_only":
            _, keys, where = node.args
            tables[ast.unparse(where)] = ast.literal_eval(keys)
    named = {where: keys for where, keys in tables.items() if "file" not in where}
    assert len(tables) == len(named) + 1 == 4
    (outer,) = (keys for where, keys in tables.items() if "file" in where)
    found = {f"{where}.{key}" for where, keys in named.items() for key in keys}
    assert set(outer) == {"lessons", "points", "late", "partial"}
    return found | {"'[points]'.EXERCISE"}


def test_every_key_of_the_points_file_is_on_the_page() -> None:
    written = {
        "[lessons.LESSON]": "where",  # the code's own word for it
        "[points]": "'[points]'",
        "[late]": "'[late]'",
        "[partial]": "'[partial]'",
    }
    told = [re.fullmatch(r"`(\[.+?\])` `\"?(\w+)\"?`", row[0]) for row in rows("key |")]
    assert {f"{written[key[1]]}.{key[2]}" for key in told if key} == keys_in_the_code()
    assert all(told)


def test_every_option_of_the_command_is_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["grade", "--help"])
    options = set(re.findall(r"--[a-z]+", capsys.readouterr().out)) - {"--help"}
    assert len(options) >= 7
    assert {option for option in options if option not in PAGE} == set()


def test_the_points_files_defaults_are_those_of_the_page() -> None:
    default = {row[0].split("` `")[-1].strip('`"'): row[1].strip("`") for row in rows("key |")}
    assert default == {
        "due": "none",
        "EXERCISE": "the exercise's own",
        "per_day": f"{Scheme().per_day:g}",
        "days_free": f"{Scheme().days_free}",
        "most_days": "none" if Scheme().most_days is None else "",
        "credit": '"none"' if Scheme().partial == 0 else "",
        "share": "1",
    }


DUE = f"[lessons.{LESSON}]\ndue = 2026-12-01T23:59:00+01:00\n"


@pytest.mark.parametrize("row", rows("key |"), ids=lambda row: row[0])
def test_a_keys_limits_are_those_of_the_page(row: list[str], tmp_path: Path) -> None:
    key, limits = row[0].split("` `")[-1].strip('`"'), row[2]
    table = row[0].split("` `")[0].strip("`").replace("LESSON", LESSON)
    head = "" if key == "due" else DUE
    head += f"{table}\n" + ('credit = "checks"\n' if key == "share" else "")
    head += "days_free = 2\n" if key == "most_days" else ""
    key = '"l01.plan_step"' if key == "EXERCISE" else key
    good, bad = {
        "a date and time with its time zone": (["2026-12-01T00:00:00Z"], ["2026-12-01T00:00:00"]),
        "0 or more": (["0", "0.5", "1e9"], ["-1"]),
        "0 to 1": (["0", "1"], ["-0.01", "1.01"]),
        "a whole number, 0 or more": (["0", "900"], ["-1", "0.5"]),
        "a whole number, `days_free` or more": (["2"], ["1", "2.5"]),
        '`"none"` or `"checks"`': (['"none"', '"checks"'], ['"half"']),
    }[limits]
    path = tmp_path / "points.toml"
    for value in good:
        path.write_text(f"{head}{key} = {value}\n", encoding="utf-8")
        read_scheme(path)
    for value in bad:
        path.write_text(f"{head}{key} = {value}\n", encoding="utf-8")
        with pytest.raises(SchemeError):
            read_scheme(path)


def test_the_limits_are_those_of_the_code() -> None:
    files = ", ".join(f"`{s}` {_size(n)}" for s, n in pieces.LARGEST.items() if s != ".zip")
    assert jail._MOST_FILES == jail._MOST_THREADS
    assert rows("limit |") == [
        ["one call of a function", f"{harness._CALL_LIMIT_S:g} s of computing"],
        [
            "all calls of one exercise",
            f"{harness._ALL_CALLS_LIMIT_S:g} s of computing, "
            f"{harness._ALL_CALLS_WALL_S:g} s by the clock",
        ],
        ["reading the file", f"{remote._LOAD_S:g} s of computing"],
        [
            "all exercises of one file",
            f"{grade.BUDGET_S:g} s of computing; what is left then is not judged",
        ],
        ["memory", f"{jail.MEMORY >> 30} GB"],
        ["one result", _size(channel.MOST_REPLY_BYTES)],
        ["printed text that is kept", f"{_MAX_STDOUT:,} characters for each call"],
        ["files that are open, and threads", f"{jail._MOST_FILES}"],
        [
            "a file",
            f"{files}, a zip file {_size(pieces.LARGEST['.zip'])}, "
            f"one inside it {_size(zips._LARGEST_ZIP_INSIDE)}",
        ],
    ]
    assert f"Linux {'5.13'}" in Path(jail.__file__).read_text(encoding="utf-8")
    four = {1: "once", 2: "twice", 4: "four times"}[int(harness.BACKSTOP)]
    assert f"by the clock it may take {four} as long" in PAGE


def _size(many: int) -> str:
    return f"{many >> 20} MB" if many >= 1 << 20 else f"{many >> 10} KB"


@pytest.mark.parametrize("row", rows("layout |"), ids=lambda row: row[0])
def test_a_layout_is_read_as_the_page_says(row: list[str], tmp_path: Path) -> None:
    """Each as it stands there: one file of one student."""
    for number, name in enumerate(re.findall(r"`(.+?)`", row[1])):
        path = tmp_path / str(number) / "class" / name
        path.parent.mkdir(parents=True)
        text = file_of({}, exercises=1)
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}}
        notebook |= {"cells": [cell | {"source": text}]}
        path.write_text(json.dumps(notebook) if path.suffix == ".ipynb" else text)
        (found,) = find_submissions(
            tmp_path / str(number) / "class", [LESSON, "l02b_waiting"]
        ).submissions
        whose = {"Moodle": "Ada Lovelace", "Canvas": "lovelaceada"}.get(row[0], "ada")
        if row[0].startswith("Gradescope"):
            whose = "submission_1234"
        assert (found.student, found.problem) == (whose, "")
        assert found.lesson == ("l02b_waiting" if "L02B" in name else LESSON)


# --- on other people's machines ----------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder whose `python3 learn.py` is the course's, which installs nothing."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "python3"
    program.write_text(f'#!/bin/sh\nshift\nexec {PYTHON} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return tmp_path


def path_with(folder: Path) -> str:
    return f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


def on_gradescope(folder: Path, files: dict[str, str]) -> tuple[int, dict[str, object]]:
    """The exit status and results.json of Gradescope's script; {} where it left none."""
    place = folder / "autograder"
    shutil.rmtree(place, ignore_errors=True)
    for name in ("source", "submission", "results"):
        (place / name).mkdir(parents=True)
    for name, text in files.items():
        path = place / "submission" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "docs" / "gradescope" / "run_autograder", place)
    done = shell(["./run_autograder"], place, PATH=path_with(folder))
    results = place / "results" / "results.json"
    return done.returncode, json.loads(results.read_text()) if results.exists() else {}


@pytest.mark.process
def test_gradescopes_script_leaves_the_results_of_its_one_submission(elsewhere: Path) -> None:
    status, results = on_gradescope(elsewhere, {"l01.py": f"import nanogpt\n{file_of({})}"})
    assert (status, results["score"], results["max_score"]) == (0, 11, 11)
    status, results = on_gradescope(elsewhere, {"essay.txt": "Why chunks?"})
    assert (status, results["score"]) == (0, 0)
    both = dict.fromkeys(("ada/l01.py", "ben/l01.py"), file_of({}))
    assert on_gradescope(elsewhere, both)[1]["score"] == 0


@pytest.mark.process
def test_gradescopes_script_gives_no_score_where_the_grader_fails(elsewhere: Path) -> None:
    (elsewhere / "bin" / "python3").write_text("#!/bin/sh\nexit 2\n", encoding="utf-8")
    assert on_gradescope(elsewhere, {"l01_chunked_prefill.py": file_of({})})[1] == {}


def test_gradescopes_scripts_can_be_run() -> None:
    for name in ("setup.sh", "run_autograder"):
        path = ROOT / "docs" / "gradescope" / name
        assert os.access(path, os.X_OK)
        assert shell(["bash", "-n", str(path)], ROOT).returncode == 0


@pytest.mark.process
def test_github_classrooms_workflow_grades_a_push(elsewhere: Path) -> None:
    need_layers(*LAYERS)
    text = (ROOT / "docs" / "github-classroom.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    steps = workflow["jobs"]["grade"]["steps"]
    handed_in, course = (
        each["with"]["path"] for each in steps if "checkout@" in each.get("uses", "")
    )
    (step,) = (each for each in steps if each.get("name") == "Grade")
    assert step["working-directory"] == course
    (elsewhere / course).mkdir()
    shutil.copytree(ROOT / "lessons", elsewhere / handed_in / "lessons")  # a copy of the course
    (elsewhere / handed_in / "work").mkdir()
    answers = elsewhere / handed_in / "work" / f"{LESSON}.py"
    answers.write_text(file_of({}), encoding="utf-8")
    summary = elsewhere / "summary"
    done = shell(
        ["bash", "-e", "-c", step["run"]],
        elsewhere / course,
        PATH=path_with(elsewhere),
        GITHUB_STEP_SUMMARY=str(summary),
    )
    assert done.returncode == 0, done.stdout
    assert f"{handed_in},11,11,11" in summary.read_text(encoding="utf-8")
    uploaded = next(each["with"]["path"] for each in steps if "upload" in each.get("uses", ""))
    assert list((elsewhere / uploaded).glob("*.html"))


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_where_there_is_no_linux_a_sentence_says_so(
    platform: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert main(["grade", "class", "--out", "marks"]) == 2
    assert capsys.readouterr().err.startswith("course: grading needs Linux")


def test_the_plan_of_ten_weeks_takes_all_lessons_and_their_minutes() -> None:
    weeks = rows("week |")
    assert [row[0] for row in weeks] == [str(number) for number in range(1, 11)]
    assert [name for row in weeks for name in row[1].split(", ")] == [
        each.number for each in LESSONS
    ]
    for _, lessons, minutes, _ in weeks:
        taken = [find_lesson(name).minutes for name in lessons.split(", ")]
        assert int(minutes) == sum(taken), lessons


def test_the_page_says_what_each_lesson_needs() -> None:
    assert rows("lesson |") == [
        [
            f"{each.number} {each.title}",
            str(each.minutes),
            str(len(lesson_exercises(each.stem))),
            ", ".join(each.builds_on),
        ]
        for each in LESSONS
    ]


def test_a_class_of_90_minutes_is_planned_without_a_gap() -> None:
    parts = [(int(row[0]), int(row[1])) for row in rows("from |")]
    assert parts[0][0] == 0 and parts[-1][1] == 90
    assert all(end == begin for (_, end), (begin, _) in pairwise(parts))


def test_every_link_of_the_page_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", PAGE) if "://" not in link]
    assert {link for link in links if not (ROOT / "docs" / link).exists()} == set()
    assert len(links) == 7
