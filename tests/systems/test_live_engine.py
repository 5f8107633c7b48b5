"""The live engine: whatever is set while it runs, every text is the oracle's."""

from typing import Any

import pytest
import torch
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from living import Stage, assert_texts_are_the_oracles, small_model

from course.live.live_engine import MAX_BATCH_SIZE, Ask, LiveEngine
from course.live.prompts import LONG_PROMPT, MAX_PROMPT, NEW_TOKENS
from course.live.room import SHOWN_STEPS
from course.live.tuning import SLIDERS, Tuning

PROMPT = "To be, or not to be, that is the question: whether it is nobler in the mind to suffer "


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def lost(stage: Stage) -> list[int]:
    return [each.id for each in stage.room.asked.values() if each.state == "lost"]


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"token_budget": 3}, "token_budget is 3; it must be a whole number from 4 to 64"),
        ({"max_kv_tokens": 319}, "max_kv_tokens is 319; it must be a whole number from 320"),
        ({"pace_ms": 1.5}, "pace_ms is 1.5; it must be a whole number"),
        ({"sliding_window": True}, "sliding_window is True; it must be a whole number"),
        ({"policy": "lifo"}, "there is no policy 'lifo'; choose from"),
        ({"speed": 1}, "there is no setting 'speed'; there are token_budget"),
    ],
)
def test_a_setting_beyond_its_limit_is_refused_with_the_limit(values: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        Tuning().changed(values)


def test_the_least_kv_budget_holds_the_longest_request_that_there_can_be():
    longest = max(MAX_PROMPT, len(LONG_PROMPT)) + NEW_TOKENS - 1
    assert longest <= SLIDERS["max_kv_tokens"].least


def test_budgets_hold_from_the_next_step_on():
    stage = Stage(token_budget=32)
    for _ in range(4):
        stage.ask(PROMPT)
    stage.step()
    stage.room.tune({"token_budget": 8})
    stage.step(3)
    used = [sum(w["end"] - w["start"] for w in step["work"]) for step in stage.steps()]
    assert used == [32, 8, 8, 8]
    assert [step["token_budget"] for step in stage.steps()] == [32, 8, 8, 8]


def test_a_halved_kv_budget_preempts_until_it_is_kept():
    stage = Stage(max_kv_tokens=640, token_budget=64)
    asked = [stage.ask(PROMPT) for _ in range(6)]
    stage.step(12)
    held = [sum(kv["kv_tokens"] for kv in step["kv"]) for step in stage.steps()]
    assert held[-1] > 320
    stage.room.halve_kv()
    stage.step()
    assert stage.steps()[-1]["preempted"]
    stage.finish()
    held = [sum(kv["kv_tokens"] for kv in step["kv"]) for step in stage.steps()]
    assert max(held[12:]) <= 320
    assert_texts_are_the_oracles(asked)


def test_an_urgent_request_pushes_another_out_where_the_policy_says_so():
    stage = Stage(policy="priority")
    others = [stage.ask(PROMPT) for _ in range(MAX_BATCH_SIZE)]
    stage.step(30)
    stage.room.send_urgent()
    stage.step(2)
    (victim,) = stage.steps()[-2]["preempted"]
    assert stage.steps()[-1]["admitted"] == [MAX_BATCH_SIZE + 1]
    assert stage.room.asked[victim].state == "preempted"
    stage.finish()
    assert_texts_are_the_oracles([*others, stage.room.asked[MAX_BATCH_SIZE + 1]])


def test_a_policy_ranks_those_that_wait_already():
    stage = Stage()
    for _ in range(MAX_BATCH_SIZE + 2):
        stage.ask("Now")
    stage.room.send_urgent()
    stage.step()
    waiting = [each["id"] for each in stage.answers[-1]["queue"]]
    assert waiting[0] == MAX_BATCH_SIZE + 1
    stage.room.tune({"policy": "priority"})
    stage.step()
    urgent = MAX_BATCH_SIZE + 3
    assert stage.answers[-1]["queue"][0] == {"id": urgent, "key": [0, 0]}


def test_the_least_slack_goes_first_and_the_doomed_last():
    stage = Stage(policy="slack", slo_steps=8, token_budget=16)
    stage.room.step_number = 0
    for _ in range(MAX_BATCH_SIZE):
        stage.ask("Now is")
    stage.step(2)
    late = stage.ask("Now is")
    stage.step(3)
    later = stage.ask("Now is")
    stage.step()
    order = [each["id"] for each in stage.answers[-1]["queue"]]
    assert order == [late.id, later.id]
    stage.step(6)  # the first of them can no longer make it
    order = [each["id"] for each in stage.answers[-1]["queue"]]
    assert order[0] == later.id


# ---- windows -------------------------------------------------------------------------------------


def test_a_window_changes_between_requests_and_never_within_one():
    stage = Stage()
    first = stage.ask(PROMPT)
    stage.step(8)
    stage.room.tune({"sliding_window": 16})
    second = stage.ask(PROMPT)
    stage.step()
    assert stage.answers[-1]["door"] == [second.id]
    assert second.words == "It waits for the requests that began under another window."
    stage.finish()
    assert (first.window, second.window) == (0, 16)
    assert_texts_are_the_oracles([first, second])
    assert len({str(each.tokens) for each in (first, second)}) == 2


def test_what_has_not_started_is_served_under_the_new_window():
    stage = Stage()
    asked = [stage.ask(PROMPT) for _ in range(MAX_BATCH_SIZE + 2)]
    stage.step(20)
    stage.room.tune({"sliding_window": 16})
    stage.finish()
    assert [each.window for each in asked] == [*[0] * MAX_BATCH_SIZE, 16, 16]
    assert_texts_are_the_oracles(asked)


def test_a_window_that_is_taken_back_is_no_trouble():
    stage = Stage()
    asked = [stage.ask(PROMPT) for _ in range(MAX_BATCH_SIZE + 3)]
    stage.step(4)
    stage.room.tune({"sliding_window": 32})
    stage.step()
    stage.room.tune({"sliding_window": 0})
    stage.finish()
    assert {each.window for each in asked} == {0}
    assert_texts_are_the_oracles(asked)


# ---- a lost worker -------------------------------------------------------------------------------


def test_a_lost_workers_requests_start_again_and_get_the_same_texts():
    stage = Stage()
    asked = [stage.ask(PROMPT) for _ in range(3)]
    stage.step(20)
    before = [list(each.tokens) for each in asked]
    assert all(before)
    stage.lose_worker()
    assert lost(stage) == [1, 2, 3]
    assert [each.tokens for each in asked] == before, "what was shown stays"
    stage.step()
    assert stage.room.recent.trace([], 32, 640)["steps"][-1]["lost"] == [1, 2, 3]
    stage.finish()
    assert_texts_are_the_oracles(asked)


def test_a_request_keeps_its_window_when_its_worker_is_lost_under_another():
    stage = Stage()
    first = stage.ask(PROMPT)
    stage.step(12)
    assert first.tokens
    stage.room.tune({"sliding_window": 16})
    second = stage.ask(PROMPT)
    stage.lose_worker()
    stage.finish()
    assert (first.window, second.window) == (0, 16)
    assert_texts_are_the_oracles([first, second])


# ---- everything at once --------------------------------------------------------------------------

EVENTS = st.one_of(
    st.tuples(st.just("ask"), st.integers(1, len(PROMPT))),
    st.tuples(st.just("step"), st.integers(1, 12)),
    st.tuples(st.just("long"), st.none()),
    st.tuples(st.just("urgent"), st.none()),
    st.tuples(st.just("lose"), st.none()),
    st.tuples(st.just("tune"), st.fixed_dictionaries({"token_budget": st.sampled_from([4, 24])})),
    st.tuples(
        st.just("tune"), st.fixed_dictionaries({"max_kv_tokens": st.sampled_from([320, 640])})
    ),
    st.tuples(st.just("tune"), st.fixed_dictionaries({"sliding_window": st.sampled_from([0, 16])})),
    st.tuples(
        st.just("tune"),
        st.fixed_dictionaries({"policy": st.sampled_from(["fcfs", "priority", "slack"])}),
    ),
)


@examples(24)
@given(events=st.lists(EVENTS, min_size=4, max_size=14))
def test_whatever_is_done_to_the_room_every_text_is_the_oracles(events: list[tuple[str, Any]]):
    stage = Stage()
    for name, value in events:
        if name == "ask":
            stage.ask(PROMPT[:value])
        elif name == "step":
            stage.step(value)
        elif name == "tune":
            stage.room.tune(value)
        elif name == "lose":
            stage.lose_worker()
        else:
            {"long": stage.room.send_long, "urgent": stage.room.send_urgent}[name]()
    stage.finish()
    asked = list(stage.room.asked.values())
    assert {each.state for each in asked} <= {"done"}
    assert_texts_are_the_oracles(asked)


# ---- memory --------------------------------------------------------------------------------------


def test_nothing_grows_with_the_number_of_requests(monkeypatch):
    monkeypatch.setattr("course.live.room.KEPT_DONE", 5)
    stage = Stage(token_budget=64)
    for _ in range(25):
        stage.ask("Now")
        stage.finish()
    engine = stage.worker.live.engine
    assert len(engine.steps) == len(engine.arrived) == 1
    assert engine.scheduler.preempted == []
    assert stage.worker.live._inside == {}
    assert len(stage.room.asked) == 5
    assert len(stage.room.recent.trace([], 64, 640)["steps"]) == SHOWN_STEPS
    assert len(stage.room.recent._before) <= MAX_BATCH_SIZE


def test_one_engine_serves_on_and_on_until_it_needs_another_window():
    live = LiveEngine(small_model(), Tuning())
    engines = []
    for number in range(4):
        live.step([Ask(number, [1, 2, 3], 1, 1)])
        engines.append(live.engine)
        assert live.step()["step"] is None
        if number == 1:
            live.tune(Tuning(sliding_window=32))
    assert engines[0] is engines[1] is not engines[2] is engines[3]
    assert live.engine.step_number == 4


def test_what_the_engine_refuses_is_told_and_the_others_go_on():
    live = LiveEngine(small_model(), Tuning())
    told = live.step([Ask(1, [1] * 400, 4, 1), Ask(2, [1, 2], 4, 1)])
    assert told["refused"].keys() == {1} and "400" in told["refused"][1]
    assert [work["request_id"] for work in told["step"]["work"]] == [2]
