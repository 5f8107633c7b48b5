"""`learn.py demo live` with real processes: its addresses, its end, a worker that is killed."""

import json
import os
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

import psutil
import pytest
from launching import family, listening, running, wait_for
from support import ROOT


class Demo:
    """A demo that is open: its process, and what it said."""

    def __init__(self, process: "subprocess.Popen[str]", said: str) -> None:
        self.process, self.said = process, said
        found = re.search(r"http://(127\.0\.0\.1:(\d+))/screen#(\S+)", said)
        code = re.search(r"Room code: +([A-Z]{5})\n", said)
        assert found and code, said
        self.host, self.port, self.token, self.code = found[1], int(found[2]), found[3], code[1]

    @contextmanager
    def page(self, path: str, **first: str) -> Iterator[Any]:
        from websockets.sync.client import connect

        origin = f"http://{self.host}"
        with connect(f"ws://{self.host}/{path}", origin=origin, max_queue=None) as page:
            say(page, first)
            until(page, lambda message: message["kind"] == "welcome")
            yield page

    def engines(self) -> set[int]:
        tree = family(self.process.pid)
        return {each.pid for each in tree if "live_engine" in " ".join(each.cmdline())}


def say(page: Any, message: dict[str, Any]) -> None:
    page.send(json.dumps(message))


def until(page: Any, is_it: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    while True:
        message = json.loads(page.recv(timeout=60))
        if is_it(message):
            return message


def my_first(page: Any, is_it: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The guest's first request, once that is true of it."""
    seen = until(page, lambda m: m["kind"] == "view" and m["mine"] and is_it(m["mine"][0]))
    return seen["mine"][0]


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
def test_a_prompt_outlives_a_killed_worker_and_the_end_is_told_and_leaves_nothing(
    opened: Callable[[], Demo], how: signal.Signals
):
    from websockets.exceptions import ConnectionClosed

    demo = opened()
    assert ("127.0.0.1", demo.port) in listening(family(demo.process.pid))
    assert "Only this machine gets in; --host 0.0.0.0 opens the room to its network." in demo.said
    with (
        demo.page("control", token=demo.token) as screen,
        demo.page("room", code=demo.code) as guest,
    ):
        say(screen, {"set": {"pace_ms": 50}})
        say(guest, {"ask": "To be"})
        begun = my_first(guest, lambda mine: mine["text"])["text"]
        before = demo.engines()
        assert len(before) == 1
        say(screen, {"do": "kill"})
        told = until(screen, lambda m: m["kind"] == "screen" and "SIGKILL" in str(m["events"]))
        assert "requests 1 start again, and get the same text" in str(told["events"])
        wait_for(lambda: not running(list(before)))
        say(screen, {"set": {"pace_ms": 0}})
        text = my_first(guest, lambda mine: mine["state"] == "done")["text"]
        assert text.startswith(begun) and len(text) == 32
        assert len(demo.engines()) == 1 and demo.engines().isdisjoint(before)
        there = [each.pid for each in family(demo.process.pid)]
        demo.process.send_signal(how)
        for page in (screen, guest):
            until(page, lambda message: message["kind"] == "end")
            with pytest.raises(ConnectionClosed):
                page.recv(timeout=60)
    said, _ = demo.process.communicate(timeout=60)
    assert (said, demo.process.returncode) == ("\nStopped; everyone was told.\n", 0)
    wait_for(lambda: not running(there))


@pytest.mark.process
@pytest.mark.nightly
def test_a_server_that_is_killed_takes_its_engine_with_it(opened: Callable[[], Demo]):
    demo = opened()
    wait_for(lambda: bool(demo.engines()))
    there = [each.pid for each in family(demo.process.pid)]
    (server,) = psutil.Process(demo.process.pid).children()
    os.kill(server.pid, signal.SIGKILL)
    wait_for(lambda: not running(there))


def test_tokens_and_codes_are_only_where_no_server_sees_them(monkeypatch):
    from course.live.live_command import joining
    from course.live.room import Room
    from course.live.room_web import House
    from course.live.serving import Serving

    house = House(Serving(Room()))
    told = joining("0.0.0.0", 2720, house)
    assert told["screen"] == f"http://127.0.0.1:2720/screen#{house.token}"
    assert re.fullmatch(r"http://[\d.]+:2720/", told["address"])
    assert told["qr"].startswith("data:image/svg+xml") and told["notes"] == []
    monkeypatch.setitem(sys.modules, "segno", None)
    told = joining("0.0.0.0", 2720, house)
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
