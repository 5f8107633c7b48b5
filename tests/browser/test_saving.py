"""A lesson open in the browser and edited in an editor: both show, and nothing is lost.

`launcher/test_save_guard.py` tests what is kept when they disagree.

One server and one page serve all tests; each edits cells of its own or sets the lesson back.
"""

import os
import re

import pytest
from driving import expect
from launching import learn, wait_for
from serving import open_lesson

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

STUB = r"raise NotImplementedError.*"
SIZE = "return max(0, min(token_budget - num_decodes, remaining))"


@pytest.fixture(scope="module")
def file(course_server):
    """The learner's copy of lesson 1."""
    return course_server.work / "l01_chunked_prefill.py"


def edited(text, function, old, new):
    """The text with the first `old`, a pattern, after a function's head replaced."""
    before, head, after = text.partition(f"def {function}(")
    changed, count = re.subn(old, new, after, count=1)
    assert count == 1
    return before + head + changed


def edit(file, function, old, new):
    """Change a function as an editor does: read the file, write it."""
    file.write_text(edited(file.read_text(), function, old, new))


def kept(file):
    return sorted(file.parent.glob(f"kept/{file.stem}.*"))


def test_what_an_editor_writes_shows_in_the_open_page_and_stays(lesson, file):
    edit(file, "chunk_size", STUB, SIZE)
    expect(lesson.cell("chunk_size")).to_contain_text(SIZE)
    lesson.report("chunk_size", "passed")
    lesson.type_at_end("chunk_mask", " or 1001")
    wait_for(lambda: "or 1001" in file.read_text())
    assert SIZE in file.read_text()
    new = file.with_suffix(".new")  # as an editor that saves by renaming
    new.write_text(edited(file.read_text(), "chunk_size", "return max.*", "return 4"))
    os.replace(new, file)
    expect(lesson.cell("chunk_size")).to_contain_text("return 4")
    lesson.report("chunk_size", "failed")
    assert kept(file) == []


def test_an_edit_while_the_page_is_closed_is_there_when_it_opens_again(lesson, file, course_server):
    lesson.page.goto(course_server.address)
    edit(file, "chunk_size", "return 4.*", "return 5")
    lesson.page.wait_for_timeout(3000)
    again = open_lesson(lesson.page, lesson.stem)
    expect(again.cell("chunk_size")).to_contain_text("return 5")
    before = kept(file)
    again.type_at_end("chunk_size", " + 2006")
    wait_for(lambda: "+ 2006" in file.read_text())
    assert kept(file) == before


def test_reset_and_update_show_in_the_open_page_and_lose_nothing(lesson, file, course_server):
    lesson.type_at_end("chunk_size", " or 1009")
    assert learn(course_server.root, "reset", "l01").returncode == 0
    wait_for(lambda: any("or 1009" in each.read_text() for each in kept(file)), limit_s=60)
    expect(lesson.cell("chunk_size")).not_to_contain_text("or 1009")
    lesson.report("chunk_size", "not_started")
    pristine = course_server.root / "lessons" / file.name
    wait_for(lambda: file.read_text() == pristine.read_text())

    lesson.type_at_end("pick_budget", " or 1010")
    wait_for(lambda: "or 1010" in file.read_text())
    pristine.write_text(pristine.read_text().replace("# 1 · Chunked", "# 1 · Newer", 1))
    lesson.type_at_end("pick_budget", " or 1011")
    assert learn(course_server.root, "update").returncode == 0
    wait_for(lambda: any("or 1010 or 1011" in each.read_text() for each in kept(file)))
    expect(lesson.page.get_by_role("heading", name="Newer")).to_be_visible()
    wait_for(lambda: "# 1 · Newer" in file.read_text())
