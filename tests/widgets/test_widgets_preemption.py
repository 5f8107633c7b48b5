"""The widgets of a preempted pass: what they take, what they refuse, their scripts."""

import copy
import json
import re
from dataclasses import asdict

import pytest

from nanogpt.preemption.rank_messages import CheckRecord
from nanogpt.preemption.records import PreemptionRecord
from widgets import SloCycle, VoteBoard, standalone

MS = 1_000_000
"""Nanoseconds."""


# ---- votes ---------------------------------------------------------------------------------------


def checks_of(rank, layer, vote_at_last):
    """A rank that is 2 ms behind for every rank before it, 30 ms per layer."""
    return tuple(
        CheckRecord(each, (1000 + 30 * each + 2 * rank) * MS, vote_at_last * (each == layer), MS)
        for each in range(layer + 1)
    )


def a_record(layer=3, votes=(0, 1), num_layers=4, **changes):
    last = min(layer, num_layers - 1)
    record = PreemptionRecord(
        step=4, pass_number=17, layer=layer, num_layers=num_layers, waiter=7, victims=(3,),
        begun_ns=1000 * MS, written_ns=1091 * MS, replied_ns=1095 * MS, resumed_ns=None,
        checks=tuple(checks_of(rank, last, vote) for rank, vote in enumerate(votes)),
    )  # fmt: skip
    return {**record.to_json(), **changes}


def a_board(label="with a vote", record=None, **more):
    return {"label": label, "words": "So.", "record": record or a_record(), **more}


def ending(how, layer, words=""):
    return {"how": how, "layer": layer, "words": words}


def test_a_vote_board_takes_a_preemption_s_record_as_it_is():
    given = [a_board()]
    before = copy.deepcopy(given)
    board = VoteBoard(given, "Votes").boards[0]
    assert given == before
    assert board["results"] == [0, 0, 0, 1]
    assert board["wasted_share"] == 0.75
    assert board["endings"] == [ending("left", 3)] * 2
    assert board["mark"] == "target 17"
    record = board["record"]
    assert (record["written_us"], record["replied_us"]) == (91_000, 95_000)
    assert record["checks"][1][3] == {
        "layer": 3, "vote": 1, "reached_us": 92_000, "agree_us": 1000,
    }  # fmt: skip
    json.dumps(standalone.state(VoteBoard(given)))


def test_a_collective_that_somebody_does_not_come_to_has_no_answer():
    alone = a_board(endings=[ending("hangs", 3, "waits for rank 1"), ending("left", 3, "left")])
    board = VoteBoard([alone]).boards[0]
    assert (board["results"], board["wasted_share"]) == ([0, 0, 0, None], None)
    first = a_record(votes=(0, 1))
    first["checks"] = [first["checks"][0][:-1], first["checks"][1]]
    assert VoteBoard([a_board(record=first)]).boards[0]["results"] == [0, 0, 0, None]


def test_a_vote_that_is_carried_is_not_answered_where_the_ranks_leave():
    results = VoteBoard([a_board(agreement="carried")]).boards[0]["results"]
    assert results == [0, 0, 0, None]
    assert VoteBoard([a_board(agreement="epoch")]).boards[0]["results"] == []


def test_a_pass_that_was_finished_or_kept_wastes_nothing():
    done = VoteBoard([a_board(record=a_record(layer=4, votes=(0, 0)))]).boards[0]
    assert (done["wasted_share"], done["endings"][0]["how"]) == (0.0, "finished")
    kept = VoteBoard([a_board(record=a_record(resumed_ns=1200 * MS))]).boards[0]
    assert (kept["wasted_share"], kept["endings"][0]["how"]) == (0.0, "left")


@pytest.mark.parametrize(
    ("board", "sentence"),
    [
        (a_board(record=a_record(layer=5)), "layer of the record of board 0 is 5, but there are 4"),
        (a_board(record=a_record(checks=[])), "the checks of the record of board 0 has 0 entries"),
        (a_board(endings=[ending("left", 3)]), "board 0 has 1 endings for 2 ranks"),
        (a_board(endings=[ending("left", 2), ending("left", 3)]), "ended at layer 2, yet it voted"),
        (a_board(endings=[ending("sleeps", 3)] * 2), "how of the ending of rank 0 of board 0 is"),
        (a_board(agreement="shout"), "the agreement of board 0 is 'shout'"),
        (a_board(mark=""), "the mark of board 0 is empty"),
        (a_board(label=""), "the label of board 0 is empty"),
        (
            a_board(record=a_record(votes=(0, 2))),
            "a vote of the checks of rank 1 of the record of board 0 is 2; it must be 0 or 1",
        ),
        (
            a_board(record=a_record(checks=[[asdict(checks_of(0, 3, 0)[i]) for i in (1, 0)]])),
            "are at layers [1, 0]; they must rise and end below 4",
        ),
    ],
)
def test_a_vote_board_refuses_what_no_pass_can_have_been(board, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        VoteBoard([board])


def test_boards_have_names_of_their_own():
    with pytest.raises(ValueError, match="two boards are called 'with a vote'"):
        VoteBoard([a_board(), a_board()])
    with pytest.raises(ValueError, match="shown is 1, but there are 1 boards"):
        VoteBoard([a_board()], shown=1)
    with pytest.raises(ValueError, match="boards has 0 entries"):
        VoteBoard([])


# ---- the cycle -----------------------------------------------------------------------------------


def a_cycle(record=None, **changes):
    """Times in microseconds of the clock that the record's nanoseconds are of."""
    return {
        "record": record or a_record(), "arrived_us": 1_088_000, "looked_us": 1_090_500,
        "cleaned_us": 1_096_000, "readmitted_us": 1_097_000, "first_token_us": 1_140_000, **changes,
    }  # fmt: skip


def test_a_cycle_becomes_events_in_the_lanes_that_they_happened_in():
    widget = SloCycle(a_cycle(), "The cycle", source="recorded")
    assert widget.lanes == ["inbox", "engine thread", "monitor thread", "rank 0", "rank 1"]
    told = [
        (each["stage"], each["at_us"], [widget.lanes[point["lane"]] for point in each["points"]])
        for each in widget.events
    ]
    assert told == [
        ("arrival", 88_000, ["inbox"]),
        ("inbox", 88_000, ["inbox"]),
        ("monitor", 90_500, ["monitor thread"]),
        ("shared memory", 91_000, ["monitor thread"]),
        ("vote", 92_000, ["rank 0", "rank 1"]),
        ("leave", 93_000, ["rank 0", "rank 1"]),
        ("clean-up", 96_000, ["engine thread"]),
        ("re-admission", 97_000, ["engine thread"]),
        ("first token", 140_000, ["engine thread"]),
    ]
    assert [each["reach"] for each in widget.events] == [None, 2, None, 4, None, 1, None, 4, None]
    json.dumps(standalone.state(widget))


def test_the_words_of_a_cycle_have_its_numbers():
    words = {each["stage"]: each["words"] for each in SloCycle(a_cycle()).events}
    assert words["arrival"] == (
        "Request 7 arrives, 88.0 ms into pass 17, which computes the prefill of request 3."
    )
    assert "3.0 ms after the arrival" in words["shared memory"]
    assert words["vote"] == (
        "Rank 0 comes to the attention op of layer 3 1.0 ms before the write and votes 0; rank 1 "
        "comes to the attention op of layer 3 1.0 ms after the write and votes 1."
    )
    assert words["leave"].endswith("Computed for nothing: 3 of 4 layers (75 percent).")
    assert words["clean-up"].startswith("The engine has every reply, 4.0 ms after the write")
    assert words["clean-up"].endswith(
        "request 3 gives up its K/V and waits again, request 7 is next."
    )
    assert words["first token"] == "Request 7 has its first token, 52.0 ms after it arrived."


def test_spans_say_who_waited_and_who_computed():
    spans = [(each["lane"], each["kind"], each["to_us"]) for each in SloCycle(a_cycle()).spans]
    assert spans == [
        (1, "waits", 95_000), (2, "decides", 91_000), (1, "undoes", 96_000), (3, "pass", 91_000),
        (4, "pass", 93_000), (3, "waiter", 140_000), (4, "waiter", 140_000), (1, "waits", 140_000),
    ]  # fmt: skip
    marks = SloCycle(a_cycle()).marks
    assert [(each["layer"], each["vote"]) for each in marks if each["lane"] == 4] == [
        (0, 0), (1, 0), (2, 0), (3, 1),
    ]  # fmt: skip


def test_a_pass_that_sleeps_goes_on_after_the_waiter_s_first_token():
    record = a_record(resumed_ns=1_141 * MS)
    events = SloCycle(a_cycle(record, cleaned_us=None)).events
    assert [each["stage"] for each in events][6:] == [
        "sleep", "re-admission", "first token", "resume",
    ]  # fmt: skip
    assert events[-1]["words"] == (
        "The pass that slept goes on at layer 3, 46.0 ms after its ranks left."
    )
    assert "Kept for later: 3 of 4 layers" in events[5]["words"]


def test_times_that_nobody_took_are_left_out():
    bare = SloCycle({"record": a_record(), "arrived_us": 1_088_000})
    assert [each["stage"] for each in bare.events] == [
        "arrival", "inbox", "shared memory", "vote", "leave", "clean-up",
    ]  # fmt: skip
    early = SloCycle(a_cycle(arrived_us=990_000))
    assert "arrives, 10.0 ms before pass 17 begins" in early.events[0]["words"]


@pytest.mark.parametrize(
    ("cycle", "sentence"),
    [
        ({"record": a_record()}, "the cycle lacks arrived_us"),
        (a_cycle(a_record(written_ns=None)), "the record has no target that was written; a cycle"),
        (a_cycle(a_record(waiter=None)), "the record has no waiter; a cycle needs a waiter"),
        (a_cycle(a_record(replied_ns=None)), "the record has no replies; a cycle needs replies"),
        (a_cycle(a_record(victims=[])), "the record has no victims"),
        (a_cycle(a_record(checks=[[]])), "a rank of the record came to no check"),
        (
            a_cycle(looked_us=1_087_000),
            "looked_us is 1000 us before arrived_us; it must",
        ),
        (a_cycle(first_token_us=1_096_500), "first_token_us is 500 us before readmitted_us"),
        (a_cycle(cleaned_us="soon"), "cleaned_us is 'soon'; it must be a number"),
    ],
)
def test_a_cycle_needs_its_times_in_their_order(cycle, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        SloCycle(cycle)


def test_a_clock_of_whole_microseconds_may_be_a_little_behind():
    record = a_record(written_ns=1091 * MS + 900)
    assert SloCycle(a_cycle(record, looked_us=1_091_001)).events[3]["at_us"] == 91_001
