"""The course in the terminal, on notebook files as learners leave them."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from support import ROOT

from course.__main__ import main
from course.lesson_map import LESSONS, entries, find_lesson
from course.overview import overview
from course.registry import exercises, lesson_exercises
from course.source.notebook import load_functions

NOTEBOOK = '''\
import marimo

app = marimo.App()

with app.setup:
    import math

    import marimo as mo
    from torch import Tensor
    from nanogpt import NothingOfTheKind

@app.cell
def _():
    mo.md("""
@app.function
def next_inputs(tokens, num_cached): a text, not a function
""")
    return


@app.function
def next_inputs(tokens: list, num_cached: "int") -> NothingOfTheKind:
    return tokens[num_cached:]


@app.function(hide_code=True)
def cached_attention(q, k_cache, v_cache, k, v):
    raise NotImplementedError


@app.cell
def _(other):
    def finish_steps(lengths, slots, continuous):
        while True:
            pass
    return (finish_steps,)


app._unparsable_cell("""def broken(:""")
'''
BROKEN_CELL = "\n@app.cell\ndef _(:\n    x = = 1\n\n"


@pytest.fixture
def notebook(learner_folder):
    learner_folder.mkdir()
    path = learner_folder / "l00_kv_cache.py"
    path.write_text(NOTEBOOK)
    return path


def test_one_exercise_that_passes_exits_with_0_and_is_remembered(notebook, capsys):
    assert main(["check", "l00", "next_inputs"]) == 0
    assert "l00.next_inputs: passed" in capsys.readouterr().out
    main(["progress"])
    assert re.search(r"l00  The KV cache and batching +1/3 ", capsys.readouterr().out)


def test_a_lesson_passes_only_as_a_whole(notebook, capsys, monkeypatch):
    monkeypatch.setattr("course.harness._CALL_LIMIT_S", 0.3)
    assert main(["check", "l00_kv_cache"]) == 1
    out = capsys.readouterr().out
    assert "l00.next_inputs: passed" in out
    assert "l00.cached_attention: not started yet" in out
    assert "l00.finish_steps: took too long" in out
    assert out.endswith("l00_kv_cache: 1 of 3 exercises pass.\n")


@pytest.mark.parametrize("place", [0, NOTEBOOK.index("@app.function(hide"), len(NOTEBOOK)])
def test_a_broken_cell_leaves_the_other_cells_functions_alone(notebook, place):
    notebook.write_text(NOTEBOOK[:place] + BROKEN_CELL + NOTEBOOK[place:])
    assert load_functions(notebook, ["next_inputs"]).functions["next_inputs"]([1, 2], 1) == [2]


def test_a_line_number_counts_from_the_def_in_a_broken_file_too(notebook, capsys):
    body = "    return tokens[num_cached:]"
    broken = BROKEN_CELL + NOTEBOOK.replace(body, "    # why\n    return 1 / 0")
    notebook.write_text(broken)
    assert main(["check", "l00", "next_inputs"]) == 1
    assert "on its line 3: division by zero (`return 1 / 0`)" in capsys.readouterr().out


def test_a_function_that_is_not_there_is_named(notebook, capsys):
    notebook.write_text(NOTEBOOK.replace("def next_inputs(", "def renamed("))
    assert main(["check", "l00", "next_inputs"]) == 1
    assert "l00_kv_cache.py defines no function `next_inputs`" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after", "cell"),
    [
        ("tokens[num_cached:]", "tokens[num_cached:", "the cell of `next_inputs` at line 21"),
        ("def next_inputs(tokens: list", "def (tokens: list", "the cell at line 21"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named(notebook, capsys, before, after, cell):
    text = NOTEBOOK.replace('app._unparsable_cell("""def broken(:""")', "")
    notebook.write_text(text.replace(before, after))
    assert main(["check", "l00", "next_inputs"]) == 1
    said = capsys.readouterr().out
    assert f"`next_inputs` was not found: {cell} cannot be read (" in said


def test_a_helper_in_a_cell_that_cannot_be_read_is_named(notebook, capsys):
    helper = "@app.function\ndef rest(tokens, start):\n    return tokens[start:\n\n\n"
    text = NOTEBOOK.replace("return tokens[num_cached:]", "return rest(tokens, num_cached)")
    notebook.write_text(text.replace("@app.function(hide", helper + "@app.function(hide"))
    assert main(["check", "l00", "next_inputs"]) == 1
    said = capsys.readouterr().out
    assert "name 'rest' is not defined" in said
    words = "`rest`, which `next_inputs` uses, was not found: the cell of `rest` at line"
    assert f"  {words}" in said


def test_an_answer_may_call_another_and_use_numpy_and_helpers(notebook, capsys):
    helped = """\
@app.cell
def _():
    import numpy as np
    _FIRST = np.int64(0)

    def new_ones(tokens, start):
        return tokens[start + _FIRST:]
    return


@app.cell
def _(new_ones):
    def next_inputs(tokens, num_cached):
        return new_ones(tokens, num_cached)


@app.function
def finish_steps(lengths, slots, continuous):
    return next_inputs(lengths, 1)
"""
    notebook.write_text(helped)
    assert main(["check", "l00", "next_inputs"]) == 0
    loaded = load_functions(notebook, ["finish_steps", "next_inputs"])
    assert loaded.functions["finish_steps"]([1, 2, 3], 1, True) == [2, 3]
    assert loaded.problems == {"finish_steps": [], "next_inputs": []}


def test_a_constant_that_fails_is_named_and_nothing_that_is_not_used_is_run(notebook):
    notebook.write_text(
        "SIZE = 1 / 0\nraise SystemExit\nUNUSED = open('/nowhere')\n\n"
        "def f():\n    return SIZE\n\ndef g():\n    return 1\n"
    )
    loaded = load_functions(notebook, ["f", "g"])
    assert loaded.functions["g"]() == 1
    assert loaded.problems == {
        "f": ["`SIZE` raised ZeroDivisionError: division by zero."],
        "g": [],
    }


def test_another_file_is_checked_and_not_remembered(tmp_path, learner_folder, capsys):
    path = tmp_path / "mine.py"
    path.write_text(NOTEBOOK)
    assert main(["check", "l00", "next_inputs", "--file", str(path)]) == 0
    assert not learner_folder.exists()


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["check", "l77"], "There is no lesson 'l77'; the lessons are: l00_kv_cache"),
        (["check", "l00"], "open the course once to get your copy"),
        (["check", "l00", "--file", "nowhere.py"], "There is no file nowhere.py"),
    ],
)
def test_what_is_not_there_is_said_in_one_sentence(argv, sentence, capsys):
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_an_unknown_exercise_names_the_known_ones(notebook, capsys):
    assert main(["check", "l00", "nothing"]) == 2
    assert "it has: next_inputs, cached_attention, finish_steps" in capsys.readouterr().err


def test_a_file_that_is_not_text_is_one_sentence(notebook, capsys):
    notebook.write_bytes(b"\xff\xfe\x00")
    assert main(["check", "l00"]) == 2
    assert "could not be read" in capsys.readouterr().err


def test_the_map_and_progress_load_no_torch():
    code = "import sys, course.__main__, course.overview; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_the_map_lists_the_exercises_of_the_registry(lesson):
    listed = [(item.id, item.title, item.minutes) for item in entries(lesson)]
    assert entries(lesson) is entries(lesson)  # the first page asks at every change
    assert listed == [(e.id, e.title, e.minutes) for e in lesson_exercises(lesson.stem)]
    assert sum(item.minutes for item in entries(lesson)) < lesson.minutes
    assert (ROOT / "lessons" / f"{lesson.stem}.py").is_file()


@pytest.mark.parametrize(
    "wanted", ["l01", "1", "l01_chunked_prefill", "work/l01_chunked_prefill.py"]
)
def test_a_lesson_is_found_by_any_of_its_names(wanted):
    assert find_lesson(wanted).number == "1"


@pytest.fixture
def split_map(monkeypatch):
    """The map with lesson 4 in two halves."""
    place = next(n for n, lesson in enumerate(LESSONS) if lesson.number == "4")
    half = replace(
        LESSONS[place], stem="l04b_window_quality", title="Its quality", builds_on=("4",)
    )
    whole = (*LESSONS[: place + 1], half, *LESSONS[place + 1 :])
    monkeypatch.setattr("course.lesson_map.LESSONS", whole)
    monkeypatch.setattr("course.lesson_progress.LESSONS", whole)
    monkeypatch.setattr("course.lesson_progress.entries", lambda lesson: entries(LESSONS[place]))
    return whole


@pytest.mark.parametrize("wanted", ["l04b", "4b", "l04b_window_quality"])
def test_the_second_half_of_a_lesson_is_found_by_its_letter(split_map, wanted):
    assert find_lesson(wanted).number == "4b"
    assert find_lesson(wanted.replace("b", "").replace("_window_quality", "")).number == "4"


def test_the_second_half_of_a_lesson_has_a_card_and_a_line_of_its_own(split_map, capsys):
    html = overview()._repr_html_()
    assert "Lesson 4b ·" in html
    assert "builds on lesson 4 ·" in html
    assert 'href="/?file=l04b_window_quality.py"' in html
    main(["progress"])
    assert "l04b  Its quality" in capsys.readouterr().out


def test_a_second_half_comes_after_its_first_and_before_the_next_lesson():
    """Stems are compared as text, by the registry and by what later lessons load."""
    assert "l04_sliding_window" < "l04b_window_quality" < "l05_slo_policy"


def test_the_overview_starts_at_lesson_0():
    html = overview()._repr_html_()
    assert "Start here:" in html
    assert 'class="sng-go" href="/?file=l00_kv_cache.py"' in html
    assert f"0 of {len(exercises())} exercises passed" in html


def test_the_overview_shows_what_is_passed_and_what_is_next(notebook):
    main(["check", "l00", "next_inputs"])
    html = overview()._repr_html_()
    assert f"1 of {len(exercises())} exercises passed" in html
    assert "(<code>cached_attention</code>)" in html
    assert "width:33%" in html


def test_the_overview_says_when_a_file_was_set_aside(learner_folder):
    path = learner_folder / "progress" / "exercises" / "l00.next_inputs.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    overview()
    assert "l00.next_inputs.json could not be read" in overview()._repr_html_()
