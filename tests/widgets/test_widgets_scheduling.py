"""The heap stepper and the KV budget view: what they take, what they refuse, their scripts."""

import copy
import json
import re

import pytest
import torch
from support import find_program, run

from course.stories.l02_heap import record_heap
from nanogpt.clock import CostClock
from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.engine import Engine
from nanogpt.experiments.machines import LARGE_GPU
from nanogpt.model import GPT
from nanogpt.request import Request
from widgets import HeapStepper, KVBudget, Timeline, assets, standalone


@pytest.fixture(scope="module")
def trace():
    """The post's first example: two prompts of 10 tokens, 10 new tokens each, a budget of 22."""
    torch.manual_seed(0)
    model = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8, context_len=32)).eval()
    config = EngineConfig(max_kv_tokens=22, max_batch_size=4)
    engine = Engine(model, config, clock=CostClock(LARGE_GPU))
    return engine.run([(0, Request(i, [*range(1, 11)], 10)) for i in range(2)]).to_json()


# ---- the heap ------------------------------------------------------------------------------------


def an_admission(**changes):
    fields = {"held": 14, "candidate": 10, "budget": 22, "batch": 1, "max_batch": 4}
    return {**fields, "verdict": "wait", **changes}


def push(request_id, *key):
    return {"op": "push", "entry": {"id": request_id, "key": list(key)}}


@pytest.fixture
def operations():
    look = {"op": "look", "admission": an_admission()}
    return record_heap([push(4, 1, 0), push(2, 0, 1), look, {"op": "pop"}])


def test_a_heap_stepper_takes_recorded_operations_as_they_are(operations):
    before = copy.deepcopy(operations)
    widget = HeapStepper(operations, title="Waiting")
    assert widget.operations == operations == before
    json.dumps(standalone.state(widget))


def test_a_heap_stepper_takes_a_refused_push_and_no_budget():
    refused = {**push(1, 3), "admission": an_admission(candidate=30, verdict="refuse")}
    free = {"op": "push", "entry": {"id": 2, "key": [0]}, "admission": an_admission(budget=None)}
    widget = HeapStepper(record_heap([refused, free]))
    assert [each["moves"] == [] for each in widget.operations] == [True, False]
    assert widget.operations[1]["admission"]["budget"] is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"op": "peek"}, "the op of operation 0 is 'peek'; it must be one of push, pop, look"),
        ({"states": []}, "operation 0 has 0 states for 2 moves"),
        ({"states": [[4], [5]]}, "operation 0 names entry 5, which was never pushed"),
        ({"states": [[4], [True]]}, "operation 0 names entry True"),
        ({"moves": [], "states": []}, "operation 0 has neither a move nor an admission"),
        ({"entry": {"id": 4, "key": [1]}}, "the entry of operation 0 lacks label"),
        ({"entry": {"id": 4, "key": [], "label": "x"}}, "entry of operation 0 has 0 entries"),
        ({"entry": {"id": 4, "key": ["a"], "label": "x"}}, "holds 'a'; it must hold numbers"),
        ({"op": "pop"}, "operation 0 names entry 4, which was never pushed"),
        ({"admission": an_admission(verdict="no")}, "is 'no'; it must be one of admit, wait"),
        ({"admission": an_admission(held=-1)}, "held of the admission of operation 0 is -1"),
        ({"admission": an_admission(budget=0)}, "budget of the admission of operation 0 is 0"),
    ],
)
def test_a_heap_stepper_refuses_what_it_cannot_draw(operations, change, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        HeapStepper([{**operations[0], **change}])


def test_a_heap_stepper_refuses_moves_of_another_kind_and_an_empty_story(operations):
    broken = copy.deepcopy(operations[:1])
    broken[0]["moves"][0]["kind"] = "jump"
    with pytest.raises(ValueError, match="the kind of a move of operation 0 is 'jump'"):
        HeapStepper(broken)
    with pytest.raises(ValueError, match="operations has 0 entries; it needs at least 1"):
        HeapStepper([])


# ---- the KV budget -------------------------------------------------------------------------------


def broken(trace, **changes):
    return {**copy.deepcopy(trace), **changes}


def test_a_kv_budget_takes_engines_traces_as_they_are(trace):
    widget = KVBudget(trace, "Both", other=trace, names=("FCFS", "priority"), group="first")
    assert widget.trace == widget.other
    assert [{**step, "waits": None} for step in widget.trace["steps"]] == [
        {**step, "waits": None} for step in trace["steps"]
    ]
    assert (widget.names, widget.group, widget.title) == (["FCFS", "priority"], "first", "Both")
    json.dumps(standalone.state(widget))


def test_a_trace_without_a_kv_budget_is_drawn_too(trace):
    assert KVBudget(broken(trace, max_kv_tokens=None)).trace["max_kv_tokens"] is None


def test_a_kv_budget_refuses_what_says_nothing_of_kv_tokens(trace):
    with pytest.raises(ValueError, match="the trace is a list; it must be a dict"):
        KVBudget([])
    with pytest.raises(ValueError, match="the other trace has version 99"):
        KVBudget(trace, other=broken(trace, version=99))
    with pytest.raises(ValueError, match="max_kv_tokens of the trace is 0; it must be a whole"):
        KVBudget(broken(trace, max_kv_tokens=0))
    bare = broken(trace)
    del bare["steps"][1]["kv"]
    with pytest.raises(ValueError, match="step 1 of the trace lacks kv"):
        KVBudget(bare)
    stranger = broken(trace)
    stranger["steps"][0]["kv"][0]["request_id"] = 7
    with pytest.raises(ValueError, match="kv of step 0 of the trace names request 7, which never"):
        KVBudget(stranger)
    negative = broken(trace)
    negative["steps"][0]["kv"][0]["kv_tokens"] = -1
    with pytest.raises(ValueError, match="kv_tokens of step 0 of the trace is -1"):
        KVBudget(negative)


def test_a_timeline_has_a_group_too_and_belongs_to_none_by_default(trace):
    assert Timeline(trace).group == KVBudget(trace).group == ""
    assert Timeline(trace, group="first").group == "first"
    with pytest.raises(ValueError, match="the group is 3; it must be text"):
        Timeline(trace, group=3)


@pytest.mark.process
def test_the_real_trace_is_told_as_the_post_tells_it(trace, tmp_path):
    """The words' modules on an engine's own trace: one preemption, ten tokens computed twice."""
    static = json.dumps((assets.__file__ or "").replace("assets.py", "static/kv_budget_words.js"))
    (tmp_path / "trace.json").write_text(json.dumps(trace), encoding="utf-8")
    command = (
        f"import {{ readFileSync }} from 'node:fs'; const m = await import({static});"
        "const trace = JSON.parse(readFileSync('trace.json'));"
        "console.log(m.kvStepWords(trace, 2)); console.log(m.totalsWords(trace));"
    )
    done = run([find_program("node"), "--input-type=module", "-e", command], cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "Step 2: 12 of 22 KV tokens held. Request 1 is preempted: its 10 tokens are released; "
        "it has 1 generated token to keep.",
        "48 tokens computed, 10 of them recomputed (21 percent); 1 preemption; "
        f"20 tokens generated in 19 steps, {trace['steps'][-1]['end_us'] / 1000:.0f} ms",
    ], done.stderr
