"""The pages and their websockets: who may join, what they may send, and when they are told.

A page sends its code or its token in its first message, so that neither is in an address. It is
always sent the newest view; a slow reader misses some.
"""

import asyncio
import json
import secrets
from asyncio import Event
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from course.live import room_views
from course.live.prompts import Guest, Rate, Refused
from course.live.room import Room
from course.live.serving import Serving
from widgets import assets

MAX_PAGES = 400
MAX_MESSAGE = 4096
"""Bytes of a message to the server."""

_FIRST_WORD_S = 10.0
_WRONG_CODE_S = 1.0
_SEND_S = 20.0
"""A page that accepts nothing for this time is dropped."""
_GUEST_EVERY_S = 0.15
_SCREEN_EVERY_S = 0.08
_MESSAGES, _MESSAGES_S = 20, 5.0

_STATIC = Path(__file__).parent / "static"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' "
    "'unsafe-inline'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_PAGES = {"/": "phone.html", "/screen": "screen.html"}
_FILES = ("phone.js", "screen.js", "connection.js", "live.css")
_STYLES = ("timeline", "heap_stepper", "kv_budget", "live_trace")


Hear = Callable[[dict[str, Any]], None]


class House:
    """The room's web application. Mutable: the open pages."""

    def __init__(self, serving: Serving, joining: dict[str, Any] | None = None) -> None:
        self.serving = serving
        self.token = secrets.token_urlsafe(16)
        self.joining = joining or {}
        self.over = Event()
        self._pages = 0

    @property
    def room(self) -> Room:
        """Its state."""
        return self.serving.room

    def app(self) -> Starlette:
        """The ASGI application; its lifespan runs the loop that serves."""
        routes = [
            *file_routes(),
            WebSocketRoute("/room", self._guest),
            WebSocketRoute("/control", self._screen),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    async def close(self) -> None:
        """Tell every page that the demo is over, and wait until they have heard it."""
        self.over.set()
        self.serving.tell()
        for _ in range(40):
            if not self._pages:
                return
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        loop = asyncio.create_task(self.serving.run())
        yield
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop

    async def _guest(self, socket: WebSocket) -> None:
        async def talk(first: dict[str, Any]) -> None:
            await self._check(first.get("code"), self.room.code, "That is not this room's code.")
            guest = self.room.join(first.get("key"))
            try:
                await _send(socket, {"kind": "welcome", "key": guest.key})
                await self._converse(
                    socket,
                    lambda: room_views.of_guest(self.room, guest),
                    lambda said: self._asked(guest, said),
                    _GUEST_EVERY_S,
                )
            finally:
                self.room.leave(guest)
                self.serving.tell()

        await self._open(socket, talk)

    async def _screen(self, socket: WebSocket) -> None:
        async def talk(first: dict[str, Any]) -> None:
            await self._check(first.get("token"), self.token, "That is not this screen's address.")
            welcome = {"kind": "welcome", "code": self.room.code, **self.joining}
            await _send(socket, {**welcome, **room_views.controls()})
            await self._converse(
                socket, lambda: room_views.of_screen(self.room), self._told, _SCREEN_EVERY_S
            )

        await self._open(socket, talk)

    def _asked(self, guest: Guest, said: dict[str, Any]) -> None:
        """A guest's prompt. Raises: Refused."""
        self.room.ask(guest, said.get("ask"))
        self.serving.tell()

    def _told(self, said: dict[str, Any]) -> None:
        """Do what the instructor pressed. Raises: Refused."""
        room, serving = self.room, self.serving
        deeds: dict[str, Callable[[], Any]] = {
            "long": room.send_long,
            "urgent": room.send_urgent,
            "halve": room.halve_kv,
            "kill": self._kill,
            "step": serving.step_once,
            "pause": lambda: room.pause(paused=True),
            "go": lambda: room.pause(paused=False),
            "hide": lambda: room.show(hidden=True),
            "show": lambda: room.show(hidden=False),
        }
        match said:
            case {"set": dict() as values}:
                room.tune(values)  # pyright: ignore[reportUnknownArgumentType]
            case {"do": str() as deed} if deed in deeds:
                deeds[deed]()
            case _:
                raise Refused("There is no such control.")
        serving.tell()

    def _kill(self) -> None:
        if not self.serving.kill_worker():
            raise Refused("There is no worker to kill: one is just starting.")

    async def _check(self, said: object, secret: str, why: str) -> None:
        """Raises: Refused, after a while, for anything but the secret."""
        word = said.strip() if isinstance(said, str) else ""
        if not secrets.compare_digest(word.encode(), secret.encode()):
            await asyncio.sleep(_WRONG_CODE_S)
            raise Refused(why)

    async def _open(
        self, socket: WebSocket, talk: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Accept a page of this server, and talk with it until it goes."""
        origin = urlsplit(socket.headers.get("origin", "")).netloc
        if not origin or origin != socket.headers.get("host"):
            await socket.close(4403)
            return
        await socket.accept()
        self._pages += 1
        code = 1000
        try:
            if self._pages > MAX_PAGES:
                raise Refused(f"The room is full: {MAX_PAGES} pages are open.")
            async with asyncio.timeout(_FIRST_WORD_S):
                first = _parsed(await socket.receive_text())
            await talk(first)
            await _send(socket, {"kind": "end"})
        except Refused as refused:
            code = 4403
            with suppress(Exception):
                await _send(socket, {"kind": "refused", "why": str(refused)})
        except (WebSocketDisconnect, TimeoutError, KeyError, RuntimeError, OSError):
            pass  # it is gone, or says nothing, or takes nothing
        finally:
            self._pages -= 1
            with suppress(Exception):
                await socket.close(code)

    async def _converse(
        self, socket: WebSocket, view: Callable[[], Any], hear: Hear, every_s: float
    ) -> None:
        """Show and listen, until the page leaves or the demo is over."""
        with self.serving.listening() as changed:
            showing = asyncio.create_task(self._show(socket, changed, view, every_s))
            listening = asyncio.create_task(_listen(socket, hear))
            try:
                done, _ = await asyncio.wait(
                    {showing, listening}, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
            finally:
                for task in (showing, listening):
                    task.cancel()
                await asyncio.gather(showing, listening, return_exceptions=True)

    async def _show(
        self, socket: WebSocket, changed: Event, view: Callable[[], Any], every_s: float
    ) -> None:
        shown = ""
        while not self.over.is_set():
            await changed.wait()
            changed.clear()
            text = json.dumps(view(), ensure_ascii=False, separators=(",", ":"))
            if text != shown:
                shown = text
                async with asyncio.timeout(_SEND_S):
                    await socket.send_text(text)
            if not self.over.is_set():
                await asyncio.sleep(every_s)


async def _listen(socket: WebSocket, hear: Hear) -> None:
    """Hand on a page's messages, and answer each. Raises: Refused for too many."""
    rate, clock = Rate(_MESSAGES, _MESSAGES_S), asyncio.get_running_loop().time
    while True:
        said = await socket.receive_text()
        if rate.wait_s(clock()):
            raise Refused("Too many messages.")
        rate.note(clock())
        try:
            hear(_parsed(said))
        except Refused as refused:
            await _send(socket, {"kind": "answer", "why": str(refused)})
        else:
            await _send(socket, {"kind": "answer", "why": ""})


def _parsed(said: str) -> dict[str, Any]:
    """A message as a dict. Raises: Refused."""
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refused("A message is a JSON object.")
    return found  # pyright: ignore[reportUnknownVariableType]


async def _send(socket: WebSocket, message: dict[str, Any]) -> None:
    async with asyncio.timeout(_SEND_S):
        await socket.send_text(json.dumps(message))


def file_routes() -> list[Route]:
    """The pages, their scripts and styles, and the widgets' drawing code."""
    return [
        *(Route(path, _file(_STATIC / name)) for path, name in _PAGES.items()),
        *(Route(f"/{name}", _file(_STATIC / name)) for name in _FILES),
        *(Route(f"/widgets/{path.name}", _file(path)) for path in assets.scripts()),
        Route("/widgets.css", _text(assets.css(*_STYLES), "text/css")),
    ]


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return FileResponse(path, headers=_HEADERS)

    return answer


def _text(text: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return Response(text, media_type=media_type, headers=_HEADERS)

    return answer
