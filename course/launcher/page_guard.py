"""Lets only the course's own pages open its websockets.

A browser sends the learner's cookie to every port of a host, and says in `Origin` whose page is
asking. marimo takes the cookie and does not look at the origin: without this, a page of another
local server could open a terminal here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class PageGuard:
    """An ASGI application in front of another one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on but the websockets of other pages."""
        if scope["type"] == "websocket" and not may_open(scope):
            await receive()  # the request to connect
            await send({"type": "websocket.close", "code": 1008})
            return
        await self.app(scope, receive, send)


def may_open(scope: Scope) -> bool:
    """Whether a websocket is the learner's own: asked for by a page of the host that it names.

    What is not a browser names no origin, and needs the token like everything else. Behind a
    proxy, the host that the page knows is the one forwarded; a page cannot set that header.
    """
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    origin = headers.get(b"origin")
    hosts = {headers.get(b"host"), headers.get(b"x-forwarded-host")}
    return origin is None or urlsplit(origin).netloc in hosts


def install() -> None:
    """Put the guard into every server that marimo makes in this process."""
    from marimo._server.registry import MIDDLEWARE_REGISTRY
    from starlette.middleware import Middleware

    MIDDLEWARE_REGISTRY.register("page guard", Middleware(PageGuard))
