"""The museums of lessons 5 and 6: what is exhibited as broken is broken, and can be repaired.

Lesson 5, as it is shipped, and with its exhibit repaired. The exhibits of lesson
6 are races: its race lab runs them again in real rank processes, and must see what was recorded.
"""

import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from answers import worked
from notebooks import LIMIT_S, Notebooks, Visit
from support import ROOT

from course.registry import exercise
from course.stories import l06_races, l06_stage_ranks
from course.stories.l05_ladder import starving
from nanogpt.preemption import races
from nanogpt.preemption.agreement import BY_STEP
from nanogpt.preemption.runner import Runner
from nanogpt.slo.slo_record import Run

pytestmark = pytest.mark.process

WRONG_PIECES = [  # of lesson 6: race, the piece, what it should have been, what its check says
    ("books", races.keep_previous_step, "clean_up", "keeps_previous_step"),
    ("late_write", races.FLAG.local_vote, "local_vote", "flag"),
    ("no_vote", races.leave_alone, "checkpoint", "no_collective"),
    ("leave_first", races.leave_first, "checkpoint", "leaves_first"),
]


@pytest.fixture(scope="module")
def shipped(notebooks: Notebooks) -> Visit:
    return notebooks.solved("l05_slo_policy")


@pytest.fixture(scope="module")
def repaired(notebooks: Notebooks) -> Visit:
    return notebooks.repaired("l05_slo_policy")


@pytest.fixture(scope="module")
def recording():
    """What lesson 6 shows where nothing can be run."""
    data = ROOT / "lessons" / "data" / "preempted_pass.json"
    return json.loads(data.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def without_processes(notebooks: Notebooks, recording) -> Visit:
    """Lesson 6 where no process is started: all that it shows is recorded."""
    names = {"HERE": False, "real": recording["experiment"], "source": "recorded"}
    answers = {**names, "where": "**Recorded**"}
    return notebooks.start_with("l06_preempting_the_pass", answers).result(LIMIT_S)


# ---- lesson 5 ------------------------------------------------------------------------------------


def test_exhibit_a_is_a_livelock_until_it_is_repaired(shipped, repaired):
    stuck, free = shipped.names["loop"], repaired.names["loop"]
    assert isinstance(stuck, Run)
    assert isinstance(free, Run)
    lost = [each for each in stuck.passes if each.start_us < 10_000_000]
    assert len(lost) > 900
    assert {(each.layers, each.ending) for each in lost} == {((0, 1), "aborted")}
    assert [each.ids for each in lost[:4]] == [(0,), (1,), (0,), (1,)]
    # Each gives way to the other, who is no more urgent.
    asked = [each for each in stuck.decisions if each.time_us < 10_000_000]
    assert all(each.waiter.urgency <= each.runners[0].urgency < 0 for each in asked)
    assert stuck.wasted_share > 0.95
    assert (free.num_preemptions, free.wasted_share) == (0, 0)
    assert [each.ids for each in free.passes] == [(0,), (1,), (2,)]


def test_exhibit_b_never_lets_the_report_through():
    starved, served = starving()
    last_arrival_us = starved.arrivals[-1].arrival_us
    assert starved.results[0].first_token_us > last_arrival_us
    assert starved.results[0].num_preemptions == len(starved.arrivals) - 1
    assert served.results[0].first_token_us < last_arrival_us / 4
    assert served.results[0].num_preemptions == 1
    # Insurance has its price: one urgent request waits until the report, now immune, is done.
    assert [each.id for each in starved.results if not each.attained] == []
    assert [each.id for each in served.results if not each.attained] == [2]


# ---- lesson 6 ------------------------------------------------------------------------------------


def as_recorded(words: str) -> str:
    """Steps are counted from the start of the ranks, and a busy machine gets more time."""
    return re.sub(r"(?<=step )\d+|\d+(?=ms for )", "n", words)


@pytest.mark.parametrize(("race", "piece", "name", "misconception"), WRONG_PIECES)
def test_a_check_says_what_is_wrong_with_a_piece_of_a_race(race, piece, name, misconception):
    assert race in l06_races.all_races()
    for seed in range(3):
        report = exercise(f"l06.{name}").check(piece, seed=seed)
        assert (report.status, report.misconception) == ("failed", misconception)


def test_an_exhibit_of_lesson_6_shows_its_race_and_nothing_else(without_processes, recording):
    for race, words in (("books", "With one line put right"), ("late_write", "With the piece put")):
        text = html.unescape(without_processes.text(words))
        assert all(said in text for said in recording["races"][race].values())


@pytest.fixture(scope="module")
def open_ranks() -> Iterator[Callable[[], Runner]]:
    """Two ranks for race after race; new ones after a race that has ended its own."""
    started: list[Runner] = []

    def open_ones() -> Runner:
        if not started or not started[-1].is_open:
            started.append(Runner(2, timeout_s=8.0))
        return started[-1]

    yield open_ones
    for runner in started:
        runner.close()


@pytest.mark.parametrize("race", sorted(l06_races.all_races()))
def test_a_race_goes_in_real_processes_as_it_was_recorded(race, recording, open_ranks):
    run = l06_races.all_races()[race]
    for how, wrong in (("right", False), ("wrong", True)):
        said = run(open_ranks(), wrong)
        assert as_recorded(said) == as_recorded(recording["races"][race][how])


def test_the_race_lab_runs_a_race_on_ranks_of_its_own(recording):
    said = l06_races.run_race(l06_races.race_books)
    assert said == recording["races"]["books"]


def test_a_solution_in_the_place_of_the_wrong_piece_repairs_the_real_ranks(monkeypatch):
    monkeypatch.setattr(races, "keep_previous_step", worked("l06.clean_up"))
    monkeypatch.setattr(races, "FLAG", replace(BY_STEP, local_vote=worked("l06.local_vote")))
    with Runner(2, timeout_s=5.0) as runner:
        assert l06_races.race_books(runner, True) == "the next step admitted requests [0, 1]"
        late = l06_stage_ranks.race_late_write(runner, True)
        assert as_recorded(late) == "step n was meant; step n was computed to its end"
        left = l06_stage_ranks.race_leaving(runner, worked("l06.checkpoint"))
        assert as_recorded(left) == "step n was left at layer 1 of 4"
