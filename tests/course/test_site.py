"""The static site's parts, without running a lesson."""

import re
from pathlib import Path

import marimo as mo
import pytest
from support import ROOT

from course.__main__ import main
from course.controls import beside, chooser, slider
from course.lesson_map import LESSONS
from course.newcomer import newcomer
from course.prediction import Withheld
from course.progress import work_folder
from course.site import showcase, visiting
from course.site.blocks import Block, Code, Drawing, Exercise, Prose
from course.site.choice import choice
from course.site.links import faults
from course.site.pages import Page, lesson_page, stepper_page
from course.site.reading import read
from course.site.replay_svg import FILE, NUM_STEPS, picture
from course.site.visiting import visit


def page(*blocks, stem="l01_chunked_prefill") -> Page:
    return Page(stem, "1 · Chunked prefill", list(blocks))


# ---- reading -------------------------------------------------------------------------------------


def test_words_belong_to_the_heading_above_them():
    found = read('<h2 id="a">One <em>two</em></h2><p>three</p><p>four</p><style>five</style>')
    assert [(each.id, each.heading, each.text) for each in found.sections] == [
        ("", "", ""),
        ("a", "One two", "three four"),
    ]


def test_what_waits_for_a_prediction_is_not_searched():
    found = page(
        Prose('<h2 id="a">Question</h2><p>asked</p>'),
        Prose("<p>told</p>", withheld=True),
        Prose("<p>more</p>"),
    )
    assert [(each.heading, each.text) for each in found.sections()] == [("Question", "asked more")]


def test_a_link_to_nothing_an_id_given_twice_and_a_foreign_file_are_faults(tmp_path: Path):
    (tmp_path / "b.html").write_text('<h1 id="here">B</h1>')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">good</a><a href="b.html#gone">bad</a><a href="c.html">bad</a>'
        '<a href="/b.html">bad</a><a href="https://example.org">elsewhere</a><p id="x"></p>'
        '<p id="x"></p><script src="https://example.org/x.js"></script>'
    )
    assert faults(tmp_path) == [
        "a.html: two things have the id 'x'",
        "a.html loads https://example.org/x.js",
        "a.html: b.html#gone leads nowhere",
        "a.html: c.html leads nowhere",
        "a.html: /b.html leads nowhere",
    ]


# ---- pages ---------------------------------------------------------------------------------------


def test_styles_are_taken_out_of_the_text_and_the_servers_addresses_become_pages():
    drawn = '<svg id="a" fill="url(#a)"><use href="#a"/><use href="#ab"/></svg>' * 2
    html = '<style>.a{}</style><a href="/?file=glossary.py&amp;view-as=present">words</a>'
    found = page(Prose(html), Prose('<h2 id="a">x</h2>'), Prose(drawn))
    assert found.styles == [".a{}"]
    assert [block.html for block in found.blocks] == [
        '<a href="glossary.html">words</a>',
        '<h2 id="a">x</h2>',
        "".join(
            f'<svg id="a-{n}" fill="url(#a-{n})"><use href="#a-{n}"/><use href="#ab"/></svg>'
            for n in (2, 3)
        ),
    ]


def test_a_picture_that_waits_has_its_question_on_its_own_page():
    asked = Drawing("l01-1-prediction", "prediction", {"key": "l01.a", "question": "Why?"})
    waits = Drawing("l01-2-timeline", "timeline", {"after": "l01.a", "title": "<Two> runs"})
    free = Drawing("l01-3-timeline", "timeline", {"after": "", "title": "One"})
    found = page(asked, waits, free)
    assert found.steppers == [waits, free]
    assert found.with_question(waits) == [asked, waits]
    assert found.with_question(free) == [free]
    html = stepper_page(LESSONS[1], found, waits)
    assert "&lt;Two&gt; runs" in html
    assert '<script defer src="../data/l01-1-prediction.js">' in html


def test_a_worked_answer_is_on_the_page_only_where_it_is_given():
    for worked, times in (("", 0), ("def chunk_size():\n    return 1", 1)):
        html = lesson_page(page(Exercise("l01.chunk_size", worked)))
        assert html.count("A worked answer") == times
        assert "python3 learn.py check l01 chunk_size" in html


def test_code_is_escaped_and_highlighted():
    html = lesson_page(page(Code("a < b  # why", "The exhibit")))
    assert "&lt;" in html
    assert "a < b" not in html
    assert '<span class="c1"># why</span>' in html
    assert "<p>The exhibit</p>" in html


# ---- a notebook ----------------------------------------------------------------------------------


def test_a_notebook_is_read_as_a_newcomer_has_it_and_leaves_nothing_behind(monkeypatch):
    own = work_folder()
    with newcomer():
        assert work_folder() != own
        [words] = visit("glossary", solutions=False)
    assert isinstance(words, Prose)
    assert "<h1" in words.html
    assert work_folder() == own


@pytest.mark.process
def test_a_lesson_shows_tasks_your_code_and_pictures_in_their_order():
    with newcomer():
        blocks = visit("l02b_waiting", solutions=True)
    kinds = [type(each).__name__ for each in blocks]
    at = next(i for i, each in enumerate(blocks) if isinstance(each, Exercise))
    assert kinds[at - 2 : at + 2] == ["Prose", "Code", "Exercise", "Drawing"]
    assert "sng-task" in blocks[at - 2].html
    assert blocks[at - 1].label == "Your code goes here"
    assert blocks[at].worked.startswith(f"def {blocks[at].name}(")
    assert any(isinstance(each, Prose) and each.withheld for each in blocks)
    ids = [each.id for each in blocks if isinstance(each, Drawing)]
    assert ids == [f"l02b-{n}-{i.split('-')[2]}" for n, i in enumerate(ids, 1)]


def test_what_needs_a_kernel_is_refused():
    with pytest.raises(ValueError, match="without a kernel cannot show a marimo-tex"):
        visiting._html(mo.md("$x^2$"))


def test_a_control_that_was_not_declared_is_refused():
    with pytest.raises(ValueError, match="without a kernel cannot show a marimo-ui-element"):
        visiting._html(Withheld("l01.a", mo.vstack([mo.ui.slider(1, 3), mo.md("beside")])))


def shown(*outputs) -> list[Block]:
    """The blocks of cells that show these."""
    reader = visiting._Reader("l04_sliding_window", solutions=False)
    for output in outputs:
        reader.output(output)
    return page(*reader.blocks).blocks


def test_a_control_is_buttons_and_every_value_s_drawing_of_which_the_start_is_shown():
    window = slider("Window <W>", (8, 16, 32), 16)
    drawn = beside(window, lambda value: mo.Html(f"<b>W = {value}</b>"))
    assert shown(window, drawn) == [
        Prose(
            '<div class="choice"><fieldset><legend>Window &lt;W&gt;</legend>'
            '<label><input type="radio" name="l04-choice-1" data-at="0">8</label>'
            '<label><input type="radio" name="l04-choice-1" data-at="1" checked>16</label>'
            '<label><input type="radio" name="l04-choice-1" data-at="2">32</label></fieldset>'
            '<div class="drawn" data-at="0"><b>W = 8</b></div>'
            '<div class="drawn" data-at="1"><b>W = 16</b></div>'
            '<div class="drawn" data-at="2"><b>W = 32</b></div></div>'
        )
    ]


def test_the_style_hides_each_drawing_whose_button_is_not_checked_and_is_there_once():
    machine = chooser("Machine", ("a GPU", "a CPU"), "a CPU")
    drawn = beside(machine, lambda name: mo.Html(f"<b>{name}</b>"))
    one, other = (choice(f"l08-choice-{number}", drawn)._repr_html_() for number in (1, 2))
    assert page(Prose(one)).styles == [
        '.choice:not(:has([data-at="0"]:checked))>.drawn[data-at="0"]{display:none}',
        '.choice:not(:has([data-at="1"]:checked))>.drawn[data-at="1"]{display:none}',
    ]
    assert page(Prose(other)).styles == page(Prose(one)).styles


def test_two_controls_of_a_page_are_groups_of_their_own_and_pictures_keep_their_ids():
    picture = mo.Html('<svg id="a" fill="url(#a)"></svg>')
    drawn = [beside(slider(label, (1, 2), 1), lambda _: picture) for label in "VW"]
    html = "".join(block.html for block in shown(*drawn))
    assert re.findall(r'name="([^"]+)"', html) == ["l04-choice-1"] * 2 + ["l04-choice-2"] * 2
    assert re.findall(r'\bid="([^"]+)"', html) == ["a", "a-2", "a-3", "a-4"]


def test_where_the_drawings_wait_for_a_prediction_the_buttons_wait_too():
    rung = chooser("Rung", ("one", "two"), "one")
    drawn = beside(rung, lambda name: Withheld("l05.a", mo.Html(f"<b>{name}</b>")))
    [block] = shown(rung, drawn)
    assert block.withheld
    held = block.html.index('<div class="sng-withheld">')
    assert block.html.index('data-sn-after="l05.a"') < held < block.html.index("<fieldset>")
    assert block.html.count("<b>one</b>") == block.html.count("<b>two</b>") == 1


# ---- the command ---------------------------------------------------------------------------------


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path, capsys):
    (tmp_path / "thesis.txt").write_text("years")
    assert main(["site", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"course: {tmp_path} is there already and is no site: name another folder.\n"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


# ---- the picture that moves ----------------------------------------------------------------------


def test_the_readmes_picture_is_what_its_script_makes():
    assert FILE.read_text(encoding="utf-8") == picture(*showcase.runs())
    assert FILE.stat().st_size < 100_000
    assert "docs/images/replay.svg" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_picture_needs_no_script_and_stands_still_for_who_wants_that():
    text = FILE.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "@media (prefers-reduced-motion:reduce){.replay .step" in text
    assert text.count('class="step ') == 2 * NUM_STEPS


def test_the_picture_pauses_where_the_plans_differ():
    yours, reference = showcase.runs()
    at = showcase.first_difference(yours, reference)
    assert 0 < at < NUM_STEPS - 1
    assert yours.steps[:at] == reference.steps[:at]
    assert f"Step {at} is the first that differs." in FILE.read_text(encoding="utf-8")


def test_the_home_pages_wrong_answer_is_told_what_it_forgot():
    report = showcase.report()
    assert report.status == "failed"
    assert report.misconception is not None
