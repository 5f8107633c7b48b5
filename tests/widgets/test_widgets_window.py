"""The widgets of the sliding window: what they take, what they refuse, their scripts."""

import copy
import json
import re

import pytest
import torch

from course.stories.l04_window import block_steps
from nanogpt import load_model
from nanogpt.clock import CostClock
from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.engine import Engine
from nanogpt.experiments.machines import LARGE_GPU
from nanogpt.model import GPT
from nanogpt.request import Request
from widgets import (
    AttentionByDistance,
    BlockTable,
    KVGrowth,
    ReceptiveField,
    StorageStrip,
    standalone,
)


@pytest.fixture(scope="module")
def runs():
    """Two requests without a window, and with windows of 8 and 4."""
    torch.manual_seed(0)
    model = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8, context_len=32)).eval()

    def of(window):
        config = EngineConfig(max_kv_tokens=30, sliding_window=window, executor="padded")
        engine = Engine(model, config, clock=CostClock(LARGE_GPU))
        return engine.run([(0, Request(i, [*range(1, 11)], 5)) for i in range(2)]).to_json()

    return [{"label": f"W = {w}", "window": w, "trace": of(w)} for w in (None, 8, 4)]


# ---- KV growth -----------------------------------------------------------------------------------


def test_kv_growth_takes_engines_traces_and_leaves_them_alone(runs):
    before = copy.deepcopy(runs)
    widget = KVGrowth(runs, "Growth", bytes_per_token=64, shown=1, group="a")
    assert [each["label"] for each in widget.runs] == ["W = None", "W = 8", "W = 4"]
    assert (widget.title, widget.bytes_per_token, widget.shown, widget.group) == (
        "Growth", 64, 1, "a",
    )  # fmt: skip
    assert runs == before
    json.dumps(standalone.state(widget))


def test_what_an_older_trace_does_not_say_is_filled_in(runs):
    bare = copy.deepcopy(runs[0])
    for name in ("sliding_window", "num_sinks"):
        bare["trace"].pop(name, None)
    step = bare["trace"]["steps"][0]
    step.pop("kv_peak", None)
    step["kv"] = [{"request_id": 0, "kv_tokens": 3}]
    drawn = KVGrowth([bare]).runs[0]["trace"]["steps"][0]
    assert drawn["kv_peak"] is None
    assert drawn["kv"] == [
        {"request_id": 0, "kv_tokens": 3, "counted_tokens": 3, "live_bytes": None}
    ]


def changed(run, **step):
    """The run with other values in its first step."""
    run = copy.deepcopy(run)
    run["trace"]["steps"][0].update(step)
    return run


def test_kv_growth_refuses_runs_that_cannot_be_compared(runs):
    full, wide, narrow = runs
    for given, sentence in (
        ([], "runs has 0 entries; it needs at least 1"),
        ([full, {**full, "label": "again"}], "2 runs have no window; at most one may"),
        ([wide, {**narrow, "label": "W = 8"}], "two runs are called 'W = 8'; labels must differ"),
        ([{**wide, "window": 0}], "the window of 'W = 8' is 0; it must be a whole number"),
        ([{**wide, "label": " "}], "the label of a run is empty"),
        ([{**wide, "trace": []}], "the trace of 'W = 8' is a list; it must be a dict"),
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            KVGrowth(given)
    with pytest.raises(ValueError, match="shown is 2, but 2 runs have a window"):
        KVGrowth(runs, shown=2)
    with pytest.raises(ValueError, match="bytes_per_token is 0; it must be a whole number"):
        KVGrowth(runs, bytes_per_token=0)


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ({"forwards": [{"useful_tokens": 2, "computed_tokens": 1}]}, "computed_tokens of step 0"),
        ({"forwards": [{}]}, "a forward of step 0 of the trace of 'W = 8' lacks useful_tokens"),
        ({"kv_peak": -1}, "kv_peak of step 0 of the trace of 'W = 8' is -1"),
        ({"kv": [{"request_id": 9, "kv_tokens": 1}]}, "names request 9, which never arrived"),
        ({"kv": [{"request_id": 0, "kv_tokens": -1}]}, "kv_tokens of step 0"),
        ({"kv": [{"request_id": 0, "kv_tokens": 1, "counted_tokens": 0.5}]}, "counted_tokens of"),
        ({"kv": [{"request_id": 0, "kv_tokens": 1, "live_bytes": -8}]}, "live_bytes of step 0"),
    ],
)
def test_kv_growth_refuses_steps_that_cannot_be_drawn(runs, step, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        KVGrowth([changed(runs[1], **step)])


def test_a_run_s_window_must_be_its_trace_s(runs):
    trace = {**runs[1]["trace"], "sliding_window": 8}
    assert KVGrowth([{"label": "x", "window": 8, "trace": trace}]).runs[0]["window"] == 8
    with pytest.raises(ValueError, match="the window of 'x' is 4, and its trace's is 8"):
        KVGrowth([{"label": "x", "window": 4, "trace": trace}])


# ---- storage -------------------------------------------------------------------------------------


def a_view(**changes):
    return {"label": "r3", "storage": 0, "offset_bytes": 640, "nbytes": 640, **changes}


def some_bytes(*views, **changes):
    storages = [{"label": "buffer", "nbytes": 12800}]
    fields = {"words": "So.", "storages": storages, "live_bytes": 12800, "counted_bytes": 640}
    return {**fields, "views": list(views), **changes}


def some_slots(*positions, **changes):
    slots = [{"position": position} for position in positions]
    return {"words": "So.", "slots": slots, "sinks": 1, "window": 2, **changes}


def test_a_storage_strip_takes_bytes_or_slots():
    steps = [some_bytes(a_view()), some_bytes(storages=[], live_bytes=0)]
    widget = StorageStrip(steps, "Storage", cell_bytes=64)
    assert (widget.steps, widget.cell_bytes) == (steps, 64)
    ring = StorageStrip([some_slots(0, None, 2)])
    assert [slot["new"] for slot in ring.steps[0]["slots"]] == [False] * 3
    json.dumps([standalone.state(widget), standalone.state(ring)])


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ([], "steps has 0 entries"),
        ([some_bytes(words="")], "the words of step 0 is empty"),
        ([some_bytes(a_view(storage=1))], "view 'r3' of step 0 lies in storage 1, but there are 1"),
        ([some_bytes(a_view(offset_bytes=12500))], "ends at byte 13140, but its storage has 12800"),
        ([some_bytes(a_view(nbytes=0))], "nbytes of view 'r3' of step 0 is 0"),
        ([some_bytes(live_bytes=-1)], "live_bytes of step 0 is -1"),
        ([some_bytes(storages=[{"label": "x", "nbytes": 1}] * 2)], "two storages of step 0 are"),
        ([some_bytes(), some_slots(0, 1, 2)], "step 1 lacks storages, views"),
        ([some_slots(0, 1)], "step 0 has 2 slots; a window of 2 and 1 sinks have 3"),
        ([some_slots(0, 1, -2)], "the position of a slot of step 0 is -2"),
        ([some_slots(0, 1, 2), some_bytes()], "step 1 lacks slots, sinks, window"),
    ],
)
def test_a_storage_strip_refuses_what_cannot_lie_there(steps, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        StorageStrip(steps)


# ---- attention -----------------------------------------------------------------------------------


def test_attention_takes_layers_of_heads_and_their_sinks():
    weights = [[[0.5, 0.3, 0.2], [0.8, 0.1, 0.1]]]
    widget = AttentionByDistance(weights, 2, sink_weights=[[[0.1], [0.0]]])
    assert (widget.weights, widget.sink_weights, widget.window) == (weights, [[[0.1], [0.0]]], 2)
    json.dumps(standalone.state(widget))


@pytest.mark.parametrize(
    ("weights", "more", "sentence"),
    [
        ([], {}, "weights has 0 entries"),
        ([[[1.0, 0.0]], [[1.0, 0.0]] * 2], {}, "weights has layers of [1, 2] entries"),
        ([[[1.0, 0.0], [1.0]]], {}, "weights has heads of [1, 2] entries"),
        ([[[1.0, -0.1]]], {}, "a weight of weights is -0.1; it must be a number of at least 0"),
        ([[[0.0, 0.0]]], {}, "layer 0, head 0 has no weight at any distance"),
        ([[[1.0, 0.0]]], {"sink_weights": [[[1.0]] * 2]}, "sink_weights has 1 layers of 2 heads"),
        ([[[1.0, 0.0]]], {"window": 2}, "the window is 2, but the weights end 1 back"),
        ([[[1.0, 0.0]]], {"window": 0}, "the window is 0; it must be a whole number of at least 1"),
    ],
)
def test_attention_refuses_weights_that_are_none(weights, more, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        AttentionByDistance(weights, **{"window": 1, **more})


# ---- the receptive field -------------------------------------------------------------------------


def test_a_receptive_field_starts_at_the_last_position_and_one_window_back():
    widget = ReceptiveField(8, 4, 48)
    assert (widget.query, widget.probe, widget.sinks) == (47, 39, 0)
    assert ReceptiveField(8, 4, 48, query=20, probe=0, sinks=2).probe == 0
    assert ReceptiveField(8, 1, 3).probe == 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"window": 0}, "the window is 0"),
        ({"num_layers": 0}, "num_layers is 0"),
        ({"sinks": 49}, "there are 49 sinks, but only 48 positions"),
        ({"query": 48}, "the query is 48; positions end at 47"),
        ({"probe": 48}, "the probe is 48, behind the query at 47"),
    ],
)
def test_a_receptive_field_refuses_positions_that_are_not_there(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        ReceptiveField(**{"window": 8, "num_layers": 4, "num_positions": 48, **changes})


# ---- block tables --------------------------------------------------------------------------------


def a_step():
    """Two requests in four blocks of 4, the last of which is free."""
    full = {"owner": 0, "filled": 4, "outside": []}
    short = {"owner": 1, "filled": 3, "outside": []}
    free = {"owner": None, "filled": 0, "outside": []}
    return {
        "words": "So.", "blocks": [full, full, short, free],
        "tables": {"0": [0, 1], "1": [2]}, "block_size": 4,
    }  # fmt: skip


def test_a_block_table_takes_an_engine_s_run_as_it_is():
    steps = block_steps(load_model())
    assert BlockTable(steps, "Blocks").steps == steps
    json.dumps(standalone.state(BlockTable(steps)))


def test_a_block_needs_not_say_what_is_outside():
    step = {"words": "So.", "blocks": [{"owner": 3, "filled": 1}], "tables": {"3": [0]}}
    widget = BlockTable([{**step, "block_size": 2}])
    assert widget.steps[0]["blocks"] == [{"owner": 3, "filled": 1, "outside": []}]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tables": {"0": [4]}}, "names block 4; the blocks end at 3"),
        ({"tables": {"0": [0, 1], "1": [0]}}, "names block 0, which belongs to request 0"),
        ({"tables": {"0": [3]}}, "names block 3, which belongs to no request"),
        ({"tables": {"0": [0, 1]}}, "block 2 of step 0 belongs to request 1, whose table does not"),
        ({"blocks": [{"owner": None, "filled": 5}]}, "is filled with 5 entries; a block holds 4"),
        (
            {"blocks": [{"owner": 0, "filled": 1, "outside": [1]}]},
            "has entry 1 outside, but only 1",
        ),
        ({"block_size": 0}, "block_size of step 0 is 0"),
    ],
)
def test_a_block_table_refuses_blocks_with_two_owners_or_none(change, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        BlockTable([{**a_step(), **change}])


def test_a_block_table_refuses_pools_of_different_sizes():
    with pytest.raises(ValueError, match=re.escape("numbers of blocks [4, 5]")):
        BlockTable([a_step(), {**a_step(), "blocks": [*a_step()["blocks"], a_step()["blocks"][3]]}])
    with pytest.raises(ValueError, match="steps has 0 entries"):
        BlockTable([])
