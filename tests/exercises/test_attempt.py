"""An answer in a notebook: whatever it is, the lesson goes on; what passes is kept."""

import inspect
import re
import runpy
import shutil

import pytest
from answers import worked
from marimo_texts import cell, notebook
from support import write_files

from course import progress
from course import saved_answers as answers
from course.__main__ import main
from course.attempt import attempt, exhibit
from course.calling import jobs
from course.prediction import hints, predict
from course.registry import exercise, exercises
from course.report import Report
from course.running_text import text_in_file
from nanogpt import Policies

pytestmark = pytest.mark.process  # an answer is checked in a process of its own
REFERENCE = Policies()
MASK = """\
import torch


def chunk_mask(past, new):
    return torch.ones(new, past + new, dtype=torch.bool).tril(past)
"""
INPUTS = """\
def chunk_inputs(tokens, computed, scheduled):
    end = computed + scheduled
    return tokens[computed:end], list(range(computed, end)), end == len(tokens)
"""


def next_inputs(tokens, cached):
    raise NotImplementedError


def all_of_them(tokens, cached):
    return tokens


def saved_answer(exercise_id, source):
    path = answers.answer_path(exercise_id)
    write_files(path.parent, {path.name: source})


def made_with(function):
    return attempt("l00.next_inputs", lambda: function)


# --- an answer ---------------------------------------------------------------------------------


def test_a_right_answer_is_kept_and_a_wrong_one_as_a_try_beside_it():
    for _ in range(2):
        made = made_with(worked("l00.next_inputs"))
        assert made.report.status == "passed" and made.started
        assert 'data-status="passed"' in made._repr_html_()
        assert progress.load("l00.next_inputs").attempts == 1  # the same answer is no new one
    made = made_with(all_of_them)
    assert made.or_reference(len).name == "next_inputs"
    kept = answers.answer_path("l00.next_inputs").read_text()
    assert kept.startswith("def next_inputs(") and "return tokens[kept:]" in kept
    assert "return tokens" in answers.try_path("l00.next_inputs").read_text()
    saved = progress.load("l00.next_inputs")
    assert (saved.status, saved.attempts, saved.ever_passed) == ("failed", 2, True)


def test_an_untouched_stub_gives_way_to_the_reference(monkeypatch):
    made = made_with(next_inputs)
    assert made.report.status == "not_started" and "in its cell" in made.report.idea
    assert not made.started and made.or_reference(len) is len
    monkeypatch.setattr("course.attempt._is_app", lambda: True)  # which shows no cell to write in
    assert (
        made_with(next_inputs).report.idea == "Open the lesson with `python3 learn.py` to write it."
    )


def test_a_name_that_is_gone_or_is_no_function_is_told_kindly():
    made = attempt("l00.next_inputs", lambda: renamed)  # noqa: F821
    assert made.report.status == "missing"
    assert made.report.idea == "Keep the name `next_inputs`; fix its cell."
    assert made.or_reference(len) is len
    assert made_with(3).report.status == "missing"
    with pytest.raises(KeyError, match=r"no exercise 'l00.nothing'; there are l00.next_inputs"):
        attempt("l00.nothing", lambda: len)


def test_a_function_without_a_text_is_told_so():
    space = {}
    exec(inspect.getsource(worked("l00.next_inputs")), space)
    assert made_with(space["next_inputs"]).report.status == "missing"
    assert not answers.answer_path("l00.next_inputs").exists()


def test_what_cannot_be_saved_is_said_below_the_report(learner_folder):
    learner_folder.write_text("in the way")
    made = made_with(worked("l00.next_inputs"))
    assert made.report.status == "passed"
    assert "Your progress could not be saved" in made._repr_html_()


def test_nothing_is_written_where_saving_is_off(monkeypatch, learner_folder):
    monkeypatch.setattr(progress, "enabled", lambda: False)
    assert made_with(worked("l00.next_inputs")).report.status == "passed"
    predict("l00.test", "Which?", ["a", "b"], 0, "a").set_trait("committed", True)
    hints("l00.next_inputs").set_trait("shown", 2)
    assert not learner_folder.exists()


def test_an_exhibit_is_judged_by_an_exercise_s_check_under_its_own_name():
    report = exhibit("A", "l00.next_inputs", lambda: all_of_them)
    assert (report.status, report.exhibit, report.exercise) == ("failed", "A", "l00.next_inputs")
    card = report._repr_html_()
    assert "<strong>Exhibit A</strong> by the check of <code>next_inputs</code>" in card
    gone = exhibit("A", "l00.next_inputs", lambda: renamed)  # noqa: F821
    assert (gone.status, gone.idea) == ("missing", "Keep the name `renamed`; fix its cell.")


def test_predictions_and_hints_come_back_as_they_were_left():
    first = predict("l00.test", "Which?", ["a", "b", "c"], 0, "It is a.")
    assert not first.committed
    first.choice, first.committed = 2, True
    again = predict("l00.test", "Which?", ["a", "b", "c"], 0, "It is a.")
    assert (again.choice, again.committed) == (2, True)
    assert not predict("l00.test", "Which?", ["a", "b"], 0, "It is a.").committed
    hints("l00.next_inputs").shown = 2
    assert hints("l00.next_inputs").shown == 2
    assert tuple(hints("l00.next_inputs").hints) == exercise("l00.next_inputs").hints


# --- with its helpers --------------------------------------------------------------------------

BELOW = """_one = 1

def below(rows, columns, shift):
    return np.tril(np.ones((rows, columns)), shift * _one + SHIFT)
"""
OF_TORCH = """import torch

def chunk_mask(past, new):
    return torch.from_numpy(below(new, past + new, past) == 1)
"""
HELPED = notebook(
    "with app.setup:\n    import numpy as np\n    from nanogpt.policies import Policies\n\n"
    "    from course.attempt import attempt\n",
    cell("SHIFT = 1 - 1", gives="(SHIFT,)"),
    cell(BELOW, takes="SHIFT", gives="(below,)"),
    cell(OF_TORCH, takes="below", gives="(chunk_mask,)"),
    cell('attempt("l01.chunk_mask", lambda: chunk_mask)', takes="chunk_mask"),
)


def shown_by(path, text):
    """What a notebook with this text shows below its check."""
    path.write_text(text)
    outputs, _ = runpy.run_path(str(path), run_name="lesson")["app"].run()
    return [each.report.status + each.note for each in outputs if hasattr(each, "note")]


def test_an_answer_is_kept_with_its_helpers_and_serves_in_later_lessons(tmp_path):
    path = tmp_path / "l01_chunked_prefill.py"
    assert shown_by(path, HELPED) == ["passed"]
    kept = answers.answer_path("l01.chunk_mask").read_text()
    assert kept.startswith("import numpy as np\nimport torch\n\n\n")
    assert re.findall(r"^(?:def )?(\w+)", kept.partition("torch\n")[2], re.MULTILINE) == [
        "SHIFT", "_one", "below", "chunk_mask"
    ]  # fmt: skip
    assert answers.load_policies().whose["chunk_mask"] == "yours"
    # The terminal checks and keeps the same.
    answers.answer_path("l01.chunk_mask").unlink()
    shutil.copy(path, progress.work_folder())
    assert main(["check", "l01", "chunk_mask"]) == 0
    assert answers.answer_path("l01.chunk_mask").read_text() == kept


# --- saved answers as parts of the engine ---------------------------------------------------------


def test_passed_answers_become_parts_and_the_others_are_the_reference():
    assert answers.load_policies().policies == REFERENCE
    saved_answer("l01.chunk_mask", MASK.replace("new):", "new: A) -> B:"))  # unknown here
    saved_answer("l01.chunk_inputs", INPUTS)
    policies, whose, sentence = answers.load_policies()
    for mask in (jobs.run(lambda p: p.chunk_mask(1, 2), policies), policies.chunk_mask(1, 2)):
        assert mask.tolist() == [[True, True, False], [True, True, True]]
    assert policies.plan_step is REFERENCE.plan_step
    mine = {part for part, owner in whose.items() if owner == "yours"}
    assert mine == {"chunk_mask", "chunk_inputs"}
    assert sentence == f"2 of {len(whose)} policies are yours; the others are the reference."
    assert answers.load_policies("l01_chunked_prefill").whose == {}  # only of earlier lessons


def test_the_worked_solutions_survive_saving_and_loading():
    for item in exercises():
        source = text_in_file(worked(item.id), item.name)
        answers.save(item.id, source.text, passed=True)
    assert set(answers.load_policies().whose.values()) == {"yours"}


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def chunk_mask(past, new:\n", "cannot be read ('(' was never closed)"),
        ("def chunk_mask(past, new):\n    return None\n", "does not pass its check"),
        ("def another():\n    pass\n", "does not define it"),
        ("chunk_mask = 1 / 0\n", "raised ZeroDivisionError"),
        ("\x00", "the cell at line 1 cannot be read (source code"),
    ],
)
def test_an_answer_that_is_no_good_any_more_is_left_out_and_said_so(source, why):
    saved_answer("l01.chunk_mask", source)
    saved_answer("l01.chunk_inputs", INPUTS)
    policies, whose, sentence = answers.load_policies()
    assert (whose["chunk_mask"], whose["chunk_inputs"]) == ("reference", "yours")
    assert policies.chunk_mask is REFERENCE.chunk_mask
    assert "Your saved `chunk_mask` was left out" in sentence and why in sentence


def test_work_that_passed_and_is_refused_after_an_update_is_said_and_stays_passed(capsys):
    refused = f"from planning import shift\n\n\n{MASK.replace('new):', 'new, by=shift):')}"
    saved_answer("l01.chunk_mask", refused)
    first = progress.record(Report("l01.chunk_mask", "passed", (), 0, ""))
    said = answers.load_policies().sentence
    assert said.endswith("It stays recorded as passed; check it again.")
    assert progress.load("l01.chunk_mask") == first
    (progress.work_folder() / "l01_chunked_prefill.py").write_text(refused)
    assert main(["check", "l01.chunk_mask"]) == 1
    assert main(["progress"]) == 0
    assert re.search(
        r"`shift`.* comes from planning(.|\n)*l01 +Chunked.* 1/5 ", capsys.readouterr().out
    )
    now = progress.load("l01.chunk_mask")
    assert now is not None and now.first_passed == first.first_passed
    assert answers.answer_path("l01.chunk_mask").read_text() == refused
