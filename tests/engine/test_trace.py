"""Traces: what they derive, the JSON that the widgets read, and the numbers worked out of them."""

import dataclasses
import json
from typing import Any

import pytest
from fakes import FakeExecutor, fake_arrivals, fake_engine, fake_model, fake_request
from msgspec import structs

from nanogpt import Engine, EngineConfig, Trace
from nanogpt.experiments.trace_metrics import (
    all_request_metrics,
    percentile,
    request_metrics,
    summary,
    token_times_us,
)
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.request import Request
from nanogpt.sampling import LogitsParams
from nanogpt.trace import (
    SCHEMA_VERSION,
    ClockRecord,
    ForwardRecord,
    RequestRecord,
    StepRecord,
    WaitRecord,
    WorkRecord,
    plain,
)


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Two requests that share a step and a KV budget too small for both to finish together."""
    engine, _ = fake_engine(EngineConfig(token_budget=6, max_kv_tokens=14))
    return engine.run(fake_arrivals([(0, 5, 4, 0), (1, 5, 4, 2)]))


def leaves(value: Any) -> list[object]:
    value = list(value.values()) if isinstance(value, dict) else value
    return [x for item in value for x in leaves(item)] if isinstance(value, list) else [value]


def test_the_json_survives_a_round_trip_and_holds_everything(trace: Trace):
    plain = trace.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["version"] == SCHEMA_VERSION
    assert set(plain) == {"version", *(field.name for field in dataclasses.fields(Trace))}
    assert set(plain["steps"][0]) == {field.name for field in structs.fields(StepRecord)}
    work = {"request_id": 0, "kind": "prefill", "start": 0, "end": 5, "sampled": 45}
    assert plain["steps"][0]["work"] == [{**work, "drafted": [], "num_accepted": 0}]
    assert plain["clock"] == {"name": "a server CPU (fitted)", "modelled": True}
    assert {type(leaf) for leaf in leaves(plain["steps"])} <= {int, str, type(None)}
    assert plain["error"] is None
    engine, _ = fake_engine(EngineConfig())
    assert engine.trace("it broke").to_json()["error"] == "it broke"


OF_THE_ENGINE = (
    "arrival_time", "generated_tokens", "status", "num_computed_tokens", "was_submitted",
    "block_hashes", "prefix_match", "matcher",
    "grammar",  # the caller's, and no plain data
)  # fmt: skip


def test_a_requests_record_has_every_field_that_its_caller_sets():
    ways: Any = {"temperature": 0.5, "seed": 6, "logits_params": LogitsParams(top_k=3)}
    asked = Request(7, [1, 2, 3], 4, 5, cache_salt="a", **ways)
    names = {field.name for field in dataclasses.fields(Request)}.difference(OF_THE_ENGINE)
    engine, _ = fake_engine(EngineConfig(block_size=4))
    engine.submit(asked)
    record = engine.trace().to_json()["requests"][0]
    assert {name: record[name] for name in names} == plain({n: getattr(asked, n) for n in names})


# ---------------------------------------------------------------- waits


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_the_record_of_a_step_is_no_longer_for_a_longer_queue(policy: str):
    def steps(num_waiting: int) -> Any:
        config = EngineConfig(8, max_batch_size=2, policy=policy)
        engine = Engine(fake_model(), config, make_executor=FakeExecutor().bind)
        for i in range(2 + num_waiting):
            engine.submit(fake_request(i, 3, 9, min(i, 1)))
        for _ in range(12):
            engine.step()
        return engine.trace().to_json()["steps"]

    assert steps(10) == steps(1000)


def test_what_has_no_reason_of_its_own_waits_for_the_one_that_blocks_the_queue():
    from widgets import Timeline

    engine, _ = fake_engine(EngineConfig(8, max_batch_size=2))
    engine.submit(fake_request(0, 3, 2))
    assert engine.step().blocked is None
    for request_id in (1, 2, 3):
        engine.submit(fake_request(request_id, 9, 2))
    step = engine.step()
    assert (step.waits, step.blocked) == ((), "the batch is full (2 of 2)")
    waits = [(), tuple(WaitRecord(i, "waiting", step.blocked) for i in (2, 3))]
    assert wait_reasons(engine.trace()) == waits
    drawn = Timeline(engine.trace().to_json()).trace["steps"]
    assert [each["waits"] for each in drawn] == [plain(each) for each in waits]


# ---------------------------------------------------------------- metrics, worked out on paper


def step(
    number: int, start: int, end: int, work: list[tuple[int, bool]], computed: int
) -> StepRecord:
    """A step of one-token rows: (request id, whether it sampled)."""
    rows = tuple(WorkRecord(i, "decode", 0, 1, 7 if sampled else None) for i, sampled in work)
    forward = ForwardRecord(len(rows), 0, computed, 0)
    return StepRecord(
        number, start, end, 4, rows, (), (), (), (), (forward,), 0, 0, 0, (), (), None, ()
    )


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


def test_a_token_exists_at_the_end_of_its_step_and_a_request_is_timed_from_its_arrival():
    assert token_times_us(TRACE, 0) == (300, 500, 1100)
    assert token_times_us(TRACE, 2) == ()
    first, only = request_metrics(TRACE, 0), request_metrics(TRACE, 1)
    assert (first.ttft_us, first.itls_us, first.tpot_us) == (200, (200, 600), 400)
    assert first.finish_us == 1100
    assert (only.ttft_us, only.itls_us, only.tpot_us) == (350, (), None)
    with pytest.raises(ValueError, match="request 2 has no token"):
        request_metrics(TRACE, 2)
    assert [metrics.request_id for metrics in all_request_metrics(TRACE)] == [0, 1]


def test_the_summary_adds_up():
    total = summary(TRACE)
    assert (total.mean_ttft_us, total.worst_itl_us, total.num_forwards) == (275, 600, 4)
    assert total.tokens_per_s == pytest.approx(4000)
    assert summary(dataclasses.replace(TRACE, steps=TRACE.steps[:2])).worst_itl_us is None
    with pytest.raises(ValueError, match="no request got a token"):
        summary(dataclasses.replace(TRACE, steps=TRACE.steps[:1]))


def test_a_percentile_is_the_nearest_rank():
    for share, expected in [(0.5, 50), (0.29, 29), (0.99, 99), (1.0, 100), (0.0004, 1)]:
        assert percentile(list(range(100, 0, -1)), share) == expected
    for values, share in [([], 0.5), ([1.0], 0.0), ([1.0], 1.1), ([1.0], float("nan"))]:
        with pytest.raises(ValueError, match="no percentile"):
            percentile(values, share)
