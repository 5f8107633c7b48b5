"""The room's routes around a server's live page: who may join, and what each page is told.

A page sends the room's code or the screen's token in a header, so that neither is in an address.
Views come as server-sent events, always the newest: a slow reader misses some.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, StreamingResponse
from starlette.routing import Route

from course.live import room_views
from course.live.room import Room
from course.live.room_requests import Guest, Refused
from nanogpt.server.api_errors import ApiError
from nanogpt.server.app import LIVE_PAGE, PAGE_HEADERS, App

MAX_PAGES = 400

_WRONG_CODE_S = 1.0
_VIEW_EVERY_S = 0.15

_STATIC = Path(__file__).parent / "static"
_PHONE = "phone.html"
_FILES = ("phone.js", "room.js", "room_page.js", "room.css")


class RoomApp:
    """The room's web application. `joining` says how people get in. Mutable: the open pages."""

    def __init__(self, room: Room, host: str, joining: dict[str, Any]) -> None:
        self.room = room
        self.server = App(room.thread, host)
        self.joining = joining
        self.num_pages = 0

    def starlette(self) -> Starlette:
        """The ASGI application; its lifespan runs the engine's thread."""
        routes = [
            Route("/", _file(_PHONE)),
            Route("/screen", self.screen),
            *(Route(f"/{name}", _file(name)) for name in _FILES),
            Route("/room/guest", self.guest_views),
            Route("/room/ask", self.ask, methods=["POST"]),
            Route("/room/screen", self.screen_views),
            Route("/room/control", self.control, methods=["POST"]),
            *self.server.live_routes(),
        ]
        app = self.server.starlette_with(routes)
        app.add_exception_handler(Refused, _refuse)
        return app

    async def screen(self, _: Request) -> HTMLResponse:
        """The server's live page, with the room around it."""
        around = (_STATIC / "room.html").read_text(encoding="utf-8")
        page = LIVE_PAGE.read_text(encoding="utf-8").replace("</main>", f"{around}</main>")
        return HTMLResponse(page, headers=PAGE_HEADERS)

    async def guest_views(self, request: Request) -> StreamingResponse:
        """A guest's views, from its joining on."""
        guest = await self._guest(request)
        welcome = {"kind": "welcome", "key": guest.key}
        return self._stream(welcome, lambda: room_views.of_guest(self.room, guest), guest)

    async def screen_views(self, request: Request) -> StreamingResponse:
        """The screen's views."""
        await self._check_token(request)
        welcome = {"kind": "welcome", "code": self.room.code, **self.joining}
        welcome |= room_views.controls()
        return self._stream(welcome, lambda: room_views.of_screen(self.room))

    async def ask(self, request: Request) -> JSONResponse:
        """A guest's prompt."""
        guest = await self._guest(request)
        self.room.ask(guest, (await self._message(request)).get("ask"))
        return JSONResponse({"why": ""})

    async def control(self, request: Request) -> JSONResponse:
        """Do what the instructor pressed."""
        await self._check_token(request)
        room = self.room
        deeds: dict[str, Callable[[], None]] = {
            "long": room.send_long,
            "urgent": room.send_urgent,
            "halve": room.halve_kv,
            "kill": room.kill_engine,
            "step": room.step_once,
            "pause": lambda: room.pause(paused=True),
            "go": lambda: room.pause(paused=False),
            "hide": lambda: room.show(hidden=True),
            "show": lambda: room.show(hidden=False),
        }
        match await self._message(request):
            case {"set": dict() as values}:
                room.tune(values)  # pyright: ignore[reportUnknownArgumentType]
            case {"do": str() as deed} if deed in deeds:
                deeds[deed]()
            case _:
                raise Refused("There is no such control.")
        return JSONResponse({"why": ""})

    async def _guest(self, request: Request) -> Guest:
        """The guest who asks, a new one without its key. Raises: ApiError; Refused."""
        await _check(request, self.room.code, "That is not this room's code.")
        return self.room.join(request.headers.get("x-guest"))

    async def _check_token(self, request: Request) -> None:
        await _check(request, self.room.token, "That is not this screen's address.")

    async def _message(self, request: Request) -> dict[str, Any]:
        """A message to the room. Raises: Refused; ApiError for one that is too large."""
        body = await self.server.body(request)
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Refused("A message is a JSON object.") from None

    def _stream(
        self, welcome: dict[str, Any], view: Callable[[], Any], guest: Guest | None = None
    ) -> StreamingResponse:
        """A page's views until it leaves or the demo is over. Raises: Refused."""
        if self.num_pages >= MAX_PAGES:
            raise Refused(f"The room is full: {MAX_PAGES} pages are open.")

        async def events() -> AsyncGenerator[bytes]:
            self._count(guest, 1)
            try:
                yield _event(welcome)
                seen = -1
                while not self.room.thread.closing:
                    if seen != self.room.num_changes:
                        seen = self.room.num_changes
                        yield _event(view())
                    await asyncio.sleep(_VIEW_EVERY_S)
                yield _event({"kind": "end"})
            finally:
                self._count(guest, -1)

        return StreamingResponse(events(), headers=PAGE_HEADERS, media_type="text/event-stream")

    def _count(self, guest: Guest | None, pages: int) -> None:
        self.num_pages += pages
        if guest is not None:
            guest.pages += pages
            self.room.num_changes += 1


async def _check(request: Request, secret: str, why: str) -> None:
    """Raises: ApiError, after a while, unless the request has the secret."""
    _, _, word = request.headers.get("authorization", "").partition(" ")
    if not secrets.compare_digest(word.encode(), secret.encode()):
        await asyncio.sleep(_WRONG_CODE_S)
        raise ApiError(403, why)


async def _refuse(request: Request, error: Exception) -> JSONResponse:
    """The answer to a message, or a page that may not come in."""
    return JSONResponse({"why": str(error)}, 200 if request.method == "POST" else 403)


def _event(message: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(message) + b"\n\n"


def _file(name: str) -> Callable[[Request], Any]:
    async def answer(_: Request) -> FileResponse:
        return FileResponse(_STATIC / name, headers=PAGE_HEADERS)

    return answer
