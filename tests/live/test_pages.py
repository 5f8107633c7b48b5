"""The live demo's routes: codes, tokens, hostile messages, slow readers, the end."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import torch
from living import assert_texts_are_the_oracles, small_model


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Waits that slow attackers down need not slow tests down."""
    monkeypatch.setattr("course.live.room_web._WRONG_CODE_S", 0.01)
    monkeypatch.setattr("course.live.room_web._VIEW_EVERY_S", 0.01)
    monkeypatch.setattr("course.live.room_requests.GAP_S", 0.0)
    with torch.inference_mode():
        yield


class Page:
    """A page that reads its views."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()

    async def until(self, kind: str, is_it: Any = lambda message: True) -> dict[str, Any]:
        """The next message of this kind of which that is true."""
        async with asyncio.timeout(20):
            async for line in self._lines:
                message = json.loads(line.removeprefix("data: ")) if line else {"kind": ""}
                if message["kind"] == kind and is_it(message):
                    return message
        raise AssertionError(f"the page was closed before {kind}")


class Open:
    """A room that is served on a port of this machine."""

    def __init__(self, app: Any, port: int, server: Any, client: httpx.AsyncClient) -> None:
        self.app, self.port, self.server, self.client = app, port, server, client
        self.room = app.room
        self.guest_key = {"authorization": f"Bearer {self.room.code}"}
        self.screen_key = {"authorization": f"Bearer {self.room.token}"}

    @asynccontextmanager
    async def page(self, path: str, headers: dict[str, str]) -> AsyncIterator[Page]:
        async with self.client.stream("GET", path, headers=headers) as answer:
            assert answer.status_code == 200
            page = Page(answer)
            welcome = await page.until("welcome")
            if "key" in welcome:
                self.guest_key["x-guest"] = welcome["key"]
            yield page

    def guest(self) -> Any:
        return self.page("/room/guest", self.guest_key)

    def screen(self) -> Any:
        return self.page("/room/screen", self.screen_key)

    async def say(self, path: str, message: object, headers: dict[str, str]) -> str:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        answer = (await self.client.post(path, content=body, headers=headers)).json()
        return answer["why"] if "why" in answer else answer["error"]["message"]

    async def ask(self, message: object) -> str:
        return await self.say("/room/ask", message, self.guest_key)

    async def control(self, message: object) -> str:
        return await self.say("/room/control", message, self.screen_key)


def in_a_room(**tuning: Any) -> Callable[[Callable[..., Awaitable[None]]], Callable[[], None]]:
    """Make a test of a coroutine that takes an open room."""

    async def main(test: Callable[..., Awaitable[None]]) -> None:
        from course.live.live_command import joining
        from course.live.room import Room
        from course.live.room_web import RoomApp
        from course.live.tuning import Tuning
        from nanogpt.server.serving import LOCAL, Server

        room = Room(small_model(), Tuning(**{"pace_ms": 0, **tuning}))
        listening = socket.create_server((LOCAL, 0))
        port = listening.getsockname()[1]
        app = RoomApp(room, LOCAL, joining(LOCAL, port, room))
        server = Server(app.starlette(), room.thread)
        serving = asyncio.create_task(server._serve([listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        limits = httpx.Limits(max_connections=None)
        url = f"http://{LOCAL}:{port}"
        try:
            async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
                await asyncio.wait_for(test(Open(app, port, server, client)), 60)
        finally:
            server.should_exit = True
            await serving

    return lambda test: lambda: asyncio.run(main(test))


def is_done(view: dict[str, Any]) -> bool:
    return bool(view["mine"]) and view["mine"][0]["state"] == "done"


@in_a_room()
async def test_a_prompt_goes_in_its_text_streams_out_and_at_the_end_every_page_is_told(room: Open):
    async with room.screen() as screen, room.guest() as guest:
        assert await room.ask({"ask": "To be, or not"}) == ""
        seen = await guest.until("view", is_done)
        assert len(seen["mine"][0]["text"]) == 32
        assert_texts_are_the_oracles(list(room.room.requests.values()))
        room.server.should_exit = True
        await guest.until("end")
        await screen.until("end")


@in_a_room()
async def test_without_the_rooms_code_or_the_screens_token_nothing_is_shown_or_done(room: Open):
    for key in ("WRONG", "x" * 9999, room.room.token):
        headers = {"authorization": f"Bearer {key}"}
        answer = await room.client.get("/room/guest", headers=headers)
        assert answer.status_code == 403
        assert await room.say("/room/ask", {"ask": "x"}, headers) == "That is not this room's code."
    why = "That is not this screen's address."
    answer = await room.client.get("/room/screen", headers=room.guest_key)
    assert (answer.status_code, answer.json()["error"]["message"]) == (403, why)
    assert await room.say("/room/control", {"do": "kill"}, room.guest_key) == why
    assert (await room.client.get("/live/state", headers=room.guest_key)).status_code == 401
    assert (await room.client.get("/live/state", headers=room.screen_key)).status_code == 200
    assert (await room.client.post("/v1/completions", headers=room.screen_key)).status_code == 404
    assert room.room.guests == {} and room.room.requests == {}


@in_a_room()
async def test_pages_may_load_nothing_from_elsewhere_and_stand_in_no_frame(room: Open):
    for path in ("/", "/screen", "/phone.js", "/room.css", "/live/live.js", "/live/live.css"):
        answer = await room.client.get(path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
    for path in ("/live/../room.py", "/static/phone.js", "/docs", "/live"):
        assert (await room.client.get(path)).status_code == 404, path


def test_a_room_has_so_many_pages_and_forgets_those_that_leave(monkeypatch):
    monkeypatch.setattr("course.live.room_web.MAX_PAGES", 3)

    @in_a_room()
    async def fill(room: Open) -> None:
        async with room.guest(), room.guest(), room.screen():
            late = await room.client.get("/room/guest", headers=room.guest_key)
            assert late.json()["why"] == "The room is full: 3 pages are open."
        while room.app.num_pages or any(guest.pages for guest in room.room.guests.values()):
            await asyncio.sleep(0.01)

    fill()


@in_a_room()
async def test_a_hostile_message_gets_one_sentence_and_the_page_goes_on(room: Open):
    before = room.room.tuning
    async with room.guest() as guest:
        for say, said, words in (
            (room.ask, {"ask": "x" * 121}, "The prompt has 121 characters"),
            (room.ask, b"not json", "A message is a JSON object."),
            (room.ask, b"[" * 2000, "A message is a JSON object."),
            (room.ask, {"ask": "x" * 5000}, "the body is larger than 4096 bytes"),
            (room.ask, {"do": "kill"}, "A prompt is text."),
            (room.control, {"set": {"__class__": 1}}, "there is no setting '__class__'"),
            (room.control, {"set": 3}, "There is no such control."),
        ):
            assert (await say(said)).startswith(words)
        assert await room.ask({"ask": "To be"}) == ""
        await guest.until("view", is_done)
    assert room.room.tuning == before


@in_a_room(pace_ms=20)
async def test_a_paused_room_steps_when_told(room: Open):
    async with room.screen() as screen, room.guest() as guest:
        await room.ask({"ask": "To be, or not to be"})
        await guest.until("view", lambda v: v["mine"] and len(v["mine"][0]["text"]) > 3)
        await room.control({"do": "pause"})
        await screen.until("screen", lambda view: view["settings"]["paused"])
        await asyncio.sleep(0.05)  # the step that was running
        begin = room.room.step_number
        for number in (begin + 1, begin + 2):
            await room.control({"do": "step"})
            await screen.until("screen", lambda view, n=number: view["room"]["step"] == n)
        await room.control({"do": "go"})
        await guest.until("view", is_done)


@in_a_room()
async def test_a_page_that_reads_nothing_holds_nothing_up(room: Open):
    reader, writer = await asyncio.open_connection("127.0.0.1", room.port)
    head = (
        f"GET /room/screen HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {room.room.token}\r\n\r\n"
    )
    writer.write(head.encode())
    async with room.guest() as guest:
        for _ in range(10):
            assert await room.ask({"ask": "To be, or not to be"}) == ""
            await guest.until("view", is_done)
    assert room.room.step_number >= 10 * 32
    writer.close()
    del reader
