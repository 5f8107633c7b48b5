"""The pages made of records: a student's own, and the instructor's of the class."""

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from classes import STRANGE, a_class, a_mark, a_record

from course.grading.record import Mark, Record, Status
from course.grading.results import tallies
from course.grading.results.class_report import class_report, write_class_report
from course.grading.results.feedback import feedback_page, write_feedback
from course.grading.results.scheme import Scheme
from course.grading.results.words import STATUSES
from course.registry import exercise

STEP = "l01.plan_step"
# The course's own sentence.
NO_RETURN = "plan_step returned nothing: end every way through it with `return`."


def wrong(student: str, check: int, key: str | None, example: str, idea: str = "Think.") -> Record:
    rows = (("input", example),)
    mark = a_mark("failed", passed=check, misconception=key, example=rows, idea=idea)
    return a_record(student, mark)


class Parsed(HTMLParser):
    """What a browser makes of a page: its elements with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.pieces: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())


def text_of(page: str) -> str:
    """What a reader reads, with single spaces."""
    return Parsed(page).text


def own_page(record: Record) -> str:
    return feedback_page(record.student, [record], Scheme())


def rows_of_map(page: str) -> list[tuple[str, str, str]]:
    """The heat-map: (name, total, letters)."""
    table = page.partition('class="box map"')[2].partition("</table>")[0].partition("<tbody>")[2]
    rows = [re.findall(r">([^<>]+)<", row) for row in table.split("</tr>") if "<td" in row]
    return [(html.unescape(row[0]), row[1], "".join(row[2:])) for row in rows]


# ---- what is counted -----------------------------------------------------------------------------


def test_the_counterexample_is_the_shortest_of_the_largest_group():
    records = [
        wrong("Ada", 1, "starves", "a long example"),
        wrong("Ben", 1, "starves", "short", "Said to Ben."),
        wrong("Chen", 1, "starves", "middling"),
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


def test_an_example_is_taken_from_an_answer_that_has_one():
    bare = a_record("Ada", a_mark("raised", passed=1))
    (found,) = tallies.sticking_points([bare, wrong("Ben", 1, None, "plan_step([])")])
    assert (found.students, found.example) == (2, (("input", "plan_step([])"),))


def test_misconceptions_come_with_the_courses_sentence_and_the_most_common_first():
    records = [
        wrong("Ada", 1, "made_up", "x", "One."),
        wrong("Ben", 1, "no_return", "x", "Two."),
        wrong("Chen", 1, "no_return", "x", "Two."),
    ]
    first, second = tallies.misconceptions(records)
    known = next(each for each in exercise(STEP).misconceptions if each.key == "no_return")
    assert first == tallies.Held(STEP, "no_return", known.belief, NO_RETURN, 2)
    assert second == tallies.Held(STEP, "made_up", "", "One.", 1)


def test_a_sentence_that_is_made_of_the_result_is_the_one_that_most_were_told():
    (found,) = tallies.misconceptions(
        [wrong(name, 1, "not_pairs", "x", said) for name, said in zip("abc", "121", strict=True)]
    )
    assert (found.idea, found.students) == ("1", 3)


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


def test_what_broke_off_is_told_apart_from_what_is_wrong():
    marks = [a_record(status, a_mark(status)) for status in STATUSES]
    found = [record.student for record, _ in tallies.broken_off(marks)]
    assert found == ["timeout", "memory", "crashed", "protocol", "internal"]
    (stuck,) = tallies.sticking_points(marks)
    assert stuck.wrong == 2


# ---- the class -----------------------------------------------------------------------------------


def test_the_map_is_sorted_by_points_and_says_each_status_by_a_letter():
    records = [
        a_record("Ben", a_mark("failed"), a_mark("timeout", "l01.chunk_size")),
        a_record("Zoe", a_mark("passed")),
        a_record("Ada", a_mark("raised"), a_mark("not_submitted", "l01.chunk_size")),
        a_record("Chen", a_mark("internal"), a_mark("passed", "l01.chunk_mask")),
    ]
    assert rows_of_map(class_report(records, Scheme())) == [
        ("Zoe", "4", "–––✓–"),
        ("Ada", "0", "–––E–"),
        ("Ben", "0", "T––W–"),
        ("Chen", "–", "–✓–!–"),
    ]


def test_the_letters_differ_and_the_legend_says_them_all():
    assert len({each.letter for each in STATUSES.values()}) == len(STATUSES)
    page = class_report([a_record("Ada", a_mark())], Scheme())
    for each in STATUSES.values():
        assert f"{each.letter}</span>{each.word}</li>" in page


def test_a_student_of_several_lessons_has_one_row_and_one_total():
    scheduler = a_record("Ada", a_mark("passed", "l02.admit"), lesson="l02_scheduling")
    two = [a_record("Ada", a_mark()), scheduler]
    assert rows_of_map(class_report(two, Scheme())) == [("Ada", "7", "–––✓––✓–––")]


def test_time_outs_and_failures_of_the_grader_have_a_section_of_their_own():
    records = [
        a_record("Ada", a_mark("timeout", idea="It ran for 2 s.")),
        a_record("Ben", a_mark("internal", idea="KeyError in zygote")),
        a_record("Chen", problem="Line 3 has an open bracket."),
    ]
    before, _, after = text_of(class_report(records, Scheme())).partition("What never came to a")
    for said in ("It ran for 2 s.", "KeyError in zygote", "Line 3 has an open bracket."):
        assert said in after and said not in before
    assert "The grader itself failed on 1 mark" in before
    assert "What never came" not in class_report([a_record("Ada", a_mark("failed"))], Scheme())


@pytest.mark.parametrize(
    ("ben", "note"),
    [
        (
            a_record("Ben", layers=("namespaces", "limits")),
            "1 submission ran with layers missing: landlock, seccomp.",
        ),
        (
            a_record("Ben", Mark(STEP, "v2", "passed")),
            "Not every student met the same version of l01.plan_step : grade again.",
        ),
    ],
)
def test_the_report_says_what_should_be_known_before_it_is_trusted(ben: Record, note: str):
    ada = a_record("Ada", a_mark())
    assert note in text_of(class_report([ada, ben], Scheme()))
    assert note not in text_of(class_report([ada], Scheme()))


def test_an_exercise_or_lesson_that_the_course_no_longer_has_breaks_nothing():
    gone = a_mark("failed", "l01.gone", misconception="old", example=(("input", "gone()"),))
    records = [a_record("Ada", gone), a_record("Ada", a_mark("passed", "x"), lesson="old")]
    page = class_report(records, Scheme())
    assert rows_of_map(page) == [("Ada", "0", "–––––W✓")]
    assert "The course no longer has l01.gone , x : these marks count no points" in text_of(page)
    assert "gone()" in feedback_page("Ada", records, Scheme())


def test_without_records_there_is_a_page():
    assert "There are no records yet." in class_report([], Scheme())


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_can_be_shown_without_any_check_or_sentence(status: Status):
    records = [a_record("Ada", a_mark(status, checks=(), passed=0, idea=""))]
    assert STATUSES[status].word in class_report(records, Scheme())
    assert STATUSES[status].word in feedback_page("Ada", records, Scheme())


# ---- a student's page ----------------------------------------------------------------------------


def test_a_students_page_tells_the_points_the_sentence_and_the_counterexample():
    mark = a_mark("failed", idea="Decodes come `first`.", example=(("got", "[(1, 2)]"),))
    said = text_of(feedback_page("Ada", [a_record("Ada", mark)], Scheme(partial=0.5)))
    for part in (
        "Feedback for Ada Lesson 1: Chunked prefill 0.5 of 11 points",
        "Plan a step l01.plan_step 0.5 of 4 points Wrong result · 1 of 4 checks passed",
        "Stopped at: two Decodes come first . got [(1, 2)]",
        "How large a chunk l01.chunk_size 0 of 1 points Not submitted",
    ):
        assert part in said


def test_a_students_page_holds_nothing_that_was_printed_and_nothing_of_others():
    records = a_class(30)
    assert any(mark.stdout for record in records for mark in record.marks)
    for record in records:
        page = feedback_page(record.student, records, Scheme())
        assert page == own_page(record)
        assert "secret of the hidden case" not in page
    assert "secret of the hidden case" not in class_report(records, Scheme())


def test_a_failure_of_the_grader_is_told_to_a_student_as_what_it_is():
    mark = a_mark("internal", idea="KeyError in zygote", example=(("trace", "line 3"),))
    page = feedback_page("Ada", [a_record("Ada", mark)], Scheme())
    assert "through no fault of yours" in page
    assert "KeyError" not in page and "line 3" not in page
    assert "of 11 points" not in page


def test_a_file_that_could_not_be_graded_says_so_once():
    page = feedback_page("Ada", [a_record("Ada", problem="It is empty.")], Scheme())
    assert page.count("It is empty.") == 1
    assert "Not submitted" not in page and "0 of 11 points" in page


# ---- strange names, and files --------------------------------------------------------------------


@pytest.mark.parametrize("text", [*STRANGE, "a`b", "&amp;", "</style>", "'\" onload=x"])
def test_strange_text_is_shown_and_does_nothing(text: str):
    mark = a_mark(
        "failed", checks=(text,), passed=0, idea=text, example=((text, text),), misconception=text
    )
    record = a_record(text, mark, a_mark("failed", text), source=text, problem=text)
    ada = a_record("Ada", mark, a_mark("failed", "gone"), problem="None.")
    for make in (lambda each: class_report([each], Scheme()), own_page):
        found, plain = Parsed(make(record)), Parsed(make(ada))
        assert found.elements <= plain.elements | {"code"}
        assert found.attributes <= plain.attributes
        assert " ".join(text.split()) in found.text


def test_the_pages_ask_for_nothing_and_run_nothing():
    records = a_class(12)
    for page in (class_report(records, Scheme()), feedback_page(STRANGE[3], records, Scheme())):
        assert not re.search(r"<script|<link|<img|<iframe|url\(|@import|https?:|src=|href=", page)


def test_every_student_gets_a_page_of_a_name_of_its_own(tmp_path: Path):
    records = a_class(12)
    pages = write_feedback(tmp_path, records, Scheme())
    assert len({path.name for path in pages}) == 12 == len(list(tmp_path.iterdir()))
    for path, student in zip(pages, sorted(each.student for each in records), strict=True):
        shown = student.encode("utf-8", "backslashreplace").decode()
        assert f"Feedback for {shown}" in text_of(path.read_text(encoding="utf-8"))


def test_a_large_class_has_all_its_rows_and_the_same_page_each_time(tmp_path: Path):
    records = a_class(300)
    path = write_class_report(tmp_path / "report.html", records, Scheme())
    page = path.read_text(encoding="utf-8")
    assert len(rows_of_map(page)) == 300
    assert path.stat().st_size < 600_000
    assert class_report(records[::-1], Scheme()) == class_report(records, Scheme())
