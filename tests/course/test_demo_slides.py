"""Lessons as slides: how they are cut, what is on them, what the speaker reads, and one page."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from notebooks import STEMS, Notebooks
from support import ROOT

from course import progress
from course.__main__ import main
from course.attempt import Attempt
from course.controls import beside, chooser
from course.demo import command, notes
from course.demo.blocks import blocks, split, text_of
from course.demo.collecting import collect
from course.demo.notes import NotesError, notes_of
from course.demo.page import page
from course.demo.slides import MOST, Slide, slides
from course.figure import Figure
from course.lesson_map import find_lesson
from course.prediction import Withheld
from course.registry import exercise, lesson_exercises
from course.report import Report
from course.task import task
from widgets import Hints, MaskBuild, Prediction
from widgets.standalone import Drawing

HERE = ROOT / "course" / "demo"


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


def kinds(found: tuple[Slide, ...]) -> list[str]:
    return [slide.kind for slide in found]


# ---- blocks --------------------------------------------------------------------------------------


def test_a_cell_is_taken_apart_into_its_outermost_elements():
    html = marked(
        '<h2 id="a">A <code>b</code></h2>',
        paragraph("one<br>and <em>two</em>"),
        "<ul>\n<li>x</li>\n<li>y <ul><li>z</li></ul></li>\n</ul>",
        '<div class="language-python codehilite"><pre><span></span><code>a\nb</code></pre></div>',
    )
    found = blocks(html.text)
    assert [block.tag for block in found] == ["h2", "p", "ul", "pre"]
    assert found[1].html == "<p>one<br>and <em>two</em></p>"
    assert found[2].html.startswith("<ul>") and found[2].html.endswith("</ul>")


def test_what_was_folded_away_stands_open():
    html = "<details><summary>For readers</summary>" + paragraph("six errors") + "</details>"
    assert [block.html for block in blocks(marked(html).text)] == [
        "<p><strong>For readers</strong></p>",
        "<p>six errors</p>",
    ]


def test_a_link_to_a_lesson_is_words_and_one_to_a_source_stays():
    text = '<a href="/?file=l04_x.py">lesson 4</a>, <a href="https://x.org">a paper</a>'
    [block] = blocks(marked(paragraph(text)).text)
    assert block.html == '<p>lesson 4, <a href="https://x.org">a paper</a></p>'


def test_a_long_table_is_cut_evenly_and_keeps_its_head():
    rows = "".join(f"<tr><td>{n}</td></tr>" for n in range(20))
    table = f"<table><thead><tr><th>n</th></tr></thead><tbody>{rows}</tbody></table>"
    [block] = blocks(table)
    pieces = split(block, 14)
    assert [re.findall(r"<td>(\d+)</td>", piece.html) for piece in pieces] == [
        [str(n) for n in range(10)],
        [str(n) for n in range(10, 20)],
    ]
    assert all("<th>n</th>" in piece.html and piece.lines <= 14 for piece in pieces)


# ---- slides --------------------------------------------------------------------------------------


def test_a_heading_begins_a_slide_and_nothing_but_a_heading_is_none():
    found = slides([
        marked("<h1>1 · A lesson</h1>", paragraph("What it is.")),
        marked("<h2>Only a heading</h2>"),
        marked("<h2>Two</h2>", paragraph("x"), "<h3>Three</h3>", paragraph("y")),
    ])  # fmt: skip
    assert [(slide.kind, slide.section, slide.heading) for slide in found] == [
        ("title", "1 · A lesson", "1 · A lesson"),
        ("prose", "Two", "Two"),
        ("prose", "Two", "Three"),
    ]


def test_an_idea_of_more_lines_than_fit_goes_on_and_takes_along_what_leads_to_it():
    long = paragraph("word " * 120)
    found = slides([marked("<h2>A</h2>", long, paragraph("Look here:"), long)])
    assert [text_of(slide.html).split()[0] for slide in found] == ["word", "Look"]
    assert [slide.key for slide in found] == ["A", ""]
    assert len(slides([marked("<h2>A</h2>", long, long)])) == 2


def test_a_prediction_is_a_show_of_hands_and_then_its_reason():
    shown = Prediction("l09.x", "Which?", ("a", "b"), 1, "Because.", choice=0, committed=True)
    asked, why = slides([shown])
    assert (asked.kind, asked.heading, asked.key) == ("question", "Which?", "l09.x")
    assert asked.question.options == ("a", "b") and asked.question.right == 1
    assert (why.kind, why.heading, why.html) == ("answer", "b", "Because.")


def test_a_number_is_called_out():
    [asked] = slides([Prediction("l09.n", "How many?", answer=1234)])
    assert asked.question.options == () and asked.question.answer == "1,234"


def test_hints_and_the_cards_of_checks_on_answers_are_left_out():
    passed = exercise("l00.next_inputs").check(exercise("l00.next_inputs").right[0])
    shown = Withheld("l09.x", Report("l00.next_inputs", "failed", (), 0, "No.", exhibit="A"))
    found = slides([None, Attempt(passed, None), Hints("l00.next_inputs", ("a", "b", "c")), shown])
    assert kinds(found) == ["verdict"]


def test_of_a_control_the_figure_for_its_start_is_a_slide_and_the_control_is_none():
    rung = chooser("Rung", ("one", "two"), "two")
    drawn = beside(rung, lambda name: Withheld("l09.x", Figure("Not yet.", f"Rung {name}?")))
    found = slides([rung, drawn])
    assert [(slide.kind, slide.heading) for slide in found] == [("figure", "Rung two?")]


def test_a_task_stands_on_one_slide_that_reveal_takes_for_one():
    [found] = slides([task("l00.next_inputs")])
    assert (found.kind, found.key) == ("task", "l00.next_inputs")
    assert "section" not in found.html and "next_inputs(" in found.html


def test_the_reference_in_the_learners_place_is_not_compared_with_itself():
    mask = {"label": "row A", "mask": [[True]]}
    step = {"name": "m", "words": "", "num_past": 0, "masks": [mask], "compare": [[[True]]]}
    shown = MaskBuild([step], title="A mask", yours=True, question="Which cells differ?")
    [found] = slides([shown])
    state = found.drawing.state
    assert (found.heading, found.key, state["title"]) == ("A mask", "A mask", "")
    assert state["names"] == [] and state["steps"][0]["compare"] is None
    both = MaskBuild([step], title="A mask", names=("a", "b"), question="Which cells differ?")
    [found] = slides([both])
    assert found.heading == "Which cells differ?" and found.drawing.state["names"] == ["a", "b"]


@pytest.mark.parametrize("stem", STEMS)
def test_slides_of_a_solved_lesson_ask_all_that_it_asks(stem: str, notebooks: Notebooks):
    found = notebooks.solved(stem).slides
    text = (ROOT / "lessons" / f"{stem}.py").read_text()
    asked = re.findall(r'predict\(\s*"([\w.]+)"', text)
    assert [slide.key for slide in found if slide.kind == "question"] == asked
    tasks = [slide.key for slide in found if slide.kind == "task"]
    assert tasks == [item.id for item in lesson_exercises(stem)]
    assert found[0].kind == "title" and kinds(found).count("title") == 1
    pictures = [slide for slide in found if slide.drawing]
    assert pictures and all(slide.heading for slide in found)
    for slide in pictures:
        state = slide.drawing.state
        assert (state["question"], state["after"]) == ("", "")  # it stands above, and is due
        assert "yours" not in state.get("names", ())[:1]  # the reference stands in


@pytest.mark.parametrize("stem", STEMS)
def test_slides_of_a_solved_lesson_show_no_card_of_a_check_and_no_dead_control(
    stem: str, notebooks: Notebooks
):
    for slide in notebooks.solved(stem).slides:
        assert ("sng-report" in slide.html) == (slide.kind == "verdict"), slide.heading
        assert "<marimo-" not in slide.html, slide.heading


@pytest.mark.parametrize("stem", STEMS)
def test_slides_of_a_solved_lesson_hold_no_more_than_fits(stem: str, notebooks: Notebooks):
    for slide in notebooks.solved(stem).slides:
        if slide.kind == "prose":
            assert sum(block.lines for block in blocks(slide.html)) <= MOST + 0.5, slide.heading


# ---- notes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", STEMS)
def test_notes_of_a_solved_lesson_fit_its_slides_and_its_minutes(stem: str, notebooks: Notebooks):
    lesson, found = find_lesson(stem), notebooks.solved(stem).slides
    read = notes_of(lesson)
    keys = [slide.key for slide in found if slide.key]
    assert len(set(keys)) == len(keys)
    assert set(read) <= set(keys), "a note whose slide is gone"
    for slide in found:
        if slide.asks:
            note = read[slide.key]
            assert note.minutes >= 1 and note.ask and note.expect, slide.key
    assert sum(note.minutes for note in read.values()) == lesson.minutes


def test_an_exercise_says_its_minutes_and_its_wrong_ideas_in_its_record_alone():
    item = exercise("l03.fused_rows")
    note = notes_of(find_lesson("l03"))["l03.fused_rows"]
    assert note.minutes == item.minutes
    assert note.expect[0] == item.misconceptions[0].belief
    assert item.hints[0] in note.then


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('["a"]\nask = "?"\n', "the note 'a' cannot be read"),
        ('["a"]\nminutes = -1\n', "the note 'a' takes -1 minutes; it must be 0 or more"),
        ('["a"]\nminutes = 1\nexpected = []\n', "the note 'a' cannot be read"),
        ('"a"', "l03_interleaving.toml: "),
    ],
)
def test_notes_that_cannot_be_read_are_refused(text: str, words: str, tmp_path, monkeypatch):
    (tmp_path / "l03_interleaving.toml").write_text(text)
    monkeypatch.setattr(notes, "FOLDER", tmp_path)
    with pytest.raises(NotesError, match=re.escape(words)):
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


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> str:
    """The page of lesson 2b, as the command writes it, for a presenter who has been busy."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVING_NANOGPT_WORK", str(folder / "work"))
        progress.save_prediction("l02.tie", 3)
        before = sorted(path.name for path in folder.rglob("*"))
        assert main(["demo", "l02b", "--export", str(folder / "out.html")]) == 0
        (folder / "out.html").rename(folder.parent / "out.html")
        assert sorted(path.name for path in folder.rglob("*")) == before
    return (folder.parent / "out.html").read_text()


def test_the_page_is_one_file_that_asks_for_nothing(exported: str):
    assert Addresses(exported).found == ["data:,"]
    styles = "".join(re.findall(r"<style>(.*?)</style>", exported, re.DOTALL))
    assert not re.search(r"@import|url\((?!data:)", styles)
    assert 'data-kind="question" data-key="l02.tie"' in exported


def test_nothing_of_the_presenters_is_on_the_page(exported: str):
    """No choice, no answer, no verdict: the saved prediction is D, and no field holds a thing."""
    assert "committed" not in re.sub(r"<script.*?</script>", "", exported, flags=re.DOTALL)
    data = re.search(r'id="widgets">(.*?)</script>', exported, re.DOTALL)[1]
    assert '"choice"' not in data and '"committed"' not in data
    assert not re.search(r"<input[^>]*value=", exported)


def test_the_learners_folder_is_as_it_was_and_so_is_its_name(learner_folder: Path, monkeypatch):
    collect(find_lesson("l02b"))
    assert os.environ["SERVING_NANOGPT_WORK"] == str(learner_folder)
    assert not learner_folder.exists()


def test_words_of_a_prediction_are_text_and_not_html():
    lesson = find_lesson("l03")
    asked = slides([Prediction("l09.x", "Is a < b & **c**?", ("<b>x</b>", "`y`"), 0, "<i>")])
    html = page(lesson, asked, {})
    assert "Is a &lt; b &amp; <strong>c</strong>?" in html
    assert (
        "&lt;b&gt;x&lt;/b&gt;" in html and "<code>y</code>" in html and "<p>&lt;i&gt;" not in html
    )
    assert "&lt;i&gt;</p>" in html


def test_small_labels_of_pictures_grow_to_what_is_readable():
    style = ".a{font-size: 11.5px}.b{font:600 11px x}.c{font-size:13px;width:11px}"
    shown = Slide("picture", "", "Which?", drawing=Drawing("X", "", style, {}))
    html = page(find_lesson("l00"), [shown], {})
    assert ".a{font-size: 12px}.b{font:600 12px x}.c{font-size:13px;width:11px}" in html


def test_revealjs_comes_with_its_licence():
    assert (HERE / "reveal" / "LICENSE").read_text().startswith("Copyright (C) 2011-2026 Hakim")
    assert "MIT licensed" in (HERE / "reveal" / "reveal.js").read_text()[:100]


# ---- the command ---------------------------------------------------------------------------------


def test_a_lesson_that_there_is_not_is_refused(capsys):
    assert main(["demo", "l77"]) == 2
    assert (
        "course: There is no lesson 'l77'; the lessons are: l00_kv_cache" in capsys.readouterr().err
    )


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(command, "made", lambda lesson: "slides")
    (tmp_path / "file").write_text("")
    assert main(["demo", "l03", "--export", str(tmp_path / "file" / "out.html")]) == 2
    assert "could not be written" in capsys.readouterr().err


def test_a_port_that_is_taken_is_no_hindrance():
    first = command._listen(0)
    again = command._listen(first.getsockname()[1])
    assert again.getsockname()[0] == "127.0.0.1"
    assert again.getsockname()[1] != first.getsockname()[1]
    first.close()
    again.close()
