"""Serves marimo's style sheets without the rules whose selectors have `:has()`.

With such rules, Chromium looks at all cells again whenever anything in one changes: 8 ms each time
in a lesson, ninety times for an edit (docs/benchmarks.md). What they are for, menus that are open,
tables and AI edits, looks a little plainer without them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_RULE = re.compile(rb"[^{};]*:has\([^{}]*\{[^{}]*\}")
_THEME = b":root:has(body.dark)"  # all colours of the page hang on it
_ITS_CHILD = b":root:has(>body.dark)"  # the same, and nothing below the body can change it


class LightStyles:
    """An ASGI application in front of another one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, and style sheets whole and lighter."""
        if scope["type"] != "http" or not scope["path"].endswith(".css"):
            await self.app(scope, receive, send)
            return
        start: Message = {}
        body = b""

        async def hold(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            body += message.get("body", b"")
            if message.get("more_body", False):
                return
            body = without_has(body)
            length = (b"content-length", str(len(body)).encode())
            headers = [each for each in start["headers"] if each[0].lower() != length[0]]
            await send({**start, "headers": [*headers, length]})
            await send({"type": "http.response.body", "body": body})

        await self.app(scope, receive, hold)


def without_has(sheet: bytes) -> bytes:
    """The style sheet, as a bundler writes it, without rules that have `:has()`.

    The one that makes the page dark stays, in words that look at the root's own children alone.
    """
    return _RULE.sub(
        lambda rule: rule[0].replace(_THEME, _ITS_CHILD) if _THEME in rule[0] else b"", sheet
    )


def install() -> None:
    """Put it in front of every server that marimo makes in this process."""
    from marimo._server.registry import MIDDLEWARE_REGISTRY
    from starlette.middleware import Middleware

    MIDDLEWARE_REGISTRY.register("light styles", Middleware(LightStyles))
