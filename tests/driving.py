"""What the browser tests do with a page: press keys, read places, answer exercises, ask axe."""

import contextlib
import re
from dataclasses import dataclass

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from launching import wait_for
from playwright.sync_api import Locator, Page, expect

LIMIT_MS = 120_000  # for what takes seconds on a quiet machine
# What of our own elements leaves the page, or holds more than fits into it.
TOO_WIDE = """(all) => all
    .filter((each) => each.getBoundingClientRect().right > window.innerWidth
        || each.scrollWidth > each.clientWidth)
    .map((each) => each.className)"""
# Tables and printed text that end outside the page, where nothing can be scrolled to reach them.
CUT_OFF = """(all) => all.filter((each) => {
    if (each.getBoundingClientRect().right <= window.innerWidth) return false;
    for (let box = each; box && box.id !== "App"; box = box.parentElement) {
        if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return false;
    }
    return true;
}).map((each) => each.textContent.slice(0, 40))"""
# Outputs that take the wheel from the page, or hide more than a rounded pixel or two below.
SCROLLS_OR_HIDES = """(all) => all.filter((each) => {
    const below = each.scrollHeight - each.clientHeight;
    const scrolls = ["auto", "scroll"].includes(getComputedStyle(each).overflowY);
    return scrolls ? below > 0 : below > 2;
}).map((each) => [each.id, each.scrollHeight, each.clientHeight])"""
# The words of pictures that lie outside their picture, where they are not drawn.
OUTSIDE = """(pictures) => pictures.flatMap((picture) => {
    if (getComputedStyle(picture).overflow === "visible") return [];
    const frame = picture.getBoundingClientRect();
    return [...picture.querySelectorAll("text")].filter((text) => {
        if (!text.checkVisibility({opacityProperty: true})) return false;
        const at = text.getBoundingClientRect();
        return at.left < frame.left - 1 || at.right > frame.right + 1
            || at.top < frame.top - 2 || at.bottom > frame.bottom + 2;
    }).map((text) => text.textContent);
})"""
# Puts every player of the page at a part of its way.
MOVE = """(part) => {
    for (const at of document.querySelectorAll(".sn-toolbar .sn-travel .sn-scrubber")) {
        at.value = String(Math.round(part * at.max));
        at.dispatchEvent(new Event("input"));
    }
}"""
# What waits for a prediction as HTML: [key, whether it is to be seen].
WAITING = """() => [...document.querySelectorAll("[data-sn-after]")].map(
    (each) => [each.dataset.snAfter, each.querySelector(".sng-withheld").checkVisibility()])"""
STOPS = "(all) => all.filter((each) => each.tabIndex === 0).length"
# How many rules the page keeps, and those that it breaks, each with the first element that does.
AXE = """async ([context, options]) => {
    const found = await axe.run(context ?? document, options);
    return [found.passes.length, found.violations.map(({id, nodes}) => [id, nodes[0].html])];
}"""
# The rules that look at colours: what an element is, says and measures is the same in both themes.
COLOURS = ["color-contrast", "link-in-text-block"]
NO_COLOURS = {rule: {"enabled": False} for rule in COLOURS}
# What our own elements are, whatever the theme: their markup, and how large it is drawn.
SHAPES = """(all) => all.map((each) => [
    each.outerHTML.replaceAll(/ data-theme="\\w+"/g, ""), each.clientWidth, each.clientHeight])"""
OURS = [[".sng-report"], [".sng-figure"], {"fromShadowDom": ["marimo-anywidget", ".sn"]}]
TEXT = ["#App .markdown"]


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


def box(locator: Locator) -> tuple[float, float]:
    """Where an element begins and ends, from left to right."""
    found = locator.bounding_box()
    return found["x"], found["x"] + found["width"]


def step_all(page: Page, times: int) -> None:
    """Step every widget of the page forward."""
    for index in range(page.locator(".sn-toolbar").count()):
        focus_toolbar(page, index)
        press(page, "ArrowRight", times)


def stand_at(page: Page, part: float) -> None:
    """Put every player of the page at a part of its way, 0 to 1."""
    page.evaluate(MOVE, part)


def violations(page: Page, context: object = None, **options: object) -> list[tuple[str, str]]:
    """The accessibility rules that the page breaks, each with the first element that does."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    options = {"resultTypes": ["violations"], "selectors": False, **options}
    num_kept, broken = page.evaluate(AXE, [context, options])
    assert num_kept
    return [(rule, html) for rule, html in broken]


def assert_accessible_and_not_too_wide(page: Page) -> None:
    # What scrolls at this width gets its tab stop once it has been laid out.
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def assert_one_tab_stop_each(page: Page) -> None:
    """Every widget of the page is one Tab stop, and its pictures have words."""
    widgets = page.locator(".sn").all()
    assert widgets
    for each in widgets:
        assert each.locator("button, input, [tabindex]").evaluate_all(STOPS) == 1
        for picture in each.get_by_role("img").all():
            assert picture.get_attribute("aria-label")


def assert_no_text_is_cut_off(page: Page) -> None:
    pictures = page.locator(".sn svg")
    assert pictures.count() > 0
    with contextlib.suppress(AssertionError):  # a page that was resized is drawn anew
        wait_for(lambda: pictures.evaluate_all(OUTSIDE) == [])
    assert pictures.evaluate_all(OUTSIDE) == []


# ---- lessons -------------------------------------------------------------------------------------


def in_lesson(*stems: str) -> pytest.MarkDecorator:
    """The test is given these lessons, one after another."""
    return pytest.mark.parametrize("lesson", stems, indirect=True, scope="session")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson open in a page, and what a learner does with it.

    `number` is "l01", `num_reports` how many cards of checks the lesson shows.
    """

    page: Page
    number: str
    num_reports: int

    def wait_until_open(self) -> None:
        """Wait until every cell has run and every check has answered."""
        expect(self.page.locator(".sng-report")).to_have_count(self.num_reports, timeout=LIMIT_MS)
        self.wait_until_run()

    def wait_until_run(self) -> None:
        """Wait until every cell has run."""
        expect(self.page.locator(".sng-report").first).to_be_attached(timeout=LIMIT_MS)
        busy = self.page.locator('[data-status="running"], [data-status="queued"]')
        expect(busy).to_have_count(0, timeout=LIMIT_MS)

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

    def show_answer(self, key: str) -> None:
        """Have a prediction's answer shown, and with it all on the page that waits for it."""
        question = self.page.locator(f".sn-prediction[data-key='{key}']")
        question.get_by_role("button", name="Show me").click()
        expect(self.page.locator(f".sn-waits[data-after='{key}']")).to_have_count(0)

    def report(self, exercise: str, status: str, place: int = 0) -> Locator:
        """Wait for a check's verdict; return its card, the first or the one at `place`."""
        # An exercise keeps its id when its lesson is split in l04 and l04b.
        cards = self.page.locator(f'.sng-report[data-exercise="{self.number[:3]}.{exercise}"]')
        card = cards.nth(place)
        expect(card).to_have_attribute("data-status", status, timeout=LIMIT_MS)
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


def widget(lesson: Lesson, kind: str, title: str) -> Locator:
    """The widget of a kind whose title begins so."""
    named = lesson.page.locator(".sn-title", has_text=re.compile(f"^{re.escape(title)}"))
    return lesson.page.locator(f".sn-{kind}", has=named)


def figure(lesson: Lesson, title: str) -> Locator:
    """The measured figure whose title begins so."""
    named = lesson.page.locator("figcaption", has_text=re.compile(f"^{re.escape(title)}"))
    return lesson.page.locator(".sng-figure", has=named)


def assert_ran_by_itself(
    lesson: Lesson, title: str, kinds: tuple[str, ...], not_started: int, failed: int = 0
) -> None:
    """The untouched lesson is open: its widgets are drawn, no cell and no widget has failed.

    So many cards say "not started" and "failed", and there are no others.
    """
    page = lesson.page
    expect(page.get_by_role("heading", level=1)).to_contain_text(title)
    for kind in kinds:
        expect(page.locator(f".sn-{kind}").first).to_be_attached()
    wait_for(lambda: _all_drawn(page))
    expect(page.locator(".marimo-error, .console-output-area .stderr")).to_have_count(0)
    expect(page.locator(".sng-report[data-status=not_started]")).to_have_count(not_started)
    expect(page.locator(".sng-report[data-status=failed]")).to_have_count(failed)
    assert lesson.num_reports == not_started + failed


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
    return page.locator(".sn, .sng-report, .sng-figure").evaluate_all(SHAPES)


def assert_fits(lesson: Lesson, width: int, scheme: str = "light") -> None:
    """Nothing of ours is wider than the page, nothing is cut off, and the wheel moves the page."""
    turn(lesson, scheme)
    lesson.page.set_viewport_size({"width": width, "height": 900})
    ours = lesson.page.locator(".sn, .sng-report, .sng-figure")
    wait_for(lambda: ours.evaluate_all(TOO_WIDE) == [])
    assert lesson.page.locator(".output table, .output pre").evaluate_all(CUT_OFF) == []
    assert lesson.page.locator(".output-area").evaluate_all(SCROLLS_OR_HIDES) == []


def assert_shown_only_after(page: Page, answered: set[str]) -> set[str]:
    """Of what answers a prediction, only what answers these is shown; return what is waited for."""
    html = page.evaluate(WAITING)
    pictures = page.locator(".sn[data-after]").all()
    drawn = {each.get_attribute("data-after") for each in pictures} - {""}
    assert {key for key, seen in html if seen} == {key for key, _ in html} & answered
    assert all(seen for key, seen in html if key in answered)
    shut = {each.get_attribute("data-after") for each in page.locator(".sn-waits").all()}
    assert shut == drawn - answered
    return {key for key, _ in html} | drawn


def assert_presentable(lesson: Lesson) -> None:
    """What the lesson has come to be breaks no rule in either theme and fits a narrow page."""
    assert_accessible(lesson)
    for scheme in ("light", "dark"):
        assert_stands_out(lesson, scheme)
    assert_fits(lesson, 390)
    lesson.page.set_viewport_size({"width": 1280, "height": 900})
