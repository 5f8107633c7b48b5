"""The lessons as Jupyter has them: one file, cells that follow what they depend on."""

import asyncio
import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_kernel import Page, kernel
from notebooks import FILES
from support import ROOT
from tornado.web import HTTPError

from course.jupyter.contents import LessonContents
from course.jupyter.convert import to_lesson, to_notebook
from course.jupyter.server import HERE, HIDDEN
from course.source.cutting import read_notebook

LESSON = (ROOT / "lessons" / "l01_chunked_prefill.py").read_text(encoding="utf-8")
STUB = 'raise NotImplementedError("Exercise 1.1: how many prompt tokens fit into this step?")'
ANSWER = "return max(0, min(budget - num_decodes, remaining))"


# ---- a lesson as a notebook ----------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_lesson_that_is_saved_as_it_was_opened_is_the_same_to_the_letter(path: Path):
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(json.dumps(to_notebook(text)))
    assert to_lesson(notebook, text) == text


def cell_with(notebook: dict, words: str) -> dict:
    [cell] = [cell for cell in notebook["cells"] if words in cell["source"]]
    return cell


def edited(notebook: dict, old: str, new: str) -> dict:
    cell = cell_with(notebook, old)
    cell["source"] = cell["source"].replace(old, new)
    return notebook


def test_a_save_changes_the_cells_that_were_changed_and_no_other_line():
    assert to_lesson(edited(to_notebook(LESSON), STUB, ANSWER), LESSON) == LESSON.replace(
        STUB, ANSWER
    )


def test_cells_that_a_learner_adds_are_saved_where_they_stand():
    notebook = to_notebook(LESSON)
    place = notebook["cells"].index(cell_with(notebook, STUB))
    helper = "def least(a, b):\n    return min(a, b)"
    new = [
        {"cell_type": "code", "id": "x1", "metadata": {}, "source": helper},
        {"cell_type": "markdown", "id": "x2", "metadata": {}, "source": "Mine: $\\pi$"},
    ]
    notebook["cells"][place:place] = new
    notebook["cells"].append({"cell_type": "code", "id": "x3", "metadata": {}, "source": "\n"})
    saved = to_lesson(notebook, LESSON)
    assert f"@app.function\n{helper}\n" in saved
    again = to_notebook(saved)["cells"]
    assert [cell["source"] for cell in again[place : place + 2]] == [each["source"] for each in new]
    assert len(again) == len(to_notebook(LESSON)["cells"]) + 2, "Jupyter's own last cell is not"


@pytest.mark.parametrize("broken", ["def chunk_size(budget:\n    return", "%timeit 1", "!ls"])
def test_a_cell_that_python_cannot_read_is_saved_and_shown_again(broken: str):
    notebook = to_notebook(LESSON)
    cell_with(notebook, STUB)["source"] = broken
    saved = to_lesson(notebook, LESSON)
    again = to_notebook(saved)
    assert cell_with(again, broken)["source"] == broken
    assert to_lesson(again, saved).count("app._unparsable_cell") == 1
    mended = to_lesson(edited(again, broken, "def chunk_size(a):\n    return a"), saved)
    assert "@app.function\ndef chunk_size(a):\n    return a\n" in mended
    assert read_notebook(mended).broken == ()


def test_links_lead_to_notebooks_and_are_saved_as_marimo_has_them():
    notebook = to_notebook(LESSON)
    assert "[lesson 2](l02_scheduling.ipynb)" in cell_with(notebook, "## What comes next")["source"]
    saved = to_lesson(edited(notebook, "## What comes next", "## What follows"), LESSON)
    assert saved == LESSON.replace("## What comes next", "## What follows")


# ---- Jupyter's files -----------------------------------------------------------------------------


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "answers").mkdir(parents=True)
    (folder / "l01_chunked_prefill.py").write_text(LESSON)
    (folder / "mine.py").write_text("print(1)")
    (folder / "pyproject.toml").write_text("")
    return folder


@pytest.fixture
def contents(work: Path) -> LessonContents:
    return LessonContents(root_dir=str(work), hide_globs=list(HIDDEN))


def opened(contents: LessonContents) -> dict:
    """What a page gets that opens the lesson."""
    model = asyncio.run(contents.get("l01_chunked_prefill.ipynb", type="notebook"))
    return json.loads(json.dumps(model["content"]))


def save(contents: LessonContents, notebook: dict) -> dict:
    model = {"type": "notebook", "content": notebook}
    return asyncio.run(contents.save(model, "l01_chunked_prefill.ipynb"))


def test_the_folder_shows_lessons_as_notebooks_and_hides_what_is_nothing_to_open(contents):
    listed = asyncio.run(contents.get(""))["content"]
    assert sorted((item["name"], item["type"]) for item in listed) == [
        ("l01_chunked_prefill.ipynb", "notebook"),
        ("mine.py", "file"),
    ]


def test_a_page_saves_again_and_again_into_the_lessons_file(contents, work: Path):
    notebook = opened(contents)
    save(contents, edited(notebook, STUB, "return 1"))
    saved = save(contents, edited(notebook, "return 1", ANSWER))
    assert saved["path"] == "l01_chunked_prefill.ipynb"
    assert (work / "l01_chunked_prefill.py").read_text() == LESSON.replace(STUB, ANSWER)
    assert not list(work.glob("**/*.ipynb")) and not (work / "kept").exists()


def test_a_page_that_has_not_seen_the_file_keeps_its_version_aside_and_says_so(
    contents, work: Path
):
    notebook = opened(contents)
    file = work / "l01_chunked_prefill.py"
    file.write_text(LESSON.replace(STUB, "return 'from an editor'"))
    with pytest.raises(HTTPError) as refused:
        save(contents, edited(notebook, STUB, "return 'from the page'"))
    [kept] = work.glob("kept/*.py")
    assert refused.value.status_code == 409
    sentence = (
        "l01_chunked_prefill.py was changed outside this page. What the page holds gave way. "
        f"It is kept as work/kept/{kept.name}."
    )
    assert (refused.value.log_message or "").startswith(sentence)
    assert (work / "kept" / "why.txt").read_text().endswith(f"  {sentence}\n")
    assert kept.read_text() == LESSON.replace(STUB, "return 'from the page'")
    assert file.read_text() == LESSON.replace(STUB, "return 'from an editor'")
    save(contents, edited(opened(contents), "'from an editor'", "'from both'"))
    assert file.read_text() == LESSON.replace(STUB, "return 'from both'")


def test_of_two_pages_the_second_to_save_keeps_its_version_aside(contents, work: Path):
    first, second = opened(contents), opened(contents)
    save(contents, edited(first, STUB, "return 1"))
    with pytest.raises(HTTPError):
        save(contents, edited(second, STUB, "return 2"))
    assert (work / "l01_chunked_prefill.py").read_text() == LESSON.replace(STUB, "return 1")
    assert [kept.read_text() for kept in work.glob("kept/*.py")] == [
        LESSON.replace(STUB, "return 2")
    ]


def test_a_page_that_changed_nothing_saves_although_the_file_did(contents, work: Path):
    """Jupyter saves when it opens and runs a notebook, for its outputs."""
    notebook = opened(contents)
    file = work / "l01_chunked_prefill.py"
    file.write_text(LESSON.replace(STUB, ANSWER))
    save(contents, notebook)
    assert file.read_text() == LESSON.replace(STUB, ANSWER)


def test_other_notebooks_are_jupyters_own(contents, work: Path):
    model = {"type": "notebook", "content": {"cells": [], "metadata": {}, "nbformat": 4}}
    model["content"]["nbformat_minor"] = 5
    asyncio.run(contents.save(model, "mine.ipynb"))
    assert json.loads((work / "mine.ipynb").read_text())["cells"] == []


def test_a_full_disk_is_said(contents, monkeypatch):
    def refuse(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("course.jupyter.contents.write_atomically", refuse)
    with pytest.raises(HTTPError) as refused:
        save(contents, edited(opened(contents), STUB, ANSWER))
    assert "could not be saved" in (refused.value.log_message or "")
    assert (refused.value.log_message or "").endswith("the disk is full: make room.")


# ---- the kernel ----------------------------------------------------------------------------------

THREE = """import marimo

app = marimo.App()


@app.cell
def _():
    price = 2
    return (price,)


@app.function
def total(count):
    return count


@app.cell
def _(price):
    price * total(3)
    return


@app.cell
def _():
    "nothing before it"
    return
"""


@pytest.fixture(scope="module")
def work_of_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def client(work_of_kernel: Path) -> Iterator:
    with kernel(work_of_kernel) as client:
        yield client


@pytest.fixture
def page(client, request) -> Page:
    page = Page(client, THREE, request.node.name)
    page.run_all()
    return page


def shown(page: Page) -> list[str]:
    return [data.get("text/html") or data["text/plain"] for data in page.shown.values()]


def test_a_changed_cell_brings_along_what_depends_on_it_and_nothing_else(page: Page):
    assert shown(page) == ["6", "'nothing before it'"]
    assert page.answer("total", "def total(count):\n    return 10 * count") == [
        f"sng-{page.name}-2"
    ]
    assert shown(page) == ["60", "'nothing before it'"]
    page.run(f"sng-{page.name}-0", "price = 3")
    assert shown(page) == ["90", "'nothing before it'"]


def test_a_cell_that_runs_unchanged_runs_alone(page: Page):
    assert page.answer("total", "def total(count):\n    return count") == []


def test_a_broken_cell_takes_its_names_with_it_until_it_is_mended(page: Page):
    page.answer("total", "def total(count:")
    assert page.errors[0].startswith("SyntaxError")
    assert "NameError: name 'total' is not defined" in shown(page)[0].replace("&#x27;", "'")
    page.answer("total", "def total(count):\n    return 2 * count")
    assert shown(page)[0] == "12"


def test_a_lesson_opened_again_begins_anew(page: Page, client):
    again = Page(client, THREE, f"{page.name}_again")
    again.run_all()
    assert again.answer("total", "def total(count):\n    return 0") == [f"sng-{again.name}-2"]


ANSWERED = """import marimo

app = marimo.App()


@app.cell
def _():
    from course.attempt import attempt
    return (attempt,)


@app.function
def later(values, first):
    return values[first:]


@app.function
def next_inputs(tokens, num_cached):
    raise NotImplementedError


@app.cell
def _(attempt):
    attempt("l00.next_inputs", lambda: next_inputs)
    return
"""


def test_an_answer_is_saved_with_what_it_uses_of_other_cells(client, work_of_kernel: Path):
    page = Page(client, ANSWERED, "answered")
    page.run_all()
    assert page.statuses == {"l00.next_inputs": "not_started"}
    source = "def next_inputs(tokens, num_cached):\n    return later(tokens, num_cached)"
    page.answer("next_inputs", source)
    assert page.statuses == {"l00.next_inputs": "passed"}
    kept = (work_of_kernel / "answers" / "l00.next_inputs.py").read_text()
    assert kept == f"def later(values, first):\n    return values[first:]\n\n\n{source}\n"


def test_jupyter_finds_the_kernel_the_settings_and_the_extension():
    kernel = json.loads((HERE / "kernels/serving-nanogpt/kernel.json").read_text())
    assert kernel["display_name"] == to_notebook(LESSON)["metadata"]["kernelspec"]["display_name"]
    settings = json.loads((HERE / "settings/overrides.json").read_text())
    assert settings["@jupyterlab/docmanager-extension:plugin"] == {"autosaveInterval": 5}
    package = HERE / "labextensions/serving-nanogpt/package.json"
    load = json.loads(package.read_text())["jupyterlab"]["_build"]["load"]
    assert (package.parent / load).is_file()
