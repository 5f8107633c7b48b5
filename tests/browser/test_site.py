"""The static site as a reader has it: from a folder and from a server, with no other machine.

In the default tier the site has one lesson; with --all it is whole.
"""

import ast
import html
import inspect
import re
import sys

import pytest
from driving import COLOURS, TOO_FAR, at_rest, expect, press_on, violations
from serving import A_PART, serve_folder
from support import ROOT, run
from tiers import tier

from course.lesson_map import LESSONS

pytestmark = pytest.mark.browser
IS_WHOLE = tier() == "all"
NAMES = (
    ["index", "glossary", "steppers", *(each.stem for each in LESSONS)]
    if IS_WHOLE
    else ["index", "l02b_waiting"]
)
LOOKED_AT = {"index", "l02b_waiting", "l04_sliding_window", "l07_blocks", "steppers"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the finished site."""
    out = tmp_path_factory.mktemp("site") / "out"
    how = ["-m", "course", "site"] if IS_WHOLE else ["-c", A_PART, "", "l02b_waiting"]
    done = run([sys.executable, *how, str(out)], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def served(site):
    """The site's address on a server of its own."""
    with serve_folder(site) as address:
        yield address


@pytest.fixture
def look(visit, site, served):
    """Open a page of the site, from its folder or its server, and wait until all is drawn."""

    def opened(name, *, from_server=False, **options):
        start = served if from_server else f"{site.as_uri()}/"
        own = start.removeprefix("http://")
        page = visit(f"{start}{name}.html", own, reduced_motion="reduce", **options)
        page.wait_for_selector("html[data-ready]")
        return page

    return opened


def show_all(page):
    while page.get_by_role("button", name="Show me").count():
        page.get_by_role("button", name="Show me").first.click()


# ---- every page ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_page_draws_all_its_widgets_fits_a_phone_and_breaks_no_rule(look, name):
    page = look(name, from_server=name in LOOKED_AT)  # from a file, axe may not read the styles
    wanted = page.locator("[data-widget]").count()
    assert page.locator("[data-widget] > .sn").count() == wanted
    assert wanted > 0 or name in ("glossary", "steppers")
    show_all(page)
    if name in LOOKED_AT:
        assert violations(page) == []
        page.emulate_media(color_scheme="dark")
        expect(page.locator(".sn[data-theme=light]")).to_have_count(0)
        assert violations(page, runOnly=COLOURS) == []
    page.set_viewport_size({"width": 390, "height": 900})
    assert at_rest(page).evaluate(TOO_FAR) <= 0


def test_from_a_server_it_can_be_searched_and_keeps_the_choice_of_colours(look):
    page = look("index", from_server=True)
    style = "(all) => all.map((each) => getComputedStyle(each).animationName)"
    moving = page.locator(".replay :is(.step, .cover, .wrong, .right)")
    assert set(at_rest(moving).evaluate_all(style)) == {"none"}  # for who wants less motion
    page.get_by_role("button", name="Dark colours").click()
    expect(page.locator(".sn-timeline")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("/")
    page.keyboard.type("never gets a turn")  # a heading of lesson 2b alone
    expect(page.locator("#results a").first).to_contain_text("2b · ")
    expect(page.locator("#found")).to_contain_text("found")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("2b · ")
    expect(page.locator("html")).to_have_class("dark")
    expect(page.locator(".sn").first).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Light colours").click()
    expect(page.locator(".sn").first).to_have_attribute("data-theme", "light")
    page.locator("#search").fill("zebra crossing")
    expect(page.locator("#found")).to_have_text("Nothing found")


def test_a_prediction_stays_one_choose_then_reveal_and_a_task_says_how_to_do_it(look):
    page = look("l02b_waiting")
    question = page.locator(".sn-prediction[data-key='l02.priority']")
    card = page.locator("[data-sn-after='l02.priority'] .sng-withheld").first
    expect(card).not_to_be_visible()
    question.get_by_role("radio").first.check()
    question.get_by_role("button", name="Commit").click()
    expect(card).to_be_visible()
    assert page.locator(".sng-task").count() == page.locator(".for-real").count() == 1
    said = page.locator(".for-real").first.text_content()
    assert "python3 learn.py check l02b " in said
    assert page.locator(".sng-report[data-status=not_started]").count() == 0


# ---- the whole site ------------------------------------------------------------------------------


def squashed(text):
    """Without white space and quotation marks, which pages and JSON write in their own ways."""
    return re.sub(r"""[\s"'\\]|\\n""", "", text.replace("\\n", ""))


def words_of(page):
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def bodies(exercise_id):
    """What stands below signature and docstring in each right answer, comments left out."""
    from answers import right

    for answer in right(exercise_id):
        [tree] = ast.parse(inspect.getsource(answer)).body
        rest = tree.body[1:] if ast.get_docstring(tree) else tree.body
        yield squashed("".join(ast.unparse(each) for each in rest or tree.body))


@pytest.mark.nightly
def test_no_solution_is_in_it(site):
    from answers import IDS, right

    from course.publish.page_templates import highlighted

    texts = {
        path.name: squashed(words_of(text) if path.suffix == ".html" else text)
        for path in site.rglob("*")
        if path.is_file() and (text := path.read_text(encoding="utf-8"))
    }
    for exercise_id in IDS:
        for body in bodies(exercise_id):
            assert [name for name, text in texts.items() if body in text] == [], exercise_id
        # In a page that held one it would have been found.
        source = ast.unparse(ast.parse(inspect.getsource(right(exercise_id)[0])))
        assert next(bodies(exercise_id)) in squashed(words_of(highlighted(source)))


@pytest.mark.nightly
def test_what_its_pages_share_is_there_once(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(LESSONS) + 40
    modules = [
        path for path in site.rglob("*.js") if "createModel(state)" in path.read_text("utf-8")
    ]
    assert [path.relative_to(site).as_posix() for path in modules] == ["assets/site.js"]
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert text.count("<style>") == ("replay" in text and path.name == "index.html")
        assert "export default" not in text


@pytest.mark.nightly
def test_a_picture_of_every_kind_is_stepped_by_keys_on_its_own_page(site, look):
    kinds = {path.stem.split("-")[2]: path.stem for path in sorted(site.glob("steppers/*.html"))}
    still = set()
    for kind, stem in kinds.items():
        page = look(f"steppers/{stem}")
        show_all(page)
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


@pytest.mark.nightly
def test_a_control_chooses_among_figures_and_waits_where_they_wait_for_a_prediction(look):
    page = look("l04_sliding_window")
    group = page.get_by_role("group", name="Window W")
    figure = page.locator(".choice figure:visible")
    expect(figure).to_contain_text("a window of 24")
    group.get_by_role("radio", name="24").focus()
    page.keyboard.press("ArrowRight")
    expect(group.get_by_role("radio", name="32")).to_be_checked()
    expect(figure).to_have_count(1)
    label = figure.get_by_role("img").get_attribute("aria-label")
    assert "a window of 32: 32 at 0, 0 at 54" in label
    page = look("l05b_repair_ladder", from_server=True)
    group = page.get_by_role("group", name="Compare arrival order with")
    expect(group).to_have_count(0)
    question = page.locator(".sn-prediction[data-key='l05.visible']")
    question.get_by_role("button", name="Show me").click()
    expect(group.get_by_role("radio")).to_have_count(7)
    group.get_by_role("radio", name="most urgent first").check()
    figures = page.locator(".choice").filter(has=group).locator("figure:visible")
    expect(figures).to_contain_text("most urgent first")


@pytest.mark.nightly
def test_a_control_works_without_a_script(visit, site):
    page = visit((site / "l08_speculation.html").as_uri(), java_script_enabled=False)
    figure = page.locator(".choice figure:visible")
    expect(figure.locator("figcaption")).to_contain_text("a large GPU")
    page.get_by_role("radio", name="a server CPU").check()
    expect(figure).to_have_count(1)
    expect(figure.locator("figcaption")).to_contain_text("a server CPU")
