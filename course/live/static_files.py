"""What the room's pages are made of, each at an address, with headers that let in nothing else."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from widgets import assets

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


def file_routes() -> list[Route]:
    """The pages, their scripts and styles, and the drawing code of the widgets."""
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
