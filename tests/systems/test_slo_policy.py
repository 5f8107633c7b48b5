"""The SLO policy as pure functions: hand-worked cases, and properties against other definitions."""

import dataclasses
import math
import random
import time
from pathlib import Path
from typing import Any

import pytest
from generated import examples
from hypothesis import assume, given
from hypothesis import strategies as st

from nanogpt.slo.policy import (
    by_urgency,
    choose_victim,
    done_in,
    gate,
    predict,
    refuses_preemption,
    slack,
    slept_enough,
    slo_batch,
    urgency,
    urgency_by_deadline,
)
from nanogpt.slo.predictor import Predictor, fit, fit_polynomial, read_sweep, sweep
from nanogpt.slo.slo_parts import SloParts, guard_slo_parts
from nanogpt.slo.slo_view import SloRequest, SloView
from nanogpt.validate import PartError

MANY = examples(200)
A, C = 100.0, 10_000.0  # 0.1 ms per token, 10 ms per pass
POST = (173.046, 34_133.0)


def seen(
    request_id: int = 0,
    time_to_deadline_ms: float = 100,
    slack_ms: float = 10,
    **fields: Any,
) -> SloView:
    """A view of a request with 100 ms to its deadline, 10 of them to spare."""
    slack_us, left_us = round(slack_ms * 1000), round(time_to_deadline_ms * 1000)
    given = {
        "id": request_id,
        "tokens": 100,
        "slack_us": slack_us,
        "time_to_deadline_us": left_us,
        "urgency": urgency(slack_us, left_us),
        "slo_us": 200_000,
        "num_preemptions": 0,
    }
    return SloView(**(given | fields))


VIEWS = st.builds(
    seen,
    st.integers(0, 99),
    st.integers(-300, 300),
    st.integers(-50, 50),
    tokens=st.integers(1, 3000),
    slo_us=st.integers(1, 400_000),
    num_preemptions=st.integers(0, 1),
)
SOME_VIEWS = st.lists(VIEWS, min_size=1, max_size=6, unique_by=lambda each: each.id)


# ---------------------------------------------------------------- predict and slack


def test_a_pass_costs_a_per_token_and_c_once_and_nothing_when_nothing_is_left():
    assert predict(1000, A, C) == 110_000
    assert predict(0, A, C) == 0
    assert predict(675, *POST) == 150_939  # 116.806 + 34.133 ms


def test_slack_is_what_is_left_after_the_remaining_work():
    assert slack(50_000, 200_000, 1000, 0, A, C) == 40_000
    assert slack(100_000, 200_000, 1000, 0, A, C) == -10_000


def test_work_that_is_done_needs_no_time():
    # Half way through, the same moment leaves 50 ms more to spare: none here is doomed.
    assert slack(100_000, 200_000, 1000, 500, A, C) == 40_000
    assert slack(100_000, 200_000, 1000, 1000, A, C) == 100_000


def test_a_runner_that_keeps_pace_keeps_its_slack():
    """What ignoring progress breaks: 10 ms in, 10 ms of work are done, the slack is the same."""
    at_start = slack(0, 150_000, 1000, 0, A, C)
    for elapsed_us in range(0, 100_001, 10_000):
        done = done_in(elapsed_us, 1000, A)
        assert slack(elapsed_us, 150_000, 1000, done, A, C) == at_start + (C if done == 1000 else 0)


@pytest.mark.parametrize(("elapsed_us", "tokens"), [(0, 0), (99, 0), (100, 1), (10**9, 1000)])
def test_time_spent_counts_in_whole_tokens_and_never_as_more_than_there_are(
    elapsed_us: int, tokens: int
):
    assert done_in(elapsed_us, 1000, A) == tokens


@MANY
@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(1, 8000), st.data())
def test_slack_falls_with_time_and_rises_with_progress(
    now: int, deadline: int, total: int, data: st.DataObject
):
    done = data.draw(st.integers(0, total - 1))
    value = slack(now, deadline, total, done, *POST)
    assert slack(now + 7, deadline, total, done, *POST) == value - 7
    assert slack(now, deadline, total, done + 1, *POST) > value


# ---------------------------------------------------------------- urgency


@pytest.mark.parametrize(
    ("slack_us", "left_us", "score"),
    [
        (5_000, 100_000, 0.01),
        (-5_000, 100_000, -0.01),
        (5_000, 90_000, 1 / 90),
        (0, 100_000, 0.01),  # nothing to spare still makes it
        (-1, 0, -1.0),  # at the deadline: clamped to 1 ms
        (0, 0, 1.0),
        (5, 999, 1.0),
        (-1, -100_000, -0.01),  # missed 100 ms ago
    ],
)
def test_scores_by_hand(slack_us: int, left_us: int, score: float):
    assert urgency(slack_us, left_us) == pytest.approx(score, rel=1e-12)


@MANY
@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_a_score_is_finite_and_has_the_sign_of_the_slack(slack_us: int, left_us: int):
    score = urgency(slack_us, left_us)
    assert 0 < abs(score) <= 1
    assert (score > 0) == (slack_us >= 0)


@MANY
@given(SOME_VIEWS)
def test_the_doomed_sort_below_everybody_and_the_rest_by_deadline(views: list[SloView]):
    ranked = by_urgency(views)
    assert [each.is_doomed for each in ranked] == sorted(each.is_doomed for each in ranked)
    hopeful = [max(each.time_to_deadline_us, 1000) for each in ranked if not each.is_doomed]
    assume(all(each.time_to_deadline_us >= 0 or each.is_doomed for each in views))
    assert hopeful == sorted(hopeful)


def test_among_the_doomed_the_nearest_deadline_is_last_and_equals_go_by_id():
    views = [seen(1, 10, -5), seen(2, 100, -5), seen(3, -50, -90), seen(4, 100, -5)]
    assert [each.id for each in by_urgency(views)] == [2, 4, 3, 1]


@MANY
@given(st.integers(1, 10**7), st.integers(0, 10**6), st.integers(1, 10**6))
def test_the_absolute_form_has_the_same_order_among_those_who_can_make_it(
    now: int, near: int, further: int
):
    near, far = now + 1000 + near, now + 1000 + near + further
    assert urgency_by_deadline(1, near) > urgency_by_deadline(1, far)
    assert urgency(1, near - now) > urgency(1, far - now)


def test_a_margin_between_absolute_scores_fades_with_time():
    def ratio(now: int) -> float:
        return urgency_by_deadline(1, now + 100_000) / urgency_by_deadline(1, now + 200_000)

    assert ratio(0) == 2
    assert ratio(10_000_000) < 1.01


# ---------------------------------------------------------------- the gate


@pytest.mark.parametrize(
    ("waiter", "runner", "victim"),
    [
        (seen(9, 100), seen(1, 130), 1),  # both can make it, and the margin is met
        (seen(9, 100), seen(1, 110), None),  # and is not met
        (seen(9, 100), seen(1, 120), None),  # exactly the margin is not more than it
        (seen(9, 10, -1), seen(1, 900), None),  # a doomed waiter, however near its deadline
        (seen(9, 900), seen(1, 10, -1), 1),  # a doomed runner gives way to any who can make it
        (seen(9, 100, -1), seen(1, 90, -1), None),  # both doomed, though -0.010 > -0.011 · 1.2
        (seen(9, 90, -1), seen(1, 100, -1), None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["conservative", "aggressive"])
def test_the_four_cases_of_slack_signs(
    waiter: SloView, runner: SloView, victim: int | None, mode: Any
):
    assert gate(waiter, [runner], 1.2, mode) == victim


def test_a_margin_on_negative_scores_would_be_a_lower_bar():
    """What the four cases are there for: each would find itself more urgent than the other."""
    one, other = seen(1, 100, -1), seen(2, 90, -1)
    assert one.urgency > other.urgency * 1.2 and other.urgency > one.urgency * 1.2
    assert gate(one, [other]) is gate(other, [one]) is None


def test_conservative_measures_by_the_most_urgent_runner_and_aggressive_by_the_least():
    waiter, runners = seen(9, 100), [seen(1, 110), seen(2, 900)]
    assert gate(waiter, runners) is None
    assert gate(waiter, runners, mode="aggressive") == 2
    assert gate(seen(9, 50), runners) == 2  # beats everyone; the victim is the least urgent


def test_a_request_preempted_once_is_immune_and_counts_for_nothing():
    waiter = seen(9, 100)
    immune = seen(1, 900, num_preemptions=1)
    assert gate(waiter, [immune]) is None
    assert gate(waiter, [immune], mode="aggressive") is None
    assert gate(waiter, [immune, seen(2, 500)]) == 2
    urgent_but_immune = seen(3, 10, num_preemptions=1)
    assert gate(waiter, [urgent_but_immune, seen(2, 500)]) == 2


def test_nobody_running_is_nobody_to_preempt():
    assert gate(seen(9), []) is None


@MANY
@given(VIEWS, SOME_VIEWS, st.floats(1, 3), st.sampled_from(["conservative", "aggressive"]))
def test_the_gate_against_its_definition(
    waiter: SloView, runners: list[SloView], margin: float, mode: Any
):
    fair = [each for each in runners if not each.num_preemptions]
    victim = gate(waiter, runners, margin, mode)
    beaten = [each.is_doomed or waiter.urgency > each.urgency * margin for each in fair]
    enough = all(beaten) if mode == "conservative" else any(beaten)
    if mode == "conservative" and fair and not max(fair, key=lambda e: e.urgency).is_doomed:
        # The most urgent of them is measured: what beats it beats them all.
        best = max(fair, key=lambda e: e.urgency)
        enough = waiter.urgency > best.urgency * margin
    assert (victim is not None) == (bool(fair) and not waiter.is_doomed and enough)
    if victim is not None:
        assert victim == choose_victim(fair)
        chosen = next(each for each in fair if each.id == victim)
        assert chosen.urgency == min(each.urgency for each in fair)


@MANY
@given(VIEWS, SOME_VIEWS)
def test_whoever_the_conservative_gate_lets_in_the_aggressive_one_does_too(
    waiter: SloView, runners: list[SloView]
):
    victim = gate(waiter, runners)
    if victim is not None:
        assert gate(waiter, runners, mode="aggressive") == victim


def test_two_requests_never_preempt_each_other_back_and_forth_at_one_moment():
    draw = random.Random(5)
    for _ in range(2000):
        one = seen(1, draw.randint(-99, 99), draw.randint(-9, 9))
        other = seen(2, draw.randint(-99, 99), draw.randint(-9, 9))
        assert gate(one, [other]) is None or gate(other, [one]) is None


@pytest.mark.parametrize("mode", ["fcfs", "", None])
def test_an_unknown_mode_is_refused_with_the_known_ones(mode: Any):
    with pytest.raises(ValueError, match=rf"{mode!r}; choose 'conservative' or 'aggressive'"):
        gate(seen(), [], 1.2, mode)


@pytest.mark.parametrize("margin", [0.99, 0, -1.2, math.nan])
def test_a_margin_below_one_is_refused(margin: float):
    with pytest.raises(ValueError, match=rf"the margin is {margin}; it must be at least 1"):
        gate(seen(), [], margin)


# ---------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("layers_done", "num_layers", "refuses"),
    [(0, 10, False), (9, 10, False), (10, 10, True), (28, 32, False), (29, 32, True),
     (27, 30, False), (28, 30, True), (72, 80, False), (73, 80, True)],
)  # fmt: skip
def test_past_nine_tenths_of_its_layers_a_pass_refuses(
    layers_done: int, num_layers: int, refuses: bool
):
    assert refuses_preemption(layers_done, num_layers) is refuses


def test_a_pass_that_computes_a_first_decode_refuses_from_its_first_layer_on():
    assert refuses_preemption(0, 80, first_token=True)


def test_a_pass_sleeps_for_at_most_its_bound():
    assert not slept_enough(299, 100)
    assert slept_enough(300, 100)
    assert slept_enough(50, 100, bound=0.5)


# ---------------------------------------------------------------- SLO-aware batches


def batch(head: SloView, waiters: list[SloView], **limits: Any) -> list[int]:
    return slo_batch(head, waiters, A, C, **limits)


def test_a_batch_takes_whom_the_head_can_bear():
    head = seen(0, 100, tokens=300, slo_us=200_000)  # alone 40 ms; it keeps 20 of its 100
    ids = batch(head, [seen(1, tokens=200), seen(2, tokens=200), seen(3, tokens=1)])
    assert ids == [0, 1, 2]  # 10 + 70 ms leaves exactly 20; one more token does not


def test_nobody_overtakes_the_first_who_does_not_fit():
    head = seen(0, 100, tokens=300, slo_us=200_000)
    assert batch(head, [seen(1, tokens=401), seen(2, tokens=1)]) == [0]


def test_the_bound_holds_to_the_last_token():
    head = seen(0, 10_000, tokens=1000)
    assert batch(head, [seen(1, tokens=1048)]) == [0, 1]
    assert batch(head, [seen(1, tokens=1049)]) == [0]


@pytest.mark.parametrize(
    "head",
    [
        seen(0, 10_000, tokens=2049),  # longer than the bound
        seen(0, 29, tokens=100),  # 9 ms to spare, it keeps 20
        seen(0, -500, -700, tokens=100),  # doomed
    ],
)
def test_a_long_head_or_one_short_of_time_runs_alone(head: SloView):
    assert batch(head, [seen(1, tokens=1)]) == [0]


@MANY
@given(VIEWS, SOME_VIEWS, st.integers(1, 4000), st.floats(0, 0.5))
def test_a_batch_is_the_longest_prefix_that_leaves_the_head_its_guard(
    head: SloView, waiters: list[SloView], bound: int, guard: float
):
    head = dataclasses.replace(head, id=1000)

    def bearable(companions: list[SloView]) -> bool:
        tokens = head.tokens + sum(each.tokens for each in companions)
        spare = head.time_to_deadline_us - (A * tokens + C)
        return tokens <= bound and spare >= guard * head.slo_us

    ids = batch(head, waiters, bound=bound, guard=guard)
    assert ids == [1000, *(each.id for each in waiters[: len(ids) - 1])]
    assert len(ids) == 1 or bearable(waiters[: len(ids) - 1])
    assert len(ids) > len(waiters) or not bearable(waiters[: len(ids)])


# ---------------------------------------------------------------- the predictor


def test_a_line_is_found_again_exactly():
    points = [(tokens, 173.0 * tokens + 34_000) for tokens in (242, 512, 1024, 2048, 4096, 7986)]
    assert fit(points) == (173.0, 34_000.0)
    assert fit_polynomial(points, 1).r_squared == 1.0


def test_a_line_by_hand():
    a, c = fit([(1, 1.0), (2, 2.0), (3, 2.0)])
    assert (a, c) == (0.5, pytest.approx(2 / 3, rel=1e-15))
    assert fit_polynomial([(1, 1.0), (2, 2.0), (3, 2.0)], 1).r_squared == pytest.approx(0.75)


@MANY
@given(
    st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 10**7)), min_size=2, max_size=8),
    st.randoms(use_true_random=False),
)
def test_no_other_line_is_nearer_and_the_order_of_points_does_not_matter(
    points: list[tuple[int, float]], draw: random.Random
):
    assume(len({tokens for tokens, _ in points}) > 1)
    a, c = fit(points)

    def error(a: float, c: float) -> float:
        return math.fsum((y - a * x - c) ** 2 for x, y in points)

    least = error(a, c) * (1 - 1e-9) - 1e-3
    for step_a, step_c in [(0.01, 0), (-0.01, 0), (0, 5), (0, -5), (0.01, -5)]:
        assert least <= error(a + step_a, c + step_c)
    shuffled = list(points)
    draw.shuffle(shuffled)
    assert fit(shuffled) == (a, c)


def test_a_cubic_follows_what_a_line_cannot():
    points = [(n, 5e-6 * n**3 + 0.01 * n * n + 100 * n + 9000.0) for n in range(500, 8001, 500)]
    line, cubic = fit_polynomial(points, 1), fit_polynomial(points, 3)
    assert cubic.coefficients == pytest.approx((9000, 100, 0.01, 5e-6), rel=1e-9)
    assert line.r_squared < 0.97 < 0.999999 < cubic.r_squared
    assert cubic.predict_us(1000) == 124_000
    assert Predictor((34_133.0, 173.046), 1.0).predict_us(675) == predict(675, *POST)


@pytest.mark.parametrize(
    ("points", "degree", "message"),
    [
        ([], 1, "a line needs 2 different prompt lengths; the sweep has 0"),
        ([(5, 1.0), (5, 2.0)], 1, "a line needs 2 different prompt lengths; the sweep has 1"),
        ([(1, 1.0), (2, 2.0), (3, 3.0)], 3, "of degree 3 needs 4 different"),
        ([(1, math.nan), (2, 2.0)], 1, "is not a pair of finite numbers"),
    ],
)
def test_too_few_points_are_refused(points: list[tuple[int, float]], degree: int, message: str):
    with pytest.raises(ValueError, match=message):
        fit_polynomial(points, degree)


def test_a_sweep_runs_every_length_and_does_not_count_the_first_two():
    calls: list[int] = []

    def slow_at_first(tokens: int) -> None:
        calls.append(tokens)
        if calls.count(tokens) <= 2:
            time.sleep(0.1)

    points = sweep(slow_at_first, [10, 20], repeats=2)
    assert calls == [10] * 4 + [20] * 4
    assert [tokens for tokens, _ in points] == [10, 20]
    assert all(0 < time_us < 40_000 for _, time_us in points)


def test_a_sweep_is_read_back_with_or_without_names(tmp_path: Path):
    path = tmp_path / "sweep.csv"
    path.write_text("tokens,us\n100,2000.5\n\n200,3000\n")
    assert read_sweep(path) == [(100, 2000.5), (200, 3000.0)]
    path.write_text("100,2000.5\n")
    assert read_sweep(path) == [(100, 2000.5)]


@pytest.mark.parametrize("line", ["100", "100,2,3", "abc,5", "1.5,20", "0,20", "100,-3", "9,inf"])
def test_a_line_that_is_no_point_is_named(tmp_path: Path, line: str):
    path = tmp_path / "sweep.csv"
    path.write_text(f"tokens,us\n100,5\n{line}\n")
    with pytest.raises(ValueError, match=rf"line 3 of .* is '{line}'"):
        read_sweep(path)


# ---------------------------------------------------------------- parts


def test_a_view_is_what_the_parts_make_of_a_snapshot():
    request = SloRequest(7, 1000, 400, 200_000, 150_000, 1)
    expected = SloView(7, 600, 30_000, 100_000, 0.01, 150_000, 1)
    assert SloParts().view(request, 100_000, A, C) == expected


def test_the_reference_runs_unwrapped():
    assert guard_slo_parts(SloParts()) == SloParts()


@pytest.mark.parametrize(
    ("part", "function", "arguments", "message"),
    [
        ("slack", lambda *_: None, (0, 9, 1, 0, A, C), "returned None; it must be a number"),
        ("urgency", lambda *_: math.inf, (1, 0), "returned inf; it must be a finite number"),
        ("urgency", lambda s, t: 1 / t, (1, 0), "ZeroDivisionError"),
        ("gate", lambda *_: 5, (seen(9), [seen(1)], 1.2, "conservative"), r"one of \[1\]"),
        ("gate", lambda *_: True, (seen(9), [seen(1)], 1.2, "conservative"), "named True"),
        ("slo_batch", lambda *_: [1], (seen(9), [seen(1)], A, C, 9, 0.1), "begin with the head 9"),
        ("slo_batch", lambda *_: [9, 9], (seen(9), [], A, C, 9, 0.1), "none twice"),
        ("slo_batch", lambda *_: [9, 4], (seen(9), [], A, C, 9, 0.1), r"out of \[9\]"),
        ("slo_batch", lambda *_: None, (seen(9), [], A, C, 9, 0.1), "returned None"),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused_in_a_sentence(
    part: str, function: Any, arguments: tuple[Any, ...], message: str
):
    guarded = guard_slo_parts(SloParts(**{part: function}))
    with pytest.raises(PartError, match=message):
        getattr(guarded, part)(*arguments)


def test_a_right_answer_passes_through():
    mine = SloParts(
        slack=lambda *a: float(slack(*a)),
        urgency=lambda s, t: urgency(s, t),
        gate=lambda *a: gate(*a),
        slo_batch=lambda *a: slo_batch(*a),
    )
    guarded = guard_slo_parts(mine)
    assert guarded.slack(0, 200_000, 1000, 0, A, C) == 90_000
    assert guarded.urgency(1, 100_000) == 0.01
    assert guarded.gate(seen(9, 100), [seen(1, 130)], 1.2, "conservative") == 1
    assert guarded.slo_batch(seen(0, 10_000), [seen(1)], A, C, 2048, 0.1) == [0, 1]
