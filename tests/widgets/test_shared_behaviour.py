"""What pictures and questions share: openings, whose work is shown, defaults, bars in tables."""

import copy
import json
import re

import pytest
import samples
from galleries import GALLERIES, NUM_KINDS, gallery, make

import widgets
from widgets import Batching, bar, standalone, whose


@pytest.mark.parametrize("name", GALLERIES)
def test_a_widget_s_state_is_json_and_what_it_was_given_is_left_alone(name):
    for each in gallery(name):
        json.dumps(standalone.state(each))
    for kind in {type(each) for each in gallery(name)}:
        given = samples.of(kind.__name__)
        kept = copy.deepcopy(given)
        kind(**given)
        assert given == kept


def test_every_widget_is_in_a_gallery():
    kinds = [each for each in vars(widgets).values() if isinstance(each, type)]
    assert len(kinds) == NUM_KINDS


def test_what_the_learner_has_not_written_is_the_reference_s_and_compared_with_nothing():
    missing = "the reference (yours is not written yet)"
    assert (whose(True), whose(False)) == ("yours", missing)
    for kind, other in (("Timeline", "reference"), ("KVBudget", "other"), ("BlockPool", "other")):
        trace = samples.of(kind)["trace"]
        compared = {"trace": trace, other: trace}
        alone = make(kind, **{**compared, "yours": False})
        assert (getattr(alone, other), alone.names) == (None, [missing])
        both = make(kind, **{**compared, "yours": True})
        assert (getattr(both, other)["steps"], both.names) == (
            both.trace["steps"],
            ["yours", "the reference"],
        )
        assert make(kind, **{"trace": trace, other: None, "yours": False}).names == []
    trace = samples.of("Timeline")["trace"]
    names = ("whole", "chunks")
    named = make("Timeline", trace=trace, reference=trace, yours=False, names=names)
    assert named.names == [*names]
    mask = samples.compared_mask()["steps"]
    assert make("MaskBuild", steps=mask).steps[0]["compare"] is None
    assert make("MaskBuild", steps=mask, yours=True).steps[0]["compare"] == mask[0]["compare"]


def test_what_may_be_left_out_is_filled_in():
    masks = make("MaskStepper", masks=[{"name": "a", "context_columns": 0, "mask": [[True]]}]).masks
    assert (masks[0]["labels"], masks[0]["note"]) == (None, "")
    step = make("MaskBuild").steps[0]
    assert step["compare"] is None
    assert [
        step["masks"][0][name] for name in ("key_labels", "context_len", "num_scheduled_tokens")
    ] == [None] * 3
    bare = make("BatchView", texts=None, packed=None)
    assert (bare.batch["texts"], bare.batch["packed"], bare.reference) == (None, None, None)
    slots = {**samples.ring()["steps"][0], "slots": [{"position": 0}] * 8}
    assert make("StorageStrip", steps=[slots]).steps[0]["slots"][7] == {"position": 0, "new": False}
    field = make("ReceptiveField", probe=None)
    assert (field.query, field.probe) == (47, 39)
    assert make("ReceptiveField", num_layers=1, num_positions=3, probe=None).probe == 0


def test_spans_without_a_slot_take_the_lowest_that_is_free():
    spans = [
        {"request": request, "start": start, "end": end}
        for request, start, end in [(0, 0, 9), (1, 0, 3), (2, 0, 3), (4, 9, 15), (3, 9, 11)]
    ]
    side = {"name": "static", "slots": 3, "spans": spans, "length": 15}
    drawn = Batching(side, side).sides[0]["spans"]
    assert {span["request"]: span["slot"] for span in drawn} == {0: 0, 1: 1, 2: 2, 3: 0, 4: 1}
    with pytest.raises(ValueError, match="request 2 into slot 2; its slots are 0 to 1"):
        Batching({**side, "slots": 2}, side)


def test_a_wrong_batch_is_drawn_and_not_refused():
    wrong = {"tokens": [[7]] * 4, "positions": [[-1]] * 4}
    drawn = make(
        "BatchView", **wrong, packed={"cu_seqlens_q": [1, 4], "cu_seqlens_k": [], "mask": [[True]]}
    ).batch
    assert {name: drawn[name] for name in wrong} == wrong
    assert (drawn["packed"]["cu_seqlens_q"], drawn["packed"]["cu_seqlens_k"]) == ([1, 4], [])


def test_a_bar_in_a_table_is_drawn_to_scale_and_only_its_words_are_read():
    html = bar([0.25, 0.5], "3 of 4 <layers>")
    assert re.findall(r"width:([\d.]+)%", html) == ["25", "50"]
    assert re.sub(r'<span aria-hidden="true".*</span>', "", html) == "3 of 4 &lt;layers&gt;"
    assert re.findall(r"width:([\d.]+)%", bar(1, "all")) == ["100"]
    for parts in (1.2, [0.6, 0.6], [0.1] * 4):
        with pytest.raises(ValueError, match="it holds at most 3, of 1 in all"):
            bar(parts, "too much")
