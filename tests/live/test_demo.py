"""`learn.py demo live` with real processes: its addresses and its end."""

import json
import re
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest
from launching import family, listening, running, started, wait_for
from support import ROOT


def kinds(answer: httpx.Response) -> Iterator[str]:
    """The kinds of the messages of a page, one after the other."""
    assert answer.status_code == 200
    for line in filter(None, answer.iter_lines()):
        yield json.loads(line.removeprefix("data: "))["kind"]


@pytest.mark.process
@pytest.mark.parametrize(
    "how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)]
)
def test_the_end_is_told_to_every_page_and_leaves_nothing(course: Path, how: signal.Signals):
    shutil.copy2(ROOT / "course" / "__main__.py", course / "course")
    command = [sys.executable, "learn.py", "demo", "live", "--no-browser", "--port", "0"]
    with started(command, course, "--host") as (demo, said):
        assert "Only this machine gets in; --host 0.0.0.0 opens the room to its network." in said
        found = re.search(r"(http://127\.0\.0\.1:(\d+))/screen#(\S+)", said)
        code = re.search(r"Room code: +([A-Z]{5})\n", said)
        assert found and code, said
        itself = psutil.Process(demo.pid)
        assert ("127.0.0.1", int(found[2])) in listening([itself, *family(itself.pid)])
        with ExitStack() as opened:
            pages: list[Iterator[str]] = []
            for path, secret in (("screen", found[3]), ("guest", code[1])):
                key = {"authorization": f"Bearer {secret}"}
                answer = httpx.stream("GET", f"{found[1]}/room/{path}", headers=key, timeout=60)
                pages.append(kinds(opened.enter_context(answer)))
            assert "welcome" in pages[1]
            there = [each.pid for each in family(demo.pid)]
            demo.send_signal(how)
            for page in pages:
                assert "end" in page
                assert list(page) == []
        said, _ = demo.communicate(timeout=60)
        assert (said, demo.returncode) == ("\nStopped; everyone was told.\n", 0)
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
    assert told["qr"] is None and "segno is not installed" in told["notes"][0]


def test_a_taken_port_is_refused_with_a_sentence(capsys):
    from course.__main__ import main

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["demo", "live", "--port", f"{port}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"course: 127.0.0.1, port {port}, cannot be listened at: ")
    assert said.count("\n") == 1
