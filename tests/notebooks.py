"""The lessons' notebooks run once for all tests, beside them, in a process of their own.

Every notebook is run untouched in a Jupyter kernel; every lesson also with all exercises answered,
its museum as it is shipped, and one with a museum then has it repaired.
"""

import atexit
import functools
import html
import importlib
import json
import multiprocessing
import os
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from answers import worked
from support import ROOT

from course.answers import source_of
from course.attempt import Attempt
from course.demo.slides import Slide, slides
from course.prediction import Withheld
from course.registry import lesson_exercises
from course.report import Report
from nanogpt import Trace
from nanogpt.fleet import FIFO

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient

FILES = sorted((ROOT / "lessons").glob("*.py"))
STEMS = [path.stem for path in FILES if re.match(r"l\d\d[a-z]?_", path.stem)]
LIMIT_S = 400
_WAIT_S = 3 * LIMIT_S  # for a notebook that stands behind others, on a machine that does much else
JUPYTER_WIDGET = "application/vnd.jupyter.widget-view+json"

MUSEUMS = {  # lesson: exhibit, what it should have been, and what its check says of it
    "l04_sliding_window": [
        ("exhibit_a", "evict", "one_per_call"),
    ],
    "l05_slo_policy": [
        ("exhibit_a", "gate", "margin_on_negative_scores"),
    ],
    "l07_fleet": [],
    "l08_speculation": [
        ("exhibit_a", "expected_tokens", "bonus_forgotten"),
        ("exhibit_b", "roll_back_kv", "keeps_rejected"),
    ],
    "l09_blocks": [
        ("exhibit_a", "block_hashes", "no_parent"),
        ("exhibit_b", "writable", "in_place_of_others"),
        ("exhibit_c", "release", "frees_all"),
        ("exhibit_e", "block_hashes", "no_salt"),
    ],
    "l10_capstone": [
        ("exhibit_a", "next_events", "newest_token"),
        ("exhibit_b", "next_events", "token_by_token"),
        ("exhibit_c", "on_disconnect", "computes_on"),
        ("exhibit_d", "admit_or_refuse", "never_refuses"),
        ("exhibit_e", "on_disconnect", "frees_in_mid_step"),
    ],
}


def outranks(waiter, runner, margin):
    """Exhibit A of lesson 5, repaired: a piece of a gate, where signs go first."""
    return waiter >= 0 and (runner < 0 or waiter > margin * runner)


def one_more(generations, request_id):
    """Exhibit A of lesson 7, repaired: a removal counts, as a push does."""
    return {**generations, request_id: generations.get(request_id, 0) + 1}


def sees_preemptions(totals):
    """Exhibit B of lesson 7, repaired: a test that a dead scheduler fails."""
    assert totals.preemptions > 0


def from_nothing(adaptive):
    """Exhibit C of lesson 7, repaired: a baseline that was built up, not switched off."""
    return FIFO


def once_committed(num_committed, num_new, size):
    """Exhibit D of lesson 9, repaired: only what a step has committed can be found."""
    return num_committed // size


def forget(written):
    """Exhibit C of lesson 8, repaired: the benchmark begins with an empty memory."""
    return ""


WITHOUT_EXERCISE = {
    "l05_slo_policy": {"exhibit_a": outranks},
    "l07_fleet": {
        "exhibit_a": one_more,
        "exhibit_b": sees_preemptions,
        "exhibit_c": from_nothing,
    },
    "l08_speculation": {"exhibit_c": forget},
    "l09_blocks": {"exhibit_d": once_committed},
}


@dataclass(frozen=True, slots=True)
class Visit:
    """What a run of a notebook left behind.

    `statuses` are the verdicts on the exercises by id; `reports` those on other functions, in the
    order of the cells, each with its misconception; `texts` is what was shown as words or tables;
    `names` are the values that cells name, as far as they can leave their process; `slides` is what
    `learn.py demo` would make of the page.
    """

    statuses: dict[str, str]
    reports: list[tuple[str, str, str | None]]
    texts: list[str]
    names: dict[str, Any]
    slides: tuple[Slide, ...]

    def trace(self, name: str) -> Trace:
        """The run that a cell names so."""
        assert isinstance(self.names[name], Trace)
        return self.names[name]

    def text(self, words: str) -> str:
        """The one output that has these words in it."""
        [found] = [text for text in self.texts if words in text]
        return found

    def table(self, words: str) -> dict[str, list[str]]:
        """The one table with these words in it: the first cell of each row, and the others."""
        rows = []
        for row in self.text(words).split("<tr>")[2:]:
            cells = re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)
            rows.append([html.unescape(re.sub(r"<.*?>", "", cell)) for cell in cells])
        return {row[0]: row[1:] for row in rows}


@dataclass(frozen=True, slots=True)
class Exported:
    """A notebook in Jupyter: its errors, its number of widgets, its cards, its HTML.

    All of the untouched one, and `solved` are its cards once each exercise's cell was answered and
    no other cell was run.
    """

    errors: list[str]
    num_widgets: int
    statuses: dict[str, str]
    texts: list[str]
    solved: dict[str, str]


# ---- in that process -----------------------------------------------------------------------------


def visit(stem: str, answers: dict[str, Any]) -> Visit:
    """Run a notebook with `answers` in place of the functions and values of these names."""
    return _left_behind(*importlib.import_module(f"lessons.{stem}").app.run(defs=answers))


def _left_behind(found: Sequence[Any], names: Mapping[str, Any]) -> Visit:
    import marimo  # takes a second, which only these processes should pay

    outputs = [each.content if isinstance(each, Withheld) else each for each in found]
    attempts = [value.report for value in names.values() if isinstance(value, Attempt)]
    cards = [each for each in outputs if isinstance(each, Report)]
    return Visit(
        {report.exercise: report.status for report in attempts},
        [(card.exercise, card.status, card.misconception) for card in cards],
        [output.text for output in outputs if isinstance(output, marimo.Html)],
        {name: value for name, value in names.items() if _can_leave(value)},
        slides(found),
    )


def _can_leave(value: Any) -> bool:
    if callable(value):
        return False
    try:
        pickle.dumps(value)
    except Exception:  # whatever it is that cannot be pickled
        return False
    return True


@functools.cache
def _run_solved(stem: str) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The outputs of the cells and the values of their names, all exercises answered."""
    answers = {item.name: worked(item.id) for item in lesson_exercises(stem)}
    return importlib.import_module(f"lessons.{stem}").app.run(defs=answers)


def _solved(stem: str) -> Visit:
    return _left_behind(*_run_solved(stem))


def _repaired(stem: str) -> Visit:
    """As on a page, what depends on an exhibit runs again, and nothing else."""
    from marimo._ast.app import InternalApp
    from marimo._runtime.app.script_runner import AppScriptRunner
    from marimo._runtime.runner.scheduler import SequentialScheduler

    right = {exhibit: worked(f"{stem[:3]}.{name}") for exhibit, name, _ in MUSEUMS[stem]}
    right |= WITHOUT_EXERCISE.get(stem, {})
    outputs, names = _run_solved(stem)
    app = InternalApp(importlib.import_module(f"lessons.{stem}").app)
    answered = {item.name for item in lesson_exercises(stem)}
    ran = [id for id, each in app.graph.cells.items() if id != "setup" and not each.defs & answered]
    changed = {cell for name in right for cell in app.graph.definitions[name]}
    stale = {below for cell in changed for below in app.graph.descendants(cell)}
    runner = AppScriptRunner(app, app.filename, {**names, **right})
    order = [cell for cell in app.execution_order if cell in stale]
    runner._scheduler = SequentialScheduler(order, app.graph)
    renewed, found = runner.run()
    shown = dict(zip(ran, outputs, strict=True)) | renewed
    return _left_behind([*shown.values()], {name: found[name] for name in names})


@functools.cache
def _kernel() -> "BlockingKernelClient":
    """One kernel for all: it has loaded what lessons need, and each finds it empty."""
    from jupyter_kernel import kernel

    opened = kernel(Path("jupyter").absolute())
    atexit.register(opened.__exit__, None, None, None)
    return opened.__enter__()


def _exported(stem: str) -> Exported:
    from jupyter_kernel import Page

    work = Path("jupyter", stem).absolute()
    work.mkdir(parents=True)
    client = _kernel()
    client.execute_interactive(EMPTIED.format(work=str(work)), timeout=LIMIT_S)
    page = Page(client, (ROOT / "lessons" / f"{stem}.py").read_text(encoding="utf-8"), stem)
    page.run_all()
    widgets = [data for data in page.shown.values() if JUPYTER_WIDGET in data]
    untouched = page.statuses, page.texts
    for item in lesson_exercises(stem):
        source = source_of(worked(item.id))
        assert source is not None
        page.answer(item.name, f"from __future__ import annotations\n{source.text}")
    return Exported(page.errors, len(widgets), *untouched, page.statuses)


EMPTIED = """
import os
os.environ["SERVING_NANOGPT_WORK"] = {work!r}
os.chdir({work!r})
get_ipython().reset(new_session=False)
"""


RUNS = {"solved": _solved, "repaired": _repaired, "exported": _exported}


def _prepare(folder: str) -> None:
    """The processes write nothing to the learner's own folder, and take what others leave."""
    os.environ |= {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "SERVING_NANOGPT_WORK": str(Path(folder) / "learner"),
    }
    os.nice(10)  # other tests come first
    os.chdir(folder)


# ---- in the tests' process -----------------------------------------------------------------------


class Notebooks:
    """Runs of notebooks, each started once, on first use, and waited for by each test that asks."""

    def __init__(self, folder: Path) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(1, spawn, _prepare, (str(folder),))
        self.started: dict[str, Future[Any]] = {}

    def start_for(self, tests: Iterable[pytest.Item]) -> None:
        """Start what these tests will ask for, in their order, so that it is done when they do."""
        for test in tests:
            for run in RUNS:
                for path in FILES:
                    if re.search(rf"_{run}(_.*)?\[{path.stem}\]", test.name):
                        self.start(run, path.stem)

    def start(self, run: str, stem: str) -> Future[Any]:
        """Run a notebook in one of the `RUNS`."""
        return self._start(f"{run} {stem}", RUNS[run], stem)

    def start_with(self, stem: str, answers: dict[str, Any]) -> Future[Visit]:
        """Run a notebook with plain values in place of those that its cells would name."""
        return self._start(f"{json.dumps(answers)} {stem}", visit, stem, answers)

    def solved(self, stem: str) -> Visit:
        """All exercises answered, the museum as it is shipped."""
        return self.start("solved", stem).result(_WAIT_S)

    def repaired(self, stem: str) -> Visit:
        """All exercises answered, and then the museum repaired."""
        return self.start("repaired", stem).result(_WAIT_S)

    def exported(self, stem: str) -> Exported:
        """The notebook in the course's Jupyter kernel, untouched and then answered."""
        return self.start("exported", stem).result(_WAIT_S)

    def close(self) -> None:
        """End the processes."""
        self.pool.shutdown(cancel_futures=True)

    def _start(self, key: str, function: Any, *arguments: Any) -> Future[Any]:
        if key not in self.started:
            self.started[key] = self.pool.submit(function, *arguments)
        return self.started[key]
