"""The lessons: marimo's own form, run unsolved and solved, as a notebook file, and their links."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from answers import worked
from marimo._convert.converters import MarimoConvert
from notebooks import FILES, STEMS, Notebooks
from support import ROOT

from course.lesson_map import find_lesson
from course.registry import lesson_exercises
from nanogpt import Trace
from nanogpt.experiments.trace_metrics import summary

NOTHING_ANSWERS: dict[str, str] = {
    # prediction: why nothing on the page has to wait for it
    "l02.tie": "only its own reveal says it",
    "l02.place": "only its own reveal says it",
    "l03.harmless": "only its own reveal says it",
    "l04.position_64": "only its own reveal says it",
    "l05.price": "only its own reveal says it",
    "l06.late_abort": "only its own reveal says it",
    "l06.exhibit_a": "only its own reveal says it",
    "l06.exhibit_b": "only its own reveal says it",
}


def feeds_the_engine(stem: str) -> bool:
    """Whether an answer of the lesson becomes a part of the engine."""
    return any(item.part for item in lesson_exercises(stem))


def exercise_functions(stem: str) -> dict[str, ast.FunctionDef]:
    """The stubs of a lesson by name, in their order: functions that raise NotImplementedError."""
    tree = ast.parse((ROOT / "lessons" / f"{stem}.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {
        node.name: node for node in functions if "raise NotImplementedError" in ast.unparse(node)
    }


@pytest.mark.process
def test_marimo_check_finds_nothing():
    command = [sys.executable, "-m", "marimo", "check", "--strict", *map(str, FILES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_is_saved_the_way_marimo_saves_it(path: Path):
    text = path.read_text()
    assert MarimoConvert.from_py(text).to_py() == text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_text_alone_in_its_cell_is_one_literal_in_triple_quotes(path: Path):
    """An open page takes such a cell for Markdown and saves it anew, any other form corrupted."""
    text = path.read_text()
    for cell in ast.parse(text).body:
        if not isinstance(cell, ast.FunctionDef):
            continue
        match cell.body:
            case [ast.Expr(ast.Call(ast.Attribute(attr="md"), [literal])), *end]:
                if isinstance(literal, ast.Constant | ast.JoinedStr) and len(end) < 2:
                    source = ast.get_source_segment(text, literal)
                    assert re.fullmatch(r'r?f?""".*"""', source, re.DOTALL), source


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_block_of_code_says_its_language_for_else_marimo_guesses_its_colours(path: Path):
    fences = re.findall(r"^ *```(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert {opening for opening in fences[::2] if not opening} == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_needs_neither_marimos_ui_nor_its_callouts(path: Path):
    assert re.findall(r"mo\.(?:ui|callout)\b", path.read_text()) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_names_no_path_of_a_machine(path: Path):
    assert re.findall(r"(?<![\w.])/(?:work|root|tmp|home|Users)/\S*", path.read_text()) == []


@pytest.mark.parametrize("stem", STEMS)
def test_the_exercises_of_a_lesson_are_those_of_the_registry_in_their_order(stem: str):
    exercises = lesson_exercises(stem)
    text = (ROOT / "lessons" / f"{stem}.py").read_text()
    assert list(exercise_functions(stem)) == [item.name for item in exercises]
    assert re.findall(r'attempt\(\s*"([\w.]+)"', text) == [item.id for item in exercises]
    assert re.findall(r'hints\(\s*"([\w.]+)"', text) == [item.id for item in exercises]


@pytest.mark.parametrize("stem", STEMS)
def test_a_card_with_the_task_stands_right_before_each_stub(stem: str):
    """So that the page can frame the learner's own cell, and app mode shows the task."""
    cells = (ROOT / "lessons" / f"{stem}.py").read_text().split("\n\n\n@app.")
    for name in exercise_functions(stem):
        [place] = [at for at, cell in enumerate(cells) if cell.startswith(f"function\ndef {name}(")]
        before = re.findall(r'^    task\("([\w.]+)"\)$', cells[place - 1], re.MULTILINE)
        assert before == [f"{stem[:3]}.{name}"], name


@pytest.mark.parametrize("stem", STEMS)
def test_a_stub_says_which_exercise_it_is_and_does_nothing_else(stem: str):
    number = find_lesson(stem).number
    for place, (name, node) in enumerate(exercise_functions(stem).items(), start=1):
        docstring, *rest = node.body
        assert isinstance(docstring, ast.Expr), name
        assert len(rest) == 1, name
        assert f"NotImplementedError('Exercise {number}.{place}: " in ast.unparse(rest[0])


@pytest.mark.parametrize("stem", STEMS)
def test_a_stub_has_the_signature_of_its_solution_and_a_docstring_of_a_line_or_two(stem: str):
    lesson = importlib.import_module(f"lessons.{stem}")
    for item in lesson_exercises(stem):
        stub, solution = getattr(lesson, item.name), worked(item.id)
        assert inspect.signature(stub) == inspect.signature(solution), item.id
        assert len((inspect.getdoc(stub) or "").splitlines()) in (1, 2), item.id


@pytest.mark.parametrize("stem", STEMS)
def test_what_answers_a_prediction_waits_for_it(stem: str):
    text = (ROOT / "lessons" / f"{stem}.py").read_text()
    asked = re.findall(r'predict\(\s*"([\w.]+)"', text)
    waiting = set(re.findall(r'after\(\s*"([\w.]+)"', text))
    assert waiting <= set(asked)
    assert [key for key in asked if key not in waiting and key not in NOTHING_ANSWERS] == []


@pytest.mark.parametrize("stem", STEMS)
def test_a_prediction_s_words_ask_for_nothing_that_it_cannot_draw(stem: str):
    """It knows `code`, **bold** and line breaks; a single asterisk would stand there as it is."""
    tree = ast.parse((ROOT / "lessons" / f"{stem}.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    asked = [call for call in calls if ast.unparse(call.func) == "predict"]
    words = [
        node.value
        for call in asked
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert words
    assert [each for each in words if re.search(r"(?<!\*)\*(?!\*)\S[^*]*\S\*(?!\*)", each)] == []


@pytest.mark.parametrize("stem", STEMS)
def test_an_edit_runs_nothing_again_that_it_does_not_change(stem: str):
    """Weights, earlier answers and the reference's run stand in cells that ask for no attempt."""
    tree = ast.parse((ROOT / "lessons" / f"{stem}.py").read_text(encoding="utf-8"))
    for cell in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        asks = any(argument.arg.endswith("_attempt") for argument in cell.args.args)
        called = {node.func.id for node in ast.walk(cell) if is_named_call(node)}
        bound = {node.id for node in ast.walk(cell) if is_bound(node)}
        once = called & {"load_model", "load_parts"} | {n for n in bound if "reference_" in n}
        assert not (asks and once), once


def is_named_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def is_bound(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


@pytest.mark.parametrize("stem", STEMS)
def test_a_solved_lesson_runs_and_every_check_passes(stem: str, notebooks: Notebooks):
    ids = [item.id for item in lesson_exercises(stem)]
    assert notebooks.solved(stem).statuses == dict.fromkeys(ids, "passed")


@pytest.mark.parametrize("stem", [stem for stem in STEMS if feeds_the_engine(stem)])
def test_an_unsolved_lesson_says_that_the_engine_runs_on_the_reference(
    stem: str, notebooks: Notebooks
):
    """Where answers go into the engine; the sentence is gone once they do."""

    def sentences(texts: list[str]) -> set[str]:
        return {" ".join(re.sub(r"<.*?>", " ", text).split()) for text in texts}

    exported, solved = notebooks.exported(stem), notebooks.solved(stem)
    only_unsolved = sentences(exported.texts) - sentences(solved.texts)
    assert any(re.search(r"\breference\b", text) for text in only_unsolved)


@pytest.mark.process
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_exported_for_jupyter_runs_from_top_to_bottom_unsolved_and_solved(
    path: Path, notebooks: Notebooks
):
    """The check of an exercise answers when its cell runs."""
    exported = notebooks.exported(path.stem)
    ids = [item.id for item in lesson_exercises(path.stem)]
    assert exported.errors == []
    assert exported.statuses == dict.fromkeys(ids, "not_started")
    assert path.stem in ("glossary", "index") or exported.num_widgets > 0
    assert exported.solved == dict.fromkeys(ids, "passed")


def test_the_index_links_to_lessons_that_exist():
    """Its map is drawn by the course; every lesson that is there must be linked, and no other."""
    from course.overview import overview

    drawn = overview()._repr_html_()
    linked = set(re.findall(r'href="/\?file=([^"&]+)"', drawn))
    assert linked == {f"{stem}.py" for stem in STEMS}


def test_lesson_1_says_of_chunks_what_its_runs_show(notebooks: Notebooks):
    """What its first prediction reveals: gaps shrink, only the GPU gains throughput, TTFT pays."""
    names = notebooks.solved("l01_chunked_prefill").names
    traces = {name: value for name, value in names.items() if isinstance(value, Trace)}
    runs = {name: summary(trace) for name, trace in traces.items()}
    for machine, more_tokens_per_s in (("gpu", True), ("cpu", False)):
        whole, chunks = runs[f"whole_{machine}"], runs[f"chunked_{machine}"]
        assert chunks.worst_itl_us * 5 < whole.worst_itl_us
        assert chunks.mean_ttft_us > whole.mean_ttft_us
        assert (chunks.tokens_per_s > whole.tokens_per_s) is more_tokens_per_s
    assert all(len(trace.steps) <= 60 for trace in traces.values())
