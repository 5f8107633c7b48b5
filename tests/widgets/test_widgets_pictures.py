"""What all pictures share: the question, the opening, whose work is shown, common letters."""

import re
from pathlib import Path

import pytest
from matplotlib import font_manager, ft2font
from support import ROOT

from widgets import Batching, KVBudget, MaskBuild, StepCost, Timeline, WorkBars, whose

TRACE = {
    "version": 2, "clock": {"name": "a large GPU", "modelled": True}, "token_budget": 4,
    "max_kv_tokens": None, "requests": [], "steps": [],
}  # fmt: skip
SERIES = [{"name": "without", "tokens": [1]}]


# ---- the question and the opening ----------------------------------------------------------------


def test_a_picture_takes_a_question_and_a_start_beside_its_records():
    widget = WorkBars(SERIES, "Work", question="What does a cache save?", start=3)
    assert (widget.title, widget.question, widget.start) == ("Work", "What does a cache save?", 3)
    assert (WorkBars(SERIES).question, WorkBars(SERIES).start) == ("", None)


@pytest.mark.parametrize(
    ("face", "sentence"),
    [
        ({"question": 4}, "the question is 4; it must be text"),
        ({"start": -1}, "the start is -1; it must be a whole number of at least 0"),
        ({"start": True}, "the start is True"),
    ],
)
def test_a_question_is_text_and_a_start_is_a_step(face, sentence):
    with pytest.raises(ValueError, match=sentence):
        StepCost([{"name": "x", "modelled": True, "fixed_us": 1, "token_us": 1}], **face)


# ---- whose work is shown -------------------------------------------------------------------------


def test_what_the_learner_has_not_written_is_called_the_reference():
    assert whose(True) == "yours"
    assert whose(False) == "the reference (yours is not written yet)"


def test_a_timeline_compares_the_learner_s_run_only_once_there_is_one():
    alone, yours = Timeline(TRACE, TRACE), Timeline(TRACE, TRACE, yours=True)
    assert (alone.reference, alone.names) == (None, ["the reference (yours is not written yet)"])
    assert (yours.reference["version"], yours.names) == (2, ["yours", "the reference"])
    assert Timeline(TRACE).names == []
    assert Timeline(TRACE, TRACE, names=("whole", "chunks")).names == ["whole", "chunks"]


def test_a_kv_budget_and_a_mask_compare_by_the_same_rule():
    trace = {**TRACE, "steps": []}
    assert KVBudget(trace, other=trace).other is None
    assert KVBudget(trace, other=trace, yours=True).names == ["yours", "the reference"]
    mask = {"label": "A", "mask": [[True]]}
    step = {"name": "x", "words": "", "num_past": 0, "masks": [mask], "compare": [[[True]]]}
    assert MaskBuild([step]).steps[0]["compare"] is None
    assert MaskBuild([step], yours=True).steps[0]["compare"] == [[[True]]]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"names": ("a", "b", "c")}, "there are 3 names; a comparison has 2"),
        ({"names": ("a", " ")}, "a name is empty"),
        ({"names": ("mine", "b"), "yours": True}, "names are given, so yours must be False"),
    ],
)
def test_a_comparison_has_two_names_or_is_the_learner_s(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        Timeline(TRACE, TRACE, **changes)


# ---- slots ---------------------------------------------------------------------------------------


def test_spans_without_a_slot_take_the_lowest_that_is_free():
    spans = [
        {"request": request, "start": start, "end": end}
        for request, start, end in [(0, 0, 9), (1, 0, 3), (2, 0, 3), (4, 9, 15), (3, 9, 11)]
    ]
    side = {"name": "static", "slots": 3, "spans": spans, "length": 15}
    drawn = Batching(side, side).sides[0]["spans"]
    assert {span["request"]: span["slot"] for span in drawn} == {0: 0, 1: 1, 2: 2, 3: 0, 4: 1}
    with pytest.raises(ValueError, match="request 2 into slot 2; its slots are 0 to 1"):
        Batching({**side, "slots": 2}, side)


# ---- letters -------------------------------------------------------------------------------------


def drawable() -> set[int]:
    """What a plain Debian's Chromium finds in one font or the other: DejaVu's, whichever is set."""
    fonts = [
        ft2font.FT2Font(font_manager.findfont(name)) for name in ("DejaVu Sans", "DejaVu Sans Mono")
    ]
    return set(fonts[0].get_charmap()) | set(fonts[1].get_charmap())


def test_no_word_of_a_picture_or_a_lesson_needs_a_font_of_its_own():
    known = drawable() | {ord("\n"), ord("\t")}
    files = [
        path
        for folder, kinds in {
            "widgets": (".py", ".js", ".css"),
            "lessons": (".py",),
            "course": (".py",),
        }.items()
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in kinds
    ]
    assert len(files) > 100
    missing = {
        (str(path.relative_to(ROOT)), mark, f"U+{ord(mark):04X}")
        for path in files
        for mark in set(Path(path).read_text(encoding="utf-8"))
        if ord(mark) not in known
    }
    assert missing == set()


def test_bars_are_drawn_and_not_set_in_block_letters():
    """A screen reader reads a row of them as "full block, full block, full block"."""
    found = {
        str(path.relative_to(ROOT))
        for folder in ("widgets", "course")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".js") and re.search("[▀-▟]", path.read_text(encoding="utf-8"))
    }
    assert found == set()
