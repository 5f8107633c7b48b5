"""The widgets of the SLO policy: what they take, what they refuse, their scripts."""

import copy
import json
import re

import pytest

from nanogpt.experiments.slo_table import Trial, cells
from nanogpt.slo.policy import gate, predict, slack, urgency
from nanogpt.slo.slo_parts import REFERENCE
from nanogpt.slo.slo_view import SloRequest
from nanogpt.slo.variants import CONTROL, ORDER
from widgets import GatePicture, RepairLadder, SlackTimeline, standalone

# ---- slack ---------------------------------------------------------------------------------------

A, C = 173.046, 34_133.0


def a_moment(now=0, done=0, **changes):
    to_compute = predict(600 - done, A, C)
    spare = slack(now, 250_000, 600, done, A, C)
    return {
        "now_us": now, "done_tokens": done, "predicted_us": to_compute, "slack_us": spare,
        "urgency": urgency(spare, 250_000 - now), **changes,
    }  # fmt: skip


def a_case(*moments, **changes):
    return {
        "label": "fits", "arrival_us": 0, "deadline_us": 250_000, "total_tokens": 600,
        "a": A, "c": C, "moments": list(moments or [a_moment()]), **changes,
    }  # fmt: skip


def test_a_slack_timeline_takes_what_the_policy_s_functions_return():
    given = [a_case(a_moment(), a_moment(50_000, 200)), a_case(a_moment(), a_moment(60_000))]
    before = copy.deepcopy(given)
    widget = SlackTimeline(given, "Slack")
    assert given == before
    first, later = widget.cases[0]["moments"]
    assert (first["slack_us"], first["whole_us"]) == (112_039, first["predicted_us"])
    assert later["slack_us"] == 96_649
    assert later["whole_us"] - later["predicted_us"] == pytest.approx(A * 200)
    json.dumps(standalone.state(widget))


def test_a_moment_may_say_what_the_whole_prompt_takes():
    moment = a_moment(50_000, 200, whole_us=150_000)
    assert SlackTimeline([a_case(moment)]).cases[0]["moments"][0]["whole_us"] == 150_000


@pytest.mark.parametrize(
    ("cases", "sentence"),
    [
        ([], "cases has 0 entries"),
        ([a_case(), a_case(a_moment(), a_moment(1))], "the cases have [1, 2] moments; all must"),
        ([a_case(moments=[])], "the moments of case 0 has 0 entries"),
        ([a_case(label=" ")], "the label of case 0 is empty"),
        ([a_case(a_moment(done=601))], "done_tokens of moment 0 of case 0 is 601, but there are 6"),
        ([a_case(a_moment(5), a_moment(4))], "are at [5, 4]; they must follow its arrival"),
        ([a_case(arrival_us=1)], "are at [0]; they must follow its arrival"),
        ([a_case(a_moment(predicted_us=-1))], "predicted_us of moment 0 of case 0 is -1"),
        ([a_case(a_moment(whole_us=3))], "whole_us of moment 0 of case 0 is 3, below its predict"),
        ([a_case(a_moment(slack_us=None))], "slack_us of moment 0 of case 0 is None; it must be a"),
        ([a_case(a_moment(urgency=float("nan")))], "urgency of moment 0 of case 0 is nan"),
        ([a_case(a=-1)], "a of case 0 is -1; it must be a number of at least 0"),
    ],
)
def test_a_slack_timeline_refuses_what_is_no_moment_of_a_request(cases, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        SlackTimeline(cases)


# ---- the gate ------------------------------------------------------------------------------------


def a_request(number, spare, left, **more):
    return {"id": number, "slack_us": spare, "urgency": urgency(spare, left), **more}


def a_decision(**changes):
    runners = [
        a_request(1, 300_000, 900_000, immune=False),
        a_request(2, 80_000, 120_000, immune=False),
        a_request(3, 90_000, 100_000, immune=True),
    ]
    return {
        "waiter": a_request(7, 20_000, 60_000), "runners": runners, "reference": 2, "victim": 1,
        "margin": 1.2, "mode": "conservative", "words": "It is urgent enough.", **changes,
    }  # fmt: skip


def test_a_gate_picture_takes_decisions_and_adds_the_bar_to_pass():
    widget = GatePicture([a_decision(), a_decision(reference=None, victim=None)], "The gate")
    assert widget.decisions[0]["bar"] == pytest.approx(1.2 / 120)
    assert widget.decisions[1]["bar"] is None
    json.dumps(standalone.state(widget))


def test_the_bar_of_a_doomed_reference_lies_below_it():
    doomed = a_request(1, -3_000, 100_000, immune=False)
    drawn = GatePicture([a_decision(runners=[doomed], reference=1, victim=None)]).decisions[0]
    assert (doomed["urgency"], drawn["bar"]) == (-0.01, -0.012)


def test_a_gate_picture_takes_what_the_gate_sees_and_answers():
    def seen(request_id, deadline, num_preemptions=0):
        request = SloRequest(request_id, 200, 0, deadline, deadline, num_preemptions)
        return REFERENCE.view(request, 0, 100.0, 10_000.0)

    waiter, runners = seen(7, 60_000), [seen(1, 900_000), seen(2, 50_000, 1)]
    fields = ("id", "slack_us", "urgency")
    drawn = GatePicture([
        a_decision(
            waiter={name: getattr(waiter, name) for name in fields},
            runners=[
                {**{name: getattr(each, name) for name in fields},
                 "immune": each.num_preemptions > 0}
                for each in runners
            ],
            reference=1,
            victim=gate(waiter, runners),
        )
    ]).decisions[0]  # fmt: skip
    assert drawn["victim"] == 1
    assert [runner["immune"] for runner in drawn["runners"]] == [False, True]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"reference": 9}, "the reference of decision 0 is 9, which does not run"),
        ({"reference": 3}, "the reference of decision 0 is 3, which is immune"),
        ({"victim": 7}, "the victim of decision 0 is 7, which does not run"),
        ({"mode": "bold"}, "the mode of decision 0 is 'bold'; it must be one of conservative, agg"),
        ({"margin": -1}, "the margin of decision 0 is -1"),
        ({"words": ""}, "the words of decision 0 is empty"),
        ({"waiter": a_request(1, 0, 1)}, "decision 0 has request 1 twice; ids must differ"),
        ({"runners": [a_request(2, 1, 1)]}, "a runner of decision 0 lacks immune"),
        ({"runners": [a_request(2, 1, 1, immune=0)]}, "immune of a runner of decision 0 is 0"),
    ],
)
def test_a_gate_picture_refuses_decisions_about_somebody_else(change, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        GatePicture([a_decision(**change)])
    with pytest.raises(ValueError, match="decisions has 0 entries"):
        GatePicture([])


# ---- the repair ladder ---------------------------------------------------------------------------


def a_cell(urgent=(58, 52, 66), **changes):
    return {
        "urgent": list(urgent), "generous": [80, 77, 104], "wasted_share": 0.1,
        "preemptions": 12.5, **changes,
    }  # fmt: skip


def a_row(variant="control", loads=("2", "4")):
    return {"variant": variant, "words": "", "loads": {each: a_cell() for each in loads}}


def a_row_with(urgent=(58, 52, 66), **changes):
    return {"variant": "control", "words": "", "loads": {"2": a_cell(urgent, **changes)}}


def test_a_ladder_takes_rows_and_cuts_their_intervals_to_what_is_possible():
    widget = RepairLadder([a_row(), a_row("order")], "Ladder", load="4")
    assert (widget.load, widget.rows[1]["variant"]) == ("4", "order")
    assert widget.rows[0]["loads"]["2"]["generous"] == [80, 77, 100]
    assert RepairLadder([a_row()]).load == "2"
    alone = a_row(loads=("4",))
    alone["loads"]["4"]["urgent"] = [58, None, None]
    assert RepairLadder([alone]).rows[0]["loads"]["4"]["urgent"] == [58, None, None]
    json.dumps(standalone.state(widget))


def test_a_ladder_takes_the_table_s_cells():
    trials = [
        Trial(variant.name, 4.0, seed, 50.0 + seed, 80.0, 3, 5.0)
        for variant in (CONTROL, ORDER)
        for seed in range(3)
    ]

    def interval(estimate):
        half = estimate.half_width
        return [estimate.mean, estimate.mean - half, estimate.mean + half]

    rows = [
        {
            "variant": cell.title, "words": "",
            "loads": {
                f"{cell.requests_per_s:g}": {
                    "urgent": interval(cell.urgent), "generous": interval(cell.generous),
                    "wasted_share": cell.wasted_percent / 100,
                    "preemptions": cell.num_preemptions,
                }
            },
        }
        for cell in cells(trials, (CONTROL, ORDER))
    ]  # fmt: skip
    drawn = RepairLadder(rows).rows[0]["loads"]["4"]
    assert drawn["urgent"][0] == 51.0
    assert (drawn["wasted_share"], drawn["preemptions"]) == (0.05, 3.0)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "rows has 0 entries"),
        ([a_row(), a_row()], "two variants are called 'control'; names must differ"),
        ([a_row(), a_row("order", ("4",))], "'order' has loads ['4']; the first row has ['2', "),
        ([a_row(loads=())], "row 0 has no load"),
        ([a_row_with((58, 60, 70))], "urgent of load 2 of row 0 is 58, outside its interval"),
        ([a_row_with((101, 0, 110))], "is 101; it must be a percentage up to 100"),
        ([a_row_with((58,))], "urgent of load 2 of row 0 has 1 entries; it must be mean"),
        ([a_row_with(wasted_share=10)], "wasted_share of load 2 of row 0 is 10; it must be a"),
        ([a_row_with(preemptions=-1)], "preemptions of load 2 of row 0 is -1"),
    ],
)
def test_a_ladder_refuses_rows_that_cannot_be_compared(rows, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        RepairLadder(rows)
    with pytest.raises(ValueError, match="load is '9'; it must be one of 2, 4"):
        RepairLadder([a_row()], load="9")
