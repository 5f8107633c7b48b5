"""The live demo's doors: codes, tokens, origins, hostile messages, slow readers, the end."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import torch
import uvicorn
import websockets
from living import LocalWorker, assert_texts_are_the_oracles

from course.live import web
from course.live.command import LiveServer, joining
from course.live.room import Room
from course.live.serving import Serving
from course.live.tuning import Tuning
from course.live.web import MAX_MESSAGE, House


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """What is there to slow attackers down need not slow tests down."""
    monkeypatch.setattr(web, "_WRONG_CODE_S", 0.01)
    monkeypatch.setattr("course.live.serving.AGAIN_AFTER_S", 0.01)
    monkeypatch.setattr("course.live.prompts.GAP_S", 0.0)
    with torch.inference_mode():
        yield


class Open:
    """A room that is served on a port of this machine."""

    def __init__(self, house: House, port: int, server: LiveServer) -> None:
        self.house, self.port, self.server = house, port, server
        self.room = house.room

    def connect(self, path: str, **options: Any) -> Any:
        options.setdefault("origin", f"http://127.0.0.1:{self.port}")
        options.setdefault("max_queue", None)  # or a page that has not read all closes late
        return websockets.connect(f"ws://127.0.0.1:{self.port}{path}", **options)

    @asynccontextmanager
    async def guest(self, **more: Any) -> AsyncIterator[Any]:
        async with self.connect("/room") as page:
            await say(page, {"code": self.room.code, **more})
            await until(page, "welcome")
            yield page

    @asynccontextmanager
    async def screen(self) -> AsyncIterator[Any]:
        async with self.connect("/control") as page:
            await say(page, {"token": self.house.token})
            await until(page, "welcome")
            yield page

    async def raw(self, request: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request.encode())
        answer = await reader.read(100_000)
        writer.close()
        return answer


@asynccontextmanager
async def opened(**tuning: Any) -> AsyncIterator[Open]:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    house = House(Serving(Room(Tuning(**{"pace_ms": 0, **tuning})), LocalWorker.start))
    house.joining = joining("127.0.0.1", port, house)
    config = uvicorn.Config(
        house.app(), log_level="warning", ws="websockets-sansio", ws_max_size=MAX_MESSAGE
    )
    server = LiveServer(config, house, browser=False)
    serving = asyncio.create_task(server._serve([listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield Open(house, port, server)
    finally:
        server.should_exit = True
        await serving


async def say(page: Any, message: object) -> None:
    await page.send(message if isinstance(message, str) else json.dumps(message))


async def until(page: Any, kind: str, is_it: Any = lambda message: True) -> dict[str, Any]:
    """The next message of this kind of which that is true."""
    async with asyncio.timeout(20):
        while True:
            message = json.loads(await page.recv())
            if message["kind"] == kind and is_it(message):
                return message


async def read_on(page: Any) -> None:
    while True:
        await page.recv()


def run(test: Any, **tuning: Any) -> None:
    async def main() -> None:
        async with opened(**tuning) as room:
            await test(room)

    asyncio.run(main())


async def refused(page: Any, *said: object) -> str:
    for message in said:
        await say(page, message)
    return (await until(page, "refused"))["why"]


# ---- who comes in --------------------------------------------------------------------------------


def test_a_prompt_goes_in_and_its_text_streams_out():
    async def test(room: Open) -> None:
        async with room.guest() as page:
            await say(page, {"ask": "To be, or not"})
            assert (await until(page, "answer"))["why"] == ""
            seen = await until(page, "view", lambda view: view["mine"][0]["state"] == "done")
            assert len(seen["mine"][0]["text"]) == 32
            assert_texts_are_the_oracles(list(room.room.asked.values()))

    run(test)


@pytest.mark.parametrize("said", [{"code": "WRONG"}, {"code": 7}, {}, {"token": "x"}, "[]", "{"])
def test_without_the_rooms_code_nothing_is_shown(said: object):
    async def test(room: Open) -> None:
        async with room.connect("/room") as page:
            await say(page, said)
            first = json.loads(await page.recv())
            assert first["kind"] == "refused"
            with pytest.raises(websockets.ConnectionClosed):
                await page.recv()

    run(test)


def test_the_rooms_code_does_not_open_the_controls():
    async def test(room: Open) -> None:
        async with room.connect("/control") as page:
            why = await refused(page, {"token": room.room.code, "code": room.room.code})
            assert why == "That is not this screen's address."
        async with room.guest() as page:
            for deed in ({"do": "kill"}, {"set": {"token_budget": 4}}, {"do": "hide"}):
                await say(page, deed)
                assert (await until(page, "answer"))["why"] == "A prompt is text."
        assert (room.room.tuning.token_budget, room.room.hidden) == (32, False)

    run(test)


@pytest.mark.parametrize("path", ["/room", "/control"])
@pytest.mark.parametrize("origin", ["http://elsewhere.example", "null", "http://127.0.0.1:1", None])
def test_a_page_of_another_server_gets_no_connection(path: str, origin: str | None):
    async def test(room: Open) -> None:
        with pytest.raises(websockets.InvalidStatus):
            async with room.connect(path, origin=origin):
                pass

    run(test)


def test_pages_may_load_nothing_from_elsewhere_and_stand_in_no_frame():
    async def test(room: Open) -> None:
        for path in ("/", "/screen", "/phone.js", "/widgets.css", "/widgets/live_trace.js"):
            answer = await room.raw(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n")
            head = answer.decode().partition("\r\n\r\n")[0].lower()
            assert head.startswith("http/1.1 200"), path
            assert "default-src 'none'" in head and "frame-ancestors 'none'" in head
            assert "nosniff" in head and "no-store" in head
        for path in ("/../room.py", "/widgets/../timeline.py", "/static/phone.js", "/docs"):
            answer = await room.raw(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 404"), path

    run(test)


# ---- what they say -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"ask": "x" * 121}, "The prompt has 121 characters"),
        ({"ask": "<img src=x onerror=alert(1)>"}, "The model has never seen “<”"),
        ({"ask": "a\x00b"}, "The model has never seen character 0"),
        ({"ask": {"deep": []}}, "A prompt is text."),
        ({"ask": 10**30}, "A prompt is text."),
        ("not json", "A message is a JSON object."),
        ("[" * 2000, "A message is a JSON object."),
        ('"To be"', "A message is a JSON object."),
        ("{}", "A prompt is text."),
    ],
)
def test_a_hostile_message_gets_one_sentence_and_the_page_goes_on(said: object, words: str):
    async def test(room: Open) -> None:
        async with room.guest() as page:
            await say(page, said)
            assert (await until(page, "answer"))["why"].startswith(words)
            await say(page, {"ask": "To be"})
            assert (await until(page, "answer"))["why"] == ""

    run(test)


@pytest.mark.parametrize("said", [{"ask": "x" * 5000}, b"\x00\xff" * 10])
def test_a_message_beyond_all_bounds_ends_its_page_alone(said: Any):
    async def test(room: Open) -> None:
        async with room.guest() as good, room.guest() as bad:
            await bad.send(said if isinstance(said, bytes) else json.dumps(said))
            with pytest.raises(websockets.ConnectionClosed):
                await read_on(bad)
            await say(good, {"ask": "To be"})
            assert (await until(good, "answer"))["why"] == ""

    run(test)


def test_a_page_that_sends_without_end_is_let_go():
    async def test(room: Open) -> None:
        async with room.guest() as page:
            assert await refused(page, *["{}"] * 30) == "Too many messages."

    run(test)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"set": {"token_budget": 10**9}}, "token_budget is 1000000000; it must be"),
        ({"set": {"__class__": 1}}, "there is no setting '__class__'"),
        ({"set": {"policy": ["fcfs"]}}, "there is no policy ['fcfs']; choose from"),
        ({"do": "format"}, "There is no such control."),
        ({"set": 3}, "There is no such control."),
    ],
)
def test_a_control_that_there_is_not_is_refused(said: object, words: str):
    async def test(room: Open) -> None:
        async with room.screen() as page:
            await say(page, said)
            assert (await until(page, "answer"))["why"].startswith(words)
        assert room.room.tuning == Tuning(pace_ms=0)

    run(test)


# ---- the instructor ------------------------------------------------------------------------------


def test_a_paused_room_steps_when_told_and_goes_on():
    async def test(room: Open) -> None:
        async with room.screen() as screen, room.guest() as guest:
            await say(screen, {"do": "pause"})
            await until(screen, "screen", lambda view: view["settings"]["paused"])
            await say(guest, {"ask": "To be"})
            await until(guest, "answer")
            for number in (1, 2, 3):
                await say(screen, {"do": "step"})
                await until(screen, "screen", lambda view, n=number: view["room"]["step"] == n)
            assert room.room.step_number == 3
            await say(screen, {"do": "go"})
            await until(guest, "view", lambda view: view["mine"][0]["state"] == "done")

    run(test)


@pytest.mark.parametrize("paused", [False, True])
def test_a_killed_worker_is_followed_by_another_and_texts_go_on(paused: bool):
    async def test(room: Open) -> None:
        async with room.screen() as screen, room.guest() as guest:
            await say(guest, {"ask": "To be, or not to be"})
            await until(guest, "view", lambda v: v["mine"] and len(v["mine"][0]["text"]) > 3)
            first = room.house.serving.worker
            if paused:
                await say(screen, {"do": "pause"})
                await until(screen, "screen", lambda view: view["settings"]["paused"])
            await say(screen, {"do": "kill"})
            await until(screen, "screen", lambda view: "SIGKILL" in str(view["events"]))
            await say(screen, {"do": "go"})
            await until(guest, "view", lambda view: view["mine"][0]["state"] == "done")
            assert room.house.serving.worker is not first
            assert_texts_are_the_oracles(list(room.room.asked.values()))

    run(test, pace_ms=20)


# ---- who reads slowly, who leaves ----------------------------------------------------------------


def test_a_page_that_reads_nothing_holds_nothing_up_and_gets_the_newest_in_the_end(monkeypatch):
    """Nothing is queued for it: what it has missed it has missed."""
    monkeypatch.setattr(web, "_MESSAGES", 1000)
    monkeypatch.setattr(web, "_SCREEN_EVERY_S", 0.0)
    monkeypatch.setattr(web, "_GUEST_EVERY_S", 0.0)

    async def test(room: Open) -> None:
        # A reader that takes in one message and no more.
        async with room.connect("/control", max_queue=1) as slow:
            await say(slow, {"token": room.house.token})
            await until(slow, "welcome")
            async with room.guest() as guest:
                for _ in range(20):
                    await say(guest, {"ask": "To be, or not to be"})
                    assert (await until(guest, "answer"))["why"] == ""
                    await until(guest, "view", lambda view: view["mine"][0]["state"] == "done")
            assert room.room.step_number >= 20 * 32
            last = room.room.step_number
            kept = []
            while not kept or kept[-1] < last:
                view = await until(slow, "screen")
                kept.append(view["room"]["step"])
            assert len(kept) < 200, "of 640 steps; the sockets' own buffers hold these"

    run(test)


def test_a_page_that_leaves_is_forgotten_and_the_others_go_on():
    async def test(room: Open) -> None:
        async with room.guest() as staying:
            async with room.guest() as leaving:
                await say(leaving, {"ask": "To be"})
                await until(leaving, "answer")
                await until(staying, "view", lambda view: view["room"]["people"] == 2)
            seen = await until(
                staying,
                "view",
                lambda view: view["room"]["people"] == 1 and view["others"][0]["state"] == "done",
            )
            assert seen["room"]["running"] == 0
        while room.house._pages:
            await asyncio.sleep(0.01)
        assert not room.house.serving._listeners

    run(test)


def test_a_room_has_so_many_pages_and_no_more(monkeypatch):
    monkeypatch.setattr(web, "MAX_PAGES", 3)

    async def test(room: Open) -> None:
        async with room.guest(), room.guest(), room.guest(), room.connect("/room") as late:
            assert json.loads(await late.recv())["why"] == "The room is full: 3 pages are open."

    run(test)


def test_a_page_that_says_nothing_at_first_is_let_go(monkeypatch):
    monkeypatch.setattr(web, "_FIRST_WORD_S", 0.05)

    async def test(room: Open) -> None:
        async with room.connect("/room") as page:
            with pytest.raises(websockets.ConnectionClosed):
                await page.recv()

    run(test)


def test_at_the_end_every_page_is_told():
    async def test(room: Open) -> None:
        async with room.screen() as screen, room.guest() as guest:
            room.server.should_exit = True
            await until(guest, "end")
            await until(screen, "end")

    run(test)
