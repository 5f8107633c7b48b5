"""The static site's parts, of which only the shortest lesson is run."""

from pathlib import Path

import pytest

from course.__main__ import main
from course.controls import beside, slider
from course.prediction import Withheld
from course.progress import work_folder
from course.publish import notebook_blocks, showcase
from course.publish.html_reading import HtmlReader, faults
from course.publish.notebook_blocks import (
    Block,
    Code,
    Drawing,
    Exercise,
    Prose,
    Reader,
    pristine_workspace,
    site_blocks,
)
from course.publish.replay_svg import FILE, picture
from course.publish.site_pages import Page, lesson_page


def page(*blocks, stem="l01_chunked_prefill") -> Page:
    return Page(stem, "1 · Chunked prefill", list(blocks))


# ---- reading -------------------------------------------------------------------------------------


def test_words_belong_to_the_heading_above_them_unless_they_wait_for_a_prediction():
    found = HtmlReader('<h2 id="a">One <em>two</em></h2><p>three</p><p>four</p><style>five</style>')
    assert [(each.id, each.heading, each.text) for each in found.sections] == [
        ("", "", ""),
        ("a", "One two", "three four"),
    ]
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


def test_styles_are_taken_out_servers_addresses_become_pages_and_ids_are_unique():
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


def test_a_worked_answer_is_on_the_page_only_where_it_is_given_and_code_is_highlighted():
    for worked, times in (("", 0), ("def chunk_size():\n    return 1", 1)):
        html = lesson_page(page(Exercise("l01.chunk_size", worked)))
        assert html.count("A worked answer") == times
        assert "python3 learn.py check l01 chunk_size" in html
    html = lesson_page(page(Code("a < b  # why", "The exhibit")))
    assert "&lt;" in html and "a < b" not in html
    assert '<span class="c1"># why</span>' in html


# ---- a notebook ----------------------------------------------------------------------------------


@pytest.mark.process
def test_a_lesson_shows_tasks_your_code_and_pictures_in_their_order_and_leaves_nothing_behind():
    own = work_folder()
    with pristine_workspace():
        assert work_folder() != own
        blocks = site_blocks("l02b_waiting", solutions=True)
    assert work_folder() == own
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
    import marimo as mo

    with pytest.raises(ValueError, match="without a kernel cannot show a marimo-tex"):
        notebook_blocks._html(mo.md("$x^2$"))
    with pytest.raises(ValueError, match="without a kernel cannot show a marimo-ui-element"):
        notebook_blocks._html(Withheld("l01.a", mo.vstack([mo.ui.slider(1, 3), mo.md("beside")])))


def shown(*outputs) -> list[Block]:
    """The blocks of cells that show these."""
    reader = Reader("l04_sliding_window")
    for output in outputs:
        reader.output(output)
    return page(*reader.blocks).blocks


def test_a_control_is_buttons_and_every_value_s_drawing_of_which_the_start_is_shown():
    import marimo as mo

    window = slider("Window <W>", (8, 16), 16)
    drawn = beside(window, lambda value: mo.Html(f'<svg id="a">W = {value}</svg>'))
    one, other = shown(window, drawn, drawn)
    assert one.html.replace("\n", "") == (
        '<div class="choice"><fieldset><legend>Window &lt;W&gt;</legend>'
        '<label><input type="radio" name="l04-choice-1" data-at="0">8</label>'
        '<label><input type="radio" name="l04-choice-1" data-at="1" checked>16</label></fieldset>'
        '<div class="drawn" data-at="0"><svg id="a">W = 8</svg></div>'
        '<div class="drawn" data-at="1"><svg id="a-2">W = 16</svg></div></div>'
    )
    assert 'name="l04-choice-2"' in other.html and 'id="a-3"' in other.html


# ---- the command, and the picture that moves -----------------------------------------------------


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path, capsys):
    (tmp_path / "thesis.txt").write_text("years")
    assert main(["site", str(tmp_path)]) == 2
    assert "is there already and is no site: name another folder." in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.process
def test_the_readmes_picture_is_what_its_script_makes_of_a_wrong_and_a_right_answer():
    text = FILE.read_text(encoding="utf-8")
    wrong, right = showcase.report(showcase.WRONG), showcase.report(showcase.RIGHT)
    assert (wrong.status, right.status) == ("failed", "passed")
    assert wrong.misconception is not None
    assert text == picture(wrong, right, showcase.run(showcase.RIGHT))
    assert "<script" not in text
    still, _ = text.split("@media (prefers-reduced-motion:no-preference){")
    assert "animation" not in still
