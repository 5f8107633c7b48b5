"""What the live page is told: nothing is kept unwatched, little is kept watched, and it is true."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from fakes import prompt_of, tiny_model
from http_serving import LIMIT_S, MODEL, PROMPT, Running, completion, engine, long_model, serving
from systems.test_server_load import read_all

from nanogpt.request import Request
from nanogpt.server import live_feed
from nanogpt.server.live_feed import MOST_REQUESTS, MOST_STEPS, LiveFeed
from nanogpt.server.live_page import FILES


@pytest.fixture(autouse=True)
def looked_at_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a test takes on a busy machine."""
    monkeypatch.setattr(live_feed, "WATCHED_S", 600.0)


def state(running: Running, after: int = -1, **headers: str) -> dict[str, Any]:
    answer = httpx.get(f"{running.url}/live/state", params={"after": after}, headers=headers)
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
    return answer.json()


@contextmanager
def loaded(running: Running, bodies: list[Any]) -> Iterator[None]:
    """While these are streamed."""
    reading = threading.Thread(target=lambda: asyncio.run(read_all(running, bodies)))
    reading.start()
    yield
    reading.join(LIMIT_S)


def test_nothing_is_kept_of_a_server_that_is_not_watched() -> None:
    with serving() as quiet:
        quiet.post("/v1/completions", completion())
        quiet.wait_until_idle()
        feed = quiet.thread.live
        assert (feed._frames, feed._requests, feed._room) == ((), (), {})
        seen = state(quiet)
        assert (seen["steps"], list(seen["requests"]), seen["tokens"]) == ([], [], 20)
        assert seen["model"] == MODEL and not seen["closing"]


def test_the_steps_told_are_the_engines_own() -> None:
    with serving() as watched:
        state(watched)
        made = watched.thread.engine
        watched.post("/v1/completions", completion(max_tokens=5, temperature=0))
        watched.wait_until_idle()
        seen = state(watched)
        first = seen["steps"][0]["step"]
        assert [each["step"] for each in seen["steps"]] == list(range(first, first + 5))
        assert [each["work"] for each in seen["steps"]] == [
            [[0, 0, len(PROMPT)]], *([[0, 1, 1]] for _ in range(4)),
        ]  # fmt: skip
        assert [each["kv"] for each in seen["steps"]] == [13, 14, 15, 16, 0]
        assert seen["steps"][-1]["finished"] == [0] and seen["requests"] == []
        assert seen["steps"][-1]["us"] == made.steps[-1].duration_us
        assert (sum(seen["ttft"]["counts"]), sum(seen["itl"]["counts"])) == (1, 4)
        assert (seen["tokens"], seen["prompt_tokens"]) == (5, 13)
        assert [each["step"] for each in state(watched, first + 2)["steps"]] == [
            first + 3, first + 4,
        ]  # fmt: skip


def test_requests_in_flight_are_told_in_numbers_alone() -> None:
    with serving(engine(long_model(), max_batch_size=2, max_kv_tokens=9000)) as busy:
        state(busy)
        with loaded(busy, [completion(max_tokens=900, stream=True) for _ in range(4)]):
            busy.wait_until(lambda: len(state(busy)["requests"]) == 4)
            seen = state(busy)
            known = {"id", "status", "prompt", "known", "generated", "wanted", "priority"}
            assert all(each.keys() == known for each in seen["requests"])
            assert [each["status"] for each in seen["requests"]][2:] == ["waiting", "waiting"]
            assert (seen["max_kv_tokens"], seen["token_budget"]) == (9000, 64)
            assert seen["num_in_flight"] == 4
        busy.wait_until_idle()
        assert state(busy)["requests"] == [] and state(busy)["num_in_flight"] == 0


def test_what_a_watcher_has_not_read_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    feed, made = LiveFeed(), engine(tiny_model(), max_batch_size=4)
    feed.state(-1)
    for number in range(90):
        made.submit(Request(number, prompt_of(number, 4), 12))
    feed.settle(made)
    told = feed.state(-1)
    assert len(told["requests"]) == MOST_REQUESTS and told["num_in_flight"] == 90
    assert [each["id"] for each in told["requests"]] == list(range(MOST_REQUESTS))
    for _ in range(MOST_STEPS + 40):
        feed.step(made.step())
        feed.settle(made)
    steps = [each["step"] for each in feed.state(-1)["steps"]]
    assert steps == list(range(40, MOST_STEPS + 40))
    assert len(feed._frames) == MOST_STEPS
    # A page that asks no more is forgotten, and what was kept for it.
    monkeypatch.setattr(live_feed, "WATCHED_S", 0.0)
    feed.state(-1)
    feed.step(made.step())
    feed.settle(made)
    assert (feed._frames, feed._requests, feed._room) == ((), (), {})


def test_watchers_change_no_text_and_each_reads_for_itself() -> None:
    body = completion(max_tokens=300, temperature=1, seed=3)
    with serving(engine(long_model())) as alone:
        text = alone.post("/v1/completions", body).json()["choices"][0]["text"]
    with serving(engine(long_model())) as crowded:
        over = threading.Event()
        seen: list[set[int]] = [set() for _ in range(6)]

        def watch(mine: set[int]) -> None:
            while not over.is_set():
                mine |= {each["step"] for each in state(crowded, max(mine, default=-1))["steps"]}

        watching = [threading.Thread(target=watch, args=(mine,)) for mine in seen]
        for each in watching:
            each.start()
        crowded.wait_until(lambda: crowded.thread.live.is_watched)
        assert crowded.post("/v1/completions", body).json()["choices"][0]["text"] == text
        over.set()
        for each in watching:
            each.join(LIMIT_S)
        assert all(len(mine) > 10 for mine in seen)


def test_blocks_are_counted_where_there_are_blocks() -> None:
    made = engine(tiny_model(), block_size=8, share_prefixes=True, max_kv_tokens=128)
    with serving(made) as blocks:
        state(blocks)
        blocks.post("/v1/completions", completion(max_tokens=10))
        blocks.wait_until_idle()
        counted = [each["blocks"] for each in state(blocks)["steps"]]
    assert [held for held, _, _ in counted] == [2, 2, 2, 2, 3, 3, 3, 3, 3, 0]
    assert {of for _, _, of in counted} == {16}
    assert counted[-1][1] == 2  # the full blocks are free, and can still be found


def test_the_key_is_asked_for_the_state_and_not_for_the_page() -> None:
    with serving(api_key="secret") as guarded:
        assert httpx.get(f"{guarded.url}/live/state").status_code == 401
        assert not guarded.thread.live.is_watched
        assert state(guarded, Authorization="Bearer secret")["model"] == MODEL
        assert httpx.get(f"{guarded.url}/live").status_code == 200


def test_the_page_asks_nothing_of_other_machines() -> None:
    with serving() as running:
        for path in FILES:
            answer = httpx.get(running.url + path)
            assert answer.status_code == 200
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            text = answer.text.replace("http://www.w3.org/2000/svg", "")
            assert "http:" not in text and "https:" not in text
        for wrong in ("x", "1.5", "9" * 40, "--1"):
            refused = httpx.get(f"{running.url}/live/state", params={"after": wrong})
            assert refused.status_code == 400
            assert "it must be a whole number" in refused.json()["error"]["message"]
