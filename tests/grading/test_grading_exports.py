"""Scores leave for spreadsheets, nbgrader and Gradescope: exact, harmless, the same each time."""

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from classes import LESSON, STRANGE, a_class, a_mark, a_record
from hypothesis import given
from hypothesis import strategies as st

from course.grading.record import Record
from course.grading.results.exports import gradebook_csv, gradescope_json, nbgrader_csv
from course.grading.results.output import write_text
from course.grading.results.scheme import Scheme

SCHEDULER = "l02_scheduling"
LATE = Scheme(due={LESSON: datetime(2026, 12, 1, 12, tzinfo=UTC)}, per_day=0.1)
TWO_DAYS_LATE = "2026-12-03T11:00:00+00:00"
ADA = a_record("Ada", a_mark("passed", "l01.plan_step"), submitted_at=TWO_DAYS_LATE)
BEN = a_record("Ben", a_mark("passed", "l02.admit"), lesson=SCHEDULER)
FAILED = a_mark(
    "failed",
    misconception="starves",
    idea="Decodes come first.",
    example=(("input", "plan_step([1], [],\n  [], 1)"), ("expected", "[(1, 1)]")),
    stdout="hidden case 17\n",
)


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


# ---- the gradebook -------------------------------------------------------------------------------


def test_the_gradebook_has_a_row_for_each_student_and_a_column_for_each_lesson():
    assert gradebook_csv([BEN, ADA], LATE).replace("\r\n", "\n") == (
        "\ufeffstudent,l01_chunked_prefill,l02_scheduling,total,out_of\n"
        "Ada,3.2,0,3.2,21\n"
        "Ben,0,3,3,21\n"
    )


def test_where_the_grader_failed_the_gradebook_has_no_number():
    rows = table(gradebook_csv([ADA, a_record("Ben", a_mark("internal")), BEN], LATE))
    assert rows[1] == {
        "student": "Ben",
        LESSON: "",
        SCHEDULER: "3",
        "total": "",
        "out_of": "21",
    }


def test_without_records_the_gradebook_is_its_head():
    assert gradebook_csv([], Scheme()) == "\ufeffstudent,total,out_of\r\n"


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "\u00a0@", "＝"])
def test_no_cell_is_a_formula(first: str):
    name = first + 'cmd|"/c calc"!A1'
    for text in (gradebook_csv([a_record(name)], Scheme()), nbgrader_csv([a_record(name)], LATE)):
        (row,) = table(text)
        assert "'" + name in row.values()
    (column,) = [
        each for each in table(gradebook_csv([a_record(lesson=name)], Scheme()))[0] if "cmd" in each
    ]
    assert column == "'" + name


def test_a_name_that_harms_nothing_stays_as_it_is():
    names = ["Ada", "O'Neil", "a=b", "x,y", 'say "hi"', "דוד", "Zoë-Marie"]
    rows = table(gradebook_csv([a_record(name) for name in names], Scheme()))
    assert [row["student"] for row in rows] == sorted(names)


@given(st.lists(st.text(st.characters(codec="utf-8")), unique=True, max_size=6))
def test_every_student_has_one_row_whatever_the_name(names: list[str]):
    text = gradebook_csv([a_record(name) for name in names], Scheme())
    rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))[1:]
    assert len(rows) == len(names)
    assert {row[0].removeprefix("'") for row in rows} == {name.removeprefix("'") for name in names}
    assert not [row[0] for row in rows if row[0].lstrip()[:1] in set("=+-@")]


# ---- nbgrader ------------------------------------------------------------------------------------


def test_nbgraders_table_tells_the_raw_score_and_the_penalty_apart():
    assert nbgrader_csv([BEN, ADA], LATE).replace("\r\n", "\n") == (
        "assignment,student_id,score,max_score,late_submission_penalty,raw_score,timestamp\n"
        "l01_chunked_prefill,Ada,3.2,11,0.8,4,2026-12-03T11:00:00+00:00\n"
        "l01_chunked_prefill,Ben,0,11,0,0,\n"
        "l02_scheduling,Ada,0,10,0,0,\n"
        "l02_scheduling,Ben,3,10,0,3,\n"
    )


def test_where_the_grader_failed_nbgraders_table_has_no_score():
    (row,) = table(nbgrader_csv([a_record("Ada", a_mark("internal"))], Scheme()))
    assert (row["score"], row["raw_score"], row["max_score"]) == ("", "", "11")


# ---- Gradescope ----------------------------------------------------------------------------------


def results(record: Record, scheme: Scheme = LATE) -> dict[str, Any]:
    return json.loads(gradescope_json(record, scheme))


def test_gradescope_gets_a_test_for_each_exercise_and_the_score_after_the_penalty():
    found = results(ADA)
    assert (found["score"], found["max_score"]) == (3.2, 11)
    assert found["output"] == "Submitted 2 days late, which costs 0.8 points."
    assert found["output_format"] == "text"
    assert found["tests"] == [
        {
            "name": "l01.plan_step: Plan a step",
            "score": 4,
            "max_score": 4,
            "status": "passed",
            "output": "Passed. 4 of 4 checks passed.\nThink.",
            "output_format": "text",
            "visibility": "visible",
        }
    ]


def test_a_student_reads_the_sentence_and_the_counterexample():
    assert results(a_record("Ada", FAILED))["tests"][0]["output"] == (
        "Wrong result. 1 of 4 checks passed.\n"
        "Stopped at: two\n"
        "Decodes come first.\n"
        "  input     plan_step([1], [],\n"
        "              [], 1)\n"
        "  expected  [(1, 1)]"
    )


def test_what_a_function_printed_is_hidden_from_students():
    found = results(a_record("Ada", FAILED))
    assert found["stdout_visibility"] == "hidden"
    shown = [each for each in found["tests"] if "hidden case 17" in json.dumps(each)]
    assert [each["visibility"] for each in shown] == ["hidden"]
    assert "score" not in shown[0]
    assert "hidden case 17" not in found["output"]


def test_a_failure_of_the_grader_gives_gradescope_no_score_anywhere():
    mark = a_mark("internal", idea="KeyError in zygote.py")
    text = gradescope_json(a_record("Ada", mark, a_mark("passed", "l01.chunk_size")), LATE)
    assert '"score"' not in text
    assert "KeyError" not in text
    assert "through no fault of yours" in text


def test_a_file_that_could_not_be_graded_says_why_and_scores_nothing():
    found = results(a_record("Ada", problem="Line 3 has an open bracket."))
    assert (found["score"], found["tests"]) == (0, [])
    assert found["output"] == "Line 3 has an open bracket."


# ---- files ---------------------------------------------------------------------------------------


def test_the_same_records_give_the_same_bytes_in_any_order():
    records = a_class(20) + a_class(20, SCHEDULER)
    for make in (gradebook_csv, nbgrader_csv):
        assert make(records, LATE) == make(records[::-1], LATE)
    assert gradescope_json(records[3], LATE) == gradescope_json(records[3], LATE)


def test_every_name_can_be_written_and_half_a_character_stays_legible(tmp_path: Path):
    records = [a_record(name) for name in STRANGE]
    path = write_text(tmp_path / "new" / "gradebook.csv", gradebook_csv(records, Scheme()))
    text = path.read_text(encoding="utf-8-sig")
    assert "half \\udcff,0,0,11" in text
    assert len(table(text)) == len(STRANGE)
    assert [each.name for each in path.parent.iterdir()] == ["gradebook.csv"]
