"""The widgets take what the course's own runs and functions give, and what they make of it."""

import json

import pytest
import samples
import torch
from galleries import make
from support import find_program, run

from nanogpt.checkpoints.tokenizer import ALPHABET, encode
from nanogpt.checkpoints.weights import load_model
from nanogpt.clock import LARGE_GPU, CostClock
from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.engine import Engine
from nanogpt.model import GPT
from nanogpt.request import Request
from widgets import assets
from widgets.timeline import SHAKESPEARE

MS = samples.MS


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8, max_model_len=32)).eval()


def trace_of(model, **settings):
    """Two prompts of 10 tokens, 10 new tokens each."""
    config = EngineConfig(**{"max_kv_tokens": 22, "max_batch_size": 4, **settings})
    engine = Engine(model, config, clock=CostClock(LARGE_GPU))
    return engine.run([(0, Request(i, [*range(1, 11)], 10)) for i in range(2)]).to_json()


# ---- runs of an engine ---------------------------------------------------------------------------


def test_an_engine_s_trace_is_taken_as_it_is(model):
    trace = trace_of(model)
    without_waits = [{**step, "waits": None} for step in trace["steps"]]
    for kind in ("Timeline", "KVBudget"):
        drawn = make(kind, trace=trace).trace
        assert [{**step, "waits": None} for step in drawn["steps"]] == without_waits
        assert drawn["requests"] == trace["requests"]
    assert SHAKESPEARE == ALPHABET
    runs = [
        {
            "label": f"W = {window}",
            "window": window,
            "trace": trace_of(model, sliding_window=window, max_kv_tokens=40, executor="padded"),
        }
        for window in (None, 8)
    ]
    drawn = make("KVGrowth", runs=runs)
    assert [each["trace"]["steps"] for each in drawn.runs] == [
        each["trace"]["steps"] for each in runs
    ]
    pool = samples.pool_run()
    for kind in ("BlockPool", "PrefixTree"):
        assert make(kind).trace["steps"][3]["blocks"] == pool["steps"][3]["blocks"]


def test_what_an_older_trace_does_not_say_is_filled_in():
    old = samples.windowed_run(None)
    step = old["trace"]["steps"][0]
    del step["kv_peak"]
    step["kv"] = [{"request_id": 0, "kv_tokens": 3}]
    drawn = make("KVGrowth", runs=[old]).runs[0]["trace"]["steps"][0]
    more = {"kv_tokens_charged": 3, "live_bytes": None}
    assert (drawn["kv_peak"], drawn["kv"]) == (None, [{"request_id": 0, "kv_tokens": 3, **more}])


@pytest.mark.process
def test_the_pictures_words_and_marks_fit_the_engine_s_own_records(model, tmp_path):
    """One preemption, ten tokens computed twice; and no cell of a right mask is called wrong."""
    [step] = samples.compared_mask()["steps"]
    step = {**step, "masks": [{**each, "key_labels": None} for each in step["masks"]]}
    for row, right in zip(step["masks"], step["compare"], strict=True):
        row["mask"] = right
    trace = trace_of(model)
    data = {"trace": trace, "packed": samples.batch_view()["packed"], "step": step}
    (tmp_path / "data.json").write_text(json.dumps(data), encoding="utf-8")
    static = assets.scripts()[0].parent.as_uri()
    (tmp_path / "look.mjs").write_text(f"""
        import {{ readFileSync }} from "node:fs";
        import {{ kvStepWords, totalsWords }} from "{static}/kv_budget_words.js";
        import {{ hasPacked }} from "{static}/batch_view_layout.js";
        import {{ countCells }} from "{static}/mask_build_layout.js";
        const {{ trace, packed, step }} = JSON.parse(readFileSync("data.json"));
        const wrong = (cell) => cell.wrong;
        const marks = () => [hasPacked(packed, null, wrong), countCells([step], 0, wrong)];
        console.log(kvStepWords(trace, 2));
        console.log(totalsWords(trace));
        console.log(...marks());
        packed.mask[1][0] = step.masks[0].mask[2][4] = true;
        console.log(...marks());
    """)
    done = run([find_program("node"), "look.mjs"], cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "Step 2: 12 of 22 KV tokens held. Request 1 is preempted: its 10 tokens are released; "
        "it has 1 generated token to keep.",
        "48 tokens computed, 10 of them recomputed (21 percent); 1 preemption; "
        f"20 tokens generated in 19 steps, {trace['steps'][-1]['end_us'] / 1000:.0f} ms",
        "false 0",
        "true 1",
    ], done.stderr


# ---- queues and deadlines ------------------------------------------------------------------------


def test_a_heap_stepper_takes_a_refused_push_and_no_budget():
    operations = samples.heap_stepper()["operations"]
    admission = operations[7]["admission"]
    refused = {**operations[0], "moves": [], "states": []}
    refused["admission"] = {**admission, "candidate": 30, "verdict": "refuse"}
    free = {**operations[0], "admission": {**admission, "budget": None}}
    drawn = make("HeapStepper", operations=[refused, free]).operations
    assert [each["moves"] == [] for each in drawn] == [True, False]
    assert drawn[1]["admission"]["budget"] is None


def test_a_moment_says_what_the_whole_prompt_would_take():
    moments = make("SlackTimeline", **samples.running_slack()).cases[0]["moments"]
    assert [each["predicted_us"] for each in moments] == [60_000, 50_000, 40_000, 30_000]
    assert {each["whole_us"] for each in moments} == {60_000}
    case = samples.slack_case("fits", 150_000)
    case["moments"] = [{**case["moments"][0], "whole_us": 70_000}]
    assert make("SlackTimeline", cases=[case]).cases[0]["moments"][0]["whole_us"] == 70_000


def test_the_bar_to_pass_is_the_margin_times_the_incumbent_s_score_which_may_be_negative():
    bars = [each["bar"] for each in make("GatePicture").decisions]
    tight, lost = 80_000 / 120_000, -0.01
    assert bars[4] is None
    assert bars[2:4] == [1.2 * lost, 1.2 * lost]
    assert bars[0] == bars[1] == pytest.approx(1.2 / (120 * tight) * tight)


# ---- a preempted pass ----------------------------------------------------------------------------


def board(**more):
    return make("VoteBoard", boards=[{"label": "x", "words": "", **more}]).boards[0]


def test_a_board_has_the_collective_s_answers_and_what_was_wasted():
    drawn = board(record=samples.preemption(3, num_layers=4, written_ms=91))
    assert (drawn["results"], drawn["wasted_share"]) == ([0, 0, 0, 1], 0.75)
    assert drawn["endings"] == [{"how": "left", "layer": 3, "words": ""}] * 2
    assert drawn["mark"] == "target 17"
    assert drawn["record"]["written_us"] == 91_000
    assert drawn["record"]["checks"][1][3] == {
        "layer": 3, "vote": 1, "reached_us": 92_000, "agree_us": 500,
    }  # fmt: skip


def test_a_collective_that_a_rank_does_not_come_to_has_no_answer():
    alone = [{"how": how, "layer": 7, "words": ""} for how in ("hangs", "left")]
    drawn = board(record=samples.preemption(), endings=alone)
    no_answer = [0] * 7 + [None] * 5
    assert (drawn["results"], drawn["wasted_share"]) == (no_answer, None)
    late = samples.preemption()
    late["checks"][0].pop()
    assert board(record=late)["results"] == no_answer
    assert board(record=samples.preemption(), agreement="carried")["results"] == no_answer
    assert board(record=samples.preemption(), agreement="epoch")["results"] == []


def test_a_pass_that_was_finished_or_kept_wastes_nothing():
    done = board(record=samples.preemption(12, 350))
    assert (done["wasted_share"], done["endings"][0]["how"]) == (0.0, "finished")
    kept = board(record=samples.preemption(resumed_ns=samples.BEGUN_NS + 300 * MS))
    assert (kept["wasted_share"], kept["endings"][0]["how"]) == (0.0, "left")


def test_a_cycle_becomes_events_in_the_lanes_that_they_happened_in():
    widget = make("SloCycle")
    assert widget.lanes == ["inbox", "engine thread", "monitor thread", "rank 0", "rank 1"]
    told = [
        (each["stage"], each["at_us"], [point["lane"] for point in each["points"]], each["reach"])
        for each in widget.events
    ]
    assert told == [
        ("arrival", 205_000, [0], None), ("inbox", 205_000, [0], 2),
        ("monitor", 206_000, [2], None), ("shared memory", 210_400, [2], 4),
        ("vote", 212_000, [3, 4], None), ("leave", 212_500, [3, 4], 1),
        ("clean-up", 215_000, [1], None), ("re-admission", 216_000, [1], 4),
        ("first token", 260_000, [1], None),
    ]  # fmt: skip
    words = {each["stage"]: each["words"] for each in widget.events}
    assert words["arrival"] == (
        "Request 7 arrives, 205 ms into pass 17, which computes the prefill of request 3."
    )
    assert "5.4 ms after the arrival" in words["shared memory"]
    assert words["vote"].startswith(
        "Rank 0 comes to the attention op of layer 7 0.40 ms before the write and votes 0; rank 1 "
    )
    assert words["leave"].endswith("Computed for nothing: 7 of 12 layers (58 percent).")
    assert words["clean-up"].endswith(
        "request 3 gives up its K/V and waits again, request 7 is next."
    )
    assert words["first token"] == "Request 7 has its first token, 55.0 ms after it arrived."
    assert [(each["lane"], each["kind"], each["to_us"]) for each in widget.spans] == [
        (1, "waits", 214_000), (2, "decides", 210_400), (1, "undoes", 215_000),
        (3, "pass", 211_000), (4, "pass", 212_500), (3, "candidate", 260_000),
        (4, "candidate", 260_000), (1, "waits", 260_000),
    ]  # fmt: skip
    votes = [each["vote"] for each in widget.marks if each["lane"] == 4]
    assert votes == [0] * 7 + [1]


def test_a_pass_that_sleeps_goes_on_after_the_candidate_s_first_token():
    slept = samples.slo_cycle(resumed_ns=samples.BEGUN_NS + 270 * MS)
    slept["cycle"]["cleaned_us"] = None
    events = make("SloCycle", **slept).events
    assert [each["stage"] for each in events][6:] == [
        "suspend", "re-admission", "first token", "resume",
    ]  # fmt: skip
    assert events[-1]["words"].startswith("The pass that slept goes on at layer 7, ")
    assert "Kept for later: 7 of 12 layers" in events[5]["words"]


def test_times_that_nobody_took_are_left_out_and_a_coarse_clock_may_be_a_little_behind():
    cycle = samples.slo_cycle()["cycle"]
    bare = make("SloCycle", cycle={name: cycle[name] for name in ("record", "arrived_us")})
    assert [each["stage"] for each in bare.events] == [
        "arrival", "inbox", "shared memory", "vote", "leave", "clean-up",
    ]  # fmt: skip
    early = make("SloCycle", cycle={**cycle, "arrived_us": cycle["arrived_us"] - 215_000})
    assert "arrives, 10.0 ms before pass 17 begins" in early.events[0]["words"]
    behind = {**cycle, "looked_us": cycle["arrived_us"] + 5_401}
    assert make("SloCycle", cycle=behind).events[3]["at_us"] >= 210_400


# ---- a fleet -------------------------------------------------------------------------------------


def test_a_fleet_s_trace_is_sent_as_columns():
    given = samples.simulated_fleet()
    trace = make("FleetView", trace=given).trace
    assert trace["requests"]["id"] == [each["id"] for each in given["requests"]]
    assert len(given["requests"]) > 10
    assert trace["runs"]["num_requests"] == [len(each["request_ids"]) for each in given["runs"]]
    assert "request_ids" not in trace["runs"]
    assert make("FleetView", trace=json.loads(json.dumps(given))).trace == trace


def test_a_heap_story_s_events_have_names_and_its_entries_say_whether_they_count():
    from course.lesson_data.l09_lazy_heap import heap_story

    events = [("push", 3, (1, 200)), ("push", 5, (0, 300)), ("remove", 3), ("pop",)]
    steps = make("LazyHeap", story=heap_story(events)).story["steps"]
    assert steps[0]["event"] == {"kind": "push", "id": 3, "key": [1, 200]}
    assert [step["event"]["kind"] for step in steps] == ["push", "push", "remove", "pop"]
    assert steps[2]["generations"] == {"3": 2, "5": 1}
    assert [entry["live"] for entry in steps[2]["entries"]] == [True, False]
    assert steps[3]["popped"] == 5
    failed = {"version": 1, "steps": [], "error": "your pop_live raised."}
    assert make("LazyHeap", story=failed).story == {"steps": [], "error": failed["error"]}


def test_an_engine_s_own_speculation_is_taken_and_a_share_just_above_1_is_1():
    from course.lesson_data.l08_drafts import story
    from nanogpt.speculative.trigram import TrigramDraft

    config, draft = EngineConfig(num_draft_tokens=3), TrigramDraft.load()
    engine = Engine(load_model(), config, draft=draft)
    trace = engine.run([(0, Request(1, encode("ROMEO:"), max_new_tokens=12))])
    given = story(trace, 1, load_model(), draft, config)
    found = make("SpeculationStrip", story=given).story
    tokens = [sum(each["kept"] for each in p["drafts"]) + 1 for p in found["passes"]]
    assert sum(tokens) == 12 and len(tokens) < 12
    assert found == {name: given[name] for name in found}
    rounded = samples.speculation_strip()
    rounded["story"]["passes"][0]["drafts"][0]["p"] = 1 + 1e-9
    assert make("SpeculationStrip", **rounded).story["passes"][0]["drafts"][0]["p"] == 1
