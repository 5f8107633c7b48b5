"""The lessons: their form, and what they show unsolved, solved, and as notebooks in Jupyter."""

import ast
import importlib
import inspect
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from answers import worked
from notebooks import FILES, STEMS, Notebooks
from tiers import some

from course.lesson_map import LESSONS, entries, find_lesson
from course.publish.notebook_blocks import Exercise
from course.registry import exercise, lesson_exercises
from nanogpt.clock import LARGE_GPU
from nanogpt.experiments.trace_metrics import request_metrics

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in FILES}
# Predictions that nothing on the page has to wait for: only their own reveals answer them.
NOTHING_ANSWERS = {
    "l02.place",
    "l03.harmless",
    "l05.price",
    "l05.shared_pass",
    "l05.slack_or_deadline",
    "l06.late_abort",
    "l06.exhibit_a",
    "l06.exhibit_b",
    "l07.counted",
    "l07.late_copy",
    "l08.legal_tokens",
    "l08.mask_rows",
    "l08.last_chance",
    "l08.conditioned",
    "l09.baseline",
    "l10.http_share",
}
# How much below these stays as it is: no request of a run comes to call the answer, or, in 9b, the
# reference or a recording takes its place.
UNCHANGED = {
    "l04.evict": 1, "l05.select_victim": 1, "l07.evict_order": 1, "l09.split_pool": 2,
    "l09.blocks_to_send": 1, "l09.may_free": 1,
}  # fmt: skip
SOLVED = some(STEMS, 8)
ANSWERED = [item.id for lesson in LESSONS for item in entries(lesson) if lesson.stem in SOLVED]
# What a lesson's prose relies on, as its own runs must show it.
CLAIMS: dict[str, list[str]] = {
    "l00_kv_cache": [
        "writes the same characters",
        "3 354 11.0 ms 0.6 ms 0.6 ms 0.6 ms",
        "0 28 1.7 ms 0.5 ms 11.0 ms 1.0 ms",
    ],
    "l01_chunked_prefill": [
        "whole prompts 304 ×1.00 54.3 ms ×1.00 205.7 ms",
        "chunks, budget 8 262 ×0.86 77.9 ms ×1.44 5.6 ms",
        "chunks, budget 16 342 ×1.13 56.5 ms ×1.04 8.4 ms",
        "chunks, budget 32 347 ×1.14 56.7 ms ×1.04 15.3 ms",
        "chunks, budget 128 317 ×1.04 54.8 ms ×1.01 64.4 ms",
        "1 layer, random weights 0 0 2 layers, random weights 0 0.019",
    ],
    "l02_scheduling": [
        "194 of the computed tokens were recomputed ones.",
    ],
    "l02b_waiting": [
        "earlier arrival first 20.4, 47 24.5, 47 27.0, 47",
        "fewer tokens left first 16.4, 63 15.4, 87 14.7, 135",
        "strict priority 10.0 steps ageing, 20 steps a level 12.7 steps",
    ],
    "l03_interleaving": [
        "30 model calls in 30 steps.",
    ],
    "l03b_packing": [
        "30 338 871 all six equal the oracle's",
        "one, packed packed 30 338 338 all six equal the oracle's",
        "one, packed, one mask single_mask 30 338 338 all six equal the oracle's",
        "12.2 ms, ×1.00",
        "51.7 ms, ×4.23",
    ],
    "l04b_window_quality": [
        "its loss is 1.33 nats per character.",
        "W = 16 adds 1.42 nats, and at 60% of the positions another character",
        "Even W = 128 adds 0.54.",
        "20 back: 0.15, 32 back: 3.7e-06, 33 back: 0",
        "layer 0 +1.32, layer 1 +0.00, layer 2 +0.28, layer 3 +0.04",
        "the window then adds 0.78 nats and not 1.42.",
        "when only layer 0 keeps them, the window adds 0.80.",
        "+1.171 85% → 50%",
        "1.30, against 1.24 with the full context and 2.82 under the window",
    ],
    "l07_blocks": [
        "All six texts equal those of the oracle generate() , token for token",
        "Prefills computed 180 tokens; 112 more were found in cached blocks.",
        "slots 5,120 7,680",
        "blocks of 16, yours 800 992",
        "1,088 1,344",
    ],
    "l07b_spilling": [
        "All six texts equal those of the oracle generate() , token for token",
        "Prefills computed 147 tokens. 144 were found: 0 in the pool, and 144 only in the host",
    ],
    "l08_speculation": [  # alone a gain; in a large batch only where little is rejected
        "an ordinary opening 1 44 20 of 145 1.45 ×1.21 ×0.65",
        "an ordinary opening 3 53 11 of 20 1.21 ×1.18 ×1.06",
    ],
    "l08b_legal_tokens": [
        "0 of 16",
        "16 of 16",
        "40 0 of 4 4 of 4",
        "only the target 0.30 both 0.80",
    ],
    "l09b_prefill_here": [
        "120 per second, 1000 + 60 tokens 67 12 120 120 120",
        "100 per second, 100 + 250 tokens 100 100 100 15 100",
        "32 tokens count as computed, and the last is computed behind them 'er of this true",
    ],
    "l10_capstone": [
        "HTTP/1.1 200 OK",
        "All six texts are the oracle's",
        "200 its whole text",
        "60 of 60 the oracle's",
        "characters instead of 40",
        "The step ended with KeyError: 1",
    ],
    "l11_milliseconds": [
        "All six texts equal those of the oracle. ",
        "8B, H100: 1 decode 4.82 ms memory",
        "8B, H100: a chunk of 2,048 33.1 ms compute",
        "8B in 8 bits, H100: 1 decode 2.43 ms memory",
        "2 of 6 texts are wrong",
        "8 bits 14 of 489 65,664 B 487",
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
    from course.marimo_internals import MarimoConvert  # takes a second

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


def test_a_cell_uses_names_of_the_cells_above_it_since_jupyter_runs_them_in_that_order():
    for stem, text in TEXTS.items():
        above = set[str]()
        for cell in [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)]:
            if "app.cell" in ast.unparse(cell.decorator_list[0]):
                below = {argument.arg for argument in cell.args.args} - above
                assert below == set(), (stem, cell.lineno)
            above |= {cell.name, *re.findall(r"\w+", ast.unparse(cell.body[-1]))}


INTRODUCED = {
    "packed": "3b", "sliding window": "4", "slack": "5", "repair ladder": "5b",
    "tensor parallel": "6", "block table": "7", "prefix hit": "7", "shared prefix": "7",
    "draft token": "8", "rejection sampling": "8", "router": "9", "fleet": "9",
}  # fmt: skip
"""The lesson that introduces a term. What other engines do (the last section) may name more."""


def test_no_lesson_uses_a_term_that_a_later_one_introduces():
    order = [lesson.number for lesson in LESSONS]
    for lesson in LESSONS:
        prose = TEXTS[lesson.stem].partition("## The same in vLLM and SGLang")[0]
        for paragraph in prose.split("\n\n"):
            if not re.search(r"[Ll]essons? \d", paragraph):
                early = {
                    term: first
                    for term, first in INTRODUCED.items()
                    if order.index(lesson.number) < order.index(first)
                    and re.search(rf"\b{term}", paragraph, re.I)
                }
                assert early == {}, (lesson.stem, paragraph)


def test_the_exercises_of_a_lesson_are_the_registry_s_with_a_task_before_each_stub():
    for stem in STEMS:
        ids = [item.id for item in lesson_exercises(stem)]
        assert [f"{stem[:3]}.{name}" for name in exercise_functions(stem)] == ids, stem
        assert calls(TEXTS[stem], "attempt") == ids, stem
        assert calls(TEXTS[stem], "hints") == ids, stem
        above = TEXTS[stem]
        for item in reversed(lesson_exercises(stem)):
            above, stub, _ = above.partition(f"\n@app.function\ndef {item.name}(")
            tasks = re.findall(r'^    task\("([\w.]+)"\)$', above, re.M)
            assert stub and tasks[-1:] == [item.id]


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
@pytest.mark.parametrize("stem", SOLVED)
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
    if any(item.is_policy for item in exercises):
        only_unsolved = sentences(exported.texts) - sentences(notebooks.solved(path.stem).texts)
        assert any(re.search(r"\breference\b", text) for text in only_unsolved)


def sentences(texts: list[str]) -> set[str]:
    return {" ".join(re.sub(r"<.*?>", " ", text).split()) for text in texts}


@pytest.mark.process
@pytest.mark.parametrize("exercise_id", some(ANSWERED, 4))
def test_whatever_a_page_shows_of_an_answer_changes_with_it_and_the_lesson_goes_on(
    exercise_id: str, notebooks: Notebooks, tmp_path: Path
):
    """An answer that raises an error, after all right ones. Its own card is no part of slides."""
    item = exercise(exercise_id)
    answer = tmp_path / "answer.py"
    answer.write_text(f"def {item.name}(*given):\n    raise KeyError(given)\n")
    names = runpy.run_path(str(answer), run_name="solutions.nothing")
    visit = notebooks.changed(item.lesson, {item.name: names[item.name]})
    assert visit.statuses[exercise_id] == "raised"
    unchanged = [each for each in visit.unchanged if not isinstance(each, Exercise)]
    assert len(unchanged) == UNCHANGED.get(exercise_id, 0), unchanged


@pytest.mark.process
def test_what_lesson_1_says_of_chunks_their_price_and_a_late_arrival(notebooks: Notebooks):
    names = notebooks.solved("l01_chunked_prefill").names
    works = [work for step in names["chunked_gpu"].steps for work in step.work]
    assert len([each for each in works if (each.request_id, each.kind) == (4, "prefill")]) == 15
    on_cpu = names["on_cpu"]
    assert all(run.tokens_per_s <= on_cpu["whole prompts"].tokens_per_s for run in on_cpu.values())
    starts = []
    for trace in (names["late"], names["on_time"]):
        steps = [step for step in trace.steps if any(work.request_id == 2 for work in step.work)]
        starts.append((steps[0].step, round(request_metrics(trace, 2).ttft_us / 1000, 1)))
    assert starts == [(27, 133.4), (3, 5.3)]
    costs = {n: LARGE_GPU.step_us(n, 4) - LARGE_GPU.step_us(0, 4) for n in (4, 8, 16, 32)}
    assert costs == {4: 0, 8: 0, 16: 3520, 32: 11712}
