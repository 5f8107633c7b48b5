"""An HTTP server over one engine, as the OpenAI API has it: many clients, one engine.

    engine_thread             the engine's thread and its commands: read this first
    served_request, continuation   one request, and its text on its way to its client
    server_policies           whom to admit, what to stream, whom to remove
    admission                 the known requests, the throughput, and deadlines
    openai_bodies, openai_api       clients' bodies, as requests to the engine
    tokenizer_api             vLLM's /tokenize and its kin
    answers, logprobs, api_errors   answers and refusals
    app, live_feed            the routes, and the live page's data
    server_metrics, server_settings
    serving                   uvicorn, and shutting down

`python -m nanogpt.server` serves the shipped model.
"""

from typing import TYPE_CHECKING

from nanogpt import lazy_names

if TYPE_CHECKING:
    from nanogpt.server.admission import Deadlines
    from nanogpt.server.server_policies import ServerPolicies
    from nanogpt.server.server_settings import ServerSettings
    from nanogpt.server.serving import running_server, serve

__all__ = ["Deadlines", "ServerPolicies", "ServerSettings", "running_server", "serve"]

__getattr__ = lazy_names(
    __name__,
    {
        "Deadlines": "admission",
        "ServerPolicies": "server_policies",
        "ServerSettings": "server_settings",
        "running_server": "serving",
        "serve": "serving",
    },
)


def __dir__() -> list[str]:
    return __all__
