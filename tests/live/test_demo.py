"""`learn.py demo live` with real processes: its addresses, its end, an engine that is killed."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from launching import family, listening, running, wait_for
from support import ROOT


class Demo:
    """A demo that is open: its process, and what it said."""

    def __init__(self, process: "subprocess.Popen[str]", said: str) -> None:
        self.process, self.said = process, said
        found = re.search(r"(http://127\.0\.0\.1:(\d+))/screen#(\S+)", said)
        code = re.search(r"Room code: +([A-Z]{5})\n", said)
        assert found and code, said
        self.url, self.port, self.token, self.code = found[1], int(found[2]), found[3], code[1]

    @contextmanager
    def page(self, path: str, secret: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The messages of a page, one after the other."""
        headers = {"authorization": f"Bearer {secret}"}
        with httpx.stream("GET", self.url + path, headers=headers, timeout=60) as answer:
            assert answer.status_code == 200
            yield (json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line)

    def say(self, path: str, message: dict[str, Any], secret: str, guest: str = "") -> None:
        headers = {"authorization": f"Bearer {secret}", "x-guest": guest}
        assert httpx.post(self.url + path, json=message, headers=headers).json() == {"why": ""}


def until(
    page: Iterator[dict[str, Any]], is_it: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    return next(message for message in page if is_it(message))


@pytest.fixture
def opened(course: Path) -> Iterator[Callable[[], Demo]]:
    shutil.copy2(ROOT / "course" / "__main__.py", course / "course")
    processes: list[subprocess.Popen[str]] = []

    def open_demo() -> Demo:
        command = [sys.executable, "learn.py", "demo", "live", "--no-browser", "--port", "0"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = subprocess.Popen(command, cwd=course, **pipes)
        processes.append(process)
        assert process.stdout
        said = ""
        for line in process.stdout:
            said += line
            if "--host" in line:
                return Demo(process, said)
        raise AssertionError(said)

    yield open_demo
    for process in processes:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.process
@pytest.mark.parametrize(
    "how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)]
)
def test_a_prompt_outlives_a_killed_engine_and_the_end_is_told_and_leaves_nothing(
    opened: Callable[[], Demo], how: signal.Signals
):
    demo = opened()
    assert ("127.0.0.1", demo.port) in listening(family(demo.process.pid))
    assert "Only this machine gets in; --host 0.0.0.0 opens the room to its network." in demo.said
    with (
        demo.page("/room/screen", demo.token) as screen,
        demo.page("/room/guest", demo.code) as guest,
    ):
        key = until(guest, lambda m: m["kind"] == "welcome")["key"]
        demo.say("/room/control", {"set": {"pace_ms": 50}}, demo.token)
        demo.say("/room/ask", {"ask": "To be"}, demo.code, key)

        def mine(is_it: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
            """The guest's request, once that is true of it."""
            return until(guest, lambda m: m["kind"] == "view" and is_it(m["mine"][0]))["mine"][0]

        until(guest, lambda m: m["kind"] == "view" and m["mine"])
        begun = mine(lambda request: request["text"])["text"]
        demo.say("/room/control", {"do": "kill"}, demo.token)
        told = until(screen, lambda m: "The engine is gone" in str(m.get("event")))
        assert "the texts of requests 0 stay" in told["event"]
        demo.say("/room/control", {"set": {"pace_ms": 0}}, demo.token)
        text = mine(lambda request: request["state"] == "done")["text"]
        assert text.startswith(begun) and len(text) == 32
        there = [each.pid for each in family(demo.process.pid)]
        demo.process.send_signal(how)
        for page in (screen, guest):
            assert until(page, lambda message: message["kind"] == "end")
            assert list(page) == []
    said, _ = demo.process.communicate(timeout=60)
    assert (said, demo.process.returncode) == ("\nStopped; everyone was told.\n", 0)
    wait_for(lambda: not running(there))


def test_tokens_and_codes_are_only_where_no_server_sees_them(monkeypatch):
    from living import small_model

    from course.live.live_command import joining
    from course.live.room import Room

    room = Room(small_model())
    told = joining("0.0.0.0", 2720, room)
    assert told["screen"] == f"http://127.0.0.1:2720/screen#{room.token}"
    assert re.fullmatch(r"http://[\d.]+:2720/", told["address"])
    assert told["qr"].startswith("data:image/svg+xml") and told["notes"] == []
    monkeypatch.setitem(sys.modules, "segno", None)
    told = joining("0.0.0.0", 2720, room)
    assert told["qr"] is None and "requirements-live.txt is not installed" in told["notes"][0]


def test_a_taken_port_and_a_strange_host_are_refused_with_a_sentence(capsys):
    from course.__main__ import main

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, words in (
            (["--port", f"{port}"], f"127.0.0.1, port {port}, cannot be listened at: "),
            (["--host", "no such host"], "no such host, port 2720, cannot be listened at: "),
        ):
            assert main(["demo", "live", *arguments]) == 2
            said = capsys.readouterr().err
            assert said.startswith(f"course: {words}") and said.count("\n") == 1
