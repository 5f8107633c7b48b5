"""marimo's style sheets as the course serves them: whole, but for the rules that cost a second."""

import asyncio
import re
from pathlib import Path
from typing import Any

from course.launcher.marimo_hooks import LightStyles


def rules(sheet: bytes) -> list[bytes]:
    """What stands in innermost braces, with what stands before them; an empty pair is none."""
    return re.findall(rb"[^{};]*\{[^{}]+\}", sheet)


def test_only_rules_with_has_are_taken_out_but_for_the_one_that_makes_the_page_dark():
    import marimo

    dark_rules = 0
    for file in (Path(marimo.__file__).parent / "_static" / "assets").glob("*.css"):
        sheet, sent = file.read_bytes(), []

        async def app(scope: Any, receive: Any, send: Any, sheet: bytes = sheet) -> None:
            length = str(len(sheet)).encode()
            headers = [(b"content-type", b"text/css"), (b"Content-Length", length)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": sheet[:99], "more_body": True})
            await send({"type": "http.response.body", "body": sheet[99:]})

        async def send(message: dict[str, Any], sent: list[Any] = sent) -> None:
            sent.append(message)

        asyncio.run(LightStyles(app)({"type": "http", "path": "/a.css"}, None, send))
        start, light = sent[0], sent[1]["body"]
        length = (b"content-length", str(len(light)).encode())
        assert start["headers"] == [(b"content-type", b"text/css"), length]
        dark = [rule for rule in rules(sheet) if rule.startswith(b":root:has(body.dark){")]
        dark_rules += len(dark)
        assert rules(light) == [
            rule.replace(b":has(", b":has(>")
            for rule in rules(sheet)
            if rule in dark or b":has(" not in rule.split(b"{")[0]
        ], file
        assert light.count(b":has(") == len(dark)
    assert dark_rules == 1
