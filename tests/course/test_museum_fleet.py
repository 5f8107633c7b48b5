"""The museums of lessons 7 and 8: what is exhibited as broken is broken, and can be repaired.

The lessons as they are shipped, and with the solutions in place of their exhibits. That their
checks name what is wrong with an exhibit is tested with all other museums.
"""

import re

import pytest
from notebooks import Notebooks, Visit

from course.stories import l08_drafts, l08_worth
from nanogpt.fleet import ADAPTIVE, FIFO


@pytest.fixture(scope="module")
def shipped(notebooks: Notebooks) -> Visit:
    return notebooks.solved("l07_fleet")


@pytest.fixture(scope="module")
def repaired(notebooks: Notebooks) -> Visit:
    return notebooks.repaired("l07_fleet")


@pytest.fixture(scope="module")
def shipped_8(notebooks: Notebooks) -> Visit:
    return notebooks.solved("l08_speculation")


@pytest.fixture(scope="module")
def repaired_8(notebooks: Notebooks) -> Visit:
    return notebooks.repaired("l08_speculation")


def verdicts(visit: Visit) -> list[str]:
    """What the lines below the exhibits without an exercise begin with, from top to bottom."""
    found = (re.match(r".*?(Repaired|Still broken)\.</strong>", text) for text in visit.texts)
    return [each[1] for each in found if each]


# ---- lesson 7 ------------------------------------------------------------------------------------


def test_the_line_below_an_exhibit_without_a_check_says_whether_it_is_repaired(shipped, repaired):
    assert verdicts(shipped) == ["Still broken"] * 3
    assert verdicts(repaired) == ["Repaired"] * 3


def test_exhibit_a_revives_a_withdrawn_entry_until_it_is_repaired(shipped, repaired):
    revived, kept = shipped.names["revived_story"], repaired.names["revived_story"]

    def popped(story):
        return [step["popped"] for step in story["steps"] if step["event"][0] == "pop"]

    assert popped(revived) == [5, 7, 3, None]
    assert popped(kept) == [7, 3, 5, None]
    # Both entries of request 5 have its counter's generation, and one of them was withdrawn.
    [push] = [step for step in revived["steps"] if step["event"] == ["push", 5, [6, 999]]]
    twins = [(each["generation"], each["live"]) for each in push["entries"] if each["id"] == 5]
    assert sorted(twins) == [(1, False), (1, True)]
    assert push["generations"]["5"] == 1
    assert (revived["error"], kept["error"]) == (None, None)


def test_exhibit_b_is_a_test_that_a_dead_scheduler_passes(shipped):
    dead, alive = shipped.names["dead_run"].totals, shipped.names["living_run"].totals
    assert isinstance(shipped.names["died_of"], AttributeError)
    assert 0 < dead.completed < dead.arrived / 20
    assert dead.preemptions == 0
    assert alive.completed == alive.arrived == dead.arrived
    assert alive.preemptions > 100
    seen = shipped.table("errors seen")
    assert [row[-1] for row in seen.values()] == ["none", "none"]


def test_exhibit_c_has_the_cache_and_drafts_until_it_is_repaired(shipped, repaired):
    suspect = shipped.names["suspect"]
    assert (suspect.prefix_cache, suspect.speculation) == (ADAPTIVE.prefix_cache, True)
    assert repaired.names["suspect"] == FIFO
    against, plain = shipped.table("as printed").values()
    assert ("worse" in against[2], "better" in plain[2]) == (True, True)  # ITL

    def of(row):
        return [float(cell.split()[0]) for cell in row[:2]]

    for gained, hoped in zip(of(against), of(plain), strict=True):
        assert hoped < 1.5 * gained < 0
    assert against[3] == "0.0 %"
    first, second = repaired.table("as printed").values()
    assert first == second == plain


# ---- lesson 8 ------------------------------------------------------------------------------------


def test_a_second_draw_from_p_bends_the_law_and_one_from_what_is_missing_keeps_it():
    assert l08_drafts.law(l08_drafts.from_p) == [1.5 / 8, 2 / 8, 4.5 / 8]
    assert l08_drafts.law(l08_drafts.from_what_is_missing) == list(l08_drafts.WANTED)
    assert "The first of them comes 50% too often" in l08_drafts.resampled_from_p()


def test_the_published_speed_up_is_more_than_a_perfect_draft_brings():
    assert "**2.65 times**" in l08_worth.four_times()
    assert "which is **3.57**" in l08_worth.four_times()


def test_exhibit_a_promises_what_the_machine_does_not_do(shipped_8, repaired_8):
    def said(visit):
        rows = visit.table(">exhibit A<")
        return {p: (float(promised), float(thrown)) for p, (promised, thrown) in rows.items()}

    broken = said(shipped_8)
    assert broken["0.85"][0] == 2.709
    assert broken["0"] == (0, 1)
    assert all(
        promised == pytest.approx(thrown - 1, abs=0.02) for promised, thrown in broken.values()
    )
    for promised, thrown in said(repaired_8).values():
        assert promised == pytest.approx(thrown, rel=0.01)


def test_exhibit_b_keeps_ghosts_that_spoil_the_text_until_it_is_repaired(shipped_8, repaired_8):
    def said(visit):
        text = visit.text("The oracle: ")
        rows = [
            [int(cell) for cell in re.findall(r"<td.*?>(\d+)</td>", row)]
            for row in text.split("<tr>")[2:]
        ]
        return text, rows, int(re.findall(r"(\d+) passes\.", text)[0])

    broken, ghosts, slow = said(shipped_8)
    whole, none, quick = said(repaired_8)
    assert "They part " in broken and "They are the same." not in broken
    rejected = 0
    for _, drafted, accepted, kept, known in ghosts:  # the ghosts add up
        rejected += drafted - accepted
        assert kept == known + rejected
    assert rejected > 10
    assert "They are the same." in whole and "They part " not in whole
    assert all(kept == known for *_, kept, known in none)
    assert slow > 1.2 * quick  # and the acceptance suffers


def test_exhibit_c_is_only_quick_with_prompts_that_it_knows(shipped_8, repaired_8):
    first, second = shipped_8.table(">measured<").values()
    assert int(second[0]) < int(first[0]) / 2
    assert int(second[1].rstrip("%")) > 2 * int(first[1].rstrip("%"))
    for visit in (shipped_8, repaired_8):
        assert "The texts of both runs are the same." in visit.text(">measured<")
    first, second = repaired_8.table(">measured<").values()
    assert first == second
