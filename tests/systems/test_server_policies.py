"""A server's three policies: what the real server does with right answers, and with wrong ones."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from http_serving import Running, completion, engine, events_of, oracle, serving, text_of

from nanogpt import Policies
from nanogpt.server import ServerPolicies
from nanogpt.server.admission import AdmissionControl
from nanogpt.server.admission import Running as Admitted
from nanogpt.server.api_errors import ApiError
from nanogpt.server.served_request import Asked
from nanogpt.server.server_policies import (
    AdmissionLimits,
    NewRequest,
    QueueView,
    on_disconnect,
    validated_server_policies,
)
from nanogpt.trace import StepRecord
from nanogpt.validate import PolicyError
from nanogpt.views.request_view import RequestView

LIMITS = AdmissionLimits(4, 64, 100, 60)
NEW = NewRequest(20, 30)
STATE = {"waiting": [7, 5], "running": {2: 40, 4: 12}, "leaving": [], "in_step": True}
EVENTS = ([b"To", b" be"], 2, False)


def door(*running: int, waiting: int = 0, pace: float = 8.0, closing: bool = False) -> QueueView:
    return QueueView(running, waiting, pace, closing)


FREE, FULL = (door(), LIMITS, NEW), (door(40, 12, 30, waiting=1), LIMITS, NEW)


# --- the reference --------------------------------------------------------------------------------


def test_a_leaver_is_ordered_to_go_once_wherever_it_is():
    here = AdmissionControl()
    here.unfinished |= {1, 2, 3, 4}
    here.running, here.in_step = {1: Admitted(20, 40), 2: Admitted(9, 12)}, True
    here.throughput.step(8, 1.0)
    assert here.state() == {
        "waiting": [3, 4], "running": {1: 40, 2: 12}, "leaving": [], "in_step": True,
    }  # fmt: skip
    assert here.queue(is_closing=False) == QueueView((20, 9), 2, 8.0, False)

    def leaves(request_id: int) -> list[int]:
        state = here.state()
        return here.going(state, on_disconnect(state, request_id))

    assert [leaves(3), leaves(2), leaves(2), leaves(3), leaves(9)] == [[3], [2], [], [], []]
    assert here.state()["waiting"] == [4] and here.state()["leaving"] == [2]
    here.in_step = False
    assert leaves(1) == [1]
    for request_id in (1, 2, 3):
        here.ended(request_id)
    assert here.state() == {"waiting": [4], "running": {}, "leaving": [], "in_step": False}


# --- what a part may answer -----------------------------------------------------------------------


def asked(name: str, part: Callable[..., Any], problems: dict[str, Exception]) -> Any:
    return getattr(validated_server_policies(ServerPolicies(**{name: part}), problems), name)


@pytest.mark.parametrize(
    ("name", "answer", "args", "said"),
    [
        ("admission_control", (429, None), FULL, "(429, None); it must be 'accept', (400, None)"),
        ("admission_control", (200, None), FREE, "it must be 'accept'"),
        ("admission_control", True, FREE, "it must be 'accept'"),
        ("stream_delta", None, EVENTS, "stream_delta returned None; it must be a list of strings"),
        ("stream_delta", [b"To"], EVENTS, "it must be a list of strings"),
        ("on_disconnect", None, (STATE, 4), "returned None; it must be a state"),
        ("on_disconnect", {**STATE, "running": [2, 4]}, (STATE, 4), "it must be a state"),
        ("on_disconnect", {**STATE, "waiting": [7, 9]}, (STATE, 4), "no other id"),
        ("on_disconnect", {**STATE, "waiting": [7, 7]}, (STATE, 4), "one place at most"),
        ("on_disconnect", {**STATE, "leaving": [7]}, (STATE, 4), "for request 4 returned"),
        ("on_disconnect", {**STATE, "waiting": [2]}, (STATE, 4), "[2, 4, 5, 7] in one place"),
    ],
)  # fmt: skip
def test_an_answer_that_makes_no_sense_is_refused_in_one_sentence(
    name: str, answer: Any, args: tuple[Any, ...], said: str
):
    problems: dict[str, Exception] = {}
    with pytest.raises(PolicyError) as error:
        asked(name, lambda *_: answer, problems)(*args)
    assert said in str(error.value) and "\n" not in str(error.value)
    assert str(problems[name]) == str(error.value)


def test_a_policy_cannot_change_the_state_it_is_given():
    def empties(state: Any, _: int) -> Any:
        answer = {name: type(value)(value) for name, value in state.items()}
        state["waiting"].clear()
        state["running"].clear()
        return answer

    state = {**STATE, "waiting": [7, 5], "running": {2: 40, 4: 12}}
    assert asked("on_disconnect", empties, {})(state, 4) == state == STATE


# --- in the real server ---------------------------------------------------------------------------


def failed(running: Running) -> str:
    """What a stream was ended with: an answer of its own if that came before the first event."""
    answer = running.post("/v1/completions", completion(temperature=0, stream=True))
    last = answer.json() if answer.is_error else events_of(answer.text.splitlines())[-2]
    return last["error"]["message"]


def raising(*_: Any) -> Any:
    raise KeyError("no")


def test_a_part_that_raises_fails_the_request_that_met_it_and_the_server_goes_on():
    with serving(policies=ServerPolicies(stream_delta=raising)) as running:
        for _ in range(2):
            assert failed(running) == "stream_delta raised KeyError('no')"
        assert isinstance(running.thread.problems["stream_delta"], KeyError)
        running.wait_until_idle()
    with serving(policies=ServerPolicies(admission_control=raising)) as running:
        wrong = running.post("/v1/completions", completion())
        assert wrong.status_code == 500
        assert "admission_control raised KeyError" in wrong.json()["error"]["message"]
        assert running.get("/health").status_code == 200
    with serving(policies=ServerPolicies(on_disconnect=raising)) as running:
        assert running.complete() == oracle("To be, or not", 20)
        running.wait_until_idle()
    with serving(engine(policies=Policies(plan_step=raising))) as running:
        assert failed(running) == "the engine's step raised KeyError('no')"
        running.wait_until_idle()
        assert running.get("/health").status_code == 200


def test_wrong_answers_about_admission_act():
    with serving(policies=ServerPolicies(admission_control=lambda *_: (429, 7))) as running:
        answer = running.post("/v1/completions", completion())
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    everything = ServerPolicies(admission_control=lambda *_: "accept")
    with serving(engine(max_kv_tokens=64), policies=everything) as running:
        answer = running.post("/v1/completions", completion(max_tokens=200))
        assert answer.status_code == 400


def test_the_server_does_what_the_answered_state_says():
    def lets_all_go(state: Any, _: int) -> Any:
        return {**state, "waiting": [], "running": {}, "leaving": []}

    with serving(policies=ServerPolicies(on_disconnect=lets_all_go)) as running:
        streams = [running.thread.submit(Asked([1, 2], 60)) for _ in range(2)]
        running.wait_until(lambda: len(running.thread.served) == 2)
        running.thread.abort(streams[0])
        running.wait_until(lambda: all(stream.end for stream in streams))
        assert [stream.end and stream.end.reason for stream in streams] == ["abort"] * 2


@pytest.mark.parametrize(("length", "status"), [(200, 400), (4, 503)])
def test_a_request_that_can_never_fit_or_comes_too_late_does_not_come_in(length: int, status: int):
    with serving(engine(max_kv_tokens=64)) as running:
        running.thread.closing = status == 503
        with pytest.raises(ApiError) as refused:
            running.thread.submit(Asked([1] * 4, length))
        assert (refused.value.status, refused.value.headers) == (status, {})
        assert not running.thread.admission.unfinished


def forgetful(view: RequestView) -> tuple[list[int], int, int, int]:
    """Comes back with its prompt only: its text is computed once more."""
    return list(view.prompt_tokens), 0, view.arrival_time, 0


def test_a_text_that_begins_anew_after_a_preemption_is_sent_once():
    prompts = ("To be, or not", "O, ", "ROMEO:\n", "JULIET:\n", "What say ")
    made = engine(token_budget=16, max_kv_tokens=96, policies=Policies(requeue=forgetful))
    step, texts = made.step, dict[str, str]()

    def step_with_all_of_them() -> StepRecord:
        if made.step_number == 0:
            running.wait_until(lambda: len(running.thread.admission.unfinished) == len(prompts))
        return step()

    made.step = step_with_all_of_them
    with serving(made) as running:

        def read(prompt: str) -> None:
            body = completion(prompt, 40, temperature=0, stream=True)
            lines = running.post("/v1/completions", body).text.splitlines()
            texts[prompt] = text_of(events_of(lines))

        readers = [threading.Thread(target=read, args=(prompt,)) for prompt in prompts]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert running.metrics()["vllm:num_preemptions_total",] > 0
        assert running.thread.problems == {}
    assert texts == {prompt: oracle(prompt, 40) for prompt in prompts}
