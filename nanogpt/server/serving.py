"""A server's life: uvicorn in front of an engine's thread.

On SIGTERM or SIGINT no new requests are taken; the unfinished ones have a limited time to end.
"""

import asyncio
import gc
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from nanogpt.checkpoints.tokenizer import CHARACTERS, Tokenizer
from nanogpt.engine import Engine
from nanogpt.server.admission import Deadlines
from nanogpt.server.app import STALLED_S, App, RequestIds
from nanogpt.server.engine_thread import EngineThread
from nanogpt.server.server_policies import ServerPolicies
from nanogpt.server.server_settings import ServerSettings

LOCAL = "127.0.0.1"
KEEP_ALIVE_S = 75
"""Clients close idle connections sooner, so that none is closed just as it is used again."""
_LAST_WORDS_S = 5
"""After the last request has ended, time for clients to read."""


class Server(uvicorn.Server):
    """uvicorn with an engine; calls `announce` with its address once it listens there."""

    def __init__(
        self,
        app: ASGIApp,
        thread: EngineThread,
        host: str = LOCAL,
        port: int = 8000,
        announce: Callable[[str], object] | None = None,
    ) -> None:
        self.thread = thread
        self.is_up = threading.Event()
        self.announce = announce
        config = uvicorn.Config(
            RequestIds(app), host=host, port=port, http="h11",
            loop="asyncio", ws="none", lifespan="on", access_log=False, server_header=False,
            log_config=None, timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=thread.settings.shutdown_s + _LAST_WORDS_S,
        )  # fmt: skip
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self.is_up.set()
        if self.announce is not None:
            self.announce(address_of(self.config.host, self.config.port))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new requests, and end the unfinished ones when their time is over.

        A stalled step is not waited for.
        """
        self.thread.closing = True
        self.force_exit = self.force_exit or self.thread.admission.step_s > STALLED_S
        seconds = self.thread.settings.shutdown_s
        ending = asyncio.get_running_loop().call_later(
            seconds, self.thread.end_all, f"the server is shutting down; {seconds} s are over"
        )
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()


def address_of(host: str, port: int) -> str:
    """The address of a server.

    >>> address_of("::1", 8000)
    'http://[::1]:8000'
    """
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    make_engine: Callable[[], Engine],
    settings: ServerSettings = ServerSettings(),
    *,
    host: str = LOCAL,
    port: int = 8000,
    deadlines: Deadlines | None = None,
    policies: ServerPolicies = ServerPolicies(),
    tokenizer: Tokenizer = CHARACTERS,
    announce: Callable[[str], object] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT.

    `deadlines` are those that the engine's policy ranks by, `tokenizer` is the model's. `announce`
    is called with the server's address once it listens there.
    """
    thread = EngineThread(
        make_engine(), settings, deadlines=deadlines, policies=policies, tokenizer=tokenizer
    )
    # Otherwise the garbage collector visits all objects of start-up: 20 ms between two tokens.
    gc.freeze()
    Server(App(thread, host).starlette(), thread, host, port, announce).run()


@contextmanager
def running_server(
    make_engine: Callable[[], Engine],
    settings: ServerSettings = ServerSettings(),
    *,
    deadlines: Deadlines | None = None,
    policies: ServerPolicies = ServerPolicies(),
    tokenizer: Tokenizer = CHARACTERS,
) -> Generator[tuple[str, EngineThread]]:
    """A server in a thread of this process, on a free port: its address and its engine's thread.

    For lessons and tests.
    """
    thread = EngineThread(
        make_engine(), settings, deadlines=deadlines, policies=policies, tokenizer=tokenizer
    )
    # asyncio sends at once, without Nagle's algorithm, only where a socket says that it is TCP.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind((LOCAL, 0))
        server = Server(App(thread, LOCAL).starlette(), thread)
        background = threading.Thread(target=server.run, args=([listening],), daemon=True)
        background.start()
        server.is_up.wait()
        try:
            yield address_of(*listening.getsockname()), thread
        finally:
            server.should_exit = True
            background.join()
