"""The live demo's doors: codes, tokens, origins, hostile messages, slow readers, the end."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import torch
from living import LocalWorker, assert_texts_are_the_oracles


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """What is there to slow attackers down need not slow tests down."""
    monkeypatch.setattr("course.live.room_web._WRONG_CODE_S", 0.01)
    monkeypatch.setattr("course.live.serving.AGAIN_AFTER_S", 0.01)
    monkeypatch.setattr("course.live.prompts.GAP_S", 0.0)
    with torch.inference_mode():
        yield


class Open:
    """A room that is served on a port of this machine."""

    def __init__(self, house: Any, port: int, server: Any) -> None:
        self.house, self.port, self.server = house, port, server
        self.room = house.room

    def connect(self, path: str, **options: Any) -> Any:
        import websockets

        options.setdefault("origin", f"http://127.0.0.1:{self.port}")
        options.setdefault("max_queue", None)  # or a page that has not read all closes late
        return websockets.connect(f"ws://127.0.0.1:{self.port}{path}", **options)

    @asynccontextmanager
    async def page(self, path: str, first: dict[str, Any], **options: Any) -> AsyncIterator[Any]:
        async with self.connect(path, **options) as page:
            await say(page, first)
            await until(page, "welcome")
            yield page

    def guest(self) -> Any:
        return self.page("/room", {"code": self.room.code})

    def screen(self, **options: Any) -> Any:
        return self.page("/control", {"token": self.house.token}, **options)

    async def raw(self, path: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        answer = await reader.read(100_000)
        writer.close()
        return answer.decode(errors="replace")


async def say(page: Any, message: object) -> None:
    await page.send(message if isinstance(message, str | bytes) else json.dumps(message))


async def until(page: Any, kind: str, is_it: Any = lambda message: True) -> dict[str, Any]:
    """The next message of this kind of which that is true."""
    async with asyncio.timeout(20):
        while True:
            message = json.loads(await page.recv())
            if message["kind"] == kind and is_it(message):
                return message


def in_a_room(**tuning: Any) -> Callable[[Callable[..., Awaitable[None]]], Callable[[], None]]:
    """Make a test of a coroutine that takes an open room."""

    async def main(test: Callable[..., Awaitable[None]]) -> None:
        import uvicorn

        from course.live.live_command import LiveServer, joining
        from course.live.room import Room
        from course.live.room_web import MAX_MESSAGE, House
        from course.live.serving import Serving
        from course.live.tuning import Tuning

        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        house = House(Serving(Room(Tuning(**{"pace_ms": 0, **tuning})), LocalWorker.start))
        house.joining = joining("127.0.0.1", port, house)
        sizes = {"ws": "websockets-sansio", "ws_max_size": MAX_MESSAGE}
        config = uvicorn.Config(house.app(), log_level="warning", **sizes)
        server = LiveServer(config, house, browser=False)
        serving = asyncio.create_task(server._serve([listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            await asyncio.wait_for(test(Open(house, port, server)), 60)
        finally:
            server.should_exit = True
            await serving

    return lambda test: lambda: asyncio.run(main(test))


def is_done(view: dict[str, Any]) -> bool:
    return bool(view["mine"]) and view["mine"][0]["state"] == "done"


@in_a_room()
async def test_a_prompt_goes_in_its_text_streams_out_and_at_the_end_every_page_is_told(room: Open):
    async with room.screen() as screen, room.guest() as guest:
        await say(guest, {"ask": "To be, or not"})
        assert (await until(guest, "answer"))["why"] == ""
        seen = await until(guest, "view", is_done)
        assert len(seen["mine"][0]["text"]) == 32
        assert_texts_are_the_oracles(list(room.room.asked.values()))
        room.server.should_exit = True
        await until(guest, "end")
        await until(screen, "end")


@in_a_room()
async def test_without_the_rooms_code_or_from_another_servers_page_nothing_is_shown(room: Open):
    from websockets import InvalidStatus

    for said in ({"code": "WRONG"}, {"code": 7}, {}, {"token": "x"}, "[]", "{"):
        async with room.connect("/room") as page:
            await say(page, said)
            assert json.loads(await page.recv())["kind"] == "refused"
            await page.wait_closed()
    async with room.connect("/control") as page:
        await say(page, {"token": room.room.code, "code": room.room.code})
        assert (await until(page, "refused"))["why"] == "That is not this screen's address."
    for origin in ("http://elsewhere.example", "null", "http://127.0.0.1:1", None):
        for path in ("/room", "/control"):
            with pytest.raises(InvalidStatus):
                await room.connect(path, origin=origin)


@in_a_room()
async def test_pages_may_load_nothing_from_elsewhere_and_stand_in_no_frame(room: Open):
    for path in ("/", "/screen", "/phone.js", "/widgets.css", "/widgets/live_trace.js"):
        head = (await room.raw(path)).partition("\r\n\r\n")[0].lower()
        assert head.startswith("http/1.1 200"), path
        assert "default-src 'none'" in head and "frame-ancestors 'none'" in head
        assert "nosniff" in head and "no-store" in head
    for path in ("/../room.py", "/widgets/../timeline.py", "/static/phone.js", "/docs"):
        assert (await room.raw(path)).startswith("HTTP/1.1 404"), path


def test_a_room_has_so_many_pages_no_silent_ones_and_forgets_those_that_leave(monkeypatch):
    monkeypatch.setattr("course.live.room_web.MAX_PAGES", 3)
    monkeypatch.setattr("course.live.room_web._FIRST_WORD_S", 0.05)

    @in_a_room()
    async def fill(room: Open) -> None:
        async with room.connect("/room") as silent:
            await silent.wait_closed()
        async with room.guest(), room.guest(), room.guest(), room.connect("/room") as late:
            assert json.loads(await late.recv())["why"] == "The room is full: 3 pages are open."
        while room.house._pages or room.house.serving._listeners:
            await asyncio.sleep(0.01)  # pages that leave are forgotten

    fill()


@in_a_room()
async def test_a_hostile_message_gets_one_sentence_and_the_page_goes_on(room: Open):
    before = room.room.tuning
    async with room.guest() as guest, room.screen() as screen:
        for page, said, words in (
            (guest, {"ask": "x" * 121}, "The prompt has 121 characters"),
            (guest, {"ask": {"deep": []}}, "A prompt is text."),
            (guest, "not json", "A message is a JSON object."),
            (guest, "[" * 2000, "A message is a JSON object."),
            (guest, {"do": "kill"}, "A prompt is text."),
            (guest, {"set": {"token_budget": 4}}, "A prompt is text."),
            (screen, {"set": {"__class__": 1}}, "there is no setting '__class__'"),
            (screen, {"set": {"policy": ["fcfs"]}}, "there is no policy ['fcfs']; choose from"),
            (screen, {"do": "format"}, "There is no such control."),
            (screen, {"set": 3}, "There is no such control."),
        ):
            await say(page, said)
            assert (await until(page, "answer"))["why"].startswith(words)
        await say(guest, {"ask": "To be"})
        assert (await until(guest, "answer"))["why"] == ""
    assert room.room.tuning == before


@in_a_room()
async def test_a_message_beyond_all_bounds_or_too_many_end_their_page_and_no_other(room: Open):
    async with room.guest() as good:
        for said in ({"ask": "x" * 5000}, b"\x00\xff" * 10):
            async with room.guest() as bad:
                await say(bad, said)
                await bad.wait_closed()
        async with room.guest() as many:
            for _ in range(30):
                await say(many, "{}")
            assert (await until(many, "refused"))["why"] == "Too many messages."
        await say(good, {"ask": "To be"})
        assert (await until(good, "answer"))["why"] == ""


@in_a_room(pace_ms=20)
async def test_a_paused_room_steps_when_told_and_survives_its_worker(room: Open):
    async with room.screen() as screen, room.guest() as guest:
        await say(guest, {"ask": "To be, or not to be"})
        await until(guest, "view", lambda v: v["mine"] and len(v["mine"][0]["text"]) > 3)
        first = room.house.serving.worker
        await say(screen, {"do": "pause"})
        paused = await until(screen, "screen", lambda view: view["settings"]["paused"])
        begin = paused["room"]["step"]
        for number in (begin + 1, begin + 2):
            await say(screen, {"do": "step"})
            await until(screen, "screen", lambda view, n=number: view["room"]["step"] == n)
        await say(screen, {"do": "kill"})
        await until(screen, "screen", lambda view: "SIGKILL" in str(view["events"]))
        assert room.room.step_number == begin + 2
        await say(screen, {"do": "go"})
        await until(guest, "view", is_done)
        assert room.house.serving.worker is not first
        assert_texts_are_the_oracles(list(room.room.asked.values()))


def test_a_page_that_reads_nothing_holds_nothing_up_and_gets_the_newest_in_the_end(monkeypatch):
    """Nothing is queued for it: what it has missed it has missed."""
    for name, value in (("_MESSAGES", 1000), ("_SCREEN_EVERY_S", 0.0), ("_GUEST_EVERY_S", 0.0)):
        monkeypatch.setattr(f"course.live.room_web.{name}", value)

    @in_a_room()
    async def read_late(room: Open) -> None:
        # A reader that takes in one message and no more.
        async with room.screen(max_queue=1) as slow:
            async with room.guest() as guest:
                for _ in range(20):
                    await say(guest, {"ask": "To be, or not to be"})
                    assert (await until(guest, "answer"))["why"] == ""
                    await until(guest, "view", is_done)
            last = room.room.step_number
            assert last >= 20 * 32
            seen = []
            while not seen or seen[-1] < last:
                seen.append((await until(slow, "screen"))["room"]["step"])
            assert len(seen) < 200, "of 640 steps; the sockets' own buffers hold these"

    read_late()
