"""The three parts of a server: what the real one does with right answers, and with wrong ones."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from http_serving import (
    Running,
    completion,
    engine,
    events_of,
    oracle,
    serving,
    text_of,
)
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.parts import Parts
from nanogpt.parts.request_view import RequestView
from nanogpt.server import ServerParts
from nanogpt.server.server_guard import GuardedParts
from nanogpt.server.server_parts import (
    DoorLimits,
    NewRequest,
    QueueView,
    admit_or_refuse,
    next_events,
    on_disconnect,
)
from nanogpt.trace import StepRecord
from nanogpt.validate import PartError

LIMITS = DoorLimits(4, 64, 100, 60)
NEW = NewRequest(20, 30)
BOOKS = {"waiting": [7, 5], "running": {2: 40, 4: 12}, "leaving": [], "in_step": True}
EVENTS = ([b"To", b" be"], 2, False)


def door(*running: int, waiting: int = 0, pace: float = 8.0, closing: bool = False) -> QueueView:
    return QueueView(running, waiting, pace, closing)


FREE, FULL = (door(), LIMITS, NEW), (door(40, 12, 30, waiting=1), LIMITS, NEW)


# --- the reference --------------------------------------------------------------------------------


@given(st.text(max_size=12), st.lists(st.integers(1, 3), max_size=40), st.integers(0, 4))
def test_a_text_comes_once_and_whole_whatever_its_tokens_are(text: str, sizes: list[int], cut: int):
    data = text.encode(errors="replace")
    data = data[: len(data) - cut] if cut < len(data) else data
    pieces, at = list[bytes](), 0
    for size in [*sizes, len(data)]:
        pieces.append(data[at : at + size])
        at += size
    said = ""
    for number in range(len(pieces)):
        said += "".join(next_events(pieces[: number + 1], len(said), False))
        assert "\ufffd" not in said
        assert next_events(pieces[:number], len(said), False) == []  # as after a preemption
    said += "".join(next_events(pieces, len(said), True))
    assert said == data.decode(errors="replace")


def test_a_leaver_is_ordered_to_go_once_wherever_it_is():
    from nanogpt.server.door import Door
    from nanogpt.server.door import Running as InDoor

    here = Door()
    here.unfinished |= {1, 2, 3, 4}
    here.running, here.in_step = {1: InDoor(20, 40), 2: InDoor(9, 12)}, True
    here.pace.step(8, 1.0)
    assert here.books() == {
        "waiting": [3, 4], "running": {1: 40, 2: 12}, "leaving": [], "in_step": True,
    }  # fmt: skip
    assert here.queue(is_closing=False) == QueueView((20, 9), 2, 8.0, False)

    def leaves(request_id: int) -> list[int]:
        books = here.books()
        return here.going(books, on_disconnect(books, request_id))

    assert [leaves(3), leaves(2), leaves(2), leaves(3), leaves(9)] == [[3], [2], [], [], []]
    assert here.books()["waiting"] == [4] and here.books()["leaving"] == [2]
    here.in_step = False
    assert leaves(1) == [1]
    for request_id in (1, 2, 3):
        here.ended(request_id)
    assert here.books() == {"waiting": [4], "running": {}, "leaving": [], "in_step": False}


# --- guarded --------------------------------------------------------------------------------------


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def raising(*_: Any) -> Any:
    raise KeyError("no")


@pytest.mark.parametrize(
    ("name", "answer", "args", "said"),
    [
        ("admit_or_refuse", raising, FREE, "your admit_or_refuse raised KeyError"),
        ("admit_or_refuse", "accept", FULL, "'accept' for 20 + 30 tokens with 4 of 4 requests "
         "unfinished; it must be 429"),
        ("admit_or_refuse", (429, 3), FREE, "with 0 of 4 requests unfinished; it must be accept"),
        ("admit_or_refuse", (429, 0), FULL, "(429, 0); a 429 comes with 1 to 60 whole seconds"),
        ("admit_or_refuse", True, FREE, "it must be 'accept' or"),
        ("admit_or_refuse", np.array([[429, 5], [429, 5]]), FREE, "your admit_or_refuse returned"),
        ("admit_or_refuse", Unshowable(), FREE, "your admit_or_refuse returned"),
        ("next_events", ["To be"], EVENTS, "your next_events returned ['To be'] after 2 tokens, of "
         "which 2 characters were sent; it must be [' be']"),
        ("next_events", [np.array(["T", "o"])], EVENTS, "your next_events returned"),
        ("next_events", Unshowable(), EVENTS, "your next_events returned"),
        ("on_disconnect", BOOKS, (BOOKS, 4), "gives 'leaving' as []; it must be [4]"),
        ("on_disconnect", None, (BOOKS, 4), "gives 'waiting' as None"),
        ("on_disconnect", {**BOOKS, "waiting": Unshowable()}, (BOOKS, 4), "your on_disconnect"),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_one_sentence_and_then_the_reference_goes_on(
    name: str, answer: Any, args: tuple[Any, ...], said: str
):
    part = answer if callable(answer) else lambda *_: answer
    guard = GuardedParts(ServerParts(**{name: part}))
    asked = getattr(guard.guarded(), name)
    with pytest.raises(PartError) as error:
        asked(*args)
    assert said in str(error.value)
    assert guard.problems == {name: str(error.value)}
    assert asked(*args) == getattr(ServerParts(), name)(*args)


def test_a_stricter_door_another_order_and_other_types_are_let_through():
    strict = GuardedParts(ServerParts(admit_or_refuse=lambda *_: [429, 7.0])).guarded()
    assert strict.admit_or_refuse(door(5), LIMITS, NEW) == (429, 7)
    events = GuardedParts(ServerParts(next_events=lambda *args: tuple(next_events(*args))))
    assert events.guarded().next_events([b"To"], 0, False) == ["To"]
    books = {**BOOKS, "leaving": [4]}
    turned = GuardedParts(ServerParts(on_disconnect=lambda *_: {**books, "leaving": [2, 4]}))
    assert turned.guarded().on_disconnect(books, 2)["leaving"] == [4, 2]


def test_a_part_that_never_ends_is_given_up_after_a_second_and_not_asked_again():
    num_calls = 0

    def endless(*_: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        while True:
            pass

    asked = GuardedParts(ServerParts(next_events=endless)).guarded().next_events
    with pytest.raises(PartError, match=r"took longer than 1 s|had not finished"):
        asked([b"To"], 0, False)
    assert asked([b"To"], 0, False) == ["To"]
    assert num_calls == 1


# --- in the real server ---------------------------------------------------------------------------


def failed(running: Running) -> str:
    """What a stream was ended with: an answer of its own if that came before the first event."""
    answer = running.post("/v1/completions", completion(temperature=0, stream=True))
    last = answer.json() if answer.is_error else events_of(answer.text.splitlines())[-2]
    return last["error"]["message"]


def test_parts_of_ones_own_are_asked_and_serve_the_oracles_text():
    asked = {"door": 0, "events": 0, "leaving": 0}

    def counted(name: str, part: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any) -> Any:
            asked[name] += 1
            return part(*args)

        return ask

    parts = ServerParts(
        counted("door", admit_or_refuse),
        counted("events", next_events),
        counted("leaving", on_disconnect),
    )
    with serving(parts=parts) as running:
        body = completion(max_tokens=12, temperature=0, stream=True)
        events = events_of(running.post("/v1/completions", body).text.splitlines())
        assert text_of(events) == oracle(body["prompt"], 12)
        running.wait_until(lambda: asked["leaving"])
        assert asked["door"] == 1 and asked["events"] == 13 and running.thread.problems == {}


def plan_step_that_raises(*offered: Any) -> Any:
    raise KeyError("oh")


def test_a_wrong_part_fails_one_request_with_its_sentence_and_no_other():
    for answer, said in ((lambda tokens: [tokens[-1].decode()] * 2, "your next_events returned ["),
                         (lambda _: Unshowable(), "returned what cannot be")):  # fmt: skip
        parts = ServerParts(next_events=lambda committed, sent, is_done, a=answer: a(committed))
        with serving(parts=parts) as running:
            assert said in failed(running)
            assert running.complete() == oracle("To be, or not", 20)
            assert list(running.thread.problems) == ["next_events"]
            running.wait_until_idle()
    with serving(parts=ServerParts(admit_or_refuse=lambda *_: None)) as running:
        wrong = running.post("/v1/completions", completion())
        assert wrong.status_code == 500
        assert "your admit_or_refuse returned None" in wrong.json()["error"]["message"]
        assert running.complete() == oracle("To be, or not", 20)
    with serving(engine(parts=Parts(plan_step=plan_step_that_raises))) as running:
        assert "your plan_step raised KeyError" in failed(running)
        running.wait_until_idle()
        assert running.get("/health").status_code == 200


@pytest.mark.parametrize(("length", "status"), [(200, 400), (4, 503)])
def test_a_request_that_can_never_fit_or_comes_too_late_does_not_come_in(length: int, status: int):
    from nanogpt.server.door import RefusedError
    from nanogpt.server.engine_thread import Asked

    with serving(engine(max_kv_tokens=64)) as running:
        running.thread.closing = status == 503
        with pytest.raises(RefusedError) as refused:
            running.thread.submit(Asked([1] * 4, length))
        assert (refused.value.status, refused.value.retry_after_s) == (status, None)
        assert running.thread.num_unfinished == 0
        assert running.get("/health").status_code == (503 if running.thread.closing else 200)


def forgetful(view: RequestView) -> tuple[list[int], int, int, int]:
    """Comes back with its prompt only: its text is computed once more."""
    return list(view.prompt_tokens), 0, view.arrival_time, 0


def test_a_text_that_begins_anew_after_a_preemption_is_sent_once():
    prompts = ("To be, or not", "O, ", "ROMEO:\n", "JULIET:\n", "What say ")
    made = engine(token_budget=16, max_kv_tokens=96, parts=Parts(resume=forgetful))
    step, texts = made.step, dict[str, str]()

    def step_with_all_of_them() -> StepRecord:
        if made.step_number == 0:
            running.wait_until(lambda: running.thread.num_unfinished == len(prompts))
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
