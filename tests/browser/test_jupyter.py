"""Three lessons in a real JupyterLab: predicted, answered wrong and right, replayed, stepped."""

import os
import re
from dataclasses import dataclass

import pytest
from driving import LIMIT_MS, focus_toolbar, violations
from launching import learn, wait_for
from playwright.sync_api import Locator, Page, Route, expect

pytestmark = pytest.mark.browser

OURS = {"include": [[".sng-report"], [".sng-task"], [".sn"]]}


@dataclass(frozen=True, slots=True)
class Case:
    """A lesson; a prediction and an option; an exercise, answered wrong and right; a sentence."""

    stem: str
    prediction: str
    option: str
    exercise: str
    wrong: str
    sentence: str
    right: str


PLAN = """\
def plan_step(decodes, prefilling, waiting, budget):
    plan = [(i, 1) for i in decodes[:budget]]
    return share(plan, prefilling + waiting, budget - len(plan))


def share(plan, prompts, left):
    for i, remaining in prompts:
        n = min(left, remaining)
        left -= n
        plan += [(i, n)] if n > 0 else []
    return plan
"""
VICTIM = """\
def choose_victim(active):
    return max(active, key=lambda r: (r.key, r.arrival_time, r.id)).id
"""
VISIBLE = """\
def visible(query, key, window, sinks):
    return key <= query and (window is None or key < sinks or query - key <= window)
"""
CASES = (
    Case(
        "l01_chunked_prefill",
        "l01.poisoned_rows",
        "Yes in a model with one layer",
        "plan_step",
        PLAN.replace("prefilling + waiting", "(prefilling + waiting)[::-1]"),
        "the list is in order of arrival and the first one goes first.",
        PLAN,
    ),
    Case(
        "l02_scheduling",
        "l02.recompute",
        "34 computed, 10 sampled",
        "choose_victim",
        VICTIM.replace("max(", "min("),
        "the smallest key goes first, so the largest one gives way.",
        VICTIM,
    ),
    Case(
        "l04_sliding_window",
        "l04.freed",
        "640: half of its own row",
        "visible",
        VISIBLE.replace("<= window", "< window"),
        "at a distance of exactly W a key is still visible.",
        VISIBLE,
    ),
)


@dataclass(frozen=True, slots=True)
class Opened:
    """A lesson's tab, the one that is seen."""

    case: Case
    page: Page

    @property
    def notebook(self) -> Locator:
        """Its notebook."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def report(self) -> Locator:
        """The card of the exercise's check."""
        name = f"{self.case.stem[:3]}.{self.case.exercise}"
        return self.notebook.locator(f".sng-report[data-exercise='{name}']").first

    def answer(self, source: str) -> None:
        """Write a source over the exercise's cell, and run that cell and no other."""
        cell = self.notebook.locator(
            ".jp-CodeCell .cm-content", has_text=f"def {self.case.exercise}("
        )
        cell.click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)
        self.page.keyboard.press("Control+Enter")

    def replay(self) -> Locator:
        """The learner's own engine beside the reference."""
        yours = self.page.locator(".sn-live", has_text=re.compile("^Yours"))
        return self.notebook.locator(".sn-timeline", has=yours).first


def lines(text: str) -> set[str]:
    """Lines, wherever they begin: a cell of several functions is indented in a lesson's file."""
    return {line.strip() for line in text.splitlines()}


@pytest.fixture(scope="module")
def mode() -> str:
    return "jupyter"


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.stem)
def lesson(request: pytest.FixtureRequest, page: Page) -> Opened:
    """A lesson, reached by its link on the first page, every cell run."""
    case = request.param
    index = page.locator(".lm-TabBar-tab", has_text="index.ipynb")
    if "lm-mod-current" not in (index.get_attribute("class") or ""):  # the lesson before
        page.keyboard.press("Control+s")
        index.click()
    page.locator(f"h2 a[href*='{case.stem}']").click()
    opened = Opened(case, page)
    expect(page.locator(".lm-TabBar-tab.lm-mod-current", has_text=case.stem)).to_be_visible()
    expect(opened.report()).to_be_attached(timeout=LIMIT_MS)
    idle = page.locator(".jp-StatusBar-Widget", has_text="Serving NanoGPT | Idle")
    expect(idle).to_be_attached(timeout=LIMIT_MS)
    return opened


def test_a_lesson_opens_by_its_link_and_has_run_by_itself(lesson: Opened):
    expect(lesson.report()).to_have_attribute("data-status", "not_started")
    expect(lesson.notebook.locator(".jp-OutputArea-output[data-mime-type*=stderr]")).to_have_count(
        0
    )
    expect(lesson.notebook.locator(".sn").first).to_be_attached()
    cell = lesson.notebook.locator(".jp-Cell:has([data-yours]) + .jp-CodeCell").first
    label = cell.locator(".jp-InputArea-editor").evaluate(
        "(each) => getComputedStyle(each, '::before').content"
    )
    assert label == '"Your code"'


def test_a_prediction_is_committed_and_what_waited_for_it_shows(lesson: Opened, course_server):
    question = lesson.notebook.locator(f".sn-prediction[data-key='{lesson.case.prediction}']")
    question.get_by_label(lesson.case.option).first.check()
    question.get_by_role("button", name="Commit").click()
    expect(question.locator(".sn-pr-verdict")).to_be_visible()
    waits = lesson.notebook.locator(f".sn-waits[data-after='{lesson.case.prediction}']")
    expect(waits).to_have_count(0)
    kept = course_server.work / "progress" / "predictions" / f"{lesson.case.prediction}.json"
    wait_for(kept.exists)


def test_a_check_answers_when_its_exercises_cell_runs_and_the_replay_follows(
    lesson: Opened, course_server
):
    lesson.answer(lesson.case.wrong)
    expect(lesson.report()).to_have_attribute("data-status", "failed", timeout=LIMIT_MS)
    expect(lesson.report()).to_contain_text(lesson.case.sentence)
    expect(lesson.replay()).to_be_attached(timeout=LIMIT_MS)
    differs = lesson.replay().locator(".sn-note", has_text="is the first that differs")
    expect(differs).to_be_attached(timeout=LIMIT_MS)
    lesson.answer(lesson.case.right)
    expect(lesson.report()).to_have_attribute("data-status", "passed", timeout=LIMIT_MS)
    expect(differs).to_have_count(0, timeout=LIMIT_MS)
    file = course_server.work / f"{lesson.case.stem}.py"
    wait_for(lambda: lines(lesson.case.right) <= lines(file.read_text(encoding="utf-8")))
    own = {name: value for name, value in os.environ.items() if name != "SERVING_NANOGPT_WORK"}
    asked = ("check", lesson.case.stem[:3], lesson.case.exercise)
    assert learn(course_server.root, *asked, env=own).returncode == 0


def test_the_replay_is_stepped_by_keyboard_and_nothing_of_ours_is_inaccessible(lesson: Opened):
    focus_toolbar(lesson.replay())
    where = lesson.replay().locator(".sn-where")
    for key, step in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
        lesson.page.keyboard.press(key)
        expect(where).to_have_text(re.compile(rf"^\D*{step}\b"))
    assert violations(lesson.page, OURS) == []


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
    words = page.locator(".jp-MarkdownCell .jp-RenderedMarkdown", has_text="Microbatch")
    _write(words, "An early word.")
    kernel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-ExecutionIndicator")
    expect(kernel).not_to_have_attribute("data-status", "idle")
    for each in sessions:
        each.continue_()
    page.unroute("**/api/sessions?*")
    ran = kernel.locator("[aria-valuenow='100']")  # of its cells, in percent
    expect(ran).to_be_attached(timeout=LIMIT_MS)
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
    term = re.compile("Micro-?batch")
    words = page.locator(".jp-MarkdownCell .jp-RenderedMarkdown", has_text=term)
    expect(words).to_be_visible(timeout=LIMIT_MS)
    outside = file.read_text(encoding="utf-8").replace("**Microbatch**", "**Micro-batch**")
    file.write_text(outside, encoding="utf-8")
    _write(words, "My own word.")
    page.keyboard.press("Control+s")
    said = page.locator(".jp-Dialog", has_text="was changed outside this page")
    expect(said.first).to_contain_text("The page shows the file again")
    expect(words.filter(has_text="Micro-batch")).to_be_visible(timeout=LIMIT_MS)
    while said.count():  # a page that saved by itself in the meantime says it twice
        said.first.get_by_role("button", name="Close").click()
    assert file.read_text(encoding="utf-8") == outside
    [kept] = (course_server.work / "kept").glob("glossary*.py")
    assert "My own word." in kept.read_text(encoding="utf-8")
    expect(page.locator(".jp-Notebook .jp-Cell").first).to_have_class(re.compile("jp-mod-active"))
    _write(words, "Another word.")
    page.keyboard.press("Control+s")
    wait_for(lambda: "Another word." in file.read_text(encoding="utf-8"))
    assert "**Micro-batch**" in file.read_text(encoding="utf-8")
    assert "My own word." not in file.read_text(encoding="utf-8")
    expect(said).to_have_count(0)
    assert all("409" in each or "changed outside" in each for each in complaints)
    complaints.clear()
