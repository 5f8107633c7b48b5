"""The pool of blocks and its tree take the trace of a real run as it is, and refuse any other."""

import json

import pytest

from course.stories.l01_chunks import one_tiny_layer
from course.stories.l09_pool import SETTINGS, six_requests
from nanogpt import Engine, EngineConfig
from widgets import BlockPool, PrefixTree, standalone


@pytest.fixture(scope="module")
def run():
    return Engine(one_tiny_layer(), SETTINGS).run(six_requests()).to_json()


@pytest.mark.parametrize("kind", [BlockPool, PrefixTree])
def test_a_run_s_trace_is_taken_as_it_is(kind, run):
    widget = kind(run, title="A run")
    assert widget.trace["steps"][3]["blocks"] == run["steps"][3]["blocks"]
    assert widget.names == []
    assert len(widget.alphabet) == 65
    json.dumps(standalone.state(widget))


def test_a_pool_is_compared_only_once_there_is_something_of_the_learner_s(run):
    alone = BlockPool(run, run)
    assert (alone.other, alone.names) == (None, ["the reference (yours is not written yet)"])
    both = BlockPool(run, run, yours=True)
    assert both.other["steps"] == both.trace["steps"]
    assert both.names == ["yours", "the reference"]


def test_a_tree_says_when_it_is_not_the_learner_s(run):
    assert PrefixTree(run, yours=True).names == ["yours", "the reference"]
    assert PrefixTree(run, yours=False).names == ["the reference (yours is not written yet)"]


@pytest.mark.parametrize("kind", [BlockPool, PrefixTree])
def test_a_run_without_blocks_or_without_a_step_is_refused(kind, run):
    plain = Engine(one_tiny_layer(), EngineConfig()).run(six_requests()[:1]).to_json()
    with pytest.raises(ValueError, match="step 0 of the trace lacks blocks; it needs blocks"):
        kind(plain)
    with pytest.raises(ValueError, match="the steps of the trace has 0 entries; it needs at least"):
        kind({**run, "steps": []})


def test_a_table_that_names_a_block_beyond_the_pool_is_refused(run):
    step = run["steps"][0]
    beyond = {**step, "blocks": {**step["blocks"], "tables": [[0, [19]]]}}
    with pytest.raises(ValueError, match=r"request 0 in step 0 of the trace names block 19; .* 18"):
        BlockPool({**run, "steps": [beyond]})
