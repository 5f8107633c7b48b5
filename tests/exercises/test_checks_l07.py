"""The checks of lesson 7: heaps, a rush, policies scored over loads, and what their cards show."""

import inspect
import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest
from answers import worked, wrong
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from course import harness
from course.answering import Here
from course.audit.mutants import mutants
from course.checks.fleet_loads import FLEET, NUM_REQUESTS, Load
from course.exercise import Exercise
from course.registry import exercise, lesson_exercises
from course.same_values import same
from nanogpt.fleet import FleetParts, decisions, simulate
from nanogpt.fleet.views import FleetSnapshot, WaitingView
from nanogpt.slo.policy import urgency
from solutions.l07_fleet import _policies, _score
from solutions.l07_fleet._queues import settled
from solutions.l07_fleet._rush import Prefills, Rush
from solutions.l07_fleet._score import LONGEST_WAIT_US, MARGIN, NUM_LOADS, WANTED, Score
from solutions.l07_fleet._serving import Habits, Served, serve, serve_by_fifo
from solutions.l07_fleet.bump import bump
from solutions.l07_fleet.my_policy import scored_loads
from solutions.l07_fleet.on_event import any_states
from solutions.l07_fleet.route import any_choices

MANY = examples(60)
NAMES = ("on_event", "bump", "route", "my_policy")
WRONG = {f"{each.exercise} {each.name}": each for name in NAMES for each in wrong(f"l07.{name}")}
my_policy = worked("l07.my_policy")


def card(name: str) -> dict[str, str]:
    """The example rows that a known wrong answer gets to see."""
    return dict(exercise(WRONG[name].exercise).check(WRONG[name].function).example)


# --- what is accepted ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["on_event", "bump", "route"])
def test_the_fleet_s_own_functions_pass(name: str) -> None:
    function = getattr(decisions, name)
    reports = [exercise(f"l07.{name}").check(function, seed=seed) for seed in range(25)]
    assert {report.status for report in reports} == {"passed"}, reports[0].text()


@pytest.mark.parametrize(
    ("name", "function", "key"),
    [("bump", lambda p, now, end, work: decisions.bump_source(p, now, end), "ignores_the_work"),
     ("route", decisions.route_source, "hotspot")],
)  # fmt: skip
def test_the_source_s_own_functions_fail_for_their_own_reason(
    name: str, function: Callable[..., Any], key: str
) -> None:
    assert exercise(f"l07.{name}").check(function).misconception == key


# --- a heap with lazy deletion ---------------------------------------------------------------


@MANY
@given(st.integers(0, 10_000))
def test_on_event_is_the_fleet_s_but_for_the_order_of_the_array(seed: int) -> None:
    for args in any_states(random.Random(seed), 5):
        assert settled(worked("l07.on_event")(*args)) == settled(decisions.on_event(*args))


def test_any_array_that_is_a_heap_will_do() -> None:
    def sorted_list(*args: Any) -> Any:
        heap, generations, popped = decisions.on_event(*args)
        return sorted(heap), generations, popped

    def reversed_list(*args: Any) -> Any:
        heap, generations, popped = decisions.on_event(*args)
        return sorted(heap, reverse=True), generations, popped

    assert exercise("l07.on_event").check(sorted_list).status == "passed"
    assert exercise("l07.on_event").check(reversed_list).misconception == "not_a_heap"


@pytest.mark.parametrize(
    "name",
    ["drops_the_counter", "drops_the_counter 2", "reuses_the_generation 3", "drops_the_counter 5"],
)
def test_whoever_forgets_a_generation_sees_the_dead_come_first(name: str) -> None:
    assert card(f"l07.on_event {name}")["then"] == (
        "push 3 with (0, 100), remove 3, push 3 with (2, 900), push 5 with (1, 500), three pops: "
        "3, 5, none instead of 5, 3, none"
    )


def test_a_mistake_without_consequence_tells_no_story() -> None:
    assert "then" not in card("l07.on_event not_lazy")


def test_an_event_that_goes_wrong_after_many_calls_is_caught() -> None:
    calls = itertools.count()

    def tires(*args: Any) -> Any:
        heap, generations, popped = decisions.on_event(*args)
        return (heap[1:] if next(calls) > 80 else heap), generations, popped

    report = exercise("l07.on_event").check(tires)
    assert (report.status, report.passed) == ("failed", 6), report.text()


def test_the_error_of_a_wrapped_answer_names_its_own_line() -> None:
    def slips(heap: Any, generations: Any, event: Any) -> Any:
        entries = list(heap)
        return entries.nothing

    report = exercise("l07.on_event").check(slips)
    assert report.status == "raised" and "on its line 3" in report.idea, report.idea


# --- urgency and routing ---------------------------------------------------------------------

_us = st.integers(0, 400_000)


@MANY
@given(st.integers(0, 9), _us, _us, _us)
def test_bump_is_the_fleet_s(priority: int, now: int, deadline: int, remaining: int) -> None:
    engine_s = decisions.bump(priority, now, deadline, remaining)
    assert worked("l07.bump")(priority, now, deadline, remaining) == engine_s


@MANY
@given(st.integers(0, 10_000))
def test_route_is_the_fleet_s(seed: int) -> None:
    for args in any_choices(random.Random(seed), 5):
        assert worked("l07.route")(*args) == decisions.route(*args)


@MANY
@given(st.integers(1, 12), st.integers(100, 900), st.integers(1, 300), st.integers(1, 5))
def test_a_rush_leaves_no_worker_far_behind(
    num_requests: int, shared: int, own: int, num_workers: int
) -> None:
    rush = Rush(num_requests, shared, own, num_workers)
    backlogs = [view.backlog_tokens for view in Prefills(rush).run(decisions.route).views]
    assert max(backlogs) - min(backlogs) <= shared + own
    assert Prefills(rush).run(decisions.route_source).views[0].num_running == num_requests


def test_whoever_chases_hits_is_shown_the_hotspot() -> None:
    rows = card("l07.route hotspot")
    assert rows["load"] == (
        "6 requests at once, 400 tokens each, of which worker 0 knows 200; 2 workers"
    )
    assert rows["in the end"] == (
        "worker 0: 6 requests, 1200 tokens to compute\nworker 1: 0 requests, 0 tokens to compute"
    )
    assert rows["input"].startswith("route(workers, hits={0: 200})")


@pytest.mark.parametrize(
    ("name", "asked", "expected", "got"),
    [
        (
            "l07.bump bumps_the_dead",
            "bump(priority=6, now=300000, deadline=200000, remaining=80000)", "6", "4",
        ),
        (
            "l07.bump ignores_the_work",
            "bump(priority=6, now=100000, deadline=200000, remaining=80000)", "4", "6",
        ),
        (
            "l07.bump below_zero",
            "bump(priority=1, now=100000, deadline=200000, remaining=80000)", "0", "-1",
        ),
        (
            "l07.bump edge_of_50_ms",
            "bump(priority=6, now=70000, deadline=200000, remaining=80000)", "4", "6",
        ),
    ],
)  # fmt: skip
def test_a_misconception_is_shown_on_a_case_made_for_it(
    name: str, asked: str, expected: str, got: str
) -> None:
    rows = card(name)
    assert (rows["input"], rows["expected"], rows["got"]) == (asked, expected, got)


def remembering() -> Callable[..., int]:
    """Begins where its last answer for the same deadline ended."""
    known: dict[int, int] = {}

    def answer(priority: int, now: int, deadline: int, remaining: int) -> int:
        before = known.get(deadline, priority)
        known[deadline] = bump(min(before, priority), now, deadline, remaining)
        return known[deadline]

    return answer


def test_an_answer_that_remembers_is_asked_again() -> None:
    rows = dict(exercise("l07.bump").check(remembering()).example)
    assert (rows["expected"], rows["got"], rows["asked again"]) == ("6", "4", "2")


# --- policies over loads ---------------------------------------------------------------------


@pytest.mark.parametrize("decide", [my_policy, _policies.reference])
def test_a_load_is_served_as_the_simulator_serves_it(decide: Callable[..., Any]) -> None:
    load = Load(7)
    served = serve(decide, load)
    run = simulate(FLEET, load.workload(), FleetParts(decide=decide))
    waits = [
        outcome.first_token_us - request.arrival_us
        for outcome, request in zip(run.outcomes, run.workload.requests, strict=True)
        if outcome.first_token_us is not None
    ]
    attained = sum(outcome.attained for outcome in run.outcomes)
    assert served.attainment == attained / NUM_REQUESTS
    assert served.longest_wait_us == max(waits)


def test_two_policies_meet_the_identical_load_and_two_seeds_do_not() -> None:
    assert Load(7).workload() == Load(7).workload() != Load(8).workload()
    assert serve(my_policy, Load(7)) == serve(my_policy, Load(7))


def test_another_seed_of_the_check_scores_on_other_loads() -> None:
    tables = {
        dict(exercise("l07.my_policy").check(my_policy, seed=seed).example)["by load"]
        for seed in (0, 1)
    }
    assert len(tables) == 2


def test_a_report_that_passed_shows_the_table_by_load() -> None:
    report = exercise("l07.my_policy").check(my_policy)
    rows = dict(report.example)
    assert report.status == "passed" and report.idea == ""
    head, *lines = rows["by load"].splitlines()
    assert head == "load  FIFO  yours  reference  longest wait"
    assert len(lines) == NUM_LOADS
    assert "95 % interval" in rows["all in all"]


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
        (scored((0.5, 0.7), (0.5, 0.7)), None),
        (scored((0.5, 0.69), (0.5, 0.7)), "not_enough"),
        (scored((0.5, 0.48), (0.5, 0.95)), None),
        (scored((0.5, 0.47), (0.1, 0.95), lost=100), "lucky"),
        (scored((0.5, 0.9), wait_us=2_000_000), None),
        (scored((0.5, 0.9), wait_us=2_000_001), "left_out"),
        (scored((0.5, 0.9), wait_us=None, held=10), "left_out"),
        (scored((0.5, 0.5), oldest=81), "arrival_order"),
        (scored((0.5, 0.5), oldest=80, lost=11), "serves_the_lost"),
        (scored((0.5, 0.5), oldest=80, lost=10), "not_enough"),
        (scored((0.5, 0.5), patient=11), "takes_the_patient"),
        (scored((0.5, 0.5), patient=10), "not_enough"),
        (scored((0.5, 0.5), patient=40, lost=39), "takes_the_patient"),
        (scored((0.5, 0.5), patient=40, lost=40), "serves_the_lost"),
        (scored((0.5, 0.5), held=3, oldest=100), "holds_back"),
        (scored((0.5, 0.5), wait_us=2_000_001, held=3), "holds_back"),
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
        assert sentence.endswith((".", "?")) and ". " not in sentence and len(sentence) <= 200


def test_a_score_just_below_the_limit_does_not_look_like_the_limit() -> None:
    share = 1 / NUM_REQUESTS
    almost = scored(*[(0.4, 0.6)] * 3, (0.4, 0.6 - share))
    assert almost.problem() is not None
    assert almost.summary().startswith("+19.8 percentage points")
    assert WANTED.startswith("at least +20.0 percentage points")


@pytest.mark.parametrize("seed", [0, 1])
def test_the_recorded_baselines_are_what_the_simulation_gives(seed: int) -> None:
    loads = scored_loads(random.Random(f"{seed} l07.my_policy loads it has not seen"))
    assert all((load.seed in _score.RECORDED) == (seed == 0) for load in loads)
    for load in loads:
        simulated = serve_by_fifo(load), serve(_policies.reference, load)
        assert _score.baseline(load) == tuple(served.attainment for served in simulated)


# --- which policies pass ---------------------------------------------------------------------


def slack_us(snapshot: FleetSnapshot, request: WaitingView) -> int:
    return request.deadline_us - snapshot.now_us - request.remaining_us


def is_lost(snapshot: FleetSnapshot, request: WaitingView) -> bool:
    return slack_us(snapshot, request) < 0


def has_waited(snapshot: FleetSnapshot, request: WaitingView) -> bool:
    return snapshot.now_us - request.arrival_us > 800_000


def bumped(snapshot: FleetSnapshot, request: WaitingView) -> int:
    times = snapshot.now_us, request.deadline_us, request.remaining_us
    return decisions.bump(request.priority, *times)


Rank = Callable[[FleetSnapshot, WaitingView], Any]
SENSIBLE: dict[str, Rank] = {
    "nearest deadline": lambda s, r: r.deadline_us,
    "nearest deadline, the lost last": lambda s, r: (is_lost(s, r), r.deadline_us),
    "nearest deadline, the lost last, with ageing": lambda s, r: (
        not has_waited(s, r), is_lost(s, r), r.deadline_us,
    ),
    "least slack": lambda s, r: slack_us(s, r),
    "least slack, the lost last": lambda s, r: (is_lost(s, r), slack_us(s, r)),
    "urgency of lesson 5": lambda s, r: -urgency(slack_us(s, r), r.deadline_us - s.now_us),
    "priority": lambda s, r: (r.priority, r.arrival_us),
    "priority, then slack": lambda s, r: (r.priority, slack_us(s, r)),
    "priority with bump": lambda s, r: (bumped(s, r), r.arrival_us),
    "priority with ageing, as the lesson's fleet": lambda s, r: (
        decisions.queue_key(r, r.priority, 250_000)
    ),
    "priority with bump and ageing": lambda s, r: decisions.queue_key(r, bumped(s, r), 250_000),
}  # fmt: skip
SENSELESS: dict[str, Rank] = {
    "oldest first": lambda s, r: r.arrival_us,
    "newest first": lambda s, r: -r.arrival_us,
    "most slack": lambda s, r: -slack_us(s, r),
    "farthest deadline": lambda s, r: -r.deadline_us,
    "longest first": lambda s, r: -r.remaining_us,
    "shortest first": lambda s, r: r.remaining_us,
    "shortest first, the lost last": lambda s, r: (is_lost(s, r), r.remaining_us),
    "oldest first, the lost last": lambda s, r: (is_lost(s, r), r.arrival_us),
    "lowest priority first": lambda s, r: (-r.priority, r.arrival_us),
    "any order": lambda s, r: r.id * 2_654_435_761 % 1_000_003,
}


def gains(rank: Rank, seeds: range) -> float:
    """Percentage points above FIFO's attainment, mean over loads, when served in this order."""
    loads = [Load(seed) for seed in seeds]
    pairs = [(serve(_policies.first_by(rank), load), _score.baseline(load)) for load in loads]
    assert all(mine.longest_wait_us <= LONGEST_WAIT_US for mine, _ in pairs)
    return 100 * fmean(mine.attainment - fifo for mine, (fifo, _) in pairs)


@pytest.mark.parametrize("name", SENSIBLE)
def test_a_policy_that_the_lessons_suggest_is_well_above_the_limit(name: str) -> None:
    assert gains(SENSIBLE[name], range(12)) >= 100 * MARGIN + 4


@pytest.mark.parametrize("name", SENSELESS)
def test_a_policy_without_sense_is_well_below_the_limit(name: str) -> None:
    assert gains(SENSELESS[name], range(12)) <= 100 * MARGIN - 4


def test_one_lucky_load_does_not_pass() -> None:
    assert scored((0.1, 1.0), (0.5, 0.5), (0.5, 0.5), (0.5, 0.45)).problem()


def test_fifo_is_no_better_than_itself() -> None:
    """The baseline and the policy that does the same by hand agree to a point or two."""
    for seed in (1, 2):
        by_hand = serve(WRONG["l07.my_policy holds_back"].function, Load(seed))
        baseline = serve_by_fifo(Load(seed))
        assert abs(by_hand.attainment - baseline.attainment) <= 0.03


def test_an_illegal_decision_in_a_load_is_shown_with_its_moment() -> None:
    """It keeps to the rules as long as few wait, and then takes the first worker for all."""

    def careless(snapshot: FleetSnapshot) -> tuple[int, int] | None:
        if len(snapshot.waiting) < 8:
            return my_policy(snapshot)
        return snapshot.waiting[0].id, snapshot.workers[0].id

    report = exercise("l07.my_policy").check(careless)
    assert (report.status, report.passed, report.misconception) == ("failed", 4, "full_batch")
    rows = dict(report.example)
    assert "and 26 more that wait" in rows["input"] and len(rows["input"]) <= 400


def test_a_policy_that_remembers_what_it_sent_is_told_so() -> None:
    sent: set[int] = set()

    def remembers(snapshot: FleetSnapshot) -> tuple[int, int] | None:
        new = tuple(each for each in snapshot.waiting if each.id not in sent)
        decision = my_policy(replace(snapshot, waiting=new))
        sent.update(decision[:1] if decision else ())
        return decision

    report = exercise("l07.my_policy").check(remembers)
    assert (report.status, report.misconception) == ("failed", "remembers")
    assert "with 41 it is None" in report.idea and "remember nothing" in report.idea
    assert "remember nothing between calls" in " ".join(exercise("l07.my_policy").task.rules)


def test_a_policy_that_changes_its_snapshot_is_told_by_the_name_that_it_gave_it() -> None:
    def fills_in(moment: FleetSnapshot) -> tuple[int, int] | None:
        for request in moment.waiting:
            moment.hit_tokens.setdefault(request.id, {})
        return my_policy(moment)

    report = exercise("l07.my_policy").check(fills_in)
    assert (report.status, report.misconception) == ("failed", "in_place")
    assert "`moment` was changed" in report.idea
    assert dict(report.example)["after"].startswith("moment = FleetSnapshot(")
    assert "leave it as it is" in " ".join(exercise("l07.my_policy").task.rules)


def test_a_full_fit_that_is_passed_over_is_told_with_its_numbers() -> None:
    answer = WRONG["l07.my_policy exact_fit"].function
    assert exercise("l07.my_policy").check(answer).idea == (
        "Request 41 needs 239 KV tokens and worker 0 has 239 free: that is room, for a request may "
        "take all that is free."
    )


def test_an_error_in_a_load_names_the_policy_s_own_line_and_what_it_printed_is_kept() -> None:
    def breaks(snapshot: FleetSnapshot) -> tuple[int, int] | None:
        if len(snapshot.waiting) > 8:
            print("many wait")  # noqa: T201
            return snapshot.nothing
        return my_policy(snapshot)

    report = exercise("l07.my_policy").check(breaks)
    assert (report.status, report.passed) == ("raised", 4)
    assert "on its line 4" in report.idea, report.idea
    assert report.stdout == "many wait\n"


def test_a_policy_that_is_slow_only_in_a_load_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_CALL_LIMIT_S", 0.05)

    def stuck(snapshot: FleetSnapshot) -> tuple[int, int] | None:
        while len(snapshot.waiting) > 8:
            pass
        return my_policy(snapshot)

    report = exercise("l07.my_policy").check(stuck)
    assert (report.status, report.passed) == ("timeout", 4)


def test_slips_in_looking_for_room_are_caught_before_any_load() -> None:
    """The score cannot tell every slip from a policy of its own kind; the rules can be told."""

    def first_checks(function: Callable[..., Any]) -> str:
        checks = exercise("l07.my_policy").checks[:4]
        return harness.run_checks("l07.my_policy", Here(function), checks).status

    assert first_checks(my_policy) == "passed"
    rooms = ("worker.num_running", "request.kv_tokens_needed", "if able", "return None")
    for mutant in mutants(my_policy):
        if any(room in mutant.old or room in mutant.new for room in rooms):
            assert first_checks(mutant.function) != "passed", mutant.name


def test_the_load_is_what_the_task_says() -> None:
    requests = Load(1).workload().requests
    assert len(requests) == NUM_REQUESTS == 135
    assert {r.deadline_us - r.arrival_us for r in requests} == {200_000, 500_000, 1_000_000}
    rules = " ".join(exercise("l07.my_policy").task.rules)
    assert "serves 4 unseen loads of 135 requests with 3 workers" in rules
    assert "at least 20 percentage points above FIFO's" in rules
    assert "on no load more than 2 below" in rules
    assert "no request waits longer than 2 s" in rules


# --- what the page says ----------------------------------------------------------------------


@pytest.mark.parametrize("item", lesson_exercises("l07_fleet"), ids=lambda item: item.name)
def test_the_task_s_case_is_right_and_its_signature_the_answer_s_own(item: Exercise) -> None:
    solution = item.right[0]
    assert same(item.task.worked(solution), item.task.result)
    lines = inspect.getsource(solution).split(':\n    """')[0].removeprefix("def ")
    signature = " ".join(lines.split()).replace("( ", "(").replace(" )", ")").replace('"', "")
    assert item.task.signature == signature
    assert all(rule.endswith(".") for rule in item.task.rules)


@pytest.mark.parametrize("name", ["route", "on_event"])
def test_a_key_error_where_nothing_is_missing_is_not_put_down_to_what_is_missing(name: str) -> None:
    """In `on_event` only a removal raises, which the checks ask about before unknown requests."""

    def mistyped(*args: Any) -> Any:
        if name == "route" or args[2][0] == "remove":
            raise KeyError("backlog")
        return worked(f"l07.{name}")(*args)

    report = exercise(f"l07.{name}").check(mistyped)
    assert (report.status, report.misconception) == ("raised", None), report.text()
