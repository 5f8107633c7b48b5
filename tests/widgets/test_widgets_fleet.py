"""The widgets of a fleet and of speculation: what they take, what they refuse, their scripts."""

import copy
import json
import re

import pytest

from course.stories.l07_lazy_heap import heap_story
from course.stories.l08_judged import story
from nanogpt.checkpoints.tokenizer import encode
from nanogpt.checkpoints.weights import load_model
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.experiments.fleet_comparison import compare
from nanogpt.fleet.decisions import on_event
from nanogpt.fleet.presets import ADAPTIVE, FIFO
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import make_workload
from nanogpt.request import Request
from nanogpt.speculative.trigram import TrigramDraft
from widgets import FleetView, LazyHeap, PairedSeeds, SpeculationStrip, standalone

# ---- the fleet -----------------------------------------------------------------------------------


def a_request(number=0, **changes):
    return {
        "id": number, "arrival_us": 1000 * number, "deadline_us": 500_000, "priority": 1,
        "prompt_tokens": 20, "max_new_tokens": 8, "first_token_us": 9_000,
        "finished_us": 20_000, "refused": False, **changes,
    }  # fmt: skip


def a_visit(number=0, **changes):
    return {
        "request_id": number, "worker": 0, "dispatched_us": 2_000, "start_us": 3_000,
        "end_us": 20_000, "hit_tokens": 4, "computed_tokens": 16, "generated_tokens": 8,
        "ended": "finished", **changes,
    }  # fmt: skip


def a_run(**changes):
    return {
        "worker": 0, "start_us": 3_000, "end_us": 9_000, "kind": "prefill", "num_steps": 1,
        "request_ids": [0, 1], "reserved_tokens": 54, "cached_tokens": 20, **changes,
    }  # fmt: skip


def a_trace(**changes):
    return {
        "version": 1, "name": "adaptive", "cost": {"name": "source", "modelled": True},
        "num_workers": 2, "batch_size": 4, "kv_tokens": 100, "end_us": 30_000,
        "requests": [a_request(0), a_request(1)], "visits": [a_visit(0), a_visit(1)],
        "runs": [a_run(), a_run(kind="decode", start_us=9_000, end_us=20_000, num_steps=7)],
        "decisions": [{"at_us": 2_000, "kind": "dispatch", "request_id": 0, "worker": 0}],
        "error": None, **changes,
    }  # fmt: skip


def test_a_fleet_view_takes_a_simulation_s_trace_as_it_is():
    trace = simulate(ADAPTIVE, make_workload("steady", 30, 1, 42), trace=True).trace
    widget = FleetView(trace.to_json(), "Steady")
    assert widget.trace["num_workers"] == ADAPTIVE.num_workers
    assert len(widget.trace["requests"]["id"]) == len(trace.requests) > 10
    assert widget.trace["runs"]["num_requests"] == [len(each.request_ids) for each in trace.runs]
    assert FleetView(json.loads(json.dumps(trace.to_json()))).trace == widget.trace


def test_a_trace_is_sent_as_columns_and_left_as_it_was():
    given = a_trace()
    before = copy.deepcopy(given)
    trace = FleetView(given, zoom=3).trace
    assert given == before
    assert trace["requests"]["arrival_us"] == [0, 1000]
    assert (trace["runs"]["kind"], trace["runs"]["num_requests"]) == (["prefill", "decode"], [2, 2])
    assert "request_ids" not in trace["runs"]
    json.dumps(standalone.state(FleetView(given)))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": 2}, "the trace has version 2; this widget reads version 1"),
        ({"num_workers": 0}, "num_workers of the trace is 0; it must be a whole number of at"),
        ({"cost": {"name": "x"}}, "the cost of the trace lacks modelled"),
        ({"requests": [a_request(0), a_request(0)]}, "two requests of the trace have the same id"),
        (
            {"requests": [a_request(0), a_request(1, finished_us=5)]},
            "finished_us of request 1 is 5, before it arrives",
        ),
        ({"requests": [a_request(0, refused=0), a_request(1)]}, "refused of request 0 is 0"),
        ({"visits": [a_visit(7)]}, "visit 0 names request 7, which never arrived"),
        ({"visits": [a_visit(worker=2)]}, "visit 0 names worker 2, but there are 2 workers"),
        (
            {"visits": [a_visit(start_us=1_000)]},
            "the times of visit 0 are [2000, 1000, 20000]; they must not fall",
        ),
        ({"visits": [a_visit(ended="lost")]}, "ended of visit 0 is 'lost'; it must be one of"),
        ({"runs": [a_run(kind="mixed")]}, "the kind of run 0 is 'mixed'"),
        ({"runs": [a_run(end_us=0)]}, "the times of run 0 are [3000, 0]; they must not fall"),
        ({"runs": [a_run(request_ids=[])]}, "the request_ids of run 0 has 0 entries"),
        ({"runs": [a_run(request_ids=[9])]}, "run 0 names request 9, which never arrived"),
        (
            {"decisions": [{"at_us": 1, "kind": "wish", "request_id": 0, "worker": None}]},
            "the kind of decision 0 is 'wish'",
        ),
    ],
)
def test_a_fleet_view_refuses_what_no_fleet_can_have_done(changes, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        FleetView(a_trace(**changes))
    with pytest.raises(ValueError, match="zoom is -1"):
        FleetView(a_trace(), zoom=-1)


# ---- seeds ---------------------------------------------------------------------------------------


def a_row(metric="ttft_p50_ms", pairs=((42, 238, 9), (43, 250, 10)), **changes):
    return {
        "metric": metric, "label": "TTFT p50", "unit": "ms", "better": "lower",
        "pairs": [
            {"seed": seed, "baseline": baseline, "other": other} for seed, baseline, other in pairs
        ],
        "mean": -234.5, "low": -300.0, "high": -170.0, **changes,
    }  # fmt: skip


def a_comparison(*rows, **changes):
    return {
        "version": 1, "scenario": "steady", "baseline": "FIFO", "other": "adaptive",
        "modelled": True, "rows": list(rows or [a_row()]), **changes,
    }  # fmt: skip


def test_paired_seeds_take_a_comparison_of_two_fleets_as_it_is():
    found = compare((FIFO, ADAPTIVE), "steady", 30, 1, [42, 43], ADAPTIVE.cost)
    given = found.to_json()
    rows = PairedSeeds(given, "Steady").comparison["rows"]
    assert {row["metric"] for row in rows} == {row["metric"] for row in given["rows"]}
    assert [row["metric"] for row in rows][:2] == ["ttft_p50_ms", "ttft_p99_ms"]
    json.dumps(standalone.state(PairedSeeds(given)))


def test_metrics_of_a_family_come_first_unless_the_panels_are_named():
    rows = [a_row("throughput"), a_row("ttft_p50_ms"), a_row("hits"), a_row("ttft_p99_ms")]

    def order(**named):
        found = PairedSeeds(a_comparison(*rows), **named).comparison["rows"]
        return [row["metric"] for row in found]

    assert order() == ["ttft_p50_ms", "ttft_p99_ms", "throughput", "hits"]
    assert order(metrics=["hits", "ttft_p99_ms"]) == ["hits", "ttft_p99_ms"]


@pytest.mark.parametrize(
    ("comparison", "sentence"),
    [
        (a_comparison(version=3), "the comparison has version 3; this widget reads version 1"),
        ({**a_comparison(), "rows": []}, "the rows of the comparison has 0 entries"),
        (a_comparison(a_row(pairs=())), "the pairs of row 0 has 0 entries"),
        (
            a_comparison(a_row(), a_row("x", pairs=((42, 1, 2),))),
            "'x' has seeds [42]; the first row has [42, 43]",
        ),
        (a_comparison(a_row(low=-1.0)), "the mean of row 0 is -234.5, outside its interval -1.0"),
        (a_comparison(a_row(better="more")), "better of row 0 is 'more'; it must be one of lower"),
        (a_comparison(a_row(pairs=((42, -1, 2),))), "the baseline of pair 0 of row 0 is -1"),
        (a_comparison(modelled="yes"), "modelled of the comparison is 'yes'"),
        (a_comparison(other=""), "the other of the comparison is empty"),
    ],
)
def test_paired_seeds_refuse_what_is_no_comparison(comparison, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        PairedSeeds(comparison)


def test_a_panel_is_named_by_a_metric_that_is_there():
    with pytest.raises(ValueError, match="a metric is 'itl'; it must be one of ttft_p50_ms"):
        PairedSeeds(a_comparison(), metrics=["itl"])


def test_one_seed_has_no_interval():
    row = PairedSeeds(a_comparison(a_row(low=None, high=None))).comparison["rows"][0]
    assert (row["low"], row["high"]) == (None, None)


# ---- the heap ------------------------------------------------------------------------------------

EVENTS = [
    ("push", 3, (1, 200)),
    ("push", 5, (0, 300)),
    ("remove", 3),
    ("push", 3, (2, 1)),
    ("pop",),
]


def test_a_lazy_heap_takes_a_heap_story_as_it_is():
    given = heap_story(on_event, EVENTS)
    before = copy.deepcopy(given)
    steps = LazyHeap(given, "Lazy").story["steps"]
    assert given == before
    assert [step["event"]["kind"] for step in steps] == ["push", "push", "remove", "push", "pop"]
    assert steps[0]["event"] == {"kind": "push", "id": 3, "key": [1, 200]}
    assert steps[2]["generations"] == {"3": 2, "5": 1}
    assert [entry["live"] for entry in steps[2]["entries"]] == [True, False]
    assert steps[4]["popped"] == 5
    json.dumps(standalone.state(LazyHeap(given)))


def a_story(**changes):
    step = {
        "event": ["push", 3, [1]], "generations": {"3": 1}, "popped": None, "words": "In.",
        "entries": [{"id": 3, "key": [1], "generation": 1, "live": True}], **changes,
    }  # fmt: skip
    return {"version": 1, "steps": [step], "error": None}


@pytest.mark.parametrize(
    ("story", "sentence"),
    [
        ({**a_story(), "version": 0}, "the story has version 0; this widget reads version 1"),
        ({**a_story(), "steps": []}, "the steps of the story has 0 entries; it needs at least 1"),
        (a_story(event=["peek"]), "the kind of the event of step 0 is 'peek'"),
        (a_story(event=["pop", 3]), "the event of step 0 has 2 parts; a pop has 1"),
        (a_story(event=["push", 3, []]), "the key of the event of step 0 has 0 entries"),
        (a_story(event=["push", 3, ["x"]]), "a part of the key of the event of step 0 is 'x'"),
        (a_story(generations={"3": -1}), "the generation of request 3 in step 0 is -1"),
        (a_story(entries=[{"id": 3, "key": [1], "generation": 1}]), "entry 0 of step 0 lacks live"),
        (a_story(popped="3"), "popped of step 0 is '3'"),
        (a_story(words=""), "the words of step 0 is empty"),
    ],
)
def test_a_lazy_heap_refuses_what_is_no_story(story, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        LazyHeap(story)


def test_a_story_that_failed_at_once_is_drawn_with_its_error():
    story = LazyHeap({"version": 1, "steps": [], "error": "your on_event raised."}).story
    assert story == {"steps": [], "error": "your on_event raised."}


# ---- speculation ---------------------------------------------------------------------------------


def a_draft(kept=True, text="e", **changes):
    return {"text": text, "token": 43, "kept": kept, "p": 0.5, "q": 0.4, "u": 0.2, **changes}


def a_pass(*drafts, kind="bonus"):
    return {"drafts": list(drafts), "last": {"text": "\n", "token": 0, "kind": kind}}


def a_speculation(*passes, **changes):
    return {
        "version": 1, "prompt": "ROMEO:", "num_draft_tokens": 2, "temperature": 1.0,
        "passes": list(passes or [a_pass(a_draft(), a_draft())]), **changes,
    }  # fmt: skip


def test_a_speculation_strip_takes_a_story_as_it_is():
    given = a_speculation(
        a_pass(a_draft(), a_draft(False), kind="resampled"),
        a_pass(kind="plain"),
        a_pass(a_draft(False), a_draft(False, u=None), kind="resampled"),
    )
    before = copy.deepcopy(given)
    widget = SpeculationStrip(given, "Speculation")
    assert given == before
    assert widget.story["passes"] == given["passes"]
    json.dumps(standalone.state(widget))


def test_a_speculation_strip_takes_an_engine_s_own_story():
    config = EngineConfig(num_draft_tokens=3)
    model, draft = load_model(), TrigramDraft.load()
    engine = Engine(model, config, draft=draft)
    trace = engine.run([(0, Request(1, encode("ROMEO:"), max_new_tokens=12))])
    given = story(trace, 1, model, draft, config)
    found = SpeculationStrip(given).story
    tokens = [sum(each["kept"] for each in p["drafts"]) + 1 for p in found["passes"]]
    assert sum(tokens) == 12 and len(tokens) < 12
    assert found == {name: given[name] for name in found}


def test_a_probability_that_rounding_took_past_1_is_1():
    strip = SpeculationStrip(a_speculation(a_pass(a_draft(p=1 + 1e-9))))
    assert strip.story["passes"][0]["drafts"][0]["p"] == 1


@pytest.mark.parametrize(
    ("story", "sentence"),
    [
        (a_speculation(version=2), "the story has version 2; this widget reads version 1"),
        (a_speculation(passes=[]), "the passes of the story has 0 entries"),
        (a_speculation(num_draft_tokens=1), "pass 0 has 2 drafts; num_draft_tokens is 1"),
        (
            a_speculation(a_pass(a_draft(False), a_draft(), kind="resampled")),
            "pass 0 keeps a draft after one that it rejects",
        ),
        (
            a_speculation(a_pass(a_draft(), kind="resampled")),
            "the last token of pass 0 is resampled; with 1 of 1 drafts kept it must be bonus",
        ),
        (a_speculation(a_pass(kind="bonus")), "with 0 of 0 drafts kept it must be plain"),
        (
            a_speculation(a_pass(a_draft(p=1.2))),
            "p of draft 0 of pass 0 is 1.2; it must be a share",
        ),
        (a_speculation(a_pass(a_draft(u="x"))), "u of draft 0 of pass 0 is 'x'"),
        (a_speculation(temperature=-1), "the temperature of the story is -1"),
    ],
)
def test_a_speculation_strip_refuses_what_no_pass_can_have_done(story, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        SpeculationStrip(story)
