"""What records come to: points by an instructor's rules, tables for other programs, and pages."""

import csv
import html
import io
import json
import math
import re
import time
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from classes import LESSON, STATUSES, STRANGE, a_class, a_mark, a_record
from hypothesis import given
from hypothesis import strategies as st

from course.grading.record import Mark, Record, Status
from course.grading.results import tallies, words
from course.grading.results.exports import gradebook_csv, gradescope_json, nbgrader_csv
from course.grading.results.pages import class_report, feedback_page, write_feedback, write_text
from course.grading.results.scheme import Scheme, SchemeError, Score, read_scheme
from course.registry import exercise

DUE = datetime(2026, 12, 1, 22, 59, tzinfo=UTC)
LATE = Scheme(due={LESSON: DUE}, per_day=0.1, days_free=2, most_days=7)
STEP, SCHEDULER = "l01.plan_step", "l02_scheduling"
ADA = a_record("Ada", a_mark("passed"), submitted_at="2026-12-05T11:00:00+00:00")
BEN = a_record("Ben", a_mark("passed", "l02.admit"), lesson=SCHEDULER)
POINTS = {
    "l01.chunk_size": 1,
    "l01.chunk_mask": 2,
    "l01.chunk_inputs": 2,
    "l01.plan_step": 4,
    "l01.pick_budget": 2,
}


def read(tmp_path: Path, text: str) -> Scheme:
    file = tmp_path / "scheme.toml"
    file.write_text(text, encoding="utf-8")
    return read_scheme(file)


def passed_everything(days: float = 0.0) -> Record:
    at = (DUE + timedelta(days=days)).isoformat()
    return a_record("Ada", *(a_mark("passed", each) for each in POINTS), submitted_at=at)


def test_without_a_file_an_exercise_is_worth_the_courses_own_points_or_nothing():
    assert read_scheme(None) == Scheme()
    score = Scheme().score(passed_everything(days=100))
    assert score.worth == score.points == POINTS
    assert (score.raw, score.penalty, score.total, score.out_of) == (11, 0, 11, 11)
    assert Scheme().points(a_mark("failed", passed=3)) == 0


def test_a_failure_of_the_grader_is_no_mark_anywhere_and_is_told_as_what_it_is():
    marks = a_mark("passed", "l01.chunk_size"), a_mark("internal", idea="KeyError in grade.py")
    record = a_record("Ben", *marks)
    score = LATE.score(record)
    assert (score.points["l01.chunk_size"], score.points["l01.plan_step"]) == (1, None)
    assert (score.raw, score.total, score.penalty) == (None, None, 0)
    row = table(gradebook_csv([ADA, record, BEN], LATE))[1]
    assert row == {"student": "Ben", LESSON: "", SCHEDULER: "3", "total": "", "out_of": "20"}
    (row,) = table(nbgrader_csv([record], LATE))
    assert (row["score"], row["raw_score"], row["max_score"]) == ("", "", "11")
    text, page = gradescope_json(record, LATE), own_page(record)
    assert '"score"' not in text and "of 11 points" not in page
    for told in (text, page):
        assert "through no fault of yours" in told and "KeyError" not in told


def test_the_files_points_and_partial_credit_stand_in_place_of_the_courses(tmp_path: Path):
    points = '\ufeff[points]\n"l01.plan_step" = 10\n"l01.chunk_size" = 0.5\n'
    assert read(tmp_path, points).score(passed_everything()).total == 16.5
    partial = read(tmp_path, '[partial]\ncredit = "checks"\nshare = 0.5\n')
    marks = {
        a_mark("failed", passed=3): 1.5,  # 4 points, half of them, 3 of 4 checks
        a_mark("timeout", passed=1): 0.5,
        a_mark("passed"): 4,
        a_mark("not_submitted", checks=()): 0,
    }
    assert {mark: partial.points(mark) for mark in marks} == marks
    assert read(tmp_path, '[partial]\ncredit = "checks"\n').points(a_mark("failed", passed=3)) == 3
    assert read(tmp_path, '[partial]\ncredit = "none"\n') == Scheme()


def test_every_day_begun_after_the_free_ones_costs_its_share():
    totals = {0: 11, 0.001: 11, 2: 11, 2.001: 9.9, 7: 5.5, 7.001: 0}
    for days, total in totals.items():
        score = LATE.score(passed_everything(days))
        assert (score.days_late, score.total, score.raw) == (math.ceil(days), total, 11)


def test_times_are_compared_across_time_zones_and_without_one_are_in_the_due_dates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    due = f"[lessons.{LESSON}]\ndue = 2026-12-01T23:59:00+01:00\n[late]\nper_day = 0.5\n"
    scheme = read(tmp_path, due)
    days_late = {
        "2026-12-01T22:59:00+00:00": 0,
        "2026-12-01T22:59:01Z": 1,
        "2026-12-01T23:59:00": 0,
        "2026-12-01T23:59:02": 1,
        "": 0,  # it does not say when
    }
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Pacific/Auckland")
        time.tzset()
        for at, days in days_late.items():
            assert scheme.score(a_record(submitted_at=at)).days_late == days, at
    time.tzset()
    table = nbgrader_csv([a_record(submitted_at="2026-12-01T18:00:00")], scheme)
    assert table.splitlines()[-1].endswith(",2026-12-01T18:00:00+01:00")


schemes = st.builds(
    Scheme,
    due=st.just({LESSON: DUE}),
    own_points=st.dictionaries(st.sampled_from(list(POINTS)), st.floats(0, 100)),
    per_day=st.floats(0, 1),
    days_free=st.integers(0, 5),
    most_days=st.none() | st.integers(5, 20),
    partial=st.floats(0, 1),
)
statuses = st.tuples(*[st.sampled_from(STATUSES)] * len(POINTS))


@given(schemes, statuses, st.floats(-5, 30), st.floats(0, 10))
def test_a_score_lies_between_nothing_and_all_and_only_falls_with_time(
    scheme: Scheme, found: tuple[Status, ...], days: float, more: float
):
    def score(days: float) -> Score:
        marks = [a_mark(status, exercise) for status, exercise in zip(found, POINTS, strict=True)]
        at = (DUE + timedelta(days=days)).isoformat()
        return scheme.score(a_record("Ada", *marks, submitted_at=at))

    first, later = score(days), score(days + more)
    assert later.total is not None and first.total is not None and first.raw is not None
    assert 0 <= later.total <= first.total <= first.raw <= first.out_of
    assert later.raw == first.raw


L01 = "[lessons.l01_chunked_prefill]"
LATE_RULES = f"{L01}\ndue = 2026-12-01T23:59:00+01:00\n[late]\n"
MISTAKES = {
    "[pionts]": "the file: Object contains unknown field `pionts`",
    f"{L01}\ndue = 2026-12-01T23:59:00": f"{L01} due is 2026-12-01 23:59:00: Expected `datetime` "
    "with a timezone component",
    "[lessons.l99_gone]": "there is no lesson 'l99_gone'; there are: l00_kv_cache, ",
    "[points]\n'l01.plan' = 1": "there is no exercise 'l01.plan'; there are: l00.",
    "[points]\n'l01.plan_step' = -1": "[points] l01.plan_step is -1: Expected `float` >= 0.0",
    "[late]\nper_day = 0.1": "[late] counts from a due date, but no lesson has one.",
    f"[partial]\ncredit = '{99 * 'x'}'": f"[partial] credit is '{59 * 'x'}: Invalid enum value",
    "[partial]\nshare = 0.5": '[partial] share is 0.5, but counts only where credit is "checks".',
    f"{LATE_RULES}days_free = 3\nmost_days = 2": "[late] most_days is 2, but must be at least "
    "days_free, 3.",
    "[late": "Expected ']'",
}


@pytest.mark.parametrize(("text", "sentence"), MISTAKES.items())
def test_a_mistake_is_one_sentence_that_names_the_value_and_the_limit(
    tmp_path: Path, text: str, sentence: str
):
    with pytest.raises(SchemeError) as raised:
        read(tmp_path, text)
    said = str(raised.value)
    assert sentence in said and said.startswith("scheme.toml") and "\n" not in said
    with pytest.raises(FileNotFoundError, match=r"gone\.toml"):
        read_scheme(tmp_path / "gone.toml")


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def test_the_gradebook_has_a_row_for_each_student_and_nbgraders_table_one_for_each_record():
    assert gradebook_csv([BEN, ADA], LATE).replace("\r\n", "\n") == (
        "\ufeffstudent,l01_chunked_prefill,l02_scheduling,total,out_of\n"
        "Ada,3.2,0,3.2,20\n"
        "Ben,0,3,3,20\n"
    )
    assert gradebook_csv([], Scheme()) == "\ufeffstudent,total,out_of\r\n"
    assert nbgrader_csv([BEN, ADA], LATE).replace("\r\n", "\n") == (
        "assignment,student_id,score,max_score,late_submission_penalty,raw_score,timestamp\n"
        "l01_chunked_prefill,Ada,3.2,11,0.8,4,2026-12-05T11:00:00+00:00\n"
        "l01_chunked_prefill,Ben,0,11,0,0,\n"
        "l02_scheduling,Ada,0,9,0,0,\n"
        "l02_scheduling,Ben,3,9,0,3,\n"
    )


def test_a_cell_that_would_be_a_formula_is_none_and_a_harmless_one_stays_as_it_is():
    for first in ("=", "+", "-", "@", "\t", "\r", "\n", " =", "\u00a0@", "＝"):
        name = first + 'cmd|"/c calc"!A1'
        for make in (gradebook_csv, nbgrader_csv):
            (row,) = table(make([a_record(name)], LATE))
            assert "'" + name in row.values()
        assert "'" + name in table(gradebook_csv([a_record(lesson=name)], Scheme()))[0]
    harmless = ["Ada", "O'Neil", "Zoë-Marie", "a=b", 'say "hi"', "x,y", "דוד"]
    rows = table(gradebook_csv([a_record(name) for name in harmless], Scheme()))
    assert [row["student"] for row in rows] == harmless


@given(st.lists(st.text(st.characters(codec="utf-8")), unique=True, max_size=6))
def test_every_student_has_one_row_whatever_the_name(names: list[str]):
    text = gradebook_csv([a_record(name) for name in names], Scheme())
    rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))[1:]
    assert len(rows) == len(names)
    assert {row[0].removeprefix("'") for row in rows} == {name.removeprefix("'") for name in names}
    assert not [row[0] for row in rows if row[0].lstrip()[:1] in set("=+-@")]


def results(record: Record) -> dict[str, Any]:
    return json.loads(gradescope_json(record, LATE))


def test_gradescope_gets_a_test_for_each_exercise_and_the_score_after_the_penalty():
    found = results(ADA)
    assert (found["score"], found["max_score"], found["output_format"]) == (3.2, 11, "text")
    assert found["output"] == "Submitted 4 days late, which costs 0.8 points."
    (test,) = found["tests"]
    assert (test["score"], test["max_score"], test["status"]) == (4, 4, "passed")
    assert test["name"] == "l01.plan_step: The plan of a step"
    assert test["output"] == "Passed. 4 of 4 checks passed.\nThink."
    found = results(a_record("Ada", problem="Line 3 has an open bracket."))
    assert (found["score"], found["tests"]) == (0, [])
    assert found["output"] == "Line 3 has an open bracket."


def test_a_student_reads_the_counterexample_and_never_what_a_function_printed():
    rows = (("input", "plan_step([1], [],\n  [], 1)"), ("expected", "[(1, 1)]"))
    mark = a_mark("failed", idea="Decodes first.", example=rows, stdout="hidden case 17\n")
    found = results(a_record("Ada", mark))
    told, printed = found["tests"]
    assert told["output"] == (
        "Wrong result. 1 of 4 checks passed.\n"
        "Stopped at: two\n"
        "Decodes first.\n"
        "  input     plan_step([1], [],\n"
        "              [], 1)\n"
        "  expected  [(1, 1)]"
    )
    assert found["stdout_visibility"] == printed["visibility"] == "hidden"
    assert "hidden case 17" in printed["output"] and "score" not in printed
    assert "hidden case 17" not in found["output"]


def wrong(student: str, check: int, key: str | None, example: str, idea: str = "Think.") -> Record:
    rows = (("input", example),)
    mark = a_mark("failed", passed=check, misconception=key, example=rows, idea=idea)
    return a_record(student, mark)


class Parsed(HTMLParser):
    """What a browser makes of a page: its elements and their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.made: set[str] = set()
        self.pieces: list[str] = []
        self.feed(page)
        self.text = " ".join(" ".join(self.pieces).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.made |= {tag, *(name for name, _ in attrs)}

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)


def report_on(records: list[Record]) -> str:
    """What an instructor reads."""
    return Parsed(class_report(records, Scheme())).text


def own_page(record: Record) -> str:
    return feedback_page(record.student, [record], Scheme())


def rows_of_map(page: str) -> list[tuple[str, str, str]]:
    """The heat-map: (name, total, letters)."""
    table = page.partition('class="box map"')[2].partition("</table>")[0].partition("<tbody>")[2]
    rows = [re.findall(r">([^<>]+)<", row) for row in table.split("</tr>") if "<td" in row]
    return [(html.unescape(row[0]), row[1], "".join(row[2:])) for row in rows]


def test_the_counterexample_is_the_shortest_that_the_largest_group_has():
    records = [
        wrong("Ada", 1, "starves", "a long example"),
        wrong("Ben", 1, "starves", "short", "Said to Ben."),
        a_record("Chen", a_mark("failed", passed=1, misconception="starves")),
        wrong("Dilek", 1, None, "x"),
        wrong("Emeka", 2, "starves", "y"),
        a_record("Fatima", a_mark("timeout", example=(("input", ""),))),
        a_record("Goran", a_mark("passed")),
    ]
    (found,) = tallies.sticking_points(records)
    assert found == tallies.Sticking(
        STEP, "two", "starves", 3, 5, "Said to Ben.", (("input", "short"),)
    )
    assert tallies.sticking_points(records[::-1]) == [found]


def test_misconceptions_come_with_the_courses_sentence_and_the_most_common_first():
    size = "l01.chunk_size"
    records = [
        wrong("Ada", 1, "made_up", "x", "One."),
        a_record("Ben", a_mark("failed", size, misconception="negative", idea="Two.")),
        a_record("Chen", a_mark("failed", size, misconception="negative", idea="Two.")),
        wrong("Dilek", 1, "over_budget", "x", "The one that most were told."),
        wrong("Emeka", 1, "over_budget", "x", "Another, made of the result."),
        wrong("Fatima", 1, "over_budget", "x", "The one that most were told."),
    ]
    first, second, third = tallies.misconceptions(records)
    known = next(each for each in exercise(size).misconceptions if each.key == "negative")
    assert (first.idea, first.students) == ("The one that most were told.", 3)
    assert (second.belief, second.students) == (known.belief, 2)
    assert second.idea not in ("", "Two.")
    assert third == tallies.Held(STEP, "made_up", "", "One.", 1)


def test_minutes_and_attempts_are_medians_of_those_who_told_them():
    records = [
        a_record("Ada", a_mark(), minutes={STEP: 10.0}, attempts={STEP: 2}),
        a_record("Ben", a_mark(), minutes={STEP: 20.0}),
        a_record("Chen", a_mark("internal")),
        a_record("Dilek", a_mark("failed")),
    ]
    found = {each.exercise: each for each in tallies.outcomes(records)}
    assert found[STEP] == tallies.Outcome(STEP, 3, 2, 15.0, 2.0, exercise(STEP).minutes)
    assert found["l01.chunk_mask"] == tallies.Outcome("l01.chunk_mask", 4, 0, None, None, 8)


def test_the_map_is_sorted_by_points_and_says_each_status_by_a_letter():
    records = [
        a_record("Ben", a_mark("failed"), a_mark("timeout", "l01.chunk_size")),
        a_record("Zoe", a_mark("passed")),
        a_record("Zoe", a_mark("passed", "l02.admit"), lesson="l02_scheduling"),
        a_record("Ada", a_mark("raised"), a_mark("not_submitted", "l01.chunk_size")),
        a_record("Chen", a_mark("internal"), a_mark("passed", "l01.chunk_mask")),
    ]
    page = class_report(records, Scheme())
    assert rows_of_map(page) == [
        ("Zoe", "7", "–––✓––✓––"),
        ("Ada", "0", "–––E–––––"),
        ("Ben", "0", "T––W–––––"),
        ("Chen", "–", "–✓–!–––––"),
    ]
    assert len({each.letter for each in words.STATUSES.values()}) == len(words.STATUSES)
    for status, said in words.STATUSES.items():
        assert f"{said.letter}</span>{said.word}</li>" in page
        assert said.word in own_page(a_record("Ada", a_mark(status, checks=(), idea="")))


def test_the_report_says_what_broke_off_and_what_should_be_known_before_it_is_trusted():
    records = [
        a_record("Ada", a_mark("timeout", idea="It ran for 2 s.")),
        a_record("Ben", a_mark("internal", idea="KeyError in grade")),
        a_record("Chen", problem="Line 3 has an open bracket."),
        a_record("Dilek", Mark(STEP, "v2", "passed"), is_sandboxed=False),
    ]
    before, _, after = report_on(records).partition("What never came to a")
    for said in ("It ran for 2 s.", "KeyError in grade", "Line 3 has an open bracket."):
        assert said in after and said not in before
    assert "The grader itself failed on 1 mark" in before
    assert "1 submission ran without a sandbox." in before
    assert "Not every student met the same version of l01.plan_step : grade again." in before
    plain = report_on([a_record("Ada", a_mark("failed"))])
    assert "What never came" not in plain and "grade again" not in plain
    assert "There are no records yet." in report_on([])


def test_an_exercise_or_lesson_that_the_course_no_longer_has_breaks_nothing():
    gone = a_mark("failed", "l01.gone", misconception="old", example=(("input", "gone()"),))
    records = [a_record("Ada", gone), a_record("Ada", a_mark("passed", "x"), lesson="old")]
    assert rows_of_map(class_report(records, Scheme())) == [("Ada", "0", "–––––W✓")]
    assert "no longer has l01.gone , x : these marks count no points" in report_on(records)
    assert "gone()" in feedback_page("Ada", records, Scheme())


def test_a_students_page_tells_the_points_the_sentence_and_the_counterexample():
    mark = a_mark("failed", idea="Decodes come `first`.", example=(("got", "[(1, 2)]"),))
    said = Parsed(feedback_page("Ada", [a_record("Ada", mark)], Scheme(partial=0.5))).text
    for part in (
        "Feedback for Ada Lesson 1: Chunked prefill 0.5 of 11 points",
        "The plan of a step l01.plan_step 0.5 of 4 points Wrong result · 1 of 4 checks passed",
        "Stopped at: two Decodes come first . got [(1, 2)]",
        "How large is the chunk? l01.chunk_size 0 of 1 points Not submitted",
    ):
        assert part in said
    page = own_page(a_record("Ada", problem="It is empty."))
    assert page.count("It is empty.") == 1
    assert "Not submitted" not in page and "0 of 11 points" in page


@pytest.mark.parametrize("text", [*STRANGE, "a`b", "&amp;", "</style>", "'\" onload=x"])
def test_strange_text_is_shown_and_does_nothing(text: str):
    told = {"checks": (text,), "passed": 0, "idea": text, "example": ((text, text),)}
    mark = a_mark("failed", misconception=text, **told)
    record = a_record(text, mark, a_mark("failed", text), source=text, problem=text)
    ada = a_record("Ada", mark, a_mark("failed", "gone"), problem="None.")
    for make in (lambda each: class_report([each], Scheme()), own_page):
        found, plain = Parsed(make(record)), Parsed(make(ada))
        assert found.made <= plain.made | {"code"}
        assert " ".join(text.split()) in found.text


def test_a_class_has_its_pages_each_the_same_every_time_and_with_nothing_that_was_printed(
    tmp_path: Path,
):
    records = a_class(30)
    pages = write_feedback(tmp_path / "feedback", records, Scheme())
    assert len(set(pages)) == 30
    for path, record in zip(pages, sorted(records, key=lambda r: r.student), strict=True):
        shown = record.student.encode("utf-8", "backslashreplace").decode()
        page = path.read_text(encoding="utf-8")
        assert f"Feedback for {' '.join(shown.split())}" in Parsed(page).text
        assert page == own_page(record).encode("utf-8", "backslashreplace").decode()
    report = write_text(tmp_path / "report.html", class_report(records, Scheme()))
    assert len(rows_of_map(report.read_text(encoding="utf-8"))) == 30
    assert class_report(records[::-1], Scheme()) == class_report(records, Scheme())
    assert any(mark.stdout for record in records for mark in record.marks)
    reaches_out = r"<script|<link|<img|<iframe|url\(|@import|https?:|src=|href="
    for path in (report, *pages):
        page = path.read_text(encoding="utf-8")
        assert "secret of the hidden case" not in page and not re.search(reaches_out, page)
