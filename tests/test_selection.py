"""A shorter run takes a part of everything, or all of one lesson."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from selection import of_lesson, quick


def item(nodeid: str, *marks: str, fixturenames: tuple[str, ...] = ()) -> pytest.Item:
    asked = {mark: mark for mark in marks}
    return SimpleNamespace(  # type: ignore[return-value]
        nodeid=nodeid, get_closest_marker=asked.get, fixturenames=fixturenames
    )


def ids(items: list[pytest.Item]) -> list[str]:
    return [each.nodeid for each in items]


def test_a_quick_run_leaves_out_what_is_slow_and_all_but_a_little_of_the_browser():
    fast = item("tests/test_a.py::test_a")
    smoke = item("tests/browser/test_b.py::test_b", "browser", "smoke")
    others = [
        item("tests/test_c.py::test_c", "slow"),
        item("tests/browser/d.py::test_d", "browser"),
    ]
    assert quick([fast, *others, smoke]) == [fast, smoke]


def test_a_quick_run_runs_the_notebooks_of_one_lesson():
    stems = ("l00_kv_cache", "l01_chunked_prefill", "l02_scheduling")
    solved = [item(f"t.py::test_solved[{stem}]", fixturenames=("notebooks",)) for stem in stems]
    museum = item("t.py::test_museum", fixturenames=("notebooks",))
    assert ids(quick([*solved, museum])) == ["t.py::test_solved[l01_chunked_prefill]"]


def test_a_quick_run_takes_one_case_of_each_exercise_and_five_of_a_table():
    wrong = [item(f"t.py::test_wrong[l0{n}.mask {i}]") for n in (1, 2) for i in range(5)]
    assert ids(quick(wrong)) == ["t.py::test_wrong[l01.mask 0]", "t.py::test_wrong[l02.mask 0]"]
    files = [item(f"t.py::test_file[file{i}]") for i in range(25)]
    of_one, of_other = quick(files), quick([item(f"u.py::test_b[file{i}]") for i in range(25)])
    assert len(of_one) == len(of_other) == 5
    places = [files.index(each) for each in of_one]
    assert {b - a for a, b in pairwise(places)} == {5}  # out of the whole table
    assert [each.nodeid[-8:] for each in of_one] != [each.nodeid[-8:] for each in of_other]


def test_a_lessons_run_takes_its_own_files_and_its_own_cases_of_others():
    own = [
        "tests/test_checks_l04.py::test_a",
        "tests/browser/test_lesson_4.py::test_b",
        "tests/test_checks.py::test_right[l04.evict worked]",
        "tests/test_lessons.py::test_solved[l04_sliding_window]",
    ]
    others = [
        "tests/test_checks_l05.py::test_a",
        "tests/browser/test_lesson_4b.py::test_b",
        "tests/test_checks.py::test_right[l04.judge worked]",
        "tests/test_lessons.py::test_solved[l04b_window_quality]",
        "tests/test_engine.py::test_c",
    ]
    assert ids(of_lesson([item(each) for each in own + others], "l04")) == own


def test_an_unknown_lesson_is_named():
    with pytest.raises(pytest.UsageError, match="There is no lesson 'l99'; the lessons are: "):
        of_lesson([], "l99")
