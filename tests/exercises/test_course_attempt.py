"""An answer in a notebook: whatever it is, the lesson goes on; what passes is kept."""

import functools
import heapq
import re
import runpy
import shutil
import textwrap
from types import SimpleNamespace

import marimo
import pytest
import torch.nn.functional as F
from answers import worked
from torch import Tensor

from course import answers, progress
from course.__main__ import main
from course.attempt import attempt, exhibit
from course.prediction import hints, predict
from course.registry import exercise, exercises
from nanogpt.parts.part_checks import REFERENCE

MASK = """\
import torch


def chunk_mask(num_past, num_new):
    return torch.ones(num_new, num_past + num_new, dtype=torch.bool).tril(num_past)
"""
INPUTS = """\
def chunk_inputs(tokens, cursor, n):
    end = cursor + n
    return tokens[cursor:end], list(range(cursor, end)), end == len(tokens)
"""


def next_inputs(tokens, num_cached):
    raise NotImplementedError


def use_everything(xs: Tensor) -> Tensor:
    heapq.heapify([])
    return F.relu(xs)


def saved_answer(exercise_id, source):
    path = answers.answer_path(exercise_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source))
    return path


def test_a_right_answer_passes_and_is_kept_with_its_source():
    made = attempt("l00.next_inputs", lambda: worked("l00.next_inputs"))
    assert made.report.status == "passed"
    assert made.started
    assert progress.load("l00.next_inputs").ever_passed
    kept = answers.answer_path("l00.next_inputs").read_text()
    assert kept.startswith("def next_inputs(")
    assert 'data-status="passed"' in made._repr_html_()


def test_a_wrong_answer_is_kept_as_a_try_beside_the_passed_one():
    attempt("l00.next_inputs", lambda: worked("l00.next_inputs"))
    wrong = lambda tokens, num_cached: tokens  # noqa: E731
    assert attempt("l00.next_inputs", lambda: wrong).report.status == "failed"

    def all_of_them(tokens, num_cached):
        return tokens

    attempt("l00.next_inputs", lambda: all_of_them)
    assert "num_cached:]" in answers.answer_path("l00.next_inputs").read_text()
    assert "return tokens" in answers.try_path("l00.next_inputs").read_text()
    assert progress.load("l00.next_inputs").status == "failed"
    assert progress.load("l00.next_inputs").ever_passed


def test_running_the_same_answer_again_is_no_new_attempt():
    for _ in range(3):
        attempt("l00.next_inputs", lambda: worked("l00.next_inputs"))
    assert progress.load("l00.next_inputs").attempts == 1


def test_an_untouched_stub_gives_way_to_the_reference():
    made = attempt("l00.next_inputs", lambda: next_inputs)
    assert made.report.status == "not_started"
    assert not made.started
    assert made.or_reference(len) is len


def test_a_wrong_answer_is_still_the_learners_and_is_used():
    def mine(tokens, num_cached):
        return tokens

    assert attempt("l00.next_inputs", lambda: mine).or_reference(len) is mine


def test_a_name_that_is_gone_is_told_kindly():
    made = attempt("l00.next_inputs", lambda: renamed)  # noqa: F821
    assert made.report.status == "missing"
    assert made.report.idea == "Keep the name `next_inputs`; fix its cell."
    assert made.or_reference(len) is len


def test_a_name_that_is_no_function_counts_as_missing():
    assert attempt("l00.next_inputs", lambda: 3).report.status == "missing"


def test_a_function_without_a_source_is_checked_and_not_kept():
    space = {}
    exec("def next_inputs(tokens, num_cached): return tokens[num_cached:]", space)
    made = attempt("l00.next_inputs", lambda: space["next_inputs"])
    assert made.report.status == "passed"
    assert progress.load("l00.next_inputs").ever_passed
    assert not answers.answer_path("l00.next_inputs").exists()


def test_a_file_in_the_folders_place_is_said_below_the_report(learner_folder):
    learner_folder.write_text("in the way")
    made = attempt("l00.next_inputs", lambda: worked("l00.next_inputs"))
    assert made.report.status == "passed"
    assert "Your progress could not be saved" in made._repr_html_()


def test_nothing_is_written_where_saving_is_off(monkeypatch, learner_folder):
    monkeypatch.setattr(progress, "enabled", lambda: False)
    assert attempt("l00.next_inputs", lambda: worked("l00.next_inputs")).report.status == "passed"
    predict("l00.test", "Which?", ["a", "b"], 0, "a").set_trait("committed", True)
    hints("l00.next_inputs").set_trait("shown", 2)
    assert not learner_folder.exists()


def test_an_unknown_exercise_names_the_known_ones():
    with pytest.raises(KeyError, match=r"no exercise 'l00.nothing'; there are l00.next_inputs"):
        attempt("l00.nothing", lambda: len)


def test_a_source_is_saved_with_what_it_imports_and_nothing_else():
    assert answers.source_of(use_everything).text.startswith(
        "import torch.nn.functional as F\nfrom torch import Tensor\nimport heapq\n\n\n"
        "def use_everything(xs: Tensor) -> Tensor:\n"
    )


HELPED = """\
import marimo

app = marimo.App()

with app.setup:
    import numpy as np
    from nanogpt.parts import Parts

    from course.attempt import attempt


@app.cell
def _():
    SHIFT = 1 - 1
    return (SHIFT,)


@app.cell
def _(SHIFT):
    _one = 1

    def below(rows, columns, shift):
        return np.tril(np.ones((rows, columns)), shift * _one + SHIFT)

    return (below,)


@app.cell
def _(below):
    import torch

    def chunk_mask(num_past, num_new):
        return torch.from_numpy(below(num_new, num_past + num_new, num_past) == 1)

    return (chunk_mask,)


@app.cell
def _(chunk_mask):
    attempt("l01.chunk_mask", lambda: chunk_mask)
    return


if __name__ == "__main__":
    app.run()
"""


@pytest.fixture
def helped(tmp_path):
    """Run a notebook; return its file, and what it showed below its check."""

    def run(text=HELPED):
        path = tmp_path / "l01_chunked_prefill.py"
        path.write_text(text)
        outputs, _ = runpy.run_path(str(path), run_name="lesson")["app"].run()
        return path, [each.report.status + each.note for each in outputs if hasattr(each, "note")]

    return run


def test_an_answer_is_kept_with_its_helpers_and_serves_in_later_lessons(helped):
    _, shown = helped()
    assert shown == ["passed"]
    kept = answers.answer_path("l01.chunk_mask").read_text()
    assert kept.startswith("import numpy as np\nimport torch\n\n\n")
    assert re.findall(r"^(?:def )?(\w+)", kept.partition("torch\n")[2], re.MULTILINE) == [
        "SHIFT", "_one", "below", "chunk_mask"
    ]  # fmt: skip
    assert answers.load_parts().whose["chunk_mask"] == "yours"


def test_the_terminal_checks_and_keeps_the_same(helped):
    path, _ = helped()
    kept = answers.answer_path("l01.chunk_mask").read_text()
    answers.answer_path("l01.chunk_mask").unlink()
    shutil.copy(path, progress.work_folder())
    assert main(["check", "l01", "chunk_mask"]) == 0
    assert answers.answer_path("l01.chunk_mask").read_text() == kept


def test_what_an_answer_takes_from_nanogpt_is_not_kept_and_said_so(helped):
    before, after = "torch.from_numpy(below(num_new, num_past + num_new, num_past) == 1)", "Parts()"
    _, shown = helped(HELPED.replace(before, f"{after}.chunk_mask(num_past, num_new)"))
    assert shown == [
        "passed`Parts`, which `chunk_mask` uses, comes from nanogpt: an answer may import the "
        "standard library, torch and numpy alone."
    ]
    assert "nanogpt" not in answers.answer_path("l01.chunk_mask").read_text()
    assert "`Parts`, which `chunk_mask` uses, was not found." in answers.load_parts().sentence


def test_a_decorator_is_kept_with_what_it_needs():
    @functools.cache
    def marked(x):
        return x

    kept = answers.source_of(marked)
    assert kept.text == "@functools.cache\ndef marked(x):\n    return x\n"
    assert kept.lacks == ["`functools`, which `marked` uses, was not found."]


def test_without_answers_every_part_is_the_reference():
    loaded = answers.load_parts()
    assert loaded.parts == REFERENCE
    assert set(loaded.whose.values()) == {"reference"}
    assert loaded.sentence.startswith(f"0 of {len(loaded.whose)} parts are yours")


def test_passed_answers_become_parts():
    saved_answer("l01.chunk_mask", MASK)
    saved_answer("l01.chunk_inputs", INPUTS)
    parts, whose, sentence = answers.load_parts()
    assert parts.chunk_mask(1, 2).tolist() == [[True, True, False], [True, True, True]]
    assert parts.plan_step is REFERENCE.plan_step
    mine = {part for part, owner in whose.items() if owner == "yours"}
    assert mine == {"chunk_mask", "chunk_inputs"}
    assert sentence == f"2 of {len(whose)} parts are yours; the others are the reference."


@pytest.mark.process
def test_the_worked_solutions_survive_saving_and_loading():
    for item in exercises():
        source = answers.source_of(worked(item.id))
        answers.save(item.id, source.text, passed=True)
    assert set(answers.load_parts().whose.values()) == {"yours"}


def test_a_type_that_only_the_notebook_knows_does_no_harm():
    saved_answer(
        "l01.chunk_mask", MASK.replace("(num_past, num_new):", "(num_past: A, num_new) -> B:")
    )
    assert answers.load_parts().whose["chunk_mask"] == "yours"


def test_an_answer_may_call_another_of_its_lesson():
    saved_answer("l01.chunk_size", "def chunk_size(a, b, c):\n    return b + c\n")
    body = INPUTS.replace("cursor + n", "chunk_size(0, cursor, n)")
    saved_answer("l01.chunk_inputs", body)
    assert answers.load_parts().whose["chunk_inputs"] == "yours"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def chunk_mask(num_past, num_new:\n", "cannot be read ('(' was never closed)"),
        ("def chunk_mask(num_past, num_new):\n    return None\n", "does not pass its check"),
        ("def another():\n    pass\n", "does not define it"),
        ("chunk_mask = 1 / 0\n", "raised ZeroDivisionError"),
        ("\x00", "the cell at line 1 cannot be read (source code"),
    ],
)
def test_an_answer_that_is_no_good_any_more_is_left_out_and_said_so(source, why):
    saved_answer("l01.chunk_mask", source)
    saved_answer("l01.chunk_inputs", INPUTS)
    parts, whose, sentence = answers.load_parts()
    assert whose["chunk_mask"] == "reference"
    assert whose["chunk_inputs"] == "yours"
    assert parts.chunk_mask is REFERENCE.chunk_mask
    assert "Your saved `chunk_mask` was left out" in sentence
    assert why in sentence


def test_only_lessons_before_the_named_one_are_loaded():
    saved_answer("l01.chunk_mask", MASK)
    assert answers.load_parts("l01_chunked_prefill").whose == {}


def test_a_prediction_comes_back_as_it_was_committed():
    first = predict("l00.test", "Which?", ["a", "b"], 0, "It is a.")
    assert not first.committed
    first.choice, first.committed = 1, True
    again = predict("l00.test", "Which?", ["a", "b"], 0, "It is a.")
    assert (again.choice, again.committed) == (1, True)


def test_a_prediction_whose_options_have_changed_is_asked_again():
    first = predict("l00.test", "Which?", ["a", "b", "c"], 0, "It is a.")
    first.choice, first.committed = 2, True
    assert not predict("l00.test", "Which?", ["a", "b"], 0, "It is a.").committed


def test_opened_hints_stay_open():
    hints("l00.next_inputs").shown = 2
    assert hints("l00.next_inputs").shown == 2
    assert tuple(hints("l00.next_inputs").hints) == exercise("l00.next_inputs").hints


def test_an_exhibit_is_judged_by_an_exercises_check_under_its_own_name():
    report = exhibit("A", "l00.next_inputs", lambda: lambda tokens, num_cached: tokens)
    assert (report.status, report.exhibit, report.exercise) == ("failed", "A", "l00.next_inputs")
    card = report._repr_html_()
    assert "<strong>Exhibit A</strong> by the check of <code>next_inputs</code>" in card
    assert 'aria-label="Check of Exhibit A"' in card


def test_an_exhibit_whose_name_is_gone_is_told_kindly():
    report = exhibit("A", "l00.next_inputs", lambda: renamed)  # noqa: F821
    assert (report.status, report.idea) == ("missing", "Keep the name `exhibit_a`; fix its cell.")


def test_a_page_without_cells_does_not_ask_to_write_in_one(monkeypatch):
    monkeypatch.setattr(marimo, "app_meta", lambda: SimpleNamespace(mode="run"))
    made = attempt("l00.next_inputs", lambda: next_inputs)
    assert made.report.idea == "Open the lesson with `python3 learn.py` to write it."
    monkeypatch.setattr(marimo, "app_meta", lambda: SimpleNamespace(mode="edit"))
    assert "in its cell" in attempt("l00.next_inputs", lambda: next_inputs).report.idea
