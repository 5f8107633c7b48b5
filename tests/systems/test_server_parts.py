"""The three parts of a server: what the real one does with right answers, and with wrong ones."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import numpy as np
import pytest
from generated import examples
from http_serving import MODEL, completion, engine, events_of, long_model, oracle, text_of
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.checkpoints.pieces import Characters
from nanogpt.checkpoints.tokenizer import encode
from nanogpt.parts import Parts
from nanogpt.parts.request_view import RequestView
from nanogpt.server import ServerParts, running_server
from nanogpt.server.continuation import Continuation
from nanogpt.server.door import Door, RefusedError, Running
from nanogpt.server.engine_thread import Asked
from nanogpt.server.pace import Pace
from nanogpt.server.server_guard import GuardedParts
from nanogpt.server.server_parts import (
    DoorLimits,
    NewRequest,
    QueueView,
    admit_or_refuse,
    next_events,
    on_disconnect,
)
from nanogpt.server.server_settings import ServerSettings
from nanogpt.trace import StepRecord
from nanogpt.validate import PartError

LIMITS = DoorLimits(4, 64, 100, 60)
NEW = NewRequest(20, 30)
BOOKS = {"waiting": [7, 5], "running": {2: 40, 4: 12}, "leaving": [], "in_step": True}


def door(*running: int, waiting: int = 0, pace: float = 8.0, closing: bool = False) -> QueueView:
    return QueueView(running, waiting, pace, closing)


# --- the reference --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "new", "verdict"),
    [
        (door(), NEW, "accept"),
        (door(40, 12, 30, waiting=1), NEW, (429, 5)),
        (door(1, 1, waiting=2, pace=900.0), NEW, (429, 1)),
        (door(900, 900, waiting=2), NEW, (429, 60)),
        (door(9, waiting=3, pace=0.0), NEW, (429, 1)),
        (door(waiting=4), NEW, (429, 1)),
        (door(closing=True), NEW, (503, None)),
        (door(closing=True), NewRequest(65, 1), (400, None)),
        (door(), NewRequest(64, 37), "accept"),
        (door(), NewRequest(64, 38), (400, None)),
    ],
)
def test_a_door_says_what_it_is_and_when(queue: QueueView, new: NewRequest, verdict: Any) -> None:
    assert admit_or_refuse(queue, LIMITS, new) == verdict


@examples(200)
@given(st.text(max_size=12), st.lists(st.integers(1, 3), max_size=40), st.integers(0, 4))
def test_a_text_comes_once_and_whole_whatever_its_tokens_are(
    text: str, sizes: list[int], cut: int
) -> None:
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


def test_a_leaver_is_let_go_where_it_is() -> None:
    assert on_disconnect(BOOKS, 5)["waiting"] == [7]
    assert on_disconnect(BOOKS, 4) == {**BOOKS, "leaving": [4]}
    assert on_disconnect({**BOOKS, "in_step": False}, 4)["running"] == {2: 40}
    assert on_disconnect({**BOOKS, "leaving": [4]}, 4) == {**BOOKS, "leaving": [4]}
    assert on_disconnect(BOOKS, 9) == BOOKS


def test_a_pace_forgets() -> None:
    pace = Pace()
    assert pace.tokens_per_s == 0
    pace.step(4, 0.5)
    assert pace.tokens_per_s == 8
    for _ in range(200):
        pace.step(32, 1.0)
    assert pace.tokens_per_s == pytest.approx(32, rel=0.01)


# --- guarded --------------------------------------------------------------------------------------


def raising(*_: Any) -> Any:
    raise KeyError("no")


@pytest.mark.parametrize(
    ("name", "part", "args", "said"),
    [
        ("admit_or_refuse", raising, (door(), LIMITS, NEW), "your admit_or_refuse raised KeyError"),
        (
            "admit_or_refuse",
            lambda *_: "accept",
            (door(40, 12, 30, waiting=1), LIMITS, NEW),
            "your admit_or_refuse returned 'accept' for 20 + 30 tokens with 4 of 4 requests "
            "unfinished; it must be 429",
        ),
        (
            "admit_or_refuse",
            lambda *_: (429, 3),
            (door(), LIMITS, NEW),
            "with 0 of 4 requests unfinished; it must be accept",
        ),
        (
            "admit_or_refuse",
            lambda *_: (429, 0),
            (door(40, 12, 30, waiting=1), LIMITS, NEW),
            "your admit_or_refuse returned (429, 0); a 429 comes with 1 to 60 whole seconds",
        ),
        (
            "admit_or_refuse",
            lambda *_: (429, None),
            (door(40, 12, 30, waiting=1), LIMITS, NEW),
            "a 429 comes with 1 to 60 whole seconds",
        ),
        (
            "admit_or_refuse",
            lambda *_: (400, None),
            (door(), LIMITS, NEW),
            "it must be accept",
        ),
        ("admit_or_refuse", lambda *_: True, (door(), LIMITS, NEW), "it must be 'accept' or"),
        (
            "next_events",
            lambda committed, sent, is_done: ["To be"],
            ([b"To", b" be"], 2, False),
            "your next_events returned ['To be'] after 2 tokens, of which 2 characters were sent; "
            "it must be [' be']",
        ),
        (
            "on_disconnect",
            lambda books, request_id: books,
            (BOOKS, 4),
            "gives 'leaving' as []; it must be [4]",
        ),
        ("on_disconnect", lambda *_: None, (BOOKS, 4), "gives 'waiting' as None"),
    ],
)
def test_a_wrong_answer_is_one_sentence_and_then_the_reference_goes_on(
    name: str, part: Callable[..., Any], args: tuple[Any, ...], said: str
) -> None:
    guard = GuardedParts(ServerParts(**{name: part}))
    asked = getattr(guard.guarded(), name)
    with pytest.raises(PartError) as error:
        asked(*args)
    assert said in str(error.value)
    assert guard.problems == {name: str(error.value)}
    assert asked(*args) == getattr(ServerParts(), name)(*args)


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("admit_or_refuse", np.array([[429, 5], [429, 5]])),
        ("admit_or_refuse", np.array([429, 5, 1])),
        ("admit_or_refuse", Unshowable()),
        ("next_events", [np.array(["T", "o"])]),
        ("next_events", Unshowable()),
        ("on_disconnect", {**BOOKS, "waiting": Unshowable()}),
    ],
    ids=["a table", "three", "an unshowable one", "an array in a list", "no event", "no books"],
)
def test_an_answer_that_cannot_be_compared_or_shown_is_a_wrong_one(name: str, answer: Any) -> None:
    args = {
        "admit_or_refuse": (door(), LIMITS, NEW),
        "next_events": ([b"To"], 0, False),
        "on_disconnect": (BOOKS, 4),
    }[name]
    guard = GuardedParts(ServerParts(**{name: lambda *_: answer}))
    asked = getattr(guard.guarded(), name)
    with pytest.raises(PartError, match=f"^your {name} returned "):
        asked(*args)
    assert asked(*args) == getattr(ServerParts(), name)(*args)


def test_those_that_leave_may_be_named_in_any_order() -> None:
    books = {**BOOKS, "leaving": [4]}
    turned = GuardedParts(ServerParts(on_disconnect=lambda *_: {**books, "leaving": [2, 4]}))
    assert turned.guarded().on_disconnect(books, 2)["leaving"] == [4, 2]


def test_a_stricter_door_and_other_types_are_let_through() -> None:
    strict = GuardedParts(ServerParts(admit_or_refuse=lambda *_: [429, 7.0])).guarded()
    assert strict.admit_or_refuse(door(5), LIMITS, NEW) == (429, 7)
    events = GuardedParts(ServerParts(next_events=lambda *args: tuple(next_events(*args))))
    assert events.guarded().next_events([b"To"], 0, False) == ["To"]


def test_a_part_that_never_ends_is_given_up_after_a_second_and_not_asked_again() -> None:
    num_calls = 0

    def endless(*_: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        while True:
            pass

    guard = GuardedParts(ServerParts(next_events=endless))
    asked = guard.guarded().next_events
    with pytest.raises(PartError, match=r"took longer than 1 s|had not finished"):
        asked([b"To"], 0, False)
    assert asked([b"To"], 0, False) == ["To"]
    assert num_calls == 1


# --- in the real server ---------------------------------------------------------------------------


def streamed(url: str, prompt: str, num_tokens: int) -> list[Any]:
    body = completion(prompt, num_tokens, temperature=0, stream=True)
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=30) as answer:
        return events_of(list(answer.iter_lines()))


def failed(url: str, prompt: str, num_tokens: int) -> str:
    """What a stream was ended with: an answer of its own if that came before the first event."""
    body = completion(prompt, num_tokens, temperature=0, stream=True)
    answer = httpx.post(f"{url}/v1/completions", json=body, timeout=30)
    last = answer.json() if answer.is_error else events_of(answer.text.splitlines())[-2]
    return last["error"]["message"]


def wait_until(done: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def test_parts_of_ones_own_are_asked_and_serve_the_oracles_text() -> None:
    asked: dict[str, int] = {"door": 0, "events": 0, "leaving": 0}

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
    settings = ServerSettings(stream_interval_ms=0)
    with running_server(engine, settings, parts=parts) as (url, thread):
        assert text_of(streamed(url, "To be", 12)) == oracle("To be", 12)
        wait_until(lambda: asked["leaving"])
    assert asked["door"] == 1 and asked["events"] == 13 and thread.problems == {}


def test_a_wrong_part_fails_one_request_with_its_sentence_and_no_other() -> None:
    parts = ServerParts(next_events=lambda committed, sent, is_done: [committed[-1].decode()] * 2)
    with running_server(engine, parts=parts) as (url, thread):
        assert failed(url, "To be", 12).startswith("your next_events returned [")
        assert text_of(streamed(url, "To be", 12)) == oracle("To be", 12)
        assert list(thread.problems) == ["next_events"]
        wait_until(lambda: not thread.num_unfinished and not thread.served)
        assert list(thread.engine.cache.holders()) == []


def test_an_answer_that_cannot_be_shown_ends_one_stream_and_not_the_engine() -> None:
    with running_server(engine, parts=ServerParts(next_events=lambda *_: Unshowable())) as (url, _):
        assert failed(url, "To be", 12).startswith("your next_events returned what cannot be")
        assert text_of(streamed(url, "To be", 12)) == oracle("To be", 12)


def test_a_wrong_door_answers_with_its_sentence() -> None:
    with running_server(engine, parts=ServerParts(admit_or_refuse=lambda *_: None)) as (url, _):
        wrong = httpx.post(f"{url}/v1/completions", json=completion(), timeout=30)
        assert wrong.status_code == 500
        assert "your admit_or_refuse returned None" in wrong.json()["error"]["message"]
        right = httpx.post(f"{url}/v1/completions", json=completion(), timeout=30)
        assert right.status_code == 200


def test_a_client_that_leaves_takes_its_kv_along_even_when_the_part_computes_on() -> None:
    parts = ServerParts(on_disconnect=lambda books, request_id: books)
    made = engine(long_model())
    with running_server(lambda: made, parts=parts) as (url, thread):
        body = completion(max_tokens=4000, stream=True)
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=30) as answer:
            next(answer.iter_lines())
        wait_until(lambda: not thread.num_unfinished and not thread.served)
        assert list(made.cache.holders()) == []
        assert "on_disconnect" in thread.problems


def test_a_full_server_names_the_seconds_that_its_pace_and_its_queue_give() -> None:
    seen: list[tuple[QueueView, Any]] = []

    def watched(queue: QueueView, limits: DoorLimits, new: NewRequest) -> Any:
        seen.append((queue, admit_or_refuse(queue, limits, new)))
        return seen[-1][1]

    made = engine(long_model())
    settings, parts = ServerSettings(max_requests=1), ServerParts(admit_or_refuse=watched)
    with running_server(lambda: made, settings, parts=parts) as (url, thread):
        body = completion(max_tokens=4000, stream=True)
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=30) as answer:
            lines = answer.iter_lines()  # which closes the stream when it goes
            next(lines)
            wait_until(lambda: thread.door.pace.tokens_per_s and thread.door.running)
            refused = httpx.post(f"{url}/v1/completions", json=completion(), timeout=30)
    queue, verdict = seen[-1]
    assert len(queue.running) == 1 and 0 < queue.running[0] < 4000 and queue.tokens_per_s > 0
    assert refused.status_code == verdict[0] == 429
    assert refused.headers["retry-after"] == str(verdict[1])
    assert f"try again in {verdict[1]} s" in refused.json()["error"]["message"]


def test_a_leaver_is_ordered_to_go_once_wherever_it_is() -> None:
    here = Door()
    here.unfinished |= {1, 2, 3, 4}
    here.running, here.in_step = {1: Running(20, 40), 2: Running(9, 12)}, True
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


@pytest.mark.parametrize(
    ("asked", "status"), [(Asked([1] * 60, 200), 400), (Asked([1] * 4, 4), None)]
)
def test_what_can_never_fit_does_not_come_in(asked: Asked, status: int | None) -> None:
    with running_server(lambda: engine(max_kv_tokens=64)) as (_, thread):
        thread.closing = status is None
        with pytest.raises(RefusedError) as refused:
            thread.submit(asked)
        assert (refused.value.status, refused.value.retry_after_s) == (status or 503, None)
        assert thread.num_unfinished == 0


def forgetful(view: RequestView) -> tuple[list[int], int, int, int]:
    """Comes back with its prompt alone: its text is computed once more."""
    return list(view.prompt_tokens), 0, view.arrival_time, 0


def test_a_text_that_begins_anew_after_a_preemption_is_sent_once() -> None:
    prompts = ("To be, or not", "O, ", "ROMEO:\n", "JULIET:\n", "What say ")
    made = engine(token_budget=16, max_kv_tokens=96, parts=Parts(resume=forgetful))
    settings = ServerSettings(stream_interval_ms=0)
    texts: dict[str, str] = {}
    step = made.step

    def step_with_all_of_them() -> StepRecord:
        if made.step_number == 0:
            wait_until(lambda: thread.num_unfinished == len(prompts))
        return step()

    made.step = step_with_all_of_them
    with running_server(lambda: made, settings) as (url, thread):

        def read(prompt: str) -> None:
            texts[prompt] = text_of(streamed(url, prompt, 40))

        readers = [threading.Thread(target=read, args=(prompt,)) for prompt in prompts]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        metrics = httpx.get(f"{url}/metrics").text
    assert texts == {prompt: oracle(prompt, 40) for prompt in prompts}
    assert f'vllm:num_preemptions_total{{model_name="{MODEL}"}} 0.0' not in metrics
    assert thread.problems == {}


# --- a tokenizer of pieces ------------------------------------------------------------------------


class Bytes(Characters):
    """Tokens that are so many bytes of a text each."""

    def __init__(self, text: str, size: int) -> None:
        data = text.encode()
        self.pieces = [data[i : i + size] for i in range(0, len(data), size)]

    def piece(self, token: int) -> bytes:
        return self.pieces[token]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_stop_string_is_found_wherever_tokens_end(size: int) -> None:
    tokenizer = Bytes("naïve — so 🙂\n\nROMEO", size)
    continuation, tokens = Continuation(["\n\n"], tokenizer), range(len(tokenizer.pieces))
    text = "".join(continuation.feed([token]) for token in tokens) + continuation.rest()
    assert text == "naïve — so 🙂" and continuation.is_stopped
    assert continuation.num_tokens == -(-len("naïve — so 🙂\n\n".encode()) // size)


def test_after_a_restart_the_same_tokens_give_nothing_twice() -> None:
    continuation = Continuation()
    tokens: Sequence[int] = encode("To be, or")
    assert continuation.feed(tokens[:6]) == "To be,"
    continuation.restart(2)
    assert continuation.feed(tokens[2:5]) == ""
    assert continuation.feed(tokens[5:]) == " or"
    assert continuation.num_tokens == 9
