"""The static site as a reader has it: from a folder and from a server, with no other machine."""

import ast
import html
import inspect
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from answers import IDS, right
from driving import COLOURS, press_on, violations
from playwright.sync_api import Browser, Page, expect

from course.lesson_map import LESSONS
from course.site.links import faults
from course.site.pages import highlighted

pytestmark = [pytest.mark.browser, pytest.mark.process]
LOOKED_AT = (
    "index",
    "l00_kv_cache",
    "l03_interleaving",
    "l04_sliding_window",
    "l05_slo_policy",
    "l07_fleet",
    "l08_speculation",
    "l09_blocks",
    "l10_capstone",
    "steppers",
)
NAMES = ["index", "glossary", "steppers", *(each.stem for each in LESSONS)]
Open = Callable[..., Page]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The site's address on a server of its own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def visit(chromium: Browser, site: Path, served: str, complaints: list[str]) -> Iterator[Open]:
    """Open a page of the site and wait until all is drawn; a request beyond it is a complaint."""
    contexts = []

    def opened(name: str, *, from_file: bool = False, width: int = 1280, scheme: str = "light"):
        start = f"{site.as_uri()}/" if from_file else served
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith((start, "blob:")) else complaints.append(request.url)
            ),
        )
        page.goto(f"{start}{name}.html")
        page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()


# ---- what is in its files ------------------------------------------------------------------------


def squashed(text: str) -> str:
    """Without white space and quotation marks, which pages and JSON write in their own ways."""
    return re.sub(r"""[\s"'\\]|\\n""", "", text.replace("\\n", ""))


def words_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def bodies(exercise_id: str) -> list[str]:
    """What stands below signature and docstring in each right answer, comments left out."""
    found = []
    for answer in right(exercise_id):
        [tree] = ast.parse(inspect.getsource(answer)).body
        rest = [
            each
            for each in tree.body
            if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        ]
        found.append(squashed("".join(ast.unparse(each) for each in rest or tree.body)))
    return found


def test_every_link_of_it_leads_somewhere_and_no_page_loads_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(LESSONS) + 40
    assert faults(site) == []


def test_no_solution_is_in_it(site):
    texts = {
        path.name: squashed(words_of(text) if path.suffix == ".html" else text)
        for path in site.rglob("*")
        if path.is_file() and (text := path.read_text(encoding="utf-8"))
    }
    told = {
        (name, exercise_id)
        for exercise_id in IDS
        for body in bodies(exercise_id)
        for name, text in texts.items()
        if body in text
    }
    assert told == set()


def test_a_solution_in_a_page_would_have_been_found():
    for exercise_id in IDS:
        page = squashed(
            words_of(highlighted(ast.unparse(ast.parse(inspect.getsource(right(exercise_id)[0])))))
        )
        assert bodies(exercise_id)[0] in page


def test_what_pages_share_is_there_once(site):
    modules = [
        path for path in site.rglob("*.js") if "createModel(state)" in path.read_text("utf-8")
    ]
    assert [path.relative_to(site).as_posix() for path in modules] == ["assets/site.js"]
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert text.count("<style>") == ("replay" in text and path.name == "index.html")
        assert "export default" not in text


# ---- in a browser --------------------------------------------------------------------------------


def drawn(page: Page) -> list[int]:
    return [page.locator("[data-widget]").count(), page.locator("[data-widget] > .sn").count()]


@pytest.mark.parametrize("from_file", [False, True], ids=["http", "file"])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_draws_all_its_widgets_and_asks_no_other_machine(visit, name, from_file):
    wanted, there = drawn(visit(name, from_file=from_file))
    assert wanted == there
    assert wanted > 0 or name in ("glossary", "steppers")


def test_a_picture_of_every_kind_is_stepped_by_keys_on_its_own_page_from_a_file(site, visit):
    kinds = {path.stem.split("-")[2]: path.stem for path in sorted(site.glob("steppers/*.html"))}
    still = set()
    for kind, stem in kinds.items():
        page = visit(f"steppers/{stem}", from_file=True)
        if page.get_by_role("button", name="Show me").count():
            page.get_by_role("button", name="Show me").click()
        place = page.locator(f"[data-kind={kind}]")
        expect(place.locator(".sn-waits")).to_have_count(0)
        assert place.locator("svg").count() > 0
        if place.locator(".sn-toolbar .sn-travel").count():
            assert press_on(place, "Home") != press_on(place, "ArrowRight"), kind
        else:
            still.add(kind)
        page.context.close()
    assert len(kinds) >= 20
    assert len(still) <= 6


def test_a_prediction_stays_one_choose_then_reveal(visit):
    page = visit("l01_chunked_prefill", from_file=True)
    question = page.locator(".sn-prediction[data-key='l01.what_improves']")
    card = page.locator("[data-sn-after='l01.what_improves'] .sng-withheld")
    picture = page.locator(".sn[data-after='l01.what_improves']").first
    expect(card).not_to_be_visible()
    expect(picture).to_have_class(re.compile("sn-waits"))
    question.get_by_role("radio").nth(2).check()
    question.get_by_role("button", name="Commit").click()
    expect(card).to_be_visible()
    expect(picture).not_to_have_class(re.compile("sn-waits"))


@pytest.mark.parametrize("from_file", [False, True], ids=["http", "file"])
def test_a_control_chooses_among_figures_by_keys(visit, from_file):
    page = visit("l04_sliding_window", from_file=from_file)
    group = page.get_by_role("group", name="Window W")
    expect(group.get_by_role("radio", name="24")).to_be_checked()
    figure = page.locator(".choice figure:visible")
    expect(figure).to_have_count(1)
    expect(figure).to_contain_text("a window of 24")
    group.get_by_role("radio", name="24").focus()
    page.keyboard.press("ArrowRight")
    expect(group.get_by_role("radio", name="32")).to_be_checked()
    expect(figure).to_have_count(1)
    label = figure.get_by_role("img").get_attribute("aria-label")
    assert "a window of 32: 32 at 0, 0 at 54" in label
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(figure).to_contain_text("a window of 8")


def test_a_control_whose_figures_wait_for_a_prediction_waits_too(visit):
    page = visit("l05_slo_policy")
    group = page.get_by_role("group", name="Against the first rung")
    expect(group).to_have_count(0)
    question = page.locator(".sn-prediction[data-key='l05.visible']")
    question.get_by_role("button", name="Show me").click()
    expect(group.get_by_role("radio")).to_have_count(7)
    group.get_by_role("radio", name="most urgent first").check()
    expect(page.locator(".choice figure:visible")).to_contain_text("most urgent first")


def test_a_control_works_without_a_script(chromium, site):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "l08_speculation.html").as_uri())
    figure = page.locator(".choice figure:visible")
    expect(figure.locator("figcaption")).to_contain_text("a large GPU")
    page.get_by_role("radio", name="a server CPU").check()
    expect(figure).to_have_count(1)
    expect(figure.locator("figcaption")).to_contain_text("a server CPU")
    context.close()


def test_an_exercise_says_how_to_do_it_for_real(visit):
    page = visit("l02_scheduling")
    assert page.locator(".sng-task").count() == page.locator(".for-real").count() == 5
    said = page.locator(".for-real").first.text_content()
    assert "python3 learn.py check l02 " in said
    assert page.locator(".sng-report[data-status=not_started]").count() == 0


@pytest.mark.parametrize("from_file", [False, True], ids=["http", "file"])
def test_search_finds_a_section_and_goes_there(visit, from_file):
    page = visit("index", from_file=from_file)
    page.keyboard.press("/")
    page.keyboard.type("drafts stay")
    first = page.locator("#results a").first
    expect(first).to_contain_text("8 · Speculative decoding")
    expect(page.locator("#found")).to_contain_text("found")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Speculative")
    page.locator("#search").fill("zebra crossing")
    expect(page.locator("#found")).to_have_text("Nothing found")


def test_search_tells_nothing_that_a_prediction_comes_before(site):
    index = (site / "assets" / "search-index.js").read_text(encoding="utf-8")
    lesson = (site / "l01_chunked_prefill.html").read_text(encoding="utf-8")
    words = "The long hole has"
    assert words in lesson
    assert words not in index
    assert "Four people are reading" in index


def test_the_choice_of_colours_is_kept_for_the_next_page(visit):
    page = visit("index")
    page.get_by_role("button", name="Dark colours").click()
    expect(page.locator(".sn-timeline")).to_have_attribute("data-theme", "dark")
    page.locator(".cards a").first.click()
    expect(page.locator("html")).to_have_class("dark")
    expect(page.locator(".sn").first).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Light colours").click()
    expect(page.locator(".sn").first).to_have_attribute("data-theme", "light")


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_breaks_no_accessibility_rule(visit, name):
    page = visit(name)
    while page.get_by_role("button", name="Show me").count():
        page.get_by_role("button", name="Show me").first.click()
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    expect(page.locator(".sn[data-theme=light]")).to_have_count(0)
    assert violations(page, runOnly=COLOURS) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_a_phone(visit, name):
    page = visit(name, width=390)
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_the_first_pages_moving_picture_stands_still_for_who_wants_that(visit):
    page = visit("index")
    style = "(all) => all.map((each) => getComputedStyle(each).animationName)"
    names = page.locator(".replay .step, .replay .say, .replay .head").evaluate_all(style)
    assert set(names) == {"none"}
    expect(page.locator(".replay .say").nth(5)).to_have_css("opacity", "1")
