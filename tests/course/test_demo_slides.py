"""Lessons as slides: how they are cut, what is on them, what the speaker reads, and one page."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from notebooks import STEMS, Notebooks
from support import ROOT
from tiers import some

from course import progress
from course.__main__ import main
from course.attempt import Attempt
from course.controls import beside, chooser
from course.figure import Figure
from course.launcher.failure import Failure
from course.lesson_map import find_lesson
from course.prediction import Withheld
from course.publish import slide_show
from course.publish.notebook_blocks import Drawing, slide_blocks
from course.publish.slide_prose import elements, text_of
from course.publish.slide_show import notes_of, slides_page
from course.publish.slides import MOST, Slide, slides
from course.registry import exercise, lesson_exercises
from course.report import Report
from widgets import Hints, Prediction


class Html:
    """What a cell shows as HTML."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_html_(self) -> str:
        return self.text


def marked(*html: str) -> Html:
    """What marimo makes of Markdown."""
    return Html(f'<span class="markdown prose contents">{"".join(html)}</span>')


def paragraph(text: str) -> str:
    return f'<span class="paragraph">{text}</span>'


# ---- elements ------------------------------------------------------------------------------------


def test_a_cell_is_taken_apart_into_its_outermost_elements_and_folded_ones_stand_open():
    html = marked(
        '<h2 id="a">A <code>b</code></h2>',
        paragraph('one<br>and <a href="/?file=l04_x.py">4</a>, <a href="https://x.org">it</a>'),
        "<ul>\n<li>x</li>\n<li>y <ul><li>z</li></ul></li>\n</ul>",
        '<div class="language-python codehilite"><pre><span></span><code>a\nb</code></pre></div>',
        f"<details><summary>For readers</summary>{paragraph('six errors')}</details>",
    )
    found = elements(html.text)
    assert [each.tag for each in found] == ["h2", "p", "ul", "pre", "p", "p"]
    assert found[1].html == '<p>one<br>and 4, <a href="https://x.org">it</a></p>'
    assert found[2].html.startswith("<ul>") and found[2].html.endswith("</ul>")
    assert [each.html for each in found[4:]] == [
        "<p><strong>For readers</strong></p>",
        "<p>six errors</p>",
    ]


# ---- slides --------------------------------------------------------------------------------------


def cut(*outputs: object) -> tuple[Slide, ...]:
    """The slides of cells that show these."""
    return slides(slide_blocks("l07", outputs))


def test_a_heading_begins_a_slide_and_is_none_by_itself():
    found = cut(
        marked("<h1>1 · A lesson</h1>", paragraph("What it is.")),
        marked("<h2>Only a heading</h2>"),
        marked("<h2>Two</h2>", paragraph("x"), "<h3>Three</h3>", paragraph("y")),
    )
    assert [(slide.kind, slide.section, slide.heading) for slide in found] == [
        ("title", "1 · A lesson", "1 · A lesson"),
        ("prose", "Two", "Two"),
        ("prose", "Two", "Three"),
    ]


def test_an_idea_of_more_lines_than_fit_goes_on_and_takes_along_what_leads_to_it():
    long = paragraph("word " * 120)
    found = cut(marked("<h2>A</h2>", long, paragraph("Look here:"), long))
    assert [text_of(slide.html).split()[0] for slide in found] == ["word", "Look"]
    assert [slide.key for slide in found] == ["A", ""]


def test_a_prediction_is_a_show_of_hands_and_then_its_reason():
    shown = Prediction("l07.x", "Which?", ("a", "b"), 1, "Because.", choice=0, committed=True)
    asked, why = cut(shown)
    assert (asked.kind, asked.heading, asked.key) == ("question", "Which?", "l07.x")
    assert asked.question.options == ("a", "b") and asked.question.right == 1
    assert (why.kind, why.heading, why.html) == ("answer", "b", "Because.")
    [number] = cut(Prediction("l07.n", "How many?", answer=1234))
    assert number.question.options == () and number.question.answer == "1,234"


@pytest.mark.process
def test_a_learner_s_cards_and_hints_are_left_out_and_a_control_shows_its_start():
    passed = exercise("l00.next_inputs").check(exercise("l00.next_inputs").right[0])
    shown = Withheld("l07.x", Report("l00.next_inputs", "failed", (), 0, "No.", exhibit="A"))
    rung = chooser("Rung", ("one", "two"), "two")
    drawn = beside(rung, lambda name: Withheld("l07.x", Figure("Not yet.", f"Rung {name}?")))
    hints = Hints("l00.next_inputs", ("a", "b", "c"))
    found = cut(None, Attempt(passed, None), hints, shown, rung, drawn)
    assert [slide.kind for slide in found] == ["verdict", "figure"]
    assert found[1].heading == "Rung two?"


@pytest.mark.process
@pytest.mark.parametrize("stem", some(STEMS, 8))
def test_slides_of_a_solved_lesson_hold_all_that_it_asks_and_no_more_than_fits(
    stem: str, notebooks: Notebooks
):
    found = notebooks.solved(stem).slides
    text = (ROOT / "lessons" / f"{stem}.py").read_text()
    keys = {kind: [slide.key for slide in found if slide.kind == kind] for kind in KINDS}
    assert keys["question"] == re.findall(r'predict\(\s*"([\w.]+)"', text)
    assert keys["task"] == [item.id for item in lesson_exercises(stem)]
    assert found[0].kind == "title" and len(keys["title"]) == 1
    assert any(slide.drawing or slide.kind == "figure" for slide in found) and all(
        slide.heading for slide in found
    )
    for slide in found:
        assert ("sng-report" in slide.html) == (slide.kind == "verdict"), slide.heading
        assert "<marimo-" not in slide.html, slide.heading
        if slide.kind == "prose":
            assert sum(each.lines for each in elements(slide.html)) <= MOST + 0.5, slide.heading
        if slide.drawing:
            state = slide.drawing.state
            assert (state["question"], state["after"]) == ("", "")  # it stands above, and is due
            assert "yours" not in state.get("names", ())[:1]  # the reference stands in
    check_notes(stem, found)


KINDS = ("title", "question", "task")


def check_notes(stem: str, found: tuple[Slide, ...]) -> None:
    """The speaker's notes fit these slides and the lesson's minutes."""
    lesson = find_lesson(stem)
    read = notes_of(lesson)
    keys = [slide.key for slide in found if slide.key]
    assert len(set(keys)) == len(keys)
    assert set(read) <= set(keys), "a note whose slide is gone"
    for slide in found:
        if slide.asks:
            note = read[slide.key]
            assert note.minutes >= 1 and note.ask and note.expect, slide.key
    assert sum(note.minutes for note in read.values()) == lesson.minutes


# ---- notes ---------------------------------------------------------------------------------------


def test_notes_that_cannot_be_read_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(slide_show, "FOLDER", tmp_path)
    for text, words in (
        ('["a"]\nminutes = -1\n', "'a' cannot be read: Expected `int` >= 0 - at `$.minutes`"),
        (
            '["a"]\nminutes = 1\nexpected = []\n',
            "'a' cannot be read: Object contains unknown field `expected`",
        ),
        ('"a"', "l03_interleaving.toml: "),
    ):
        (tmp_path / "l03_interleaving.toml").write_text(text)
        with pytest.raises(Failure, match=re.escape(words)):
            notes_of(find_lesson("l03"))


# ---- the page ------------------------------------------------------------------------------------


class Addresses(HTMLParser):
    """What a page would ask for by itself."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        wanted = ("src", "srcset", "poster") if tag != "link" else ("href",)
        self.found += [value for name, value in attrs if name in wanted]


@pytest.mark.process
def test_the_page_is_one_file_that_asks_for_nothing_and_has_nothing_of_the_presenters(
    tmp_path: Path, learner_folder: Path
):
    progress.save_prediction("l02.tie", 3)
    before = {path: path.read_bytes() for path in learner_folder.rglob("*") if path.is_file()}
    assert main(["demo", "l02b", "--export", str(tmp_path / "out.html")]) == 0
    assert os.environ["SERVING_NANOGPT_WORK"] == str(learner_folder)
    assert before == {path: path.read_bytes() for path in before}
    exported = (tmp_path / "out.html").read_text()
    assert Addresses(exported).found == ["data:,"]
    styles = "".join(re.findall(r"<style>(.*?)</style>", exported, re.DOTALL))
    assert not re.search(r"@import|url\((?!data:)", styles)
    assert 'data-kind="question" data-key="l02.tie"' in exported
    assert "committed" not in re.sub(r"<script.*?</script>", "", exported, flags=re.DOTALL)
    data = re.search(r'id="widgets">(.*?)</script>', exported, re.DOTALL)[1]
    assert '"choice"' not in data and '"committed"' not in data


def test_words_of_a_prediction_are_text_and_small_labels_of_pictures_grow():
    asked = cut(Prediction("l07.x", "Is a < b & **c**?", ("<b>x</b>", "`y`"), 0, "<i>"))
    style = ".a{font-size: 11.5px}.b{font:600 11px x}.c{font-size:13px;width:11px}"
    shown = Slide("picture", "", "Which?", drawing=Drawing("X", "", style, {}, "l03-1-X"))
    html = slides_page(find_lesson("l03"), [*asked, shown], {})
    for text in ("Is a &lt; b &amp; <strong>c</strong>?", "&lt;b&gt;x&lt;/b&gt;", "&lt;i&gt;</p>"):
        assert text in html
    assert ".a{font-size: 12px}.b{font:600 12px x}.c{font-size:13px;width:11px}" in html


# ---- the command ---------------------------------------------------------------------------------


def test_slides_that_cannot_be_written_are_said(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(slide_show, "_made", lambda lesson: "slides")
    (tmp_path / "file").write_text("")
    assert main(["demo", "l03", "--export", str(tmp_path / "file" / "out.html")]) == 2
    assert "something else stands in its place" in capsys.readouterr().err


def test_a_port_that_is_taken_is_no_hindrance():
    with slide_show._listen(0) as first, slide_show._listen(first.getsockname()[1]) as again:
        assert again.getsockname()[0] == "127.0.0.1"
        assert again.getsockname()[1] != first.getsockname()[1]
