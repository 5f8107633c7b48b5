"""learn.py opens the course: its address, its token, its port, its end."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from launching import family, free_port, listening, started
from support import write_program

from course.launcher import host, server
from course.launcher.command import parser
from course.launcher.failure import Failure
from course.launcher.marimo_hooks import light_styles, page_guard, quiet_reconnect
from course.launcher.server import choose_host, choose_port, serve

Opener = Callable[..., tuple["subprocess.Popen[str]", str]]


def test_the_course_is_opened_by_a_name_of_its_own_where_browsers_resolve_it(monkeypatch):
    """A cookie goes to every port of its host: no other server has ever had this one."""
    first, second = choose_host(), choose_host()
    assert re.fullmatch(r"course-[0-9a-f]{8}\.localhost", first) and first != second
    monkeypatch.setattr(server.sys, "platform", "darwin")  # where Safari asks the system
    assert choose_host() == "127.0.0.1"


def test_a_taken_port_is_said_and_another_is_taken_unless_it_was_asked_for(monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        taken = squatter.getsockname()[1]
        monkeypatch.setattr(server, "DEFAULT_PORT", taken)
        port = choose_port(None)
        assert port != taken
        assert f"Port {taken} is taken (perhaps the course is open" in capsys.readouterr().out
        with pytest.raises(Failure, match=f"port {taken} is taken by another program"):
            choose_port(taken)
    assert choose_port(port) == port


def test_only_a_page_of_the_same_host_and_port_may_open_a_websocket():
    heard: list[object] = []

    async def app(scope: dict, *_: object) -> None:
        heard.append(scope["origin"])

    async def channel(*message: object) -> None:
        heard.extend(message)

    headers = [(b"host", b"127.0.0.1:2718"), (b"x-forwarded-host", b"forwarded.example")]
    own = [None, b"http://127.0.0.1:2718", b"https://forwarded.example"]  # None: no browser
    others = [b"http://127.0.0.1:2719", b"http://localhost:2718", b"http://evil.example", b"null"]
    for origin in (*own, *others):
        asked = [(b"origin", origin)] if origin else []
        scope = {"type": "websocket", "headers": [*headers, *asked], "origin": origin}
        asyncio.run(page_guard(app)(scope, channel, channel))
    assert heard == [*own, *[{"type": "websocket.close", "code": 1008, "reason": ""}] * len(others)]


def test_a_page_that_connects_again_is_told_everything_but_that_it_did():
    told = []
    texts = [
        '{"op": "banner", "data": {"op":"banner","title":"' + f'{title}","description":""}}}}'
        for title in ("Reconnected", "Two")
    ]

    async def app(scope, receive, send):
        for text in texts:
            await send({"type": "websocket.send", "text": text})
        await send({"type": "websocket.close"})

    async def send(message):
        told.append(message.get("text"))

    asyncio.run(quiet_reconnect(app)({"type": "websocket"}, send, send))
    assert told == [texts[1], None]


def test_only_rules_with_has_are_taken_out_but_for_the_one_that_makes_the_page_dark():
    import marimo
    from starlette.staticfiles import StaticFiles
    from starlette.testclient import TestClient

    assets = Path(marimo.__file__).parent / "_static" / "assets"
    page, dark_rules = TestClient(light_styles(StaticFiles(directory=assets))), 0
    for file in assets.glob("*.css"):
        light = page.get(f"/{file.name}")
        assert int(light.headers["content-length"]) == len(light.content)
        rules = re.findall(rb"[^{};]*\{[^{}]+\}", file.read_bytes())
        dark = [rule for rule in rules if rule.startswith(b":root:has(body.dark){")]
        dark_rules += len(dark)
        assert re.findall(rb"[^{};]*\{[^{}]+\}", light.content) == [
            rule.replace(b":has(", b":has(>")
            for rule in rules
            if rule in dark or b":has(" not in rule.split(b"{")[0]
        ], file
    assert dark_rules == 1


@pytest.mark.parametrize("system", ["posix", "nt"])
def test_the_server_ends_as_by_ctrl_c_when_its_input_ends(monkeypatch, system: str):
    def terminate(pid: int, number: int) -> None:
        raise AssertionError("on Windows, os.kill ends the process: nothing ends its kernels then")

    lifeline, launchers_end = os.pipe()
    os.close(launchers_end)
    with monkeypatch.context() as patch:
        if system == "nt":
            patch.setattr(host.os, "kill", terminate)
        patch.setattr(host.os, "name", system)
        with pytest.raises(KeyboardInterrupt):
            host._end_with(lifeline)
    os.close(lifeline)


@pytest.mark.process
def test_a_server_that_does_not_start_is_said(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr(server, "_requests_to_stop", list)
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(server.doctor, "is_temporary", lambda root: True)
    program, options = tmp_path / "python", parser().parse_args(["open", "--no-browser"])
    write_program(program, "#!/bin/sh\necho No module named marimo\nexit 1\n")
    with pytest.raises(Failure, match="the course server ended by itself: No module named marimo"):
        serve("edit", program, tmp_path, options)
    assert "is a temporary folder" in capsys.readouterr().err


@pytest.fixture
def opened(course: Path) -> Iterator[Opener]:
    """Open a course and return (learn.py's process, the address)."""
    with contextlib.ExitStack() as stack:

        def open_course(*arguments: str) -> "tuple[subprocess.Popen[str], str]":
            command = [sys.executable, "learn.py", *arguments, "--no-browser"]
            process, said = stack.enter_context(started(command, course))
            address = re.sub(r"//course-\w{8}\.localhost:", "//127.0.0.1:", said)
            return process, re.findall(r"http://\S+", address)[0]  # Python cannot find that name

        yield open_course


@pytest.mark.process
def test_the_course_wants_its_token_and_ends_with_ctrl_c(course: Path, opened: Opener):
    port = free_port()
    process, address = opened("--port", str(port))
    assert f":{port}/?file=index.py&view-as=present&access_token=" in address
    assert listening(family(process.pid)) == {("127.0.0.1", port)}
    without, token = address.split("&access_token=")
    assert len(token) >= 20
    assert urllib.request.urlopen(address).status == 200
    assert "/auth/login" in urllib.request.urlopen(without).url
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(without.split("/?")[0] + "/api/status")
    assert (course / "work" / "server.log").stat().st_mode & 0o077 == 0
    tree = family(process.pid)
    assert not any(token in word for each in tree for word in each.cmdline())
    assert {each.environ()["OMP_NUM_THREADS"] for each in tree} == {"1"}

    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert (process.returncode, rest.splitlines()[-1]) == (0, "Stopped. Your work is in work/.")
    assert "Traceback" not in rest
    assert not psutil.wait_procs(tree, timeout=60)[1]


@pytest.mark.process
@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_jupyter_wants_its_token_and_its_launcher_takes_even_a_hanging_kernel_with_it(
    opened: Opener, how: signal.Signals
):
    process, address = opened("jupyter", "--port", str(free_port()))
    plain, token = address.split("/lab/tree/index.ipynb?token=")
    assert len(token) >= 20
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{plain}/api/contents")
    headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
    start = urllib.request.Request(f"{plain}/api/kernels", b"{}", headers)
    assert urllib.request.urlopen(start).status == 201
    tree = family(process.pid)
    [kernel] = [each for each in tree if "ipykernel_launcher" in each.cmdline()]
    assert {host for host, _ in listening(tree)} == {"127.0.0.1"}
    assert not any(token in word for each in tree for word in each.cmdline())
    kernel.suspend()  # as one that hangs in a call into C: it notices nothing itself
    process.send_signal(how)
    assert "Traceback" not in process.communicate(timeout=60)[0]
    assert not psutil.wait_procs(tree, timeout=60)[1]
