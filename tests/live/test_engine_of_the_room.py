"""The live engine: whatever is set while it runs, every text is the oracle's."""

from typing import Any

import pytest
import tiers
import torch
from hypothesis import given
from hypothesis import strategies as st
from living import Stage, assert_texts_are_the_oracles, small_model

from course.live.live_engine import MAX_BATCH_SIZE, Ask, LiveEngine
from course.live.room import SHOWN_STEPS
from course.live.tuning import Tuning

PROMPT = "To be, or not to be, that is the question: whether it is nobler in the mind to suffer "


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def test_budgets_hold_from_the_next_step_on_and_a_halved_one_preempts_until_it_is_kept():
    stage = Stage(max_kv_tokens=640, token_budget=64)
    asked = [stage.ask(PROMPT) for _ in range(6)]
    stage.step(12)
    stage.room.halve_kv()
    stage.room.tune({"token_budget": 8})
    stage.step()
    assert stage.steps()[-1]["preempted"]
    stage.finish()
    used = [sum(w["end"] - w["start"] for w in step["work"]) for step in stage.steps()]
    assert used[0] == 64 and max(used[12:]) == 8
    held = [sum(kv["kv_tokens"] for kv in step["kv"]) for step in stage.steps()]
    assert held[11] > 320 >= max(held[12:])
    assert_texts_are_the_oracles(asked)


def test_an_urgent_request_pushes_another_out_where_the_policy_says_so():
    stage = Stage()
    others = [stage.ask(PROMPT) for _ in range(MAX_BATCH_SIZE + 1)]
    stage.step(30)
    stage.room.send_urgent()
    urgent = MAX_BATCH_SIZE + 2
    stage.step()
    assert stage.answers[-1]["queue"][0]["id"] == urgent - 1
    stage.room.tune({"policy": "priority"})  # ranks those that wait already, too
    stage.step(2)
    (victim,) = stage.steps()[-2]["preempted"]
    assert stage.steps()[-1]["admitted"] == [urgent]
    assert stage.room.asked[victim].state == "preempted"
    stage.finish()
    assert_texts_are_the_oracles([*others, stage.room.asked[urgent]])


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
    assert first.tokens != second.tokens


def test_only_what_has_started_keeps_the_old_window_and_one_may_be_taken_back():
    stage = Stage()
    asked = [stage.ask(PROMPT) for _ in range(MAX_BATCH_SIZE + 2)]
    stage.step(20)
    stage.room.tune({"sliding_window": 32})
    stage.step()
    stage.room.tune({"sliding_window": 0})
    stage.step()
    stage.room.tune({"sliding_window": 16})
    stage.finish()
    assert [each.window for each in asked] == [*[0] * MAX_BATCH_SIZE, 16, 16]
    assert_texts_are_the_oracles(asked)


def test_a_lost_workers_requests_start_again_and_get_the_same_texts():
    stage = Stage()
    asked = [stage.ask(PROMPT) for _ in range(2)]
    stage.step(20)
    before = [list(each.tokens) for each in asked]
    assert all(before)
    stage.room.tune({"sliding_window": 16})
    asked.append(stage.ask(PROMPT))
    stage.lose_worker()
    lost = [each.id for each in stage.room.asked.values() if each.state == "lost"]
    assert lost[:2] == [1, 2]
    assert [each.tokens for each in asked[:2]] == before, "what was shown stays"
    stage.step()
    assert stage.room.recent.trace([], 32, 640)["steps"][-1]["lost"] == lost
    stage.finish()
    assert [each.window for each in asked] == [0, 0, 16], "each keeps the one that it began under"
    assert_texts_are_the_oracles(asked)


def tuned(**values: list[Any]) -> st.SearchStrategy[tuple[str, Any]]:
    settings = {name: st.sampled_from(each) for name, each in values.items()}
    return st.tuples(st.just("tune"), st.fixed_dictionaries(settings))


EVENTS = st.one_of(
    st.tuples(st.just("ask"), st.integers(1, len(PROMPT))),
    st.tuples(st.just("step"), st.integers(1, 12)),
    st.tuples(st.sampled_from(["long", "urgent", "lose"]), st.none()),
    tuned(token_budget=[4, 24]),
    tuned(max_kv_tokens=[320, 640]),
    tuned(sliding_window=[0, 16]),
    tuned(policy=["fcfs", "priority", "slack"]),
)


@tiers.examples(0.15)
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


def test_nothing_grows_with_the_number_of_requests(monkeypatch):
    monkeypatch.setattr("course.live.room.KEPT_DONE", 5)
    stage = Stage(token_budget=64)
    for _ in range(12):
        stage.ask("Now")
        stage.finish()
    engine = stage.worker.live.engine
    assert len(engine.steps) == len(engine.arrived) == 1
    assert stage.worker.live._inside == {}
    assert len(stage.room.asked) == 5
    assert len(stage.room.recent.trace([], 64, 640)["steps"]) == SHOWN_STEPS
    assert len(stage.room.recent._before) <= MAX_BATCH_SIZE


def test_what_the_engine_refuses_is_told_and_the_others_go_on():
    live = LiveEngine(small_model(), Tuning())
    engine = live.engine
    told = live.step([Ask(1, [1] * 400, 4, 1), Ask(2, [1, 2], 4, 1)])
    assert told["refused"].keys() == {1} and "400" in told["refused"][1]
    assert [work["request_id"] for work in told["step"]["work"]] == [2]
    live.tune(Tuning(token_budget=8))
    while live.step()["step"]:
        pass
    assert live.engine is engine
    live.tune(Tuning(sliding_window=32))
    live.step([Ask(4, [1, 2], 1, 1)])
    assert live.engine is not engine, "another window needs another one"
