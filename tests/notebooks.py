"""The lessons' notebooks, each run once for all tests that ask for it.

Every lesson is run with all exercises answered and its museum as it is shipped. From there on
other functions take the place of an answer or of an exhibit, and what depends on them runs again.
In a Jupyter kernel a notebook is run untouched, and then answered.
"""

import contextlib
import functools
import html
import importlib
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from answers import worked
from support import ROOT

from course.attempt import Attempt
from course.jupyter.convert import to_notebook
from course.prediction import Withheld
from course.publish.notebook_blocks import Block, slide_blocks
from course.publish.slides import Slide, slides
from course.registry import lesson_exercises
from course.report import Report
from course.running_text import text_in_file
from course.source.dependencies import Dependencies
from nanogpt.policies.blocks import free_table

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient

FILES = sorted((ROOT / "lessons").glob("*.py"))
STEMS = [path.stem for path in FILES if re.match(r"l\d\d[a-z]?_", path.stem)]
LIMIT_S = 400
JUPYTER_WIDGET = "application/vnd.jupyter.widget-view+json"

MUSEUMS = {  # lesson: exhibit, what it should have been, and what its check says of it
    "l04_sliding_window": [("evict_one_per_step", "evict", "one_per_call")],
    "l07_blocks": [],
    "l07b_spilling": [("ask_after_a_miss", "match_tiers", "pool_only_first")],
    "l08_speculation": [
        ("keep_all_kv", "roll_back_kv", "keeps_rejected"),
    ],
    "l08b_legal_tokens": [],
    "l09_fleet": [],
    "l10_capstone": [
        ("send_newest_token", "stream_delta", "newest_token"),
        ("free_at_once", "on_disconnect", "frees_in_mid_step"),
    ],
    "l11_milliseconds": [],
}


def without_evicted(cached, evicted):
    """Exhibit A of lesson 7, repaired: an evicted block cannot be found."""
    return {block_hash: block for block_hash, block in cached.items() if block != evicted}


def once_committed(num_computed_tokens, num_scheduled_tokens, size):
    """Exhibit C of lesson 7, repaired: only committed tokens can be found."""
    return num_computed_tokens // size


def forget(written):
    """Exhibit B of lesson 8, repaired: the benchmark begins with an empty memory."""
    return ""


def one_more(newest, request_id):
    """Exhibit A of lesson 9, repaired: a removal increments the generation, as a push does."""
    return {**newest, request_id: newest.get(request_id, 0) + 1}


def wait_for_the_gpu(launch, synchronize, clock_us):
    """Exhibit B of lesson 11, repaired: the clock is read once the GPU is done."""
    start = clock_us()
    launch()
    synchronize()
    return clock_us() - start


WITHOUT_EXERCISE = {
    "l07_blocks": {
        "cached_after_eviction": without_evicted,
        "free_whole_table": free_table,
        "num_findable_blocks": once_committed,
    },
    "l08_speculation": {"draft_memory": forget},
    "l08b_legal_tokens": {
        "first_mask_rows": lambda scheduled, _: [
            sum(1 + drafts for drafts in scheduled[:i]) for i in range(len(scheduled))
        ],
        "drafts_on_return": lambda *_: [],
    },
    "l09_fleet": {"newest_after_removal": one_more},
    "l11_milliseconds": {
        "smaller_graph": lambda num_tokens, captured: min(
            (size for size in captured if size >= num_tokens), default=None
        ),
        "time_step": wait_for_the_gpu,
    },
}


@dataclass(frozen=True)
class Visit:
    """What a run of a notebook left behind.

    `statuses` are the verdicts on the exercises by id; `reports` those on other functions, in the
    order of the cells, each with its misconception; `texts` is what was shown as words or tables;
    `names` are the values that cells name; `slides` is what `learn.py demo` would make of the page.
    `unchanged` is what depends on other functions than before, and shows the same.
    """

    statuses: dict[str, str]
    reports: list[tuple[str, str, str | None]]
    texts: list[str]
    names: Mapping[str, Any]
    slides: tuple[Slide, ...]
    unchanged: tuple[Block, ...] = ()

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

    @functools.cached_property
    def words(self) -> str:
        """Everything that is shown, and what predictions reveal, without its markup."""
        shown = [*self.texts, *(slide.html for slide in self.slides)]
        plain = html.unescape(re.sub(r"<.*?>", " ", " ".join(shown)))
        return " ".join(plain.replace("**", "").split())


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


class Notebooks:
    """Runs of notebooks, each done on first use, by a learner of their own who keeps all answers.

    `close` ends the kernel, one for all notebooks.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: dict[str, Any] = {}
        self.opened = contextlib.ExitStack()
        self.close = self.opened.close

    def solved(self, stem: str) -> Visit:
        """All exercises answered, the museum as it is shipped."""
        return self._once(f"solved {stem}", lambda: left_behind(*self._run_solved(stem)))

    def repaired(self, stem: str) -> Visit:
        """All exercises answered, and then the museum repaired."""
        right = {exhibit: worked(f"{stem[:3]}.{name}") for exhibit, name, _ in MUSEUMS[stem]}
        right |= WITHOUT_EXERCISE.get(stem, {})
        return self.changed(stem, right)

    def changed(self, stem: str, functions: Mapping[str, Callable[..., Any]]) -> Visit:
        """All exercises answered, and then these functions in the place of those of their names.

        Another learner does that, who has the first one's answers.
        """
        found, other = self._run_solved(stem), f"{stem}, {', '.join(functions)}"
        return self._once(other, lambda: rerun(stem, functions, *found), other)

    def exported(self, stem: str) -> Exported:
        """The notebook in the course's Jupyter kernel, untouched and then answered."""
        return self._once(f"exported {stem}", lambda: export(stem, self._kernel(), self.folder))

    def _run_solved(self, stem: str) -> tuple[Sequence[Any], Mapping[str, Any]]:
        answers = {item.name: worked(item.id) for item in lesson_exercises(stem)}
        app = importlib.import_module(f"lessons.{stem}").app
        return self._once(stem, lambda: app.run(defs=answers))

    def _kernel(self) -> "BlockingKernelClient":
        from jupyter_kernel import kernel

        home = self.folder / "jupyter"
        home.mkdir(exist_ok=True)
        return self._once("kernel", lambda: self.opened.enter_context(kernel(home)))

    def _once(self, key: str, make: Callable[[], Any], other: str = "") -> Any:
        if key not in self.done:
            home = self.folder / "learner"
            if other:
                home = Path(shutil.copytree(home, self.folder / other, dirs_exist_ok=True))
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SERVING_NANOGPT_WORK", str(home))
                self.done[key] = make()
        return self.done[key]


def left_behind(found: Sequence[Any], names: Mapping[str, Any]) -> Visit:
    """What is asserted of such a run."""
    import marimo

    outputs = [each.content if isinstance(each, Withheld) else each for each in found]
    attempts = [each.report for each in (*names.values(), *found) if isinstance(each, Attempt)]
    cards = [each for each in outputs if isinstance(each, Report)]
    return Visit(
        {report.exercise: report.status for report in attempts},
        [(card.exercise, card.status, card.misconception) for card in cards],
        [output.text for output in outputs if isinstance(output, marimo.Html)],
        names,
        slides(slide_blocks("l00", found)),
    )


def rerun(
    stem: str,
    functions: Mapping[str, Callable[..., Any]],
    outputs: Sequence[Any],
    names: Mapping[str, Any],
) -> Visit:
    """What depends on these functions runs again, and so do the cells that define nothing."""
    answered = {item.name for item in lesson_exercises(stem)}
    graph = Dependencies()
    cells = to_notebook((ROOT / "lessons" / f"{stem}.py").read_text(encoding="utf-8"))["cells"]
    for place, cell in enumerate(cells[1:]):  # the setup cell is first and has no output
        graph.add(str(place), "" if cell["cell_type"] == "markdown" else cell["source"])
    changed = {cell for cell, defined in graph.defines.items() if defined & functions.keys()}
    stale = changed.union(*map(graph.dependents, changed))
    kept = {name for cell in graph.defines.keys() - stale for name in graph.defines[cell]}
    app = importlib.import_module(f"lessons.{stem}").app
    given_again = {name: names[name] for name in kept & names.keys()}
    renewed, found = app.run(defs=given_again | dict(functions))
    first, again = (
        [cell for cell, defined in graph.defines.items() if not defined & given]
        for given in (answered, kept | functions.keys())
    )
    before, after = (
        {cell: (output, slide_blocks("l00", [output])) for cell, output in zip(*each, strict=True)}
        for each in ((first, outputs), (again, renewed))
    )
    shown = {cell: output for cell, (output, _) in (before | after).items()}
    again_shown = stale & before.keys() & after.keys()
    same = [after[cell][1] for cell in again_shown if before[cell][1] == after[cell][1]]
    shown_now = [shown[cell] for cell in graph.defines if cell in shown]
    visit = left_behind(shown_now, {**names, **found})
    return replace(visit, unchanged=tuple(block for blocks in same for block in blocks))


def export(stem: str, client: "BlockingKernelClient", folder: Path) -> Exported:
    """Run a notebook in a kernel that has loaded what lessons need, and is emptied first."""
    from jupyter_kernel import Page

    work = folder / "jupyter" / stem
    work.mkdir(parents=True)
    client.execute_interactive(EMPTIED.format(work=str(work)), timeout=LIMIT_S)
    page = Page(client, (ROOT / "lessons" / f"{stem}.py").read_text(encoding="utf-8"), stem)
    page.run_all()
    widgets = [data for data in page.shown.values() if JUPYTER_WIDGET in data]
    untouched = page.statuses, page.texts
    for item in lesson_exercises(stem):
        source = text_in_file(worked(item.id), item.name)
        assert source is not None
        page.answer(item.name, f"from __future__ import annotations\n{source.text}")
    return Exported(page.errors, len(widgets), *untouched, page.statuses)


EMPTIED = """
import os
os.environ["SERVING_NANOGPT_WORK"] = {work!r}
os.chdir({work!r})
get_ipython().reset(new_session=False)
"""
