"""Metrics, from a trace written by hand: every number worked out on paper."""

import dataclasses

import pytest

from nanogpt.experiments.trace_metrics import (
    all_request_metrics,
    padding_waste,
    percentile,
    request_metrics,
    stalls,
    summary,
    token_times_us,
)
from nanogpt.trace import (
    ClockRecord,
    ForwardRecord,
    RequestRecord,
    StepRecord,
    Trace,
    WorkRecord,
)


def step(
    number: int, start: int, end: int, work: list[tuple[int, bool]], computed: int
) -> StepRecord:
    """A step of one-token rows: (request id, whether it sampled)."""
    rows = tuple(WorkRecord(i, "decode", 0, 1, 7 if sampled else None) for i, sampled in work)
    forward = ForwardRecord(len(rows), 0, computed, 0)
    return StepRecord(number, start, end, 4, rows, (), (), (), (), (forward,), 0, 0, 0, ())


def request(request_id: int, arrival_us: int) -> RequestRecord:
    return RequestRecord(request_id, (1,), 9, 0, 0, arrival_us)


TRACE = Trace(
    ClockRecord("by hand", True), "packed", 4, None,
    (request(0, 100), request(1, 150), request(2, 150)),
    (
        step(0, 100, 200, [(0, False)], 1),
        step(1, 200, 300, [(0, True), (1, False)], 2),
        step(2, 300, 500, [(0, True), (1, True)], 6),
        step(3, 500, 1100, [(0, True)], 1),
    ),
)  # fmt: skip


def test_a_token_exists_at_the_end_of_its_step():
    assert token_times_us(TRACE, 0) == (300, 500, 1100)
    assert token_times_us(TRACE, 2) == ()


def test_a_request_is_timed_from_its_arrival():
    first = request_metrics(TRACE, 0)
    assert first.ttft_us == 200
    assert first.itls_us == (200, 600)
    assert first.tpot_us == 400
    assert first.finish_us == 1100


def test_one_token_has_no_gap_and_no_tpot():
    only = request_metrics(TRACE, 1)
    assert (only.ttft_us, only.itls_us, only.tpot_us) == (350, (), None)


def test_a_request_without_a_token_is_refused_by_id():
    with pytest.raises(ValueError, match="request 2 has no token"):
        request_metrics(TRACE, 2)
    assert [metrics.request_id for metrics in all_request_metrics(TRACE)] == [0, 1]


def test_a_stall_is_a_gap_above_the_limit():
    assert stalls(TRACE, 599) == ((0, 600),)
    assert stalls(TRACE, 600) == ()
    assert stalls(TRACE, 0) == ((0, 200), (0, 600))


def test_padding_waste_is_the_share_of_computed_tokens_that_nobody_asked_for():
    assert padding_waste(TRACE) == pytest.approx(4 / 10)
    assert padding_waste(dataclasses.replace(TRACE, steps=())) == 0


def test_the_summary_adds_up():
    total = summary(TRACE)
    assert total.mean_ttft_us == 275
    assert total.worst_ttft_us == 350
    assert total.mean_itl_us == 400
    assert total.worst_itl_us == 600
    assert total.duration_us == 1000
    assert total.tokens_per_s == pytest.approx(4000)
    assert total.padding_waste == pytest.approx(0.4)
    assert total.num_forwards == 4


def test_a_summary_without_gaps_has_none():
    short = summary(dataclasses.replace(TRACE, steps=TRACE.steps[:2]))
    assert (short.mean_itl_us, short.worst_itl_us) == (None, None)


def test_a_summary_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no request got a token"):
        summary(dataclasses.replace(TRACE, steps=TRACE.steps[:1]))


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, 50), (0.29, 29), (0.99, 99), (1.0, 100), (0.01, 1), (0.005, 1), (0.0004, 1)],
)
def test_a_percentile_is_the_nearest_rank(share: float, expected: int):
    assert percentile(list(range(100, 0, -1)), share) == expected


@pytest.mark.parametrize(
    ("values", "share"), [([], 0.5), ([1.0], 0.0), ([1.0], 1.1), ([1.0], float("nan"))]
)
def test_a_percentile_of_nothing_or_beyond_the_values_is_refused(values: list[float], share: float):
    with pytest.raises(ValueError, match="no percentile"):
        percentile(values, share)
