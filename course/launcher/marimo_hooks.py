"""What the course changes in marimo's server: which pages it answers, its styles, its kernels."""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import re
import sys
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocketClose

from course.marimo_internals import MIDDLEWARE_REGISTRY, substitute

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_RULE = re.compile(rb"[^{};]*:has\([^{}]*\{[^{}]*\}")
_RECONNECTED = re.compile(r'\{"op": ?"banner".{0,40}"title": ?"Reconnected"')
_THEME = b":root:has(body.dark)"  # all colours of the page hang on it
_ITS_CHILD = b":root:has(>body.dark)"  # the same, and nothing below the body can change it
_PRELOADED = ("marimo", "anywidget", "numpy", "torch", "course.launcher.frozen")


def page_guard(app: ASGIApp) -> ASGIApp:
    """Return ASGI middleware that lets only the course's own pages open its websockets.

    A browser sends the learner's cookie to every port of a host, and says in `Origin` whose page
    is asking. marimo takes the cookie and does not look at the origin: without this, a page of
    another local server could open a terminal here.
    """

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        is_refused = scope["type"] == "websocket" and not _may_open(Headers(scope=scope))
        await (WebSocketClose(1008) if is_refused else app)(scope, receive, send)

    return guarded


def _may_open(headers: Headers) -> bool:
    """Whether a page of the host that it names asks for the websocket.

    What is not a browser names no origin, and needs the token like everything else. Behind a
    proxy, the host that the page knows is the one forwarded; a page cannot set that header.
    """
    origin = headers.get("origin")
    hosts = (headers.get("host"), headers.get("x-forwarded-host"))
    return origin is None or urlsplit(origin).netloc in hosts


def quiet_reconnect(app: ASGIApp) -> ASGIApp:
    """Return ASGI middleware that does not tell a page that it reconnected to its session.

    marimo says so in a bar over the page's first words, whenever a lesson is opened a second time.
    The page has all cells and outputs again, so nothing was lost.
    """

    async def quiet(scope: Scope, receive: Receive, send: Send) -> None:
        async def pass_on(message: Message) -> None:
            if not _RECONNECTED.match(message.get("text") or ""):
                await send(message)

        await app(scope, receive, pass_on if scope["type"] == "websocket" else send)

    return quiet


def light_styles(app: ASGIApp) -> ASGIApp:
    """Return ASGI middleware that takes rules with `:has()` out of style sheets.

    With such rules, Chromium looks at all cells again whenever anything in one changes: 8 ms each
    time in a lesson, ninety times for an edit (docs/benchmarks/serving.md). Without them, open
    menus, tables and AI edits look a little plainer. The rule that makes the page dark stays,
    rewritten to look at the root's own children only.
    """
    lighter = BaseHTTPMiddleware(app, _lighter_sheet)

    async def light(scope: Scope, receive: Receive, send: Send) -> None:
        is_sheet = scope["type"] == "http" and scope["path"].endswith(".css")
        await (lighter if is_sheet else app)(scope, receive, send)

    return light


async def _lighter_sheet(request: Request, call_next: RequestResponseEndpoint) -> Response:
    response: Any = await call_next(request)
    sheet = _RULE.sub(_lighter, b"".join([part async for part in response.body_iterator]))
    headers = {**dict(response.headers.items()), "content-length": str(len(sheet))}
    return Response(sheet, response.status_code, headers)


def _lighter(rule: re.Match[bytes]) -> bytes:
    return rule[0].replace(_THEME, _ITS_CHILD) if _THEME in rule[0] else b""


def install(mode: str) -> None:
    """Change every server that marimo makes in this process; `mode` is marimo's."""
    MIDDLEWARE_REGISTRY.register("page guard", Middleware(page_guard))
    MIDDLEWARE_REGISTRY.register("quiet reconnect", Middleware(quiet_reconnect))
    MIDDLEWARE_REGISTRY.register("light styles", Middleware(light_styles))
    # Where torch cannot be trusted after a fork, kernels start as marimo starts them.
    if mode == "edit" and sys.platform == "linux":
        _fork_kernels()


def _fork_kernels() -> None:
    """Fork kernels from a process that has the large imports behind it.

    marimo starts a new Python for each open lesson, which imports marimo, torch and anywidget
    before its first cell runs: two to three seconds. Here they are imported once, while the
    learner reads the first page. The course is not among them, so that a kernel started after an
    update has its new modules.
    """
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(list(_PRELOADED))
    substitute("get_context", lambda method: forking)  # pyright: ignore[reportUnknownLambdaType]
    threading.Thread(target=multiprocessing.forkserver.ensure_running, daemon=True).start()
