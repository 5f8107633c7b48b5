"""`learn.py demo live`: open the room, print its two addresses, serve until Ctrl-C."""

import asyncio
import socket
import sys
import webbrowser
from contextlib import suppress
from typing import Any

import uvicorn

from course.live.room import Room
from course.live.room_web import MAX_MESSAGE, House
from course.live.serving import Serving

EVERY_ADDRESS = ("0.0.0.0", "::")


class PortTaken(Exception):
    """Why an address cannot be listened at, in a sentence."""


class LiveServer(uvicorn.Server):
    """A server that tells its pages before it goes."""

    def __init__(self, config: uvicorn.Config, house: House, *, browser: bool) -> None:
        super().__init__(config)
        self._house = house
        self._browser = browser

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say where."""
        await super().startup(sockets)
        if self.started:
            screen = self._house.joining["screen"]
            _say(
                "The room is open.\n\n"
                f"  On the projector:  {screen}\n"
                f"  On the phones:     {self._house.joining['address']}\n"
                f"  Room code:         {self._house.room.code}\n\n"
                "Whoever has the projector's address has the controls. Stop it with Ctrl-C."
            )
            for note in self._house.joining["notes"]:
                _say(note)
            if self._browser:
                webbrowser.open(screen)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the pages, then close."""
        await self._house.close()
        await super().shutdown(sockets)


def serve_room(host: str, port: int, *, browser: bool) -> int:
    """Serve until Ctrl-C. Raises: PortTaken."""
    listening = _listen_at(host, port)
    port = listening.getsockname()[1]  # 0 was any that is free
    house = House(Serving(Room()))
    house.joining = joining(host, port, house)
    config = uvicorn.Config(
        house.app(),
        log_level="warning",
        access_log=False,
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=20.0,
        timeout_graceful_shutdown=3,
        server_header=False,
    )
    server = LiveServer(config, house, browser=browser)
    with suppress(KeyboardInterrupt):  # which uvicorn hands on once all is closed
        asyncio.run(server.serve([listening]))
    _say("\nStopped; everyone was told.")
    return 0


def joining(host: str, port: int, house: House) -> dict[str, Any]:
    """How people get in: the addresses, the QR code as SVG (None without segno), and notes."""
    reached = own_address() if host in EVERY_ADDRESS else host
    address = f"http://{_in_url(reached)}:{port}/"
    notes: list[str] = []
    if reached.startswith("127.") or reached in ("localhost", "::1"):
        notes.append("Only this machine gets in; --host 0.0.0.0 opens the room to its network.")
    picture = qr_code(f"{address}#{house.room.code}")
    if picture is None:
        notes.append("No QR code: requirements-live.txt is not installed.")
    local = "127.0.0.1" if host in EVERY_ADDRESS else host
    return {
        "address": address,
        "screen": f"http://{_in_url(local)}:{port}/screen#{house.token}",
        "qr": picture,
        "notes": notes,
    }


def qr_code(text: str) -> str | None:
    """A QR code as the path of an SVG drawing in a data address; None where segno is missing."""
    try:
        import segno  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return None
    return segno.make(text, micro=False).svg_data_uri(border=2, light="white")


def own_address() -> str:
    """This machine's address in its network, as far as the system knows one. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _listen_at(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        raise PortTaken(f"{host}, port {port}, cannot be listened at: {error}.") from None


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
