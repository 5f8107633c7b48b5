"""The live engine: whatever is set while it runs, every text is the oracle's."""

from typing import Any

import pytest
import tiers
import torch
from hypothesis import given
from hypothesis import strategies as st
from living import Stage, assert_texts_are_the_oracles

from course.live.room_engine import MAX_BATCH_SIZE

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
    assert stage.steps[-1].preempted
    stage.finish()
    used = [step.used_tokens for step in stage.steps]
    assert used[0] == 64 and max(used[12:]) == 8
    held = [step.kv_after for step in stage.steps]
    assert held[11] > 320 >= max(held[12:])
    assert_texts_are_the_oracles(asked)


def test_an_urgent_request_pushes_another_out_where_the_policy_says_so():
    stage = Stage()
    others = [stage.ask(PROMPT) for _ in range(MAX_BATCH_SIZE + 1)]
    stage.step(30)
    stage.room.send_urgent()
    urgent = stage.room.requests[MAX_BATCH_SIZE + 1]
    stage.step()
    assert stage.waits[-1][0].request_id == urgent.id - 1
    stage.room.tune({"policy": "priority"})  # ranks those that wait already, too
    stage.step(2)
    (victim,) = stage.steps[-2].preempted
    assert stage.steps[-1].admitted == (urgent.id,)
    assert stage.room.requests[victim].state == "preempted"
    stage.finish()
    assert_texts_are_the_oracles([*others, urgent])


def test_a_window_changes_between_requests_and_never_within_one():
    stage = Stage()
    first = stage.ask(PROMPT)
    stage.step(8)
    stage.room.tune({"sliding_window": 16})
    second = stage.ask(PROMPT)
    stage.step()
    assert second.words == "It waits for the requests that began under another window."
    stage.finish()
    assert (first.window, second.window) == (0, 16)
    assert_texts_are_the_oracles([first, second])
    assert first.text != second.text


def test_a_killed_engines_requests_keep_their_texts_and_compute_their_kv_again():
    stage = Stage()
    asked = [stage.ask(PROMPT) for _ in range(2)]
    stage.step(20)
    before = [each.text for each in asked]
    assert all(before)
    stage.room.tune({"sliding_window": 16})
    asked.append(stage.ask(PROMPT))
    stage.room.kill_engine()
    assert [each.state for each in asked] == ["lost", "lost", "waiting"]
    assert "the texts of requests 0, 1 stay, their K/V is computed again" in stage.room.event
    assert [each.text for each in asked[:2]] == before
    stage.step()
    assert stage.steps[-1].kv_before == 0 and stage.steps[-1].step == 20
    stage.finish()
    assert [each.window for each in asked] == [0, 0, 16], "each keeps the one that it began under"
    assert_texts_are_the_oracles(asked)


def tuned(**values: list[Any]) -> st.SearchStrategy[tuple[str, Any]]:
    settings = {name: st.sampled_from(each) for name, each in values.items()}
    return st.tuples(st.just("tune"), st.fixed_dictionaries(settings))


EVENTS = st.one_of(
    st.tuples(st.just("ask"), st.integers(1, len(PROMPT))),
    st.tuples(st.just("step"), st.integers(1, 12)),
    st.tuples(st.sampled_from(["send_long", "send_urgent", "kill_engine"]), st.none()),
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
        else:
            getattr(stage.room, name)()
    stage.finish()
    requests = list(stage.room.requests.values())
    assert {each.state for each in requests} <= {"done"}
    assert_texts_are_the_oracles(requests)


def test_nothing_grows_with_the_number_of_requests(monkeypatch):
    monkeypatch.setattr("course.live.room.KEPT_DONE", 5)
    stage = Stage(token_budget=64)
    for _ in range(12):
        stage.ask("Now")
        stage.finish()
    engine = stage.thread.engine
    assert len(engine.steps) == len(engine.arrived) == 1
    assert not stage.thread.served and not stage.thread.admission.unfinished
    assert len(stage.room.requests) == 5


def test_only_another_window_needs_another_engine():
    stage = Stage()
    engine = stage.thread.engine
    stage.room.tune({"token_budget": 8, "max_kv_tokens": 320, "policy": "slack"})
    stage.step()
    assert stage.thread.engine is engine and engine.config.token_budget == 8
    stage.room.tune({"sliding_window": 32})
    stage.step()
    assert stage.thread.engine is not engine
    assert stage.thread.engine.config.sliding_window == 32
