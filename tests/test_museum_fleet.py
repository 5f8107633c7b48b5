"""The museums of lessons 7 and 8: what is exhibited as broken is broken, and can be repaired.

The lessons as they are shipped, and with the solutions in place of their exhibits. That their
checks name what is wrong with an exhibit is tested with all other museums.
"""

import re

import pytest
from notebooks import Notebooks, Visit

from lessons import l08_speculation as lesson_8
from nanogpt import Engine, EngineConfig, Parts, Request, encode, generate, load_model
from nanogpt.fleet import ADAPTIVE, FIFO
from nanogpt.speculative.trigram import TrigramDraft

LINE = "KING RICHARD III:\nNow is the wi"


@pytest.fixture(scope="module")
def shipped(notebooks: Notebooks) -> Visit:
    return notebooks.solved("l07_fleet")


@pytest.fixture(scope="module")
def repaired(notebooks: Notebooks) -> Visit:
    return notebooks.unsolved("l07_fleet")


@pytest.fixture(scope="module")
def shipped_8(notebooks: Notebooks) -> Visit:
    return notebooks.solved("l08_speculation")


@pytest.fixture(scope="module")
def repaired_8(notebooks: Notebooks) -> Visit:
    return notebooks.unsolved("l08_speculation")


def verdicts(visit: Visit) -> list[str]:
    """What the lines below the exhibits without an exercise begin with, from top to bottom."""
    found = (re.match(r".*?(Repaired|Still broken)\.</strong>", text) for text in visit.texts)
    return [each[1] for each in found if each]


# ---- lesson 7 ------------------------------------------------------------------------------------


def test_the_line_below_an_exhibit_without_a_check_says_whether_it_is_repaired(shipped, repaired):
    assert verdicts(shipped) == ["Still broken"] * 4
    assert verdicts(repaired) == ["Repaired"] * 4


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


def test_exhibit_c_takes_a_full_cache_for_a_busy_worker_until_it_is_repaired(shipped, repaired):
    def seconds(visit):
        rows = visit.table("speculation allowed").values()
        return [(float(batch), int(allowed.rstrip("%"))) for batch, allowed in rows]

    batches, allowed = zip(*seconds(shipped), strict=True)
    assert len(batches) == 4
    assert max(batches) < 2  # of 32
    assert allowed[0] > 50 > allowed[1] >= allowed[2] > allowed[3]
    assert [share for _, share in seconds(repaired)] == [100] * 4


def test_exhibit_d_has_the_cache_and_drafts_until_it_is_repaired(shipped, repaired):
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


def test_exhibit_e_gives_the_second_user_another_text_until_it_is_repaired(shipped, repaired):
    oracle = generate(load_model(), encode("ROMEO:\nIs the day so young?\n"), 40)
    broken, whole = shipped.names, repaired.names
    assert encode(broken["first_text"]) == encode(whole["first_text"]) == oracle
    assert broken["second_text"] != broken["first_text"]
    assert whole["second_text"] == whole["first_text"]
    assert broken["second_hit"] == whole["second_hit"] == 27  # of 28: the last is always computed


# ---- lesson 8 ------------------------------------------------------------------------------------


def counted(visit: Visit) -> dict[str, tuple[float, float, float]]:
    """What exhibit A lets stand, and the draft's q, p, and how far off it is in standard errors."""
    rows = visit.table("judged by exhibit A")
    assert len(rows) == 5
    return {
        name.strip("`"): (float(q[:-1]), float(p[:-1]), float(off))
        for name, (q, p, _, off) in rows.items()
    }


def test_exhibit_a_draws_from_p_what_should_be_drawn_from_what_is_missing(shipped_8, repaired_8):
    broken, whole = counted(shipped_8), counted(repaired_8)
    q, p, off = broken["n"]
    assert q < 6 < 30 < p
    assert off == max(off for *_, off in broken.values()) > 30
    assert min(off for *_, off in broken.values()) > 4
    assert max(off for *_, off in whole.values()) < 4


def test_greedy_decoding_never_shows_exhibit_a():
    config = EngineConfig(token_budget=32, num_draft_tokens=4)
    parts = Parts(accept=lesson_8.exhibit_a)
    model = load_model()
    engine = Engine(model, config, parts, draft=TrigramDraft.load())
    trace = engine.run([(0, Request(0, encode(LINE), 60))])
    assert trace.error is None
    assert list(trace.generated_tokens(0)) == generate(model, encode(LINE), 60)


def formulas(visit: Visit, exhibit: str) -> dict[str, tuple[float, float]]:
    """What a formula and the machine that throws dice say, by p."""
    rows = visit.table(f">{exhibit}<")
    return {p: (float(said), float(thrown)) for p, (said, thrown) in rows.items()}


def test_exhibits_b_and_c_promise_what_the_machine_does_not_do(shipped_8, repaired_8):
    b, c = formulas(shipped_8, "exhibit B"), formulas(shipped_8, "exhibit C")
    assert b["0.85"][0] == 4.0
    assert b["1"] == (4.545, 3.571)
    assert all(said > 1.2 * thrown for said, thrown in b.values())
    assert c["0.85"][0] == 2.709
    assert c["0"] == (0, 1)
    assert all(said == pytest.approx(thrown - 1, abs=0.02) for said, thrown in c.values())
    for exhibit in ("exhibit B", "exhibit C"):
        for said, thrown in formulas(repaired_8, exhibit).values():
            assert said == pytest.approx(thrown, rel=0.01)


def test_exhibit_d_keeps_ghosts_that_spoil_the_text_until_it_is_repaired(shipped_8, repaired_8):
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


def test_exhibit_e_is_only_quick_with_prompts_that_it_knows(shipped_8, repaired_8):
    first, second = shipped_8.table(">measured<").values()
    assert int(second[0]) < int(first[0]) / 2
    assert int(second[1].rstrip("%")) > 2 * int(first[1].rstrip("%"))
    for visit in (shipped_8, repaired_8):
        assert "The texts of both runs are the same." in visit.text(">measured<")
    first, second = repaired_8.table(">measured<").values()
    assert first == second
