"""The card that says what to write, and what a lesson's setup cell needs before it shows a word."""

import subprocess
import sys
from dataclasses import replace

import pytest

from course.lazy import torch
from course.lesson_map import find_lesson
from course.registry import exercise, exercises, lesson_exercises
from course.source.cutting import read_notebook
from course.source.notebook import lacks, self_contained
from course.task import Task, TaskCard, task

ITEM = replace(
    exercise("l00.next_inputs"),
    task=Task(
        "next_inputs(tokens: list[int], num_cached: int) -> list[int]",
        ("`tokens` are all of them, so 0 <= `num_cached` < their number.",),
        ([5, 7], 1),
        [7],
    ),
)


def test_a_card_says_signature_rules_and_a_worked_case():
    card = TaskCard(ITEM, "0.1")._repr_html_()
    assert "Exercise 0.1 · What the model still has to see</h3>" in card
    assert "about 3 minutes" in card
    assert "next_inputs(tokens: list[int], num_cached: int) " in card
    assert '<span class="sng-arrow">-&gt;</span> list[int]</pre>' in card  # in one line, "->"
    assert "<li><code>tokens</code> are all of them, so 0 &lt;= <code>num_cached</code>" in card
    assert "<pre>next_inputs([5, 7], 1)</pre>" in card
    assert "<pre>[7]</pre>" in card


@pytest.mark.parametrize("item", exercises(), ids=lambda item: item.id)
def test_every_exercise_has_a_card_with_its_number_and_title(item):
    card = task(item.id)._repr_html_()
    assert f'data-task="{item.id}"' in card
    place = [each.id for each in lesson_exercises(item.lesson)].index(item.id) + 1
    assert f"Exercise {find_lesson(item.lesson).number}.{place} · " in card


@pytest.mark.process
def test_what_a_setup_cell_imports_leaves_torch_and_the_checks_for_later():
    program = (
        "import sys\n"
        "from course.attempt import attempt, exhibit\n"
        "from course.lazy import torch\n"
        "from course.prediction import after, hints, predict\n"
        "from course.task import task\n"
        "heavy = {name.partition('.')[0] for name in sys.modules} & {'torch', 'numpy'}\n"
        "print(sorted(heavy), 'course.checks' in sys.modules)\n"
        "print(torch.arange(2).tolist(), torch.nn.functional.__name__, torch.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == "[] False\n[0, 1] torch.nn.functional torch\n"


@pytest.mark.process
def test_an_exercise_is_found_without_the_checks_of_other_lessons():
    program = (
        "import re, sys\n"
        "from course.registry import exercise\n"
        "exercise('l01.chunk_size')\n"
        "print(set(re.findall(r'\\bl\\d\\d\\w*', ' '.join(sys.modules))))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "{'l01_chunked_prefill'}\n"


def test_the_lazy_torch_is_torch():
    import torch as real

    assert torch.Tensor is real.Tensor


def test_torch_as_the_setup_cell_imports_it_counts_as_torch_itself():
    notebook = read_notebook(
        "with app.setup:\n    from course.lazy import torch\n\n\n"
        "@app.function\ndef join(parts):\n    return torch.cat(parts)\n"
    )
    assert lacks(notebook, "join") == []
    text = self_contained(notebook, notebook.binding("join"))
    assert text == "import torch\n\n\ndef join(parts):\n    return torch.cat(parts)\n"
