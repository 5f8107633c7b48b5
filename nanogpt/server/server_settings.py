"""A server's limits and settings."""

from dataclasses import dataclass

from nanogpt.validate import check_int

MOST_REQUESTS = 100_000
MOST_MS = 60_000
MOST_RETRY_S = 60
"""The longest `retry-after`: OpenAI's client accepts at most two minutes."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Limits and settings of a server.

    At most `max_requests` are unfinished at once, running and waiting. `max_body_bytes` limits
    the body of a request. `stream_interval_ms` is the least time between two events of a stream,
    except for the first token and the end (0: an event for every step). On shutdown, unfinished
    requests have `shutdown_s` seconds. With an `api_key`, `/v1` is only for clients that send it.
    Raises: ValueError for a value outside its limits.
    """

    model_name: str = "nanogpt"
    api_key: str | None = None
    max_requests: int = 256
    max_body_bytes: int = 1 << 20
    stream_interval_ms: int = 20
    shutdown_s: int = 10

    def __post_init__(self) -> None:
        if not self.model_name:
            raise ValueError("model_name is empty; clients name the model")
        if self.api_key is not None and not (self.api_key and self.api_key.isascii()):
            raise ValueError("api_key is empty or not ASCII; leave it out for a server without")
        check_int("max_requests", self.max_requests, 1, MOST_REQUESTS)
        check_int("max_body_bytes", self.max_body_bytes, 1)
        check_int("stream_interval_ms", self.stream_interval_ms, 0, MOST_MS)
        check_int("shutdown_s", self.shutdown_s, 0, 3600)
