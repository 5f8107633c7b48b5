"""A lesson in a real JupyterLab: predicted, answered wrong and right, replayed, stepped, saved."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest
from driving import expect, focus_toolbar, violations, worked_source
from launching import learn, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

OURS = {"include": [[".sng-report"], [".sng-task"], [".sn"]]}
STEM = "l04_sliding_window"
NARROW = """\
def visible(query, key, window, sinks):
    return key <= query and (window is None or key < sinks or query - key < window)
"""


@pytest.fixture(scope="module")
def mode() -> str:
    return "jupyter"


@pytest.fixture(scope="module")
def notebook(page: Page) -> Locator:
    """A lesson's notebook, reached by its link on the first page, every cell run."""
    page.locator(f"h2 a[href*='{STEM}']").click()
    expect(page.locator(".lm-TabBar-tab.lm-mod-current", has_text=STEM)).to_be_visible()
    opened = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    expect(opened.locator(".sng-report").first).to_be_attached()
    idle = page.locator(".jp-StatusBar-Widget", has_text="Serving NanoGPT | Idle")
    expect(idle).to_be_attached()
    return opened


@pytest.fixture(scope="module")
def replay(notebook: Locator) -> Locator:
    """The learner's own engine beside the reference."""
    yours = notebook.page.locator(".sn-live", has_text=re.compile("^Yours"))
    return notebook.locator(".sn-timeline", has=yours).first


def answer(notebook: Locator, source: str) -> None:
    """Write a source over the exercise's cell, and run that cell and no other."""
    notebook.locator(".jp-CodeCell .cm-content", has_text="def visible(").click()
    notebook.page.keyboard.press("Control+a")
    notebook.page.keyboard.insert_text(source)
    notebook.page.keyboard.press("Control+Enter")


def lines(text: str) -> set[str]:
    """Lines, wherever they begin: a cell of several functions is indented in a lesson's file."""
    return {line.strip() for line in text.splitlines()}


def test_a_lesson_opens_by_its_link_has_run_by_itself_and_takes_a_prediction(
    notebook: Locator, course_server
):
    report = notebook.locator(".sng-report[data-exercise='l04.visible']").first
    expect(report).to_have_attribute("data-status", "not_started")
    expect(notebook.locator(".jp-OutputArea-output[data-mime-type*=stderr]")).to_have_count(0)
    cell = notebook.locator(".jp-Cell:has([data-yours]) + .jp-CodeCell").first
    label = cell.locator(".jp-InputArea-editor").evaluate(
        "(each) => getComputedStyle(each, '::before').content"
    )
    assert label == '"Your code"'
    question = notebook.locator(".sn-prediction[data-key='l04.freed']")
    question.get_by_role("radio").first.check()
    question.get_by_role("button", name="Commit").click()
    expect(question.locator(".sn-pr-verdict")).to_be_visible()
    expect(notebook.locator(".sn-waits[data-after='l04.freed']")).to_have_count(0)
    wait_for((course_server.work / "progress" / "predictions" / "l04.freed.json").exists)


def test_a_check_answers_when_its_exercises_cell_runs_and_the_replay_follows(
    notebook: Locator, replay: Locator, course_server
):
    report = notebook.locator(".sng-report[data-exercise='l04.visible']").first
    answer(notebook, NARROW)
    expect(report).to_have_attribute("data-status", "failed")
    expect(report).to_contain_text("a key at a distance of exactly W is visible.")
    differs = replay.locator(".sn-note", has_text="is the first that differs")
    expect(differs).to_be_attached()
    right = worked_source("l04.visible")
    answer(notebook, right)
    expect(report).to_have_attribute("data-status", "passed")
    expect(differs).to_have_count(0)
    file = course_server.work / f"{STEM}.py"
    wait_for(lambda: lines(right) <= lines(file.read_text(encoding="utf-8")))
    own = {name: value for name, value in os.environ.items() if name != "SERVING_NANOGPT_WORK"}
    assert learn(course_server.root, "check", "l04", "visible", env=own).returncode == 0
    focus_toolbar(replay)
    for key, step in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
        notebook.page.keyboard.press(key)
        expect(replay.locator(".sn-where")).to_have_text(re.compile(rf"^\D*{step}\b"))
    assert violations(notebook.page, OURS) == []


def _write(words: Locator, line: str):
    """Add a line to the cell that shows these words."""
    words.click(position={"x": 4, "y": 4})
    words.page.keyboard.press("Enter")
    cell = words.page.locator(".jp-MarkdownCell .cm-content:focus")
    expect(cell).to_be_visible()
    words.page.keyboard.press("Control+End")
    words.page.keyboard.insert_text(f"\n{line}")
    expect(cell).to_contain_text(line)


def test_what_is_written_before_a_lesson_has_run_stays_under_the_cursor(page: Page, course_server):
    sessions: list[Route] = []

    def hold(route: Route):
        sessions.append(route) if route.request.method == "POST" else route.continue_()

    page.route("**/api/sessions?*", hold)
    page.goto(course_server.address.replace("index.ipynb", "glossary.ipynb"))
    words = page.locator(".jp-MarkdownCell .jp-RenderedMarkdown", has_text="Watchdog")
    _write(words, "An early word.")
    kernel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-ExecutionIndicator")
    expect(kernel).not_to_have_attribute("data-status", "idle")
    for each in sessions:
        each.continue_()
    page.unroute("**/api/sessions?*")
    ran = kernel.locator("[aria-valuenow='100']")  # of its cells, in percent
    expect(ran).to_be_attached()
    expect(page.locator(".jp-MarkdownCell .cm-content:focus")).to_contain_text("An early word.")
    page.keyboard.insert_text(" And a late one.")
    page.keyboard.press("Control+s")
    file = course_server.work / "glossary.py"
    wait_for(lambda: "An early word. And a late one." in file.read_text(encoding="utf-8"))


def test_of_two_versions_of_a_lesson_both_are_kept_and_the_page_says_so(
    page: Page, course_server, complaints: list[str]
):
    file = course_server.work / "glossary.py"
    page.goto(course_server.address.replace("index.ipynb", "glossary.ipynb"))
    term = re.compile("Watch-?dog")
    words = page.locator(".jp-MarkdownCell .jp-RenderedMarkdown", has_text=term)
    expect(words).to_be_visible()
    outside = file.read_text(encoding="utf-8").replace("**Watchdog**", "**Watch-dog**")
    file.write_text(outside, encoding="utf-8")
    _write(words, "My own word.")
    page.keyboard.press("Control+s")
    said = page.locator(".jp-Dialog", has_text="was changed outside this page")
    expect(said.first).to_contain_text("The page shows the file again")
    expect(words.filter(has_text="Watch-dog")).to_be_visible()
    while said.count():  # a page that saved by itself in the meantime says it twice
        said.first.get_by_role("button", name="Close").click()
    assert file.read_text(encoding="utf-8") == outside
    [kept] = (course_server.work / "kept").glob("glossary*.py")
    assert "My own word." in kept.read_text(encoding="utf-8")
    expect(page.locator(".jp-Notebook .jp-Cell").first).to_have_class(re.compile("jp-mod-active"))
    _write(words, "Another word.")
    page.keyboard.press("Control+s")
    wait_for(lambda: "Another word." in file.read_text(encoding="utf-8"))
    assert "**Watch-dog**" in file.read_text(encoding="utf-8")
    assert "My own word." not in file.read_text(encoding="utf-8")
    expect(said).to_have_count(0)
    assert all("409" in each or "changed outside" in each for each in complaints)
    complaints.clear()
