"""Trace records: what they derive, and the JSON that the widgets read."""

import dataclasses
import json

import pytest
from fakes import fake_arrivals, fake_engine

from nanogpt.config import EngineConfig
from nanogpt.posts.step_log import step_log
from nanogpt.trace import SCHEMA_VERSION, Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Two requests that share a step and a KV budget too small for both to finish together."""
    engine, _ = fake_engine(EngineConfig(token_budget=6, max_kv_tokens=14))
    return engine.run(fake_arrivals([(0, 5, 4, 0), (1, 5, 4, 2)]))


def test_a_step_knows_its_tokens_and_its_duration(trace: Trace):
    assert [step.used_tokens for step in trace.steps] == [
        sum(work.end - work.start for work in step.work) for step in trace.steps
    ]
    assert trace.steps[1].used_tokens == 6
    assert trace.steps[0].duration_us == trace.steps[0].end_us - trace.steps[0].start_us > 0


def test_the_trace_finds_a_request_and_its_tokens(trace: Trace):
    assert trace.request(1).prompt_tokens[:2] == (31, 41)
    assert (trace.request(1).arrival_step, trace.request(1).priority) == (1, 2)
    assert len(trace.generated_tokens(1)) == 4
    with pytest.raises(KeyError):
        trace.request(2)


def test_the_json_survives_a_round_trip_and_holds_everything(trace: Trace):
    plain = trace.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["version"] == SCHEMA_VERSION
    assert set(plain) == {"version", *(field.name for field in dataclasses.fields(Trace))}
    assert set(plain["steps"][0]) == {f.name for f in dataclasses.fields(trace.steps[0])}
    assert plain["steps"][0]["work"] == [
        {
            "request_id": 0,
            "kind": "prefill",
            "start": 0,
            "end": 5,
            "sampled": 45,
            "drafted": [],
            "num_accepted": 0,
        }
    ]
    assert plain["clock"] == {"name": "a server CPU (fitted)", "modelled": True}


def test_every_number_in_the_json_is_a_number_and_no_bool(trace: Trace):
    def numbers(value: object) -> list[object]:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            return [leaf for item in value for leaf in numbers(item)]
        return [value]

    leaves = numbers(trace.to_json()["steps"])
    assert {type(leaf) for leaf in leaves} <= {int, str, type(None)}


def test_the_preemption_is_in_the_trace_with_its_reason(trace: Trace):
    preempting = [step for step in trace.steps if step.preempted]
    assert [step.preempted for step in preempting] == [(1,)]
    (wait,) = preempting[0].waits
    assert (wait.request_id, wait.status) == (1, "waiting")
    assert wait.reason == "preempted to keep the KV budget"


def test_records_cannot_be_changed(trace: Trace):
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.steps[0].step = 9  # pyright: ignore


def test_a_trace_says_why_its_run_stopped(trace: Trace):
    assert trace.error is None
    assert trace.to_json()["error"] is None
    engine, _ = fake_engine(EngineConfig())
    assert engine.trace("it broke").to_json()["error"] == "it broke"


LOG = """\
[step 0] prefill=0[0:5] decode=[] waiting=[] kv=5
[step 1] prefill=1[0:5] decode=[0] waiting=[] kv=11
[step 2] prefill=None decode=[0, 1] waiting=[] kv=13
[step 3] prefill=None decode=[0] waiting=[1] kv=0 preempted=[1]
[step 4] prefill=1[0:6] decode=[] waiting=[] kv=6
[step 5] prefill=1[6:7] decode=[] waiting=[] kv=7
[step 6] prefill=None decode=[1] waiting=[] kv=0"""


def test_the_step_log_says_who_prefills_decodes_waits_and_leaves(trace: Trace):
    assert step_log(trace) == LOG


def test_the_step_log_of_a_step_in_which_somebody_only_leaves():
    config = EngineConfig(
        32, max_kv_tokens=22, max_prefilling=1, policy="priority", preempt_to_admit=True
    )
    engine, _ = fake_engine(config)
    lines = step_log(engine.run(fake_arrivals([(0, 10, 6, 2), (3, 20, 2, 0)]))).splitlines()
    assert lines[3] == "[step 3] prefill=None decode=[] waiting=[0, 1] kv=0 preempted=[0]"
    assert lines[4] == "[step 4] prefill=1[0:20] decode=[] waiting=[0] kv=20"


def test_the_step_log_of_nothing_is_nothing():
    engine, _ = fake_engine(EngineConfig())
    assert step_log(engine.trace()) == ""
