"""An HTTP server over one engine, as the OpenAI API has it: any number of clients, one thread.

    engine_thread             the engine, its commands and what it gives: read this first
    token_stream, continuation      one request's text, on its way to its client
    server_parts              what comes in, goes out and leaves, and what a policy may answer
    door, pace                which requests are unfinished, and how fast they go
    openai_bodies, openai_api, chat_template    what clients send
    api_errors, foreign_pages       how and whom a server refuses
    answers, logprobs, app          what clients are sent, and the routes
    deadlines, server_metrics, server_settings      SLOs, what /metrics shows, limits
    live_feed, live_page      what /live shows, while it is watched
    serving                   uvicorn, and shutting down

`python -m nanogpt.server` serves the shipped model.
"""

from typing import TYPE_CHECKING

from nanogpt import lazy_names

if TYPE_CHECKING:
    from nanogpt.server.deadlines import Deadlines
    from nanogpt.server.server_parts import ServerParts
    from nanogpt.server.server_settings import ServerSettings
    from nanogpt.server.serving import running_server, serve

__all__ = ["Deadlines", "ServerParts", "ServerSettings", "running_server", "serve"]

__getattr__ = lazy_names(
    __name__,
    {
        "Deadlines": "deadlines",
        "ServerParts": "server_parts",
        "ServerSettings": "server_settings",
        "running_server": "serving",
        "serve": "serving",
    },
)


def __dir__() -> list[str]:
    return __all__
