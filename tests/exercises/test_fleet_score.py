"""The score of `my_policy`: whole loads, as the simulator serves them, and what is said of it."""

import random
from dataclasses import replace

import pytest
from answers import worked

from course.checks.fleet_loads import FLEET, NUM_REQUESTS, Load
from course.registry import exercise
from nanogpt.fleet.fleet_policies import FleetPolicies
from nanogpt.fleet.simulation import simulate
from solutions.l09_fleet import _policies, _score
from solutions.l09_fleet._score import NUM_LOADS, Score, scored_loads
from solutions.l09_fleet._serving import Habits, Served, serve, serve_by_fifo

my_policy = worked("l09.my_policy")


def test_a_load_is_served_as_the_simulator_serves_it() -> None:
    load = Load(7)
    served = serve(my_policy, load)
    run = simulate(FLEET, load.workload(), FleetPolicies(decide=my_policy))
    waits = [
        outcome.first_token_us - request.arrival_us
        for outcome, request in zip(run.outcomes, run.workload.requests, strict=True)
        if outcome.first_token_us is not None
    ]
    assert served.attainment == sum(outcome.attained for outcome in run.outcomes) / NUM_REQUESTS
    assert served.longest_wait_us == max(waits)
    assert serve(my_policy, Load(7)) == served
    assert Load(7).workload() == load.workload() != Load(8).workload()


@pytest.mark.process
def test_a_report_that_passed_shows_the_table_of_its_own_loads() -> None:
    tables: list[str] = []
    for seed in (0, 1):
        report = exercise("l09.my_policy").check(my_policy, seed=seed)
        rows = dict(report.example)
        assert report.status == "passed" and "95 % interval" in rows["all in all"]
        head, *lines = rows["by load"].splitlines()
        assert head == "load  FIFO  yours  reference  longest wait"
        assert len(lines) == NUM_LOADS
        tables.append(rows["by load"])
    assert tables[0] != tables[1]


def test_the_recorded_baselines_are_what_the_simulation_gives() -> None:
    loads = scored_loads(random.Random("0 l09.my_policy loads it has not seen"))
    for load in loads:
        assert load.seed in _score.RECORDED
        simulated = serve_by_fifo(load), serve(_policies.reference, load)
        assert _score.baseline(load) == tuple(served.attainment for served in simulated)


def scored(
    *attainments: tuple[float, float], wait_us: int | None = 500_000, **habits: int
) -> Score:
    """A score with these attainments, FIFO's and yours, on each load."""
    habit = replace(Habits(choices=100, rounds=10), **habits)
    return Score(
        yours=tuple(Served(yours, wait_us, habit) for _, yours in attainments),
        baselines=tuple((fifo, 1.0) for fifo, _ in attainments),
    )


@pytest.mark.parametrize(
    ("score", "key"),
    [
        (scored((0.5, 0.69), (0.5, 0.7)), "not_enough"),
        (scored((0.5, 0.48), (0.5, 0.95)), None),
        (scored((0.5, 0.47), (0.1, 0.95), lost=100), "lucky"),
        (scored((0.5, 0.9), wait_us=2_000_001), "left_out"),
        (scored((0.5, 0.5), oldest=81), "arrival_order"),
        (scored((0.5, 0.5), oldest=80, lost=11), "serves_the_lost"),
        (scored((0.5, 0.5), patient=40, lost=39), "takes_the_patient"),
        (scored((0.5, 0.5), patient=40, lost=40), "serves_the_lost"),
        (scored((0.5, 0.5), held=3, oldest=100), "holds_back"),
        (scored((0.5, 0.9), held=3, oldest=100, lost=100), None),
    ],
)
def test_a_score_passes_by_its_mean_its_worst_load_and_its_longest_wait(
    score: Score, key: str | None
) -> None:
    problem = score.problem()
    assert (problem and problem.key) == key
    if problem:
        sentence = problem.sentence()
        assert sentence.endswith((".", "?")) and len(sentence) <= 200
