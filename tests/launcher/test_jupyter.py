"""The lessons as Jupyter has them: one file, cells that follow what they depend on."""

import asyncio
import errno
import json
from pathlib import Path
from typing import Any

import pytest
from marimo_texts import cell, function, notebook, stub
from support import ROOT
from tiers import some

LESSON = (ROOT / "lessons" / "l01_chunked_prefill.py").read_text(encoding="utf-8")
NAME = "l01_chunked_prefill"
STUB = 'raise NotImplementedError("Exercise 1.1: how many prompt tokens fit into this step?")'
ANSWER = "return max(0, min(token_budget - num_decodes, remaining))"


def to_notebook(text: str) -> dict[str, Any]:
    from course.jupyter.convert import to_notebook

    return json.loads(json.dumps(to_notebook(text)))


def to_lesson(notebook: dict[str, Any], before: str) -> str:
    from course.jupyter.convert import to_lesson

    return to_lesson(notebook, before)


def cell_with(notebook: dict[str, Any], words: str) -> dict[str, Any]:
    [cell] = [cell for cell in notebook["cells"] if words in cell["source"]]
    return cell


def edited(notebook: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    cell = cell_with(notebook, old)
    cell["source"] = cell["source"].replace(old, new)
    return notebook


FILES = some(sorted((ROOT / "lessons").glob("*.py")), 4)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_lesson_that_is_saved_as_it_was_opened_is_the_same_to_the_letter(path: Path):
    text = path.read_text(encoding="utf-8")
    assert to_lesson(to_notebook(text), text) == text


def test_a_save_changes_the_cells_that_were_changed_and_no_other_line():
    """Links lead to notebooks on the page, and are saved as marimo has them."""
    notebook = edited(to_notebook(LESSON), STUB, ANSWER)
    assert "[lesson 2](l02_scheduling.ipynb)" in cell_with(notebook, "## What comes next")["source"]
    edited(notebook, "## What comes next", "## What follows")
    wanted = LESSON.replace(STUB, ANSWER).replace("## What comes next", "## What follows")
    assert to_lesson(notebook, LESSON) == wanted


def test_cells_that_a_learner_adds_are_saved_where_they_stand():
    notebook = to_notebook(LESSON)
    place = notebook["cells"].index(cell_with(notebook, STUB))
    helper, words = "def least(a, b):\n    return min(a, b)", "Mine: $\\pi$"
    new = [
        {"cell_type": kind, "id": kind, "metadata": {}, "source": source}
        for kind, source in (("code", helper), ("markdown", words))
    ]
    notebook["cells"][place:place] = new
    notebook["cells"].append({**new[0], "id": "last", "source": "\n"})  # Jupyter's own
    saved = to_lesson(notebook, LESSON)
    assert f"@app.function\n{helper}\n" in saved
    again = [cell["source"] for cell in to_notebook(saved)["cells"]]
    assert again == [cell["source"] for cell in notebook["cells"][:-1]]


def test_a_cell_that_python_cannot_read_is_saved_and_shown_again():
    broken = "def chunk_size(budget:\n    return"
    notebook = to_notebook(LESSON)
    cell_with(notebook, STUB)["source"] = broken
    saved = to_lesson(notebook, LESSON)
    again = to_notebook(saved)
    assert cell_with(again, broken)["source"] == broken
    assert to_lesson(again, saved).count("app._unparsable_cell") == 1
    mended = to_lesson(edited(again, broken, "def chunk_size(a):\n    return a"), saved)
    assert "@app.function\ndef chunk_size(a):\n    return a\n" in mended
    assert "_unparsable_cell" not in mended


class Folder:
    """A learner's folder, as Jupyter's pages read and write it."""

    def __init__(self, work: Path) -> None:
        from course.jupyter.contents import LessonContents
        from course.jupyter.server import HIDDEN

        self.work, self.file = work, work / f"{NAME}.py"
        self.contents = LessonContents(root_dir=str(work), hide_globs=list(HIDDEN))

    def open(self) -> dict[str, Any]:
        """What a page gets that opens the lesson."""
        model = asyncio.run(self.contents.get(f"{NAME}.ipynb", type="notebook"))
        return json.loads(json.dumps(model["content"]))

    def save(self, notebook: dict[str, Any]) -> dict[str, Any]:
        model = {"type": "notebook", "content": notebook}
        return asyncio.run(self.contents.save(model, f"{NAME}.ipynb"))

    def kept(self) -> list[str]:
        return [path.read_text() for path in self.work.glob("kept/*.py")]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    for name, text in ((f"{NAME}.py", LESSON), ("mine.py", "print(1)"), ("pyproject.toml", "")):
        (tmp_path / name).write_text(text)
    return Folder(tmp_path)


def test_the_folder_shows_lessons_as_notebooks_and_hides_what_is_nothing_to_open(folder: Folder):
    listed = asyncio.run(folder.contents.get(""))["content"]
    assert sorted((item["name"], item["type"]) for item in listed) == [
        (f"{NAME}.ipynb", "notebook"),
        ("mine.py", "file"),
    ]
    assert asyncio.run(folder.contents.list_checkpoints(f"{NAME}.ipynb")) == []


def test_a_page_that_has_not_seen_the_file_keeps_its_version_aside_and_says_so(folder: Folder):
    from tornado.web import HTTPError

    notebook, other_page = folder.open(), folder.open()
    folder.save(edited(other_page, STUB, "return 'from another page'"))
    with pytest.raises(HTTPError) as refused:
        folder.save(edited(notebook, STUB, "return 'from the page'"))
    [kept] = folder.work.glob("kept/*.py")
    assert refused.value.status_code == 409
    sentence = (
        f"{NAME}.py was changed outside this page. What the page holds gave way. "
        f"It is kept as {folder.work.name}/kept/{kept.name}."
    )
    assert (refused.value.log_message or "").startswith(sentence)
    assert (folder.work / "kept" / "why.txt").read_text().endswith(f"  {sentence}\n")
    assert folder.kept() == [LESSON.replace(STUB, "return 'from the page'")]
    assert folder.file.read_text() == LESSON.replace(STUB, "return 'from another page'")
    folder.save(edited(folder.open(), "'from another page'", "'from both'"))
    assert folder.file.read_text() == LESSON.replace(STUB, "return 'from both'")


def test_a_page_saves_again_and_again_and_one_that_changed_nothing_overwrites_nothing(
    folder: Folder,
):
    """Jupyter also saves when it opens and runs a notebook, for its outputs."""
    notebook, other_page = folder.open(), folder.open()
    folder.save(edited(notebook, STUB, "return 1"))
    saved = folder.save(edited(notebook, "return 1", ANSWER))
    assert saved["path"] == f"{NAME}.ipynb"
    folder.save(other_page)
    assert folder.file.read_text() == LESSON.replace(STUB, ANSWER)
    assert not list(folder.work.glob("**/*.ipynb")) and folder.kept() == []


def test_a_full_disk_is_said(folder: Folder, monkeypatch):
    from tornado.web import HTTPError

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(HTTPError, match=r"could not be saved: .*the disk is full: make room\."):
        folder.save(edited(folder.open(), STUB, ANSWER))
    assert folder.file.read_text() == LESSON


CELLS = notebook(
    cell("from course.attempt import attempt", gives="(attempt,)"),
    function("later", "    return values[first:]", "values, first"),
    stub("next_inputs", "tokens, cached"),
    cell('attempt("l00.next_inputs", lambda: next_inputs)', takes="attempt"),
    cell('later("abc", 1)'),
    cell('"nothing before it"'),
)


@pytest.mark.process
def test_a_changed_cell_brings_along_what_depends_on_it_and_an_answer_is_saved(tmp_path: Path):
    from jupyter_kernel import Page, kernel

    def shown(page: Page) -> list[str]:
        plain = [data.get("text/html") or data["text/plain"] for data in page.shown.values()]
        return [each.replace("&#x27;", "'") for each in plain[-2:]]

    later = "def later(values, first):\n    return values[{}:]"
    with kernel(tmp_path) as client:
        page = Page(client, CELLS, "page")
        page.run_all()
        assert page.statuses == {"l00.next_inputs": "not_started"}
        assert shown(page) == ["'bc'", "'nothing before it'"]
        assert page.answer("later", later.format("first")) == [], "it is unchanged"
        assert page.answer("later", later.format("2 * first")) == ["sng-page-4"]
        assert shown(page) == ["'c'", "'nothing before it'"]
        page.answer("later", "def later(values:")
        assert page.errors[-1].startswith("SyntaxError")
        assert "NameError: name 'later' is not defined" in shown(page)[0]
        page.answer("later", later.format("first"))
        assert shown(page)[0] == "'bc'", "the cell is mended"
        source = (
            "def next_inputs(tokens, cached):\n    n = 0\n"
            "    while n < min(len(cached), len(tokens) - 1) and tokens[n] == cached[n]:\n"
            "        n += 1\n    return later(tokens, n)"
        )
        page.answer("next_inputs", source)
        assert page.statuses == {"l00.next_inputs": "passed"}
        again = Page(client, CELLS, "again")
        again.run_all()
        assert again.answer("later", later.format(0)) == ["sng-again-4"]
    kept = (tmp_path / "answers" / "l00.next_inputs.py").read_text()
    assert kept == f"# %%\n{later.format('first')}\n\n\n# %%\n{source}\n"
