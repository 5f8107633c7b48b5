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
    # a type, a limit, a version and a missing field, each with its place
    ("Batching", "question", 4, "the question: Expected `str`, got `int`"),
    ("KVGrowth", "runs", [], "the runs: Expected `array` of length >= 1"),
    ("Timeline", "reference.version", 99, "the reference: Invalid enum value 99 - at `$.version`"),
    ("Timeline", "trace.clock", GONE, "the trace: Object missing required field `clock`"),
    ("Hints", "hints.2", GONE, "the hints: Expected `array` of length 3, got 2"),
    ("FleetView", "trace.visits.0.worker", -1, "`int` >= 0 - at `$.visits[0].worker`"),
    ("StorageStrip", "steps.1.views.0.storage", 1, "view 'request 3' lies in storage 1"),
    ("SpeculationStrip", "story.passes.0.drafts.0.kept", False, "after one that is rejected"),
    ("VoteBoard", "boards.1.label", ALIKE, "two labels of boards are 'with a vote'"),
    ("SloCycle", "cycle.record.written_ns", None, "the record lacks a target that was written"),
    ("SloCycle", "cycle.looked_us", 10**9 + 204_000, "looked_us is 1000 us before arrived_us;"),
    ("LazyHeap", "story.steps.0.event", ["pop", 3], "a pop: Expected `array` of length 1, got 2"),
    # what a learner's function may cause
    ("Timeline", "names", ("mine", "b"), "names are given, so yours must be False"),
    ("Timeline", "trace.steps.0.work.0.request_id", 7, "step 0 names request 7, which never arr"),
    ("KVBudget", "trace.steps.0.kv.0.request_id", 7, "kv of step 0 of the trace names request 7"),
    ("BlockPool", "trace.steps.0.blocks.tables", [[0, [19]]], "names block 19;"),
    ("Batching", "static.spans.2.start", 4, "requests 0 and 2 into slot 0 at step 4"),
    ("MaskStepper", "masks.0.mask.0", [True], "rows of [1, 7] keys"),
    ("MaskStepper", "masks.0.labels", ["a"], "has 1 labels for 7 keys"),
    ("BatchView", "tokens", [[1, 2, 3]], "tokens has 1 entries for 4 rows; it needs one each"),
    ("MaskBuild", "steps.4.masks.0.context_len", 5, "is 5; there are only 4 such columns"),
    ("Prediction", "key", "two words", "it must be a word of letters, digits and dots"),
    ("HeapStepper", "operations.0.op", "pop", "names entry 0, which was never pushed"),
    ("AttentionByDistance", "weights.0.0.1", GONE, "weights has heads of [39, 40] entries"),
    ("ReceptiveField", "probe", 48, "the probe is 48, behind the query at 47"),
    ("SlackTimeline", "cases.0.moments.1.now_us", 50_000, "they must follow the arrival"),
    ("GatePicture", "decisions.0.victim", 7, "the victim is 7, which does not run"),
    ("AcceptBars", "p.0", 0.5, "p sums to 1.375; chances must sum to 1"),
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
