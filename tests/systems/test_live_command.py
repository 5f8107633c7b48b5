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
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from launching import assert_one_sentence, learn, running, wait_for
from support import ROOT, run
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from course.__main__ import main
from course.live import command
from course.live.room import Room
from course.live.serving import Serving
from course.live.web import House

pytestmark = pytest.mark.process


class Demo:
    """A demo that is open: its process, and what it said."""

    def __init__(self, process: "subprocess.Popen[str]", said: str) -> None:
        self.process, self.said = process, said
        found = re.search(r"(http://127\.0\.0\.1:\d+)/screen#(\S+)", said)
        code = re.search(r"Room code: +([A-Z]{5})\n", said)
        assert found and code, said
        self.origin, self.token, self.code = found[1], found[2], code[1]

    @contextmanager
    def pages(self) -> Iterator[tuple[ClientConnection, ClientConnection]]:
        """The screen's connection and a guest's."""
        with ExitStack() as stack:
            opened = []
            for path, first in (("control", {"token": self.token}), ("room", {"code": self.code})):
                address = f"{self.origin.replace('http', 'ws')}/{path}"
                page = connect(address, origin=self.origin, max_queue=None, open_timeout=30)
                opened.append(stack.enter_context(page))
                opened[-1].send(json.dumps(first))
                until(opened[-1], lambda message: message["kind"] == "welcome")
            yield opened[0], opened[1]

    def processes(self) -> list[int]:
        return [each.pid for each in psutil.Process(self.process.pid).children(recursive=True)]


def until(page: ClientConnection, is_it: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    while True:
        message = json.loads(page.recv(timeout=60))
        if is_it(message):
            return message


@pytest.fixture
def opened(course: Path) -> Iterator[Callable[..., Demo]]:
    shutil.copy2(ROOT / "course" / "__main__.py", course / "course")
    processes: list[subprocess.Popen[str]] = []

    def open_demo(*arguments: str) -> Demo:
        asked = [sys.executable, "learn.py", "demo", "live", "--no-browser", "--port", "0"]
        process = subprocess.Popen(
            [*asked, *arguments],
            cwd=course,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
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


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_prompt_is_served_and_the_end_is_told_and_leaves_nothing(
    opened: Callable[..., Demo], how: signal.Signals
):
    demo = opened()
    with demo.pages() as (screen, guest):
        screen.send(json.dumps({"set": {"pace_ms": 0}}))
        guest.send(json.dumps({"ask": "ROMEO:\nBut soft"}))
        seen = until(guest, lambda m: m["kind"] == "view" and m["mine"] and m["mine"][0]["text"])
        assert seen["mine"][0]["prompt"] == "ROMEO:\nBut soft"
        there = demo.processes()
        assert len(there) >= 2, "a server and its engine"
        demo.process.send_signal(how)
        for page in (screen, guest):
            until(page, lambda message: message["kind"] == "end")
            with pytest.raises(ConnectionClosed):
                page.recv(timeout=60)
    said, _ = demo.process.communicate(timeout=60)
    assert (said, demo.process.returncode) == ("\nStopped; everyone was told.\n", 0)
    wait_for(lambda: not running(there))


def test_a_killed_worker_is_really_killed_and_its_requests_get_their_texts(
    opened: Callable[..., Demo],
):
    demo = opened()
    with demo.pages() as (screen, guest):
        screen.send(json.dumps({"set": {"pace_ms": 50}}))
        guest.send(json.dumps({"ask": "To be"}))
        seen = until(guest, lambda m: m["kind"] == "view" and m["mine"] and m["mine"][0]["text"])
        before = {pid for pid in demo.processes() if "engine_process" in named(pid)}
        assert len(before) == 1
        screen.send(json.dumps({"do": "kill"}))
        told = until(screen, lambda m: m["kind"] == "screen" and "SIGKILL" in str(m["events"]))
        assert "requests 1 start again, and get the same text" in str(told["events"])
        wait_for(lambda: not running(list(before)))
        screen.send(json.dumps({"set": {"pace_ms": 0}}))
        done = until(guest, lambda m: m["kind"] == "view" and m["mine"][0]["state"] == "done")
        assert len(done["mine"][0]["text"]) == 32
        assert done["mine"][0]["text"].startswith(seen["mine"][0]["text"])
        after = {pid for pid in demo.processes() if "engine_process" in named(pid)}
        assert len(after) == 1 and after.isdisjoint(before)


def named(pid: int) -> str:
    return " ".join(psutil.Process(pid).cmdline())


def test_a_server_that_is_killed_takes_its_engine_with_it(opened: Callable[..., Demo]):
    demo = opened()
    wait_for(lambda: any("engine_process" in named(pid) for pid in demo.processes()))
    there = demo.processes()
    (server,) = psutil.Process(demo.process.pid).children()
    os.kill(server.pid, signal.SIGKILL)
    wait_for(lambda: not running(there))


def test_it_listens_on_this_machine_alone_until_told_otherwise(opened: Callable[..., Demo]):
    demo = opened()
    port = int(demo.origin.rpartition(":")[2])
    addresses = {
        connection.laddr.ip
        for pid in demo.processes()
        for connection in psutil.Process(pid).net_connections()
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    }
    assert addresses == {"127.0.0.1"}
    assert "Only this machine gets in; --host 0.0.0.0 opens the room to its network." in demo.said


def test_the_token_and_the_code_are_in_no_address_that_a_server_sees():
    house = House(Serving(Room()))
    told = command.joining("0.0.0.0", 2720, house)
    assert told["screen"] == f"http://127.0.0.1:2720/screen#{house.token}"
    assert re.fullmatch(r"http://[\d.]+:2720/", told["address"])
    assert house.room.code not in told["address"]


def test_the_qr_code_leads_into_the_room_and_nothing_else_does_without_its_library(monkeypatch):
    drawn = []
    import segno

    make = segno.make
    monkeypatch.setattr(
        segno, "make", lambda text, **more: drawn.append(text) or make(text, **more)
    )
    house = House(Serving(Room()))
    told = command.joining("192.0.2.7", 2720, house)
    assert drawn == [f"http://192.0.2.7:2720/#{house.room.code}"]
    assert told["qr"].startswith("data:image/svg+xml") and told["notes"] == []
    monkeypatch.setitem(sys.modules, "segno", None)
    told = command.joining("192.0.2.7", 2720, house)
    assert (told["qr"], told["notes"]) == (
        None,
        ["No QR code: requirements-live.txt is not installed."],
    )


def test_a_taken_port_and_a_strange_host_are_refused_with_a_sentence(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, words in (
            (["--port", port], f"127.0.0.1, port {port}, cannot be listened at: "),
            (["--host", "no such host"], "no such host, port 2720, cannot be listened at: "),
        ):
            assert main(["demo", "live", *arguments]) == 2
            said = capsys.readouterr().err
            assert said.startswith(f"course: {words}") and said.count("\n") == 1
    done = run([sys.executable, "-m", "course", "demo", "live", "--port", "99999"], cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr.startswith("course: 127.0.0.1, port 99999, cannot be listened at: ")
    assert done.stderr.count("\n") == 1


def test_what_draws_the_qr_code_is_installed_when_it_is_asked_for(course: Path):
    done = learn(course, "demo", "live")
    assert done.stdout.endswith("asked demo live\n"), done.stdout + done.stderr
    installed = (course / ".venv" / "uv.log").read_text()
    assert "-r requirements.txt -r requirements-live.txt -c requirements.lock" in installed


def test_a_demo_that_there_is_not_is_refused(course: Path):
    assert_one_sentence(learn(course, "demos"), "there is no verb 'demos'")
