"""What the browser tests do with a page: press keys, read places, answer exercises, ask axe."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from launching import wait_for
from notebooks import MUSEUMS

from course.registry import exercise, lesson_exercises

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Response

Found = TypeVar("Found", bound="Page | Locator")
_SCRIPTS = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
JS: dict[str, str] = dict(re.findall(r"^const (\w+) = (.*?);$(?=\n\n|\n\Z)", _SCRIPTS, re.M | re.S))
TOO_FAR = "document.documentElement.scrollWidth - window.innerWidth"
# The rules that look at colours: what an element is, says and measures is the same in both themes.
COLOURS = ["color-contrast", "link-in-text-block"]
NO_COLOURS = {rule: {"enabled": False} for rule in COLOURS}
OURS = [[".sng-report"], [".sng-figure"], {"fromShadowDom": ["marimo-anywidget", ".sn"]}]
TEXT = ["#App .markdown"]


@functools.cache
def _playwrights_expect() -> Any:
    from playwright.sync_api import expect

    expect.set_options(timeout=120_000)  # for what takes seconds on a quiet machine
    return expect


def expect(found: Page | Locator) -> Any:
    """Playwright's, which is imported with the first test that asks for it."""
    return _playwrights_expect()(found)


# ---- widgets -------------------------------------------------------------------------------------


def live(place: Page | Locator, index: int = 0) -> str:
    """What a widget's live line says now: the first's of a page, or the one at `index`."""
    return place.locator(".sn-live").nth(index).text_content()


def focus_toolbar(place: Page | Locator, index: int = 0) -> None:
    """Put the focus on a widget's one Tab stop."""
    place.locator(".sn-toolbar").nth(index).locator("[tabindex='0']").focus()


def from_the_start(page: Page) -> Page:
    """The page with every player at its first step, wherever its picture opened."""
    page.locator(".sn-toolbar .sn-travel .sn-scrubber").evaluate_all(
        "(all) => all.forEach((at) => { at.value = '0'; at.dispatchEvent(new Event('input')); })"
    )
    return page


def press(page: Page, key: str, times: int = 1) -> None:
    for _ in range(times):
        page.keyboard.press(key)


def press_on(found: Locator, *keys: str) -> str:
    """Press keys with the focus on a widget's one Tab stop; return what it then says."""
    focus_toolbar(found)
    for key in keys:
        found.page.keyboard.press(key)
    return live(found)


def at_rest(found: Found) -> Found:
    """The page or the elements, once nothing of the page moves; whoever measures it asks here."""
    getattr(found, "page", found).evaluate(JS["AT_REST"])
    return found


def box(locator: Locator) -> tuple[float, float]:
    """Where an element begins and ends, from left to right."""
    found = at_rest(locator).bounding_box()
    return found["x"], found["x"] + found["width"]


def stand_at(page: Page, part: float) -> None:
    """Put every player of the page at a part of its way, 0 to 1."""
    page.evaluate(JS["MOVE"], part)


def violations(page: Page, context: object = None, **options: object) -> list[tuple[str, str]]:
    """The accessibility rules that the page breaks, each with the first element that does."""
    if not page.evaluate("'axe' in window"):
        from axe_playwright_python.base import AXE_SCRIPT

        page.evaluate(AXE_SCRIPT)
    options = {"resultTypes": ["violations"], "selectors": False, **options}
    num_kept, broken = at_rest(page).evaluate(JS["AXE"], [context, options])
    assert num_kept
    return [(rule, html) for rule, html in broken]


def assert_accessible_and_not_too_wide(page: Page) -> None:
    assert violations(page) == []
    assert at_rest(page).evaluate(TOO_FAR) <= 0


def assert_one_tab_stop_each(page: Page) -> None:
    """Every widget of the page is one Tab stop, and its pictures have words."""
    widgets = page.locator(".sn").all()
    assert widgets
    for each in widgets:
        assert at_rest(each).locator("button, input, [tabindex]").evaluate_all(JS["STOPS"]) == 1
        for picture in each.get_by_role("img").all():
            assert picture.get_attribute("aria-label")


def assert_no_text_is_cut_off(page: Page) -> None:
    pictures = page.locator(".sn svg, .sng-figure svg")
    assert pictures.count() > 0
    assert at_rest(pictures).evaluate_all(JS["OUTSIDE"]) == []


# ---- lessons -------------------------------------------------------------------------------------


def in_lesson(*stems: str) -> pytest.MarkDecorator:
    """The test is given these lessons, one after another."""
    return pytest.mark.parametrize("lesson", stems, indirect=True, scope="session")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson open in a page, and what a learner does with it.

    `stem` is such as "l01_chunked_prefill".
    """

    page: Page
    stem: str

    @property
    def number(self) -> str:
        """Such as "l01"."""
        return self.stem.partition("_")[0]

    def wait_until_open(self) -> None:
        """Wait until every cell has run and every check has answered."""
        num_reports = len(lesson_exercises(self.stem)) + len(MUSEUMS.get(self.stem, []))
        expect(self.page.locator(".sng-report")).to_have_count(num_reports)
        busy = self.page.locator('[data-status="running"], [data-status="queued"]')
        expect(busy).to_have_count(0)

    def cell(self, function: str) -> Locator:
        """The text of the cell that defines a function."""
        return self.page.locator(".cm-content", has_text=f"def {function}(")

    def answer(self, source: str) -> None:
        """Write a function over the one of its name, and run its cell."""
        cell = self.cell(re.findall(r"def (\w+)", source)[0])
        cell.click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)
        self.page.keyboard.press("Control+Enter")

    def type_at_end(self, function: str, text: str) -> None:
        """Type in a cell, and wait until the page has told its server, which is before it saves.

        A page tells of its own changes too: it writes a text's source anew once that is in sight.
        """
        self.cell(function).click()
        self.page.keyboard.press("Control+End")

        def tells_of_the_text(response: Response) -> bool:
            told = response.request.post_data or ""
            return response.url.endswith("/api/document/transaction") and text in told

        with self.page.expect_response(tells_of_the_text):
            self.page.keyboard.insert_text(text)

    def answer_right(self, *exercises: str) -> None:
        """Give the worked answers of exercises, and wait until their checks have passed."""
        for name in exercises:
            self.answer(worked_source(f"{self.number[:3]}.{name}"))
            self.report(name, "passed")

    def show_answer(self, key: str) -> None:
        """Have a prediction's answer shown unless it is, with all that waits for it on the page."""
        question = self.page.locator(f".sn-prediction[data-key='{key}']")
        button = question.get_by_role("button", name="Show me")
        if button.count():
            button.click()
        expect(self.page.locator(f".sn-waits[data-after='{key}']")).to_have_count(0)

    def show_all_answers(self) -> None:
        """Have every answer shown that is not yet."""
        button = self.page.get_by_role("button", name="Show me")
        waiting = self.page.locator(".sn-prediction").filter(has=button)
        while waiting.count():
            self.show_answer(str(waiting.first.get_attribute("data-key")))

    def shows(self, words: str | re.Pattern[str]) -> Locator:
        """What cells show with these words in it."""
        return self.page.locator(".output", has_text=words)

    def widget(self, kind: str, title: str) -> Locator:
        """The widget of a kind whose title begins so."""
        named = self.page.locator(".sn-title", has_text=re.compile(f"^{re.escape(title)}"))
        return self.page.locator(f".sn-{kind}", has=named)

    def figure(self, title: str) -> Locator:
        """The measured figure whose title begins so."""
        named = self.page.locator("figcaption", has_text=re.compile(f"^{re.escape(title)}"))
        return self.page.locator(".sng-figure", has=named)

    def report(self, exercise: str, status: str) -> Locator:
        """Wait for a check's verdict on an exercise, not on an exhibit; return its card."""
        # An exercise keeps its id when its lesson is split in l04 and l04b.
        own = f'[data-exercise="{self.number[:3]}.{exercise}"][data-exhibit=""]'
        card = self.page.locator(f".sng-report{own}")
        expect(card).to_have_attribute("data-status", status)
        return card

    def stand_in(self, exercise: str) -> Locator:
        """Where the lesson says that it goes on without an answer that never came back."""
        words = f"the reference stands in for your `{exercise}`"
        return self.page.locator(".sng-report-note", has_text=words)

    @property
    def timeline(self) -> Locator:
        """The replay of the learner's own engine beside the reference."""
        yours = self.page.locator(".sn-live", has_text=re.compile("^Yours"))
        return self.page.locator(".sn-timeline", has=yours)


def worked_source(exercise_id: str) -> str:
    """An exercise's worked answer as a learner would type it: on its own, without annotations."""
    function = exercise(exercise_id).right[0]
    [tree] = ast.parse(inspect.getsource(function)).body
    assert isinstance(tree, ast.FunctionDef)
    tree.body = tree.body[1:] if ast.get_docstring(tree) else tree.body
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef):
            each.returns = None
        elif isinstance(each, ast.arg):
            each.annotation = None
    used = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    module = ast.parse(inspect.getsource(sys.modules[function.__module__]))
    for each in module.body:
        if isinstance(each, ast.Import | ast.ImportFrom):
            names = {name.asname or name.name for name in each.names}
            whose = getattr(each, "module", None) or each.names[0].name
            if names & used and not whose.startswith(("course", "nanogpt", "solutions")):
                tree.body.insert(0, each)
    return ast.unparse(tree)


def assert_ran_by_itself(lesson: Lesson) -> None:
    """The untouched lesson is open: its widgets are drawn, no cell and no widget has failed.

    Every exercise's card says "not started"; an exhibit's says what is wrong with it.
    """
    page = lesson.page
    wait_for(lambda: _all_drawn(page))
    expect(page.locator(".marimo-error, .console-output-area .stderr")).to_have_count(0)
    not_started = page.locator(".sng-report[data-status=not_started]")
    expect(not_started).to_have_count(len(lesson_exercises(lesson.stem)))
    failed = page.locator(".sng-report[data-status=failed]")
    expect(failed).to_have_count(len(MUSEUMS.get(lesson.stem, [])))


def _all_drawn(page: Page, state: str = "") -> bool:
    """Whether each widget that the page holds by now is drawn, and in a state."""
    return page.locator(f".sn{state}").count() == page.locator("marimo-anywidget").count()


def turn(lesson: Lesson, scheme: str) -> None:
    """Choose the page's theme, and wait until every widget follows."""
    # Without motion, or a rule is tested while a button's background is still on its way.
    lesson.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    wait_for(lambda: _all_drawn(lesson.page, f"[data-theme={scheme}]"))
    lesson.page.emulate_media(color_scheme=scheme, reduced_motion="no-preference")


def assert_accessible(lesson: Lesson) -> None:
    """Nothing of ours breaks an accessibility rule; of colours, `assert_stands_out` speaks."""
    assert violations(lesson.page, {"include": OURS}, rules=NO_COLOURS) == []


def assert_stands_out(lesson: Lesson, scheme: str) -> None:
    """The text, and what is ours, stands out from the page in a theme."""
    turn(lesson, scheme)
    lesson.page.evaluate("App.scrollTop = 0")  # of text that is scrolled away, axe cannot say
    assert violations(lesson.page, {"include": [*OURS, TEXT]}, runOnly=COLOURS) == []


def shapes(page: Page) -> list[tuple[str, int, int]]:
    """Markup and size of what is ours; a theme that is as it should be changes neither."""
    return at_rest(page).locator(".sn, .sng-report, .sng-figure").evaluate_all(JS["SHAPES"])


def assert_fits(lesson: Lesson, width: int, scheme: str = "light") -> None:
    """Nothing of ours is wider than the page, nothing is cut off, and the wheel moves the page."""
    turn(lesson, scheme)
    lesson.page.set_viewport_size({"width": width, "height": 900})
    ours = lesson.page.locator(".sn, .sng-report, .sng-figure")
    wait_for(lambda: ours.evaluate_all(JS["TOO_WIDE"]) == [])
    printed = ".output table, .output pre"
    assert at_rest(lesson.page).locator(printed).evaluate_all(JS["CUT_OFF"]) == []
    assert at_rest(lesson.page).locator(".output-area").evaluate_all(JS["SCROLLS_OR_HIDES"]) == []


def assert_shown_only_after(page: Page, answered: set[str]) -> set[str]:
    """Of what answers a prediction, only what answers these is shown; return what is waited for."""
    html = page.evaluate(JS["WAITING"])
    pictures = page.locator(".sn[data-after]").all()
    drawn = {each.get_attribute("data-after") for each in pictures} - {""}
    assert {key for key, seen in html if seen} == {key for key, _ in html} & answered
    assert all(seen for key, seen in html if key in answered)
    shut = {each.get_attribute("data-after") for each in page.locator(".sn-waits").all()}
    assert shut == drawn - answered
    return {key for key, _ in html} | drawn
