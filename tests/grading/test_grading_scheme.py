"""Marks become points by the rules of one small file, and a mistake in it is one clear sentence."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from classes import LESSON, a_mark, a_record
from hypothesis import given
from hypothesis import strategies as st

from course.grading.record import Record, Status
from course.grading.results.scheme import Scheme, SchemeError, Score, known_exercise, read_scheme
from course.registry import lesson_exercises

DUE = datetime(2026, 12, 1, 22, 59, tzinfo=UTC)
LATE = Scheme(due={LESSON: DUE}, per_day=0.1, days_free=2, most_days=7)
ALL = {
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
    return a_record("Ada", *(a_mark("passed", each) for each in ALL), submitted_at=at)


# ---- without a file ------------------------------------------------------------------------------


def test_without_a_file_an_exercise_is_worth_the_courses_own_points():
    assert read_scheme(None) == Scheme()
    score = Scheme().score(passed_everything(days=100))
    assert score.worth == ALL
    assert score.points == ALL
    assert (score.raw, score.penalty, score.total, score.out_of) == (11, 0, 11, 11)


def test_without_a_rule_for_it_part_of_the_checks_is_worth_nothing():
    assert Scheme().points(a_mark("failed", passed=3)) == 0


def test_what_is_not_submitted_counts_nothing_of_all():
    score = Scheme().score(a_record())
    assert (score.total, score.out_of) == (0, 11)
    assert score.points == dict.fromkeys(ALL, 0)


def test_a_failure_of_the_grader_is_no_mark_and_leaves_no_total():
    record = a_record("Ada", a_mark("passed", "l01.chunk_size"), a_mark("internal"))
    score = LATE.score(record)
    assert score.points["l01.chunk_size"] == 1
    assert score.points["l01.plan_step"] is None
    assert (score.raw, score.total, score.penalty) == (None, None, 0)


def test_an_exercise_or_a_lesson_that_the_course_no_longer_has_is_worth_nothing():
    assert Scheme().score(a_record("Ada", a_mark("passed", "l01.gone"))).out_of == 11
    old = Scheme().score(a_record("Ada", a_mark("passed", "l99.gone"), lesson="l99_gone"))
    assert (old.points, old.total, old.out_of) == ({"l99.gone": 0}, 0, 0)


# ---- points and partial credit -------------------------------------------------------------------


def test_the_files_points_stand_in_place_of_the_courses(tmp_path: Path):
    scheme = read(tmp_path, '[points]\n"l01.plan_step" = 10\n"l01.chunk_size" = 0.5\n')
    score = scheme.score(passed_everything())
    assert score.points["l01.plan_step"] == 10
    assert score.total == score.out_of == 16.5


def test_partial_credit_is_the_share_of_checks_of_the_share_of_points(tmp_path: Path):
    scheme = read(tmp_path, '[partial]\ncredit = "checks"\nshare = 0.5\n')
    assert scheme.points(a_mark("failed", passed=3)) == 1.5  # 4 points, half of them, 3 of 4 checks
    assert scheme.points(a_mark("timeout", passed=1)) == 0.5
    assert scheme.points(a_mark("passed")) == 4
    assert scheme.points(a_mark("not_submitted", checks=())) == 0
    assert read(tmp_path, '[partial]\ncredit = "checks"\n').points(a_mark("failed", passed=3)) == 3
    assert read(tmp_path, '[partial]\ncredit = "none"\n') == Scheme()


# ---- late submissions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "late", "total"),
    [
        (-1, 0, 11),
        (0, 0, 11),
        (0.001, 1, 11),
        (2, 2, 11),
        (2.001, 3, 9.9),
        (3, 3, 9.9),
        (7, 7, 5.5),
        (7.001, 8, 0),
        (400, 400, 0),
    ],
)
def test_every_day_begun_after_the_free_ones_costs_its_share(days: float, late: int, total: float):
    score = LATE.score(passed_everything(days))
    assert (score.days_late, score.total) == (late, total)
    assert score.raw == 11


def test_the_penalty_never_takes_more_than_there_is():
    score = Scheme(due={LESSON: DUE}, per_day=0.4).score(passed_everything(30))
    assert (score.penalty, score.total) == (11, 0)


def test_time_zones_are_reckoned_with(tmp_path: Path):
    due = f"[lessons.{LESSON}]\ndue = 2026-12-01T23:59:00+01:00\n[late]\nper_day = 0.5\n"
    scheme = read(tmp_path, due)
    at = {"in time": "2026-12-01T22:59:00+00:00", "late": "2026-12-01T22:59:01Z"}
    late = {name: scheme.score(a_record(submitted_at=when)).days_late for name, when in at.items()}
    assert late == {"in time": 0, "late": 1}


def test_a_time_without_a_zone_is_in_utc_wherever_the_grader_runs(
    monkeypatch: pytest.MonkeyPatch,
):
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Pacific/Auckland")
        time.tzset()
        assert LATE.score(a_record(submitted_at="2026-12-01T23:30:00")).days_late == 1
        assert LATE.score(a_record(submitted_at="2026-12-01T22:00:00")).days_late == 0
    time.tzset()


def test_a_submission_that_does_not_say_when_is_in_time():
    assert LATE.score(a_record(submitted_at="")).days_late == 0


schemes = st.builds(
    Scheme,
    due=st.just({LESSON: DUE}),
    own_points=st.dictionaries(st.sampled_from(list(ALL)), st.floats(0, 100)),
    per_day=st.floats(0, 1),
    days_free=st.integers(0, 5),
    most_days=st.none() | st.integers(5, 20),
    partial=st.floats(0, 1),
)
statuses: st.SearchStrategy[Status] = st.sampled_from(
    ["passed", "failed", "raised", "timeout", "not_submitted"]
)


@given(schemes, st.lists(statuses, min_size=5, max_size=5), st.floats(-5, 30), st.floats(0, 10))
def test_a_score_lies_between_nothing_and_all_and_only_falls_with_time(
    scheme: Scheme, found: list[Status], days: float, more: float
):
    def score(days: float) -> Score:
        marks = [a_mark(status, exercise) for status, exercise in zip(found, ALL, strict=True)]
        at = (DUE + timedelta(days=days)).isoformat()
        return scheme.score(a_record("Ada", *marks, submitted_at=at))

    first, later = score(days), score(days + more)
    assert later.total is not None and first.total is not None and first.raw is not None
    assert 0 <= later.total <= first.total <= first.raw <= first.out_of
    assert later.raw == first.raw


# ---- mistakes ------------------------------------------------------------------------------------

DUE_SET = "[lessons.l01_chunked_prefill]\ndue = 2026-12-01T23:59:00+01:00\n[late]\n"
DATE = "but must be a date and time with its time zone, such as 2026-12-01T23:59:00+01:00."
MISTAKES = {
    "[pionts]": "the file has the unknown key 'pionts'; it may have: lessons, points, late, "
    "partial.",
    "points = 3": "[points] must be a table, not 3.",
    "lessons = []": "[lessons] must be a table, not [].",
    "[lessons]\nl01_chunked_prefill = 3": "[lessons.l01_chunked_prefill] must be a table, not 3.",
    "[lessons.l01_chunked_prefill]": "[lessons.l01_chunked_prefill] due is not given, " + DATE,
    "[lessons.l01_chunked_prefill]\nduo = 1": "[lessons.l01_chunked_prefill] has the unknown key "
    "'duo'; it may have: due.",
    "[lessons.l01_chunked_prefill]\ndue = 2026-12-01T23:59:00": "[lessons.l01_chunked_prefill] due "
    "is 2026-12-01 23:59:00, " + DATE,
    "[lessons.l01_chunked_prefill]\ndue = 2026-12-01": "[lessons.l01_chunked_prefill] due is "
    "2026-12-01, " + DATE,
    "[lessons.l01_chunked_prefill]\ndue = 'soon'": "[lessons.l01_chunked_prefill] due is 'soon', "
    + DATE,
    "[points]\n'l01.plan_step' = -1": "[points] l01.plan_step is -1, but must be a number, 0 or "
    "more.",
    "[points]\n'l01.plan_step' = true": "[points] l01.plan_step is True, but must be a number, 0 "
    "or more.",
    "[points]\n'l01.plan_step' = inf": "[points] l01.plan_step is inf, but must be a number, 0 or "
    "more.",
    "[points]\n'l01.plan_step' = nan": "[points] l01.plan_step is nan, but must be a number, 0 or "
    "more.",
    "[points]\n'l01.plan_step' = '4'": "[points] l01.plan_step is '4', but must be a number, 0 or "
    "more.",
    "[points]\nl01.plan_step = 4": '[points] l01 must be an exercise in quotes: "l01.NAME" = 3.',
    "[late]\nper_day = 0.1": "[late] counts from a due date, but no lesson has one.",
    "[partial]\ncredit = 'half'": '[partial] credit is \'half\', but must be "none" or "checks".',
    "[partial]\ncredit = []": '[partial] credit is [], but must be "none" or "checks".',
    "[partial]\nshare = 0.5": '[partial] share is 0.5, but counts only where credit is "checks".',
    "[partial]\ncredit = 'checks'\nshare = 1.5": "[partial] share is 1.5, but must be a number, "
    "from 0 to 1.",
    f"[partial]\ncredit = '{99 * 'x'}'": f"[partial] credit is '{58 * 'x'}…, but must be "
    '"none" or "checks".',
    DUE_SET + "per_day = 10": "[late] per_day is 10, but must be a number, from 0 to 1.",
    DUE_SET
    + "days_free = 1.5": "[late] days_free is 1.5, but must be a whole number of days, 0 or more.",
    DUE_SET + "most_days = -1": "[late] most_days is -1, but must be a whole number of days, 0 or "
    "more.",
    DUE_SET + "most_days = true": "[late] most_days is True, but must be a whole number of days, 0 "
    "or more.",
    DUE_SET + "days_free = 3\nmost_days = 2": "[late] most_days is 2, but must be at least "
    "days_free, 3.",
    DUE_SET + "perday = 1": "[late] has the unknown key 'perday'; it may have: per_day, days_free, "
    "most_days.",
}


@pytest.mark.parametrize(("text", "sentence"), MISTAKES.items())
def test_a_mistake_is_one_sentence_that_names_the_value_and_the_limit(
    tmp_path: Path, text: str, sentence: str
):
    with pytest.raises(SchemeError) as raised:
        read(tmp_path, text)
    assert str(raised.value) == f"scheme.toml: {sentence}"


@pytest.mark.parametrize(
    ("text", "begins", "names"),
    [
        ("[lessons.l99_gone]\n", "there is no lesson 'l99_gone'; the lessons are: ", LESSON),
        ("[points]\n'l01.plan' = 1\n", "there is no exercise 'l01.plan'; ", "l01.plan_step"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(
    tmp_path: Path, text: str, begins: str, names: str
):
    with pytest.raises(SchemeError) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(f"scheme.toml: {begins}")
    assert names in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"[late", b"a = 1\na = 2", b"\xff\xfe"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes):
    file = tmp_path / "scheme.toml"
    file.write_bytes(content)
    with pytest.raises(SchemeError, match=r"^scheme\.toml is not written in TOML: "):
        read_scheme(file)


def test_a_file_that_is_not_there_is_a_mistake_and_not_the_default(tmp_path: Path):
    with pytest.raises(SchemeError, match=r"scheme\.toml: No such file or directory\."):
        read_scheme(tmp_path / "scheme.toml")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path):
    assert read(tmp_path, "\ufeff[points]\n'l01.plan_step' = 9\n").own_points == {
        "l01.plan_step": 9
    }


def test_an_exercise_is_known_by_its_id_alone():
    assert known_exercise("l01.plan_step") in lesson_exercises(LESSON)
    assert known_exercise("l01") is None
    assert known_exercise("(.*") is None
