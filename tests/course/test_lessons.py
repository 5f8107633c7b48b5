"""The lessons: their form, and what they show unsolved, solved, and as notebooks in Jupyter."""

import ast
import importlib
import inspect
import re
import subprocess
import sys

import pytest
from answers import worked
from notebooks import FILES, STEMS, Notebooks
from tiers import some

from course.lesson_map import find_lesson
from course.registry import lesson_exercises
from nanogpt import Trace
from nanogpt.experiments.trace_metrics import summary

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in FILES}
# Predictions that nothing on the page has to wait for: only their own reveals answer them.
NOTHING_ANSWERS = {
    "l02.tie",
    "l02.place",
    "l03.harmless",
    "l04.position_64",
    "l05.price",
    "l06.late_abort",
    "l06.exhibit_a",
    "l06.exhibit_b",
}
# What a lesson's prose relies on, as its own runs must show it.
CLAIMS: dict[str, list[str]] = {
    "l00_kv_cache": [
        "writes the same 40 characters",
        "3 354 11.0 ms 0.6 ms 0.6 ms 0.6 ms",
        "0 28 1.7 ms 0.5 ms 11.0 ms 1.0 ms",
    ],
    "l02_scheduling": [
        "34 computed, 10 sampled.",
        "Its text is the same as that of an undisturbed run.",
        "request 3 takes 42 steps instead of 19, and request 4, which came after it, 16",
        "recomputed are 60 tokens instead of 81",
        "Preempted IDs: [0]",
        "KV cache length: 19 ✓",
    ],
    "l02b_waiting": [
        "20.4 and 47, 24.5 and 47, 27.0 and 47. ",
        "16.4 and 63, 15.4 and 87, 14.7 and 135.",
    ],
    "l03_interleaving": [
        "Four rows of 8 are 32 tokens for 11 useful ones",
        "the oracle's texts, holds.",
        "338 useful tokens, 871 computed (39%)",
    ],
    "l03b_packing": [
        "30 338 871 all six the oracle's",
        "one, packed packed 30 338 338 all six the oracle's",
        "one, packed, one mask single_mask 30 338 338 all six the oracle's",
        "51.7 ms, ×4.23",
        "8 rows of 200 are 1,600 tokens, 207 of them useful",
        "63 beside 4",
    ],
    "l04b_window_quality": [
        "2.75. The window adds 1.42 nats, and at 60% of the positions",
        "Even W = 128 adds 0.54.",
        "20 back: 0.15, 32 back: 3.7e-06, 33 back: 0",
        "layer 0 +1.32, layer 1 +0.00, layer 2 +0.28, layer 3 +0.04",
        "1.30, against 1.24 with the full context and 2.82 under the window",
    ],
    "l05_slo_policy": ["chunks of 128 726 ms 1,784 ms, ×2.46 56 ms"],
    "l05b_repair_ladder": ["200 tokens + 300 + 300 + 300 120 ms missed"],
    "l07_blocks": [
        "All six texts equal those of the oracle generate() , token for token",
        "Prefills computed 180 tokens; 112 more were found in blocks.",
        "slots 5,120 7,680",
        "blocks of 16, yours 800 992",
        "1,088 1,344",
        "Counted over a run of 24 requests on this engine: 11%",
    ],
    "l10_capstone": [
        "All six texts are the oracle's",
        "12 clients at once, room for 5",
        "The other three texts are the oracle's.",
    ],
}


def exercise_functions(stem: str) -> dict[str, ast.FunctionDef]:
    """The stubs of a lesson by name, in their order: functions that raise NotImplementedError."""
    functions = [node for node in ast.parse(TEXTS[stem]).body if isinstance(node, ast.FunctionDef)]
    return {
        node.name: node for node in functions if "raise NotImplementedError" in ast.unparse(node)
    }


def calls(text: str, function: str) -> list[str]:
    """The keys that a lesson calls one of the course's functions with, in their order."""
    return re.findall(rf'{function}\(\s*"([\w.]+)"', text)


# ---- the form ------------------------------------------------------------------------------------


@pytest.mark.process
def test_marimo_check_finds_nothing():
    command = [sys.executable, "-m", "marimo", "check", "--strict", *map(str, FILES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_notebook_is_saved_the_way_marimo_saves_it():
    from marimo._convert.converters import MarimoConvert  # takes a second

    for stem, text in some(TEXTS.items(), 16):
        assert MarimoConvert.from_py(text).to_py() == text, stem


def test_a_cell_that_is_only_a_text_is_one_literal_in_triple_quotes():
    """An open page takes such a cell for Markdown and saves any other form corrupted."""
    for stem, text in TEXTS.items():
        for cell in ast.parse(text).body:
            match getattr(cell, "body", None):
                case [ast.Expr(ast.Call(ast.Attribute(attr="md"), [literal])), *end]:
                    if isinstance(literal, ast.Constant | ast.JoinedStr) and len(end) < 2:
                        source = ast.get_source_segment(text, literal)
                        assert re.fullmatch(r'r?f?""".*"""', source, re.DOTALL), (stem, source)


def test_a_notebook_names_the_language_of_its_code_and_neither_marimo_s_ui_nor_a_machine_s_path():
    for stem, text in TEXTS.items():
        assert "" not in re.findall(r"^ *```(.*)$", text, re.MULTILINE)[::2], stem
        assert re.findall(r"mo\.(?:ui|callout)\b", text) == [], stem
        assert re.findall(r"(?<![\w.])/(?:work|root|tmp|home|Users)/\S*", text) == [], stem


def test_the_exercises_of_a_lesson_are_the_registry_s_with_a_task_before_each_stub():
    for stem in STEMS:
        ids = [item.id for item in lesson_exercises(stem)]
        assert [f"{stem[:3]}.{name}" for name in exercise_functions(stem)] == ids, stem
        assert calls(TEXTS[stem], "attempt") == ids, stem
        assert calls(TEXTS[stem], "hints") == ids, stem
        cells = TEXTS[stem].split("\n\n\n@app.")
        for item in lesson_exercises(stem):
            stub = f"function\ndef {item.name}("
            [place] = [at for at, cell in enumerate(cells) if cell.startswith(stub)]
            assert re.findall(r'^    task\("([\w.]+)"\)$', cells[place - 1], re.M) == [item.id]


def test_a_stub_has_its_solution_s_signature_a_short_docstring_and_says_which_exercise_it_is():
    for stem in some(STEMS, 14):
        lesson, number = importlib.import_module(f"lessons.{stem}"), find_lesson(stem).number
        nodes = exercise_functions(stem)
        for place, item in enumerate(lesson_exercises(stem), start=1):
            stub = getattr(lesson, item.name)
            assert inspect.signature(stub) == inspect.signature(worked(item.id)), item.id
            assert len((inspect.getdoc(stub) or "").splitlines()) in (1, 2), item.id
            _, only = nodes[item.name].body
            assert f"NotImplementedError('Exercise {number}.{place}: " in ast.unparse(only)


def test_what_answers_a_prediction_waits_for_it():
    for stem in STEMS:
        asked, waiting = calls(TEXTS[stem], "predict"), set(calls(TEXTS[stem], "after"))
        assert waiting <= set(asked), stem
        assert set(asked) - waiting <= NOTHING_ANSWERS, stem


# ---- runs ----------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("stem", STEMS)
def test_a_solved_lesson_passes_every_check_and_shows_what_its_prose_claims(
    stem: str, notebooks: Notebooks
):
    visit = notebooks.solved(stem)
    assert visit.statuses == {item.id: "passed" for item in lesson_exercises(stem)}
    assert [claim for claim in CLAIMS.get(stem, []) if claim not in visit.words] == []


@pytest.mark.process
@pytest.mark.parametrize("path", some(FILES, 1), ids=lambda path: path.stem)
def test_a_notebook_exported_for_jupyter_runs_from_top_to_bottom_unsolved_and_solved(
    path, notebooks: Notebooks
):
    """The check of an exercise answers when its cell runs; unsolved, the reference stands in."""
    exported = notebooks.exported(path.stem)
    exercises = lesson_exercises(path.stem) if path.stem in STEMS else []
    ids = [item.id for item in exercises]
    assert exported.errors == []
    assert exported.statuses == dict.fromkeys(ids, "not_started")
    assert path.stem not in STEMS or exported.num_widgets > 0
    assert exported.solved == dict.fromkeys(ids, "passed")
    if any(item.part for item in exercises):
        only_unsolved = sentences(exported.texts) - sentences(notebooks.solved(path.stem).texts)
        assert any(re.search(r"\breference\b", text) for text in only_unsolved)


def sentences(texts: list[str]) -> set[str]:
    return {" ".join(re.sub(r"<.*?>", " ", text).split()) for text in texts}


@pytest.mark.process
def test_chunks_shrink_gaps_cost_ttft_and_gain_throughput_only_on_the_gpu(notebooks: Notebooks):
    """What the first prediction of lesson 1 reveals."""
    names = notebooks.solved("l01_chunked_prefill").names
    traces = {name: value for name, value in names.items() if isinstance(value, Trace)}
    runs = {name: summary(trace) for name, trace in traces.items()}
    for machine, more_tokens_per_s in (("gpu", True), ("cpu", False)):
        whole, chunks = runs[f"whole_{machine}"], runs[f"chunked_{machine}"]
        assert chunks.worst_itl_us * 5 < whole.worst_itl_us
        assert chunks.mean_ttft_us > whole.mean_ttft_us
        assert (chunks.tokens_per_s > whole.tokens_per_s) is more_tokens_per_s
