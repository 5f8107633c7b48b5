"""`learn.py demo live`: open the room, print its two addresses, serve until Ctrl-C."""

import asyncio
import socket
import webbrowser
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from course.launcher.failure import Failure
from course.live.room import Room
from course.live.room_web import RoomApp
from course.live.tuning import SLIDERS
from nanogpt.checkpoints.tokenizer import tokenizer_for
from nanogpt.checkpoints.weights import SHIPPED_WEIGHTS, load_model
from nanogpt.llama import Llama
from nanogpt.server.serving import Server, address_of

EVERY_ADDRESS = ("0.0.0.0", "::")


def serve_room(host: str, port: int, model: Path | None, *, browser: bool) -> int:
    """Serve the shipped model, or that of a folder, until Ctrl-C. Raises: Failure."""
    listening = _listen_at(host, port)
    port = listening.getsockname()[1]  # 0 was any that is free
    torch.set_num_threads(1)  # the other core is for the pages
    room = room_of(model or SHIPPED_WEIGHTS)
    joined = joining(host, port, room)

    def announce(_: str) -> None:
        print(
            "The room is open.\n\n"
            f"  On the projector:  {joined['screen']}\n"
            f"  On the phones:     {joined['address']}\n"
            f"  Room code:         {room.code}\n\n"
            "Whoever has the projector's address has the controls. Stop it with Ctrl-C.",
            flush=True,
        )
        for note in joined["notes"]:
            print(note, flush=True)
        if browser:
            webbrowser.open(joined["screen"])

    app = RoomApp(room, host, joined).starlette()
    server = Server(app, room.thread, host, port, announce)
    with suppress(KeyboardInterrupt):  # which uvicorn hands on once all is closed
        asyncio.run(server.serve([listening]))
    print("\nStopped; everyone was told.", flush=True)
    return 0


def room_of(path: Path) -> Room:
    """A room around the model in a file or a hub's folder. Raises: Failure."""
    # In float64 no text depends on its batch; a model of the hub is too large for it.
    dtype = torch.float32 if path.is_dir() else torch.float64
    try:
        model, tokenizer = load_model(path, dtype), tokenizer_for(path)
        if isinstance(model, Llama):  # a slot for a whole context would be larger than the memory
            longest = min(model.config.max_model_len, SLIDERS["max_kv_tokens"].least)
            model.config = replace(model.config, max_model_len=longest)
        return Room(model, tokenizer=tokenizer)
    except ValueError as error:
        raise Failure(f"{error}.") from None


def joining(host: str, port: int, room: Room) -> dict[str, Any]:
    """How people get in: the addresses, the QR code as SVG (None without segno), and notes."""
    reached = own_address() if host in EVERY_ADDRESS else host
    address = f"{address_of(reached, port)}/"
    notes: list[str] = []
    if reached.startswith("127.") or reached in ("localhost", "::1"):
        notes.append("Only this machine gets in; --host 0.0.0.0 opens the room to its network.")
    picture = qr_code(f"{address}#{room.code}")
    if picture is None:
        notes.append("No QR code: the package segno is not installed.")
    local = "127.0.0.1" if host in EVERY_ADDRESS else host
    return {
        "address": address,
        "screen": f"{address_of(local, port)}/screen#{room.token}",
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
    except OSError as error:
        raise Failure(f"{host}, port {port}, cannot be listened at: {error}.") from None
