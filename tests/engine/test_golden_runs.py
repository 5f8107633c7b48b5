"""The traces of runs over every setting there is are the ones written down."""

import json

import pytest
import tiers
from golden_runs import digest, runs, trace_of
from support import ROOT

WRITTEN: dict[str, str] = json.loads(
    ROOT.joinpath("tests", "golden", "traces.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", tiers.some(runs(), 12))
def test_a_run_leaves_the_trace_that_is_written_down(name: str):
    assert digest(trace_of(*runs()[name])) == WRITTEN[name]
