"""What admission control sees of a server: the queue, the limits and the new request.

Records only: an answer's process has them, and must not have the functions that decide.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueView:
    """The unfinished requests of a server, as its door sees them.

    `running` has for each request that runs how many tokens it still has to give; `num_waiting`
    wait to be admitted. `tokens_per_s` is what the engine gives to all that run together (0 before
    its first token).
    """

    running: tuple[int, ...]
    num_waiting: int
    tokens_per_s: float
    is_closing: bool


@dataclass(frozen=True, slots=True)
class DoorLimits:
    """What a server allows: unfinished requests, and of one request its prompt and KV tokens.

    None is told to come again later than in `max_retry_s` seconds.
    """

    max_requests: int
    max_prompt_tokens: int
    max_kv_tokens: int
    max_retry_s: int


@dataclass(frozen=True, slots=True)
class NewRequest:
    """The lengths of a request that has just arrived, in tokens."""

    num_prompt_tokens: int
    max_new_tokens: int
