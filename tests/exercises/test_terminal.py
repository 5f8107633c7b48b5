"""The course in the terminal and its map, on notebook files as learners leave them."""

import re
import shlex
import sys

import pytest
from moodle_class import notebook_of
from support import ROOT, call, run

from course.__main__ import main
from course.calling.loading import load
from course.lesson_map import LESSONS, entries, find_id, find_lesson
from course.overview import overview
from course.prediction import hints
from course.registry import exercises, lesson_exercises
from course.source.texts import notebook_text

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
def next_inputs(tokens, cached): a text, not a function
""")
    return


@app.function
def next_inputs(tokens: list, cached: "list") -> NothingOfTheKind:
    pairs = enumerate(zip(tokens[:-1], cached))
    n = min([i for i, (a, b) in pairs if a != b] or [len(tokens) - 1, len(cached)])
    return tokens[n:]


@app.function(hide_code=True)
def cached_attention(q, k_cache, v_cache, k, v):
    raise NotImplementedError


@app.cell
def _(other):
    def finish_steps(lengths, slots, continuous):
        while True:
            pass
    return (finish_steps,)


@app.function
def capacity(gpu_bytes, weight_bytes, kv_bytes_per_token, bytes_per_us, token_us, *more):
    raise NotImplementedError


app._unparsable_cell("""def broken(:""")
'''
BROKEN_CELL = "\n@app.cell\ndef _(:\n    x = = 1\n\n"


@pytest.fixture
def notebook(learner_folder):
    learner_folder.mkdir()
    path = learner_folder / "l00_kv_cache.py"
    path.write_text(NOTEBOOK)
    return path


# --- checks ---------------------------------------------------------------------------------------


@pytest.mark.process
def test_one_exercise_that_passes_exits_with_0_and_is_remembered(notebook, capsys):
    assert main(["check", "l00", "next_inputs"]) == 0
    assert "l00.next_inputs: passed" in capsys.readouterr().out
    main(["progress"])
    assert re.search(r"l00   The KV cache and batching +1/4 ", capsys.readouterr().out)
    html = overview()._repr_html_()
    assert f"1 of {len(exercises())} exercises passed" in html
    assert "(<code>cached_attention</code>)" in html and "width:25%" in html


@pytest.mark.process
def test_a_lesson_passes_only_as_a_whole(notebook, capsys, monkeypatch):
    monkeypatch.setattr("course.harness._CALL_LIMIT_S", 0.3)
    assert main(["check", "l00_kv_cache"]) == 1
    out = capsys.readouterr().out
    assert "l00.next_inputs: passed" in out
    assert "l00.cached_attention: not started yet" in out
    assert "l00.finish_steps: took too long" in out
    assert out.endswith("l00_kv_cache: 1 of 4 exercises pass.\n")


HELPER = "@app.function\ndef rest(tokens, start):\n    return tokens[start:\n\n\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NOTEBOOK.replace("def next_inputs(", "def renamed("),
         "l00_kv_cache.py defines no function `next_inputs`"),
        (NOTEBOOK.replace("tokens[n:]", "tokens[n:"),
         "`next_inputs` was not found: the cell of `next_inputs` at line 21 cannot be read ("),
        (NOTEBOOK.replace("def next_inputs(tokens: list", "def (tokens: list"),
         "`next_inputs` was not found: the cell at line 21 cannot be read ("),
        (NOTEBOOK.replace("return tokens[n:]", "return rest(tokens, n)").replace(
            "@app.function(hide", HELPER + "@app.function(hide"),
         "`rest`, which `next_inputs` uses, was not found: the cell of `rest` at line"),
        (BROKEN_CELL + NOTEBOOK.replace("return tokens[n:]", "# why\n    return 1 / 0"),
         "on its line 5: division by zero (`return 1 / 0`)"),
        ("def finish_steps(a):\n    return a\n\n\ndef next_inputs(a:\n    pass\n",
         "`next_inputs` was not found: the cell of `next_inputs` at line 5 cannot be read ("),
    ],
    ids=["no name", "its cell", "a nameless cell", "a helper", "line numbers", "a plain file"],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named(notebook, capsys, text, said):
    notebook.write_text(text.replace('app._unparsable_cell("""def broken(:""")', ""))
    assert main(["check", "l00", "next_inputs"]) == 1
    assert said in capsys.readouterr().out


def test_a_plain_file_and_a_jupyter_notebook_are_read_too(tmp_path):
    sources = [
        "import math",
        "@staticmethod\ndef next_inputs(a, n):\n    return a[n:]",
        "def f(:\n  1",
    ]
    (tmp_path / "mine.py").write_text("\n".join(sources))
    (tmp_path / "mine.IPYNB").write_text(notebook_of(*sources))
    for path in tmp_path.iterdir():
        found = load(notebook_text(path), path.name, ["next_inputs", "f"])
        assert found.functions["next_inputs"]([1, 2], 1) == [2]
        assert [*found.functions] == ["next_inputs"] and "the cell of `f` at" in found.problems[
            "f"
        ][0]


WRONG_CALLS = {  # of the course, in an empty folder
    "check l77": "There is no lesson 'l77'; the lessons are: l00_kv_cache",
    "check l00": "open the course once to get your copy",
    "check l00 --file nowhere.py": "There is no file nowhere.py",
    "check l00 nothing": "l00 has: next_inputs, cached_attention, finish_steps",
    "check l01.foo": "There is no exercise 'l01.foo'; l01 has: chunk_size, chunk_mask",
    "task l02.aged_kye": "There is no exercise 'l02.aged_kye'; did you mean l02b.aged_key?",
    "hint l77.plan_step": "There is no lesson 'l77'; the lessons are: l00_kv_cache",
    "audit l77": "There is no lesson 'l77'; the lessons are: l00_kv_cache",
    "audit --seeds 0": "'0' is not a whole number of at least 1",
    "contest --workload chess": "there is no workload 'chess'",
    "contest --file nowhere.py": "There is no file nowhere.py",
    "contest --plot x.pdf": "--plot: ",
    "contest --seeds 21": "--seeds is 1 to 20, and this is 21",
    "contest --seed -1": "'-1' is not a whole number of at least 0",
    "demo l77": "There is no lesson 'l77'; the lessons are: l00_kv_cache",
    "demo live --export out.html": "--export writes a lesson's slides",
    "demo live --host 'no such host'": "no such host, port 2720, cannot be listened at: ",
    "demo l03 --port -1": "'-1' is not a whole number from 0 to 65535",
    "demo l03 --port 65536": "'65536' is not a whole number from 0 to 65535",
}


def test_a_wrong_call_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words, sentence in WRONG_CALLS.items():
        status, out, error = call(main, *shlex.split(words))
        assert status == 2 and (out == "" or words.startswith("contest")), words
        assert sentence in error.splitlines()[-1], error
        assert error.startswith("usage: ") or error.count("\n") == 1, error
    assert [*tmp_path.iterdir()] == []


def test_ctrl_c_is_one_line(monkeypatch):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("course.__main__.show_progress", interrupted)
    assert call(main, "progress") == (130, "", "course: stopped.\n")


def test_a_file_that_is_no_text_is_said(learner_folder):
    learner_folder.mkdir()
    (learner_folder / "l00_kv_cache.py").write_bytes(b"\xff\xfe\x00")
    status, _, error = call(main, "check", "l00")
    assert status == 2 and error.endswith("l00_kv_cache.py is UTF-16 text: save it as UTF-8.\n")


def test_what_the_machine_refuses_is_said_in_one_sentence(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").touch()
    assert main(["site", str(tmp_path / "file" / "site")]) == 2
    monkeypatch.setitem(sys.modules, "course.publish.site_files", None)
    assert main(["site", str(tmp_path / "site")]) == 2
    refused, missing = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"course: \S+file: something else stands in its place: move it away\.", refused
    )
    assert "cannot be loaded (import of course.publish.site_files" in missing


# --- the map --------------------------------------------------------------------------------------


def test_the_map_lists_the_exercises_of_the_registry():
    for lesson in LESSONS:
        listed = [(item.id, item.title, item.minutes) for item in entries(lesson)]
        assert listed == [(e.id, e.title, e.minutes) for e in lesson_exercises(lesson.stem)]
        assert sum(item.minutes for item in entries(lesson)) < lesson.minutes
        assert (ROOT / "lessons" / f"{lesson.stem}.py").is_file()


@pytest.mark.parametrize(
    ("wanted", "number"),
    [("l01", "1"), ("1", "1"), ("work/l01_chunked_prefill.py", "1"), ("l04b", "4b"), ("4b", "4b"),
     ("l04", "4"), ("L04B", "4b"), ("l3", "3"), ("03b", "3b"), ("l00_kv_cache.ipynb", "0")],
)  # fmt: skip
def test_a_lesson_is_found_by_any_of_its_names(wanted, number):
    assert find_lesson(wanted).number == number


def test_every_exercise_is_found_by_any_of_its_names_and_only_there():
    for lesson in LESSONS:
        for place, item in enumerate(entries(lesson), 1):
            heads = lesson.short, lesson.stem, lesson.number, item.id.partition(".")[0]
            ways = [f"{head}.{item.name}" for head in heads] + [f"{lesson.number}.{place}"]
            assert {find_id(each) for each in (*ways, item.name)} == {(lesson, item)}
            with pytest.raises(
                ValueError, match=f"is an exercise; name its lesson, {lesson.short}"
            ):
                find_lesson(item.id)


def test_a_task_and_its_hints_show_in_the_terminal_as_on_the_page(capsys, learner_folder):
    for item in exercises():
        assert main(["task", item.id]) == 0
        shown = capsys.readouterr().out
        assert f"Write `{item.name}`" in shown and max(map(len, shown.splitlines())) <= 80
        words = " ".join(shown.split())
        assert all(" ".join(rule.split()) in words for rule in item.task.rules)
    for opened in (1, 2, 3, 3):
        assert main(["hint", item.id]) == 0
        assert capsys.readouterr().out.count("Hint ") == opened == hints(item.id).shown


def test_the_overview_starts_at_lesson_0_and_names_what_a_lesson_builds_on():
    html = overview()._repr_html_()
    assert "Start here:" in html
    assert 'class="sng-go" href="/?file=l00_kv_cache.py"' in html
    assert f"0 of {len(exercises())} exercises passed" in html
    assert "Lesson 4b ·" in html and "builds on lesson 4 ·" in html


SETUP_CELL = """import sys, course.overview
from course.attempt import attempt, exhibit
from course.lazy import torch
from course.prediction import after, hints, predict
from course.task import task
assert not {'torch', 'numpy', 'course.checks'} & set(sys.modules)
assert torch.arange(2).tolist() == [0, 1]
assert (torch.nn.functional.__name__, torch.__name__) == ('torch.nn.functional', 'torch')"""


@pytest.mark.process
def test_a_setup_cell_imports_no_more_than_is_needed():
    assert run([sys.executable, "-c", SETUP_CELL], cwd=ROOT).stderr == ""


@pytest.mark.process
def test_a_check_of_whole_numbers_imports_torch_in_neither_process_and_no_other_exercise(tmp_path):
    (tmp_path / "l01.py").write_text(
        "import sys\n\n\ndef chunk_size(*_):\n    return ['t' 'orch' in sys.modules]\n"
    )
    program = (
        "import sys\nfrom course.__main__ import main\n"
        "main(['check', 'l01.chunk_size', '--file', sys.argv[1]])\n"
        "print({'torch', 'solutions.l01_chunked_prefill.plan_step'} & set(sys.modules))"
    )
    done = run([sys.executable, "-c", program, tmp_path / "l01.py"], cwd=ROOT)
    assert "[False]" in done.stdout and done.stdout.endswith("set()\n"), done
