"""Exercises on the site's pages: written, checked, kept and taken along in a real browser."""

import functools
import inspect
import json
import os
import sys

import pytest
from driving import COLOURS, TOO_FAR, at_rest, expect, violations
from pyodide_package import pyodide_package
from serving import A_PART, serve_folder
from support import ROOT, run
from tiers import some

from course.registry import exercise as lesson_exercise

pytestmark = pytest.mark.browser
OTHERS = some(
    [
        ("l02b_waiting", "l02.aged_key", "(request, rate):\n    return (request.priority,)"),
        ("l05b_repair_ladder", "l05.slo_batch", "(candidate, waiting, *rest):\n    return []"),
        ("l12_on_call", "l12.ticket_2", "():\n    return {}"),
    ],
    1,
)
STEMS = " ".join(["l01_chunked_prefill", "l02_scheduling", *(stem for stem, _, _ in OTHERS)])
CHUNK_SIZE = "def chunk_size(token_budget, num_decodes, remaining):\n    "
RIGHT = CHUNK_SIZE + "return min(remaining, max(0, token_budget - num_decodes))"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of a site with editors, on a server of its own."""
    out = tmp_path_factory.mktemp("tab") / "out"
    done = run([sys.executable, "-c", A_PART, str(pyodide_package()), STEMS, str(out)], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    with serve_folder(out) as address:
        yield address


@pytest.fixture
def look(visit, served):
    """Open a page of the site; a request to any other machine is a complaint."""

    def opened(name, **options):
        page = visit(f"{served}{name}.html", served.removeprefix("http://"), **options)
        page.wait_for_selector("html[data-ready]")
        page.set_default_timeout(60_000)
        return page

    return opened


def box_of(page, exercise):
    box = page.locator(f".tab-exercise[data-exercise='{exercise}']")
    box.scroll_into_view_if_needed()
    box.get_by_role("textbox").wait_for()
    return box


def write(box, text):
    """Put a text into the editor and check it, with keys only."""
    editor = box.get_by_role("textbox")
    editor.focus()
    editor.press("ControlOrMeta+a")
    box.page.keyboard.insert_text(text)
    editor.press("ControlOrMeta+Enter")
    return verdict(box)


def verdict(box):
    expect(box.get_by_role("button", name="Check")).not_to_have_attribute("aria-disabled", "true")
    return box.locator(".sng-report").get_attribute("data-status")


# ---- from keystroke to verdict -------------------------------------------------------------------


def test_an_answer_is_judged_on_the_page_and_what_was_written_outlives_a_reload(look):
    page = look("l01_chunked_prefill")
    box = box_of(page, "l01.chunk_size")
    assert (
        write(box, CHUNK_SIZE + "print('seen')\n    return token_budget - num_decodes") == "failed"
    )
    expect(box.locator(".tab-report")).to_contain_text("After every decode has its token")
    expect(box.locator(".tab-report")).to_contain_text("seen")
    expect(box.locator(".tab-worked")).to_be_hidden()
    assert write(box, RIGHT) == "passed"
    expect(page.locator(".for-real")).to_contain_text("chunk_mask computes with PyTorch's tensors")
    box.locator(".tab-worked summary").click()
    expect(box.locator(".tab-worked pre")).to_contain_text("def chunk_size")
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, runOnly=COLOURS) == []
    page.set_viewport_size({"width": 390, "height": 900})
    assert at_rest(page).evaluate(TOO_FAR) <= 0
    page.get_by_role("button", name="Show me").first.click()
    page.reload()
    page.wait_for_selector("html[data-ready]")
    expect(box_of(page, "l01.chunk_size").get_by_role("textbox")).to_contain_text("min(remaining")
    expect(page.locator(".sn-prediction").first).to_contain_text("From whole prompts to chunks")
    page.goto(page.url.replace("l01_chunked_prefill", "index"))
    expect(page.locator("[data-passed-of]").first).to_contain_text("1 of 4 passed")


def test_whatever_an_answer_does_ends_in_a_sentence_and_the_next_check_begins_at_once(look):
    box = box_of(look("l01_chunked_prefill"), "l01.chunk_size")
    for body, status in (
        ("while True: pass", "timeout"),
        ("while True: print('x' * 1000)", "timeout"),
        ("return sum(iter(int, 1))", "timeout"),
        ("return input()", "raised"),
        ("return chunk_size(token_budget, num_decodes, remaining)", "raised"),
        ("import nanogpt", "raised"),
        ("return [0] * 10**10", "raised"),
        ("import os; os._exit(3)", "crashed"),
    ):
        assert write(box, CHUNK_SIZE + body) == status
        expect(box.locator(".tab-report")).to_contain_text("Your chunk_size")
    assert write(box, RIGHT) == "passed"
    assert int(box.get_attribute("data-ms")) < 5000


def test_escape_leaves_the_editor_for_the_button_and_tab_indents_within(look):
    page = look("l01_chunked_prefill")
    editor = box_of(page, "l01.chunk_size").get_by_role("textbox")
    editor.focus()
    page.keyboard.press("ControlOrMeta+End")
    page.keyboard.press("Tab")
    expect(editor).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".tab-exercise[data-exercise='l01.chunk_size'] .tab-check")).to_be_focused()


@pytest.mark.parametrize(("stem", "exercise", "wrong"), OTHERS)
def test_a_right_a_wrong_and_an_endless_answer_of_other_lessons(look, stem, exercise, wrong):
    box, name = box_of(look(stem), exercise), exercise.partition(".")[2]
    assert write(box, f"def {name}{wrong}") == "failed"
    assert write(box, inspect.getsource(lesson_exercise(exercise).right[0])) == "passed"
    assert write(box, f"def {name}(*args):\n    while True:\n        pass") == "timeout"
    expect(box.locator(".tab-report")).to_contain_text("stopped on its line")


# ---- replayed ------------------------------------------------------------------------------------


def test_a_picture_replays_an_answer_and_later_lessons_use_one_that_passed(look):
    page = look("l01_chunked_prefill")
    box, picture = (
        box_of(page, "l01.plan_step"),
        page.locator("[data-cell]", has_text="Six requ").first,
    )
    one_each = "return [(each if type(each) is int else each[0], 1) for each in [*a, *b, *c]][:d]"
    assert write(box, f"def plan_step(a, b, c, d):\n    {one_each}") == "failed"
    expect(picture).to_contain_text("Yours, step 0: request 0 prefills token 0 of 28")
    assert write(box, inspect.getsource(lesson_exercise("l01.plan_step").right[0])) == "passed"
    expect(picture).to_contain_text("Both did the same work in every step")
    page.goto(page.url.replace("l01_chunked_prefill", "l02_scheduling"))
    page.wait_for_selector("html[data-ready]")
    oldest = "(policy, request):\n    return (request.arrival_time, request.id)"
    assert write(box_of(page, "l02.sort_key"), f"def sort_key{oldest}") == "failed"
    expect(page.locator("main")).to_contain_text("From lesson 1: 1 of 2 policies is yours")
    assert violations(page) == []


# ---- taken along ---------------------------------------------------------------------------------


def test_answers_taken_along_pass_in_the_course(look, tmp_path):
    page = look("l01_chunked_prefill")
    assert write(box_of(page, "l01.chunk_size"), RIGHT) == "passed"
    with page.expect_download() as saved:
        page.get_by_role("button", name="Take along").click()
    saved.value.save_as(tmp_path / "taken.json")
    assert json.loads((tmp_path / "taken.json").read_text())["answers"]["l01.chunk_size"]["passed"]
    work = tmp_path / "work"
    work.mkdir()
    learn = functools.partial(run, cwd=ROOT, env={**os.environ, "SERVING_NANOGPT_WORK": str(work)})
    course = [sys.executable, "-m", "course"]
    done = learn([*course, "import", str(tmp_path / "taken.json")])
    assert "Carried over: chunk_size." in done.stdout
    assert learn([*course, "check", "l01.chunk_size"]).returncode == 0
    mine = work / "l01_chunked_prefill.py"
    mine.write_text(mine.read_text().replace("min(remaining", "min(7 * remaining"))
    edited = mine.read_text()
    assert "Yours is kept" in learn([*course, "import", str(tmp_path / "taken.json")]).stdout
    assert [each.read_text() for each in (work / "kept").iterdir()] == [edited]
