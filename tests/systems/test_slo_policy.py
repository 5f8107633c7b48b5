"""The SLO policy: hand-worked cases, order, predictions, and answers that are refused."""

import math
from pathlib import Path
from typing import Any

import pytest

from nanogpt.slo.policy import done_in, edf_score, predict, select_victim, slack, slo_batch
from nanogpt.slo.predictor import fit_polynomial, fit_ttft, read_sweep
from nanogpt.slo.slo_policies import SloPolicies, validated_slo_policies
from nanogpt.validate import PolicyError
from nanogpt.views.slo_view import SloRequest, SloView

A, C = 100.0, 10_000.0  # 0.1 ms per token, 10 ms per pass
POST = (173.046, 34_133.0)


def seen(request_id: int = 0, time_to_deadline_ms: int = 100) -> SloView:
    """A view of a request with 10 ms to spare."""
    left_us, spare_us = time_to_deadline_ms * 1000, 10_000
    return SloView(request_id, 100, spare_us, left_us, edf_score(spare_us, left_us), 200_000, 0)


# --- costs and the gate ---------------------------------------------------------------------------


def test_a_pass_costs_a_per_token_and_c_once_and_nothing_when_nothing_is_left():
    assert [predict(tokens, A, C) for tokens in (1000, 0)] == [110_000, 0]
    assert predict(675, *POST) == 150_939  # 116.806 + 34.133 ms
    assert [done_in(us, 1000, A) for us in (0, 99, 100, 10**9)] == [0, 0, 1, 1000]


def test_a_margin_below_one_is_refused():
    for margin in (0.99, math.nan):
        with pytest.raises(ValueError, match=rf"the margin is {margin}; it must be at least 1"):
            select_victim(seen(), [], margin)


# --- the predictor --------------------------------------------------------------------------------


def test_a_line_is_found_again_and_one_by_hand():
    points = [(tokens, 173.0 * tokens + 34_000) for tokens in (242, 512, 1024, 2048, 4096, 7986)]
    assert fit_ttft(points) == pytest.approx((173, 34_000), rel=1e-12)
    assert fit_polynomial(points, 1).r_squared == pytest.approx(1, rel=1e-12)
    three = [(1, 1.0), (2, 2.0), (3, 2.0)]
    assert fit_ttft(three) == pytest.approx((0.5, 2 / 3), rel=1e-12)
    assert fit_polynomial(three, 1).r_squared == pytest.approx(0.75)
    curve = [(n, 5e-6 * n**3 + 0.01 * n * n + 100 * n + 9000.0) for n in range(500, 8001, 500)]
    cubic = fit_polynomial(curve, 3)
    assert cubic.coefficients == pytest.approx((9000, 100, 0.01, 5e-6), rel=1e-9)
    assert cubic.predict_us(1000) == 124_000 and fit_polynomial(curve, 1).r_squared < 0.97


@pytest.mark.parametrize(
    ("points", "degree", "message"),
    [
        ([(5, 1.0), (5, 2.0)], 1, "a line needs 2 different prompt lengths; the sweep has 1"),
        ([(1, 1.0), (2, 2.0), (3, 3.0)], 3, "of degree 3 needs 4 different"),
        ([(1, math.nan), (2, 2.0)], 1, "is not a pair of finite numbers"),
        ([(1, 1e200), (2, 2.0)], 1, r"\(1, 1e\+200\) is not a pair of finite numbers up to"),
    ],
)
def test_too_few_points_are_refused(points: list[tuple[int, float]], degree: int, message: str):
    with pytest.raises(ValueError, match=message):
        fit_polynomial(points, degree)


def test_a_sweep_is_read_back_and_a_line_that_is_no_point_is_named(tmp_path: Path):
    path = tmp_path / "sweep.csv"
    path.write_text("tokens,us\n100,2000.5\n\n200,3000\n")
    assert read_sweep(path) == [(100, 2000.5), (200, 3000.0)]
    path.write_text("100,2000.5\n")
    assert read_sweep(path) == [(100, 2000.5)]
    path.write_bytes(b'\xef\xbb\xbf100,2000.5\r\n"200", 3000\r\n')
    assert read_sweep(path) == [(100, 2000.5), (200, 3000.0)]
    wrong = ("100", "100,2,3", "abc,5", "1.5,20", "0,20", "100,-3", "9,inf", "l00,5", "9,1e200")
    for line, number in ((line, number) for line in wrong for number in (1, 3)):
        path.write_text("".join(["tokens,us\n", "100,5\n"][: number - 1]) + f"{line}\n")
        with pytest.raises(ValueError, match=rf"line {number} of .* is '{line}'"):
            read_sweep(path)


# --- parts ----------------------------------------------------------------------------------------


GATED = (seen(9, 100), [seen(1, 130)], 1.2)


@pytest.mark.parametrize(
    ("part", "function", "arguments", "message"),
    [
        ("slack", lambda *_: None, (0, 9, 1, 0, A, C), "returned None; it must be a number"),
        ("edf_score", lambda *_: math.inf, (1, 0), "returned inf; it must be a finite number"),
        ("select_victim", lambda *_: 5, GATED, r"None or one of \[1\]"),
        ("select_victim", lambda *_: True, GATED, "select_victim returned True"),
        ("slo_batch", lambda *_: [1], (seen(9), [seen(1)], A, C, 9, 0.1), "with the candidate 9"),
        ("slo_batch", lambda *_: [9, 9], (seen(9), [], A, C, 9, 0.1), "different ids"),
        ("slo_batch", lambda *_: [9, 4], (seen(9), [], A, C, 9, 0.1), r"out of \[9\]"),
        ("slo_batch", lambda *_: None, (seen(9), [], A, C, 9, 0.1), "returned None"),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused_in_a_sentence(
    part: str, function: Any, arguments: tuple[Any, ...], message: str
):
    policies = validated_slo_policies(SloPolicies(**{part: function}))
    with pytest.raises(PolicyError, match=message):
        getattr(policies, part)(*arguments)


def test_a_legal_answer_passes_through_and_the_reference_runs_unwrapped():
    assert validated_slo_policies(SloPolicies()) == SloPolicies()
    mine = SloPolicies(slack=lambda *a: float(slack(*a)), slo_batch=lambda *a: tuple(slo_batch(*a)))
    policies = validated_slo_policies(mine)
    request = SloRequest(7, 1000, 400, 200_000, 150_000, 1)
    expected = SloView(7, 600, 30_000, 100_000, 0.01, 150_000, 1)
    assert policies.view(request, 100_000, A, C) == expected
    assert policies.slo_batch(seen(0, 10_000), [seen(1)], A, C, 2048, 0.1) == [0, 1]
