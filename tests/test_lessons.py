"""The lessons: marimo's own form, run unsolved and solved, as a notebook file, and their links.

The pristine files are run in processes of their own, two at a time, each once for all tests.
"""

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from marimo._convert.converters import MarimoConvert
from support import ROOT

from course.registry import lesson_exercises

FILES = sorted((ROOT / "lessons").glob("*.py"))
STEMS = [path.stem for path in FILES if re.match(r"l\d\d_", path.stem)]
LIMIT_S = 400

# Runs one notebook twice in a process, as it is and with the solutions in place of the stubs.
RUN = r"""
import dataclasses, importlib, json, sys
import marimo
from course.attempt import Attempt
from course.registry import lesson_exercises
from nanogpt import Trace
from nanogpt.metrics import summary

stem = sys.argv[1]
app = importlib.import_module(f"lessons.{stem}").app
exercises = lesson_exercises(stem)

def run(answers):
    outputs, defs = app.run(defs=answers)
    attempts = [value.report for value in defs.values() if isinstance(value, Attempt)]
    return {
        "statuses": {report.exercise: report.status for report in attempts},
        "texts": [output.text for output in outputs if isinstance(output, marimo.Html)],
        "runs": {
            name: dataclasses.asdict(summary(value)) | {"num_steps": len(value.steps)}
            for name, value in defs.items()
            if isinstance(value, Trace)
        },
    }

found = {"unsolved": run({})}
if exercises:
    solutions = importlib.import_module(f"solutions.{stem}")
    found["solved"] = run({item.name: getattr(solutions, item.name) for item in exercises})
print(json.dumps(found))
"""

# Exports a notebook to .ipynb and runs it in a Jupyter kernel; prints each cell's error, if any.
EXPORT = r"""
import json, subprocess, sys
import nbformat
from nbclient import NotebookClient

source, target = sys.argv[1:]
command = [sys.executable, "-m", "marimo", "export", "ipynb", source, "--sort", "top-down"]
subprocess.run([*command, "-o", target], check=True, stdout=subprocess.DEVNULL)
notebook = nbformat.read(target, as_version=4)
client = NotebookClient(notebook, timeout=300, kernel_name="python3", allow_errors=True)
client.execute()
outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
widgets = "application/vnd.jupyter.widget-view+json"
print(json.dumps({
    "errors": [f"{o.ename}: {o.evalue}" for o in outputs if o.output_type == "error"],
    "widgets": sum(widgets in output.get("data", {}) for output in outputs),
}))
"""


class Jobs:
    """Processes started once, on first use, and waited for by whoever asks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pool = ThreadPoolExecutor(max_workers=2)
        self.started: dict[tuple[str, str], Future[dict[str, Any]]] = {}

    def start(self, kind: str, stem: str) -> "Future[dict[str, Any]]":
        if (kind, stem) not in self.started:
            arguments = [stem] if kind == "run" else self._export_arguments(stem)
            code = RUN if kind == "run" else EXPORT
            self.started[kind, stem] = self.pool.submit(self._process, code, arguments)
        return self.started[kind, stem]

    def _export_arguments(self, stem: str) -> list[str]:
        return [str(ROOT / "lessons" / f"{stem}.py"), str(self.folder / f"{stem}.ipynb")]

    def _process(self, code: str, arguments: list[str]) -> dict[str, Any]:
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",  # two processes at a time, on two cores
            "SERVING_NANOGPT_WORK": str(self.folder / "learner"),
        }
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def jobs(tmp_path_factory, request):
    jobs = Jobs(tmp_path_factory.mktemp("lessons"))
    wanted = {item.originalname for item in request.session.items if item.path == Path(__file__)}
    for path in FILES:  # all at once, so that the second core has something to do
        if any("jupyter" not in name for name in wanted):
            jobs.start("run", path.stem)
        if any("jupyter" in name for name in wanted):
            jobs.start("export", path.stem)
    yield jobs
    jobs.pool.shutdown(cancel_futures=True)


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


def test_marimo_check_finds_nothing():
    command = [sys.executable, "-m", "marimo", "check", "--strict", *map(str, FILES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_is_saved_the_way_marimo_saves_it(path: Path):
    text = path.read_text()
    assert MarimoConvert.from_py(text).to_py() == text


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
def test_a_stub_says_which_exercise_it_is_and_does_nothing_else(stem: str):
    number = int(stem[1:3])
    for place, (name, node) in enumerate(exercise_functions(stem).items(), start=1):
        docstring, *rest = node.body
        assert isinstance(docstring, ast.Expr), name
        assert len(rest) == 1, name
        assert f"NotImplementedError('Exercise {number}.{place}: " in ast.unparse(rest[0])


@pytest.mark.parametrize("stem", STEMS)
def test_a_stub_has_the_signature_and_docstring_of_its_solution(stem: str):
    lesson = importlib.import_module(f"lessons.{stem}")
    solutions = importlib.import_module(f"solutions.{stem}")
    for item in lesson_exercises(stem):
        stub, solution = getattr(lesson, item.name), getattr(solutions, item.name)
        assert inspect.signature(stub) == inspect.signature(solution), item.id
        assert inspect.getdoc(stub) == inspect.getdoc(solution), item.id


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_unsolved_notebook_runs_and_every_check_says_not_started(path: Path, jobs: Jobs):
    unsolved = jobs.start("run", path.stem).result()["unsolved"]
    ids = [item.id for item in lesson_exercises(path.stem)]
    assert unsolved["statuses"] == dict.fromkeys(ids, "not_started")


@pytest.mark.parametrize("stem", STEMS)
def test_a_solved_lesson_runs_and_every_check_passes(stem: str, jobs: Jobs):
    solved = jobs.start("run", stem).result()["solved"]
    ids = [item.id for item in lesson_exercises(stem)]
    assert solved["statuses"] == dict.fromkeys(ids, "passed")


@pytest.mark.parametrize("stem", [stem for stem in STEMS if feeds_the_engine(stem)])
def test_an_unsolved_lesson_says_that_the_engine_runs_on_the_reference(stem: str, jobs: Jobs):
    """Where answers go into the engine; the sentence is gone once they do."""
    found = jobs.start("run", stem).result()
    only_unsolved = set(found["unsolved"]["texts"]) - set(found["solved"]["texts"])
    assert any(re.search(r"\breference\b", text) for text in only_unsolved)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_exported_for_jupyter_runs_from_top_to_bottom(path: Path, jobs: Jobs):
    found = jobs.start("export", path.stem).result()
    assert found["errors"] == []
    assert path.stem == "index" or found["widgets"] > 0


def test_the_index_links_to_lessons_that_exist():
    """Its map is drawn by the course; every lesson that is there must be linked, and no other."""
    from course.overview import overview

    drawn = overview()._repr_html_()
    linked = set(re.findall(r'href="/\?file=([^"&]+)"', drawn))
    assert linked == {f"{stem}.py" for stem in STEMS}


def test_lesson_1_says_of_chunks_what_its_runs_show(jobs: Jobs):
    """What its first prediction reveals: gaps shrink, only the GPU gains throughput, TTFT pays."""
    runs = jobs.start("run", "l01_chunked_prefill").result()["unsolved"]["runs"]
    for machine, more_tokens_per_s in (("gpu", True), ("cpu", False)):
        whole, chunks = runs[f"whole_{machine}"], runs[f"chunked_{machine}"]
        assert chunks["worst_itl_us"] * 5 < whole["worst_itl_us"]
        assert chunks["mean_ttft_us"] > whole["mean_ttft_us"]
        assert (chunks["tokens_per_s"] > whole["tokens_per_s"]) is more_tokens_per_s
    assert all(run["num_steps"] <= 60 for run in runs.values())
