"""The live page of a server: `/live`, its two scripts and its style, and the state that it reads.

The page has nothing of the server in it and is shown to anyone who reaches the server, as `/health`
is. Its state is for those that have the API key, if there is one: the page asks for it.
"""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from nanogpt.server.api_errors import ApiError
from nanogpt.server.engine_thread import EngineThread

_STATIC = Path(__file__).parent / "static"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
FILES = {
    "/live": "live.html", "/live/live.js": "live.js", "/live/live_layout.js": "live_layout.js",
    "/live/live.css": "live.css",
}  # fmt: skip


def page_routes() -> list[Route]:
    """The page and its files."""
    return [Route(path, _file(_STATIC / name)) for path, name in FILES.items()]


def live_state(thread: EngineThread) -> Callable[[Request], Awaitable[Response]]:
    """`GET /live/state?after=N`: the steps after number N, and how things are, as JSON."""

    async def answer(request: Request) -> Response:
        after = request.query_params.get("after", "-1")
        if not after.removeprefix("-").isdecimal() or len(after) > 18:
            raise ApiError(400, f"after is {after[:40]!r}; it must be a whole number")
        state = {
            "model": thread.settings.model_name,
            "at_s": time.perf_counter(),
            "closing": thread.closing,
            "max_requests": thread.settings.max_requests,
            **thread.live.state(int(after)),
            **thread.metrics.numbers(),
        }
        headers = {"Cache-Control": "no-store"}
        return Response(msgspec.json.encode(state), media_type="application/json", headers=headers)

    return answer


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return FileResponse(path, headers=_HEADERS)

    return answer
