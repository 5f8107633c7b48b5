"""Every widget says in a sentence what it cannot draw."""

import contextlib
import copy
import json
import re

import pytest
import samples
from galleries import make

import widgets
from widgets.standalone import state

GONE = object()
NAN = float("nan")
ALIKE = "two of them are alike"
TRACES = ("Timeline", "KVBudget", "KVGrowth", "BlockPool", "PrefixTree")  # of an engine
KINDS = [each.__name__ for each in vars(widgets).values() if isinstance(each, type)]


def changed(kind, place, value):
    """A sample's arguments with another value at one place, such as "trace.steps.0.end_us".

    GONE takes away what is there; ALIKE puts there what the list's first record has.
    """
    arguments = copy.deepcopy(samples.of(kind))
    *way, last = place.split(".")
    holder = held_by(arguments, way)
    last = int(last) if isinstance(holder, list) else last
    if value is GONE:
        del holder[last]
    else:
        holder[last] = held_by(arguments, [*way[:-1], "0", last]) if value is ALIKE else value
    return arguments


def held_by(found, way):
    for key in way:
        found = found[int(key) if isinstance(found, list) else key]
    return found


REFUSED = [
    # what all pictures share
    ("StepCost", "question", 4, "the question is 4; it must be text"),
    ("Timeline", "names", ("mine", "b"), "names are given, so yours must be False"),
    ("Timeline", "names", ("a", "b", "c"), "there are 3 names; a comparison has 2"),
    ("Timeline", "names", ("a", " "), "a name is empty"),
    # runs
    ("Timeline", "trace", [], "the trace is a list; it must be a dict"),
    ("Timeline", "trace.clock", GONE, "the trace lacks clock"),
    ("Timeline", "trace.steps", "none", "is a str; it must be a list"),
    ("Timeline", "reference.version", 99, "the reference has version 99; this widget reads"),
    ("Timeline", "trace.steps.0.work.0.request_id", 7, "step 0 of the trace names request 7"),
    ("Timeline", "trace.steps.1.end_us", 0, "step 1 of the trace ends at 0 us, before"),
    ("KVBudget", "trace.steps.1.kv", GONE, "step 1 of the trace lacks kv"),
    ("BlockPool", "trace.steps.0.blocks", GONE, "step 0 of the trace lacks blocks; it needs"),
    ("KVBudget", "trace.steps.0.kv.0.request_id", 7, "kv of step 0 of the trace names request 7"),
    ("KVGrowth", "runs", [], "runs has 0 entries; it needs at least 1"),
    ("KVGrowth", "runs.1.window", None, "2 runs have no window; at most one may"),
    ("KVGrowth", "runs.1.label", ALIKE, "two runs are called 'no window'; all must differ"),
    ("KVGrowth", "runs.1.trace.sliding_window", 8, "the window of 'W = 7' is 7, and its trace's"),
    ("KVGrowth", "shown", 3, "shown is 3, but 3 runs have a window"),
    ("KVGrowth", "runs.1.trace.steps.0.kv.0.request_id", 9, "names request 9, which never arrived"),
    ("BlockPool", "trace.steps.0.blocks.tables", [[0, [19]]], "names block 19;"),
    # a step's costs, masks and batches
    ("Batching", "static.spans.1.slot", 2, "request 1 into slot 2; its slots are 0 to 1"),
    ("Batching", "static.spans.1.end", 9, "in steps 0 to 9, which is not within 0 to 8"),
    ("Batching", "static.spans.2.start", 4, "requests 0 and 2 into slot 0 at step 4"),
    ("MaskStepper", "masks.0.mask.0", [True], "rows of [1, 7] keys"),
    ("MaskStepper", "masks.0.mask.0.0", 2, "mask 'yours'[0][0] is 2; every cell must be True or F"),
    ("MaskStepper", "masks.0.context_columns", 8, "has 8 past keys but only 7 columns"),
    ("MaskStepper", "masks.0.labels", ["a"], "has 1 labels for 7 keys"),
    ("BatchView", "tokens", [[1, 2, 3]], "tokens has 1 entries for 4 rows; it needs one each"),
    ("BatchView", "num_scheduled_tokens", [1], "num_scheduled_tokens has 1 entries for 4 rows"),
    ("BatchView", "packed.key_labels", ["a"], "packed has 1 key labels for 54 keys"),
    ("MaskBuild", "steps.0.context_columns", 8, "has 8 past keys but only 7 columns"),
    (
        "MaskBuild",
        "steps.3.masks.0.num_scheduled_tokens",
        GONE,
        "has only one of context_len and num_sch",
    ),
    ("MaskBuild", "steps.3.masks.0.context_len", 5, "is 5; there are only 4 such columns"),
    ("MaskBuild", "steps.3.masks.0.num_scheduled_tokens", 4, "is 4; there are only 3 such columns"),
    ("MaskBuild", "steps.0.compare", [], "step 'All true' compares 0 matrices with 1 masks"),
    # questions
    ("Prediction", "key", "two words", "it must be a word of letters, digits and dots"),
    ("Prediction", "options", ["a"], "the only option is 'a'"),
    ("Prediction", "committed", True, "committed but has no choice"),
    ("Hints", "hints.2", GONE, "there are 2 hints; there must be 3"),
    # queues and windows
    ("HeapStepper", "operations.0.op", "pop", "names entry 0, which was never pushed"),
    ("HeapStepper", "operations.0.states", [], "operations[0] has 0 states for 2 moves"),
    ("HeapStepper", "operations.0.states.1", [True], "operations[0] names entry True, which was n"),
    ("StorageStrip", "steps.0.views.3.storage", 1, "view 'request 3' of steps[0] lies in storage"),
    ("StorageStrip", "steps.0.views.3.offset_bytes", 12500, "ends at byte 13140, but its storage"),
    ("StorageStrip", "steps.0.storages", [{"label": "x", "nbytes": 1}] * 2, "two storages of step"),
    ("AttentionByDistance", "weights.1.2", GONE, "weights has layers of [2, 3] entries"),
    ("AttentionByDistance", "weights.0.0.1", GONE, "weights has heads of [39, 40] entries"),
    ("AttentionByDistance", "weights.0.0", [0.0] * 40, "layer 0, head 0 has no weight at any dist"),
    ("AttentionByDistance", "sink_weights", [[[1.0]] * 2], "sink_weights has 1 layers of 2 heads"),
    ("AttentionByDistance", "window", 40, "the window is 40, but the weights end 39 back"),
    ("ReceptiveField", "sinks", 49, "there are 49 sinks, but only 48 positions"),
    ("ReceptiveField", "query", 48, "the query is 48; positions end at 47"),
    ("ReceptiveField", "probe", 48, "the probe is 48, behind the query at 47"),
    # deadlines
    ("SlackTimeline", "cases.1.moments.3", GONE, "the cases have [3, 4] moments; all must"),
    ("SlackTimeline", "cases.0.arrival_us", 1, "must follow its arrival"),
    ("SlackTimeline", "cases.0.moments.0.done_tokens", 501, "is 501, but there are 500"),
    ("SlackTimeline", "cases.0.moments.1.now_us", 50_000, "they must follow its arrival"),
    ("SlackTimeline", "cases.0.moments.0.whole_us", 3, "is 3, below its predict"),
    ("GatePicture", "decisions.0.incumbent", 9, "incumbent of decisions[0] is 9, which does not r"),
    ("GatePicture", "decisions.2.incumbent", 4, "incumbent of decisions[2] is 4, which is immune"),
    ("GatePicture", "decisions.0.victim", 7, "victim of decisions[0] is 7, which does not run"),
    ("GatePicture", "decisions.0.candidate.id", 1, "two requests of decisions[0] have the id 1"),
    ("RepairLadder", "rows.1.variant", ALIKE, "two variants are called 'arrival order, everyone"),
    ("RepairLadder", "rows.1.loads.2", GONE, "has loads ['4']; the first row has ['2', '4']"),
    ("RepairLadder", "rows.0.loads.2.urgent", [58, 60, 70], "is 58, outside its interval"),
    ("RepairLadder", "rows.0.loads.2.wasted_share", 10, "wasted_share of 2 in loads of rows[0] is"),
    # a preempted pass
    ("VoteBoard", "boards.1.label", ALIKE, "two boards are called 'with a vote'"),
    ("VoteBoard", "boards.0.record.layer", 13, "is 13, but there are 12 layers"),
    ("VoteBoard", "boards.0.record.checks.0.1.layer", 0, "they must rise and end below 12"),
    ("VoteBoard", "boards.1.endings.1", GONE, "boards[1] has 1 endings for 2 ranks"),
    ("VoteBoard", "boards.1.endings.0.layer", 2, "ended at layer 2, yet it voted"),
    ("VoteBoard", "boards.1.endings.0.layer", 13, "rank 0 of boards[1] ended at layer 13, but the"),
    ("SloCycle", "cycle.record.written_ns", None, "the record has no target that was written;"),
    ("SloCycle", "cycle.record.candidate", None, "the record has no candidate;"),
    ("SloCycle", "cycle.record.victims", [], "the record has no victims"),
    ("SloCycle", "cycle.record.checks.0", [], "a rank of the record came to no check"),
    ("SloCycle", "cycle.looked_us", 10**9 + 204_000, "looked_us is 1000 us before arrived_us;"),
    ("SloCycle", "cycle.first_token_us", 10**9 + 215_500, "is 500 us before readmitted_us"),
    # a fleet
    ("FleetView", "trace.version", 2, "the trace has version 2; this widget reads version 1"),
    ("FleetView", "trace.requests.1.id", ALIKE, "two requests of the trace have the same id"),
    ("FleetView", "trace.requests.1.finished_us", 5, "finished_us of requests[1] is 5, before it"),
    ("FleetView", "trace.visits.0.request_id", 7, "visits[0] names request 7, which never arrived"),
    ("FleetView", "trace.visits.0.worker", 2, "visits[0] names worker 2, but there are 2 workers"),
    ("FleetView", "trace.visits.1.start_us", 5, "the times of visits[1] are [6000, 5, 25000]; the"),
    ("FleetView", "trace.runs.1.end_us", 0, "the times of runs[1] are [10000, 0]; they must not f"),
    ("FleetView", "trace.runs.0.request_ids.0", 9, "runs[0] names request 9, which never arrived"),
    ("PairedSeeds", "comparison.rows.1.pairs.4", GONE, "'ttft_p99_ms' has seeds [42, 43, 44, 45]"),
    ("PairedSeeds", "comparison.rows.0.low", -1.0, "the mean of rows[0] is -226, outside its inte"),
    ("LazyHeap", "story.steps.0.event", ["pop", 3], "event of steps[0] of the story has 2 parts;"),
    # speculation
    ("SpeculationStrip", "story.num_draft_tokens", 1, "passes[0] has 2 drafts; num_draft_tokens i"),
    ("SpeculationStrip", "story.passes.0.drafts.0.kept", False, "keeps a draft after one that it"),
    ("SpeculationStrip", "story.passes.0.last.kind", "resampled", "with 2 of 2 drafts kept it"),
    ("AcceptBars", "p.0", 0.5, "p sums to 1.375; chances must sum to 1"),
    ("AcceptBars", "q.2", GONE, "q has 2 chances for 3 tokens"),
    ("AcceptBars", "outcomes.2", GONE, "outcomes for 2 drafts and 3 tokens"),
    ("AcceptBars", "outcomes.0.0.39", GONE, "draft 0 are not 40 by 40"),
    ("AcceptBars", "outcomes.0.0.0", [1, 0], "an outcome of draft 0 is [1, 0]"),
    ("AcceptBars", "outcomes.0.0.0", [True, 3], "and a token from 0 to 2"),
    ("AcceptBars", "outcomes", [[[[True, 0]] * 41] * 41] * 3, "u has 41 values; it may have at"),
    ("Curves", "series.0.style", "bars", "the style of 'two forwards' is 'bars'"),
    ("Curves", "series.0.when", {"p": 1}, "shown by slider 'p', which there is not"),
    ("Curves", "series.0.when", {"decodes": 3}, "decodes = 3, which it never"),
    ("Curves", "sliders.0.shown", 3, "shows value 3, but it has 3"),
]


@pytest.mark.parametrize(
    ("kind", "place", "value", "sentence"),
    REFUSED,
    ids=[f"{number}-{kind}-{place}" for number, (kind, place, _, _) in enumerate(REFUSED)],
)
def test_what_cannot_be_drawn_is_refused_with_a_sentence(kind, place, value, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make(kind, **changed(kind, place, value))


def places(found, way=()):
    """Where a sample's arguments hold something; of a list's entries, in the first."""
    if way:
        yield ".".join(map(str, way))
    if isinstance(found, dict):
        for key in found:
            yield from places(found[key], (*way, key))
    elif isinstance(found, list) and found:
        yield from places(found[0], (*way, 0))


@pytest.mark.parametrize("kind", [each for each in KINDS if each not in TRACES])
@pytest.mark.parametrize("value", [object(), NAN, GONE], ids=["an object", "nan", "missing"])
def test_whatever_is_no_json_or_missing_is_refused_or_left_out(kind, value):
    for place in places(samples.of(kind)):
        if value is GONE and place in samples.of(kind):
            continue  # Python itself asks for an argument
        drawn = None
        with contextlib.suppress(ValueError):
            drawn = make(kind, **changed(kind, place, value))
        if drawn is not None:
            json.dumps(state(drawn), allow_nan=False)


def test_other_forms_of_a_widget_refuse_what_they_cannot_draw():
    slots = samples.ring()["steps"]
    look = {**samples.heap_stepper()["operations"][0], "moves": [], "states": []}
    for kind, arguments, sentence in (
        ("StorageStrip", {"steps": [{**slots[0], "sinks": 1}]}, "a window of 6 and 1 sinks have 7"),
        ("StorageStrip", {"steps": [slots[0], {"words": "x"}]}, "steps[1] lacks slots, sinks, win"),
        ("HeapStepper", {"operations": [look]}, "has neither a move nor an admission"),
        ("Prediction", {"options": (), "answer": "many"}, "is 'many'; it must be a number"),
        ("Curves", {"log_x": True, "series": [{"name": "a", "points": [[0, 1]]}]}, "above 0"),
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            make(kind, **arguments)
