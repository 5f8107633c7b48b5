"""The inputs of admission control: the queue, the limits and the new request. Records only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueView:
    """A server's unfinished requests.

    `running` has the number of tokens that each running request has still to generate;
    `num_waiting` wait for the engine. `tokens_per_s` is the throughput of all running requests
    together (0 before the first token).
    """

    running: tuple[int, ...]
    num_waiting: int
    tokens_per_s: float
    is_closing: bool


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """Limits on the unfinished requests, on one request's tokens, and on the retry time."""

    max_requests: int
    max_prompt_tokens: int
    max_kv_tokens: int
    max_retry_s: int


@dataclass(frozen=True, slots=True)
class NewRequest:
    """The lengths of a request that has just arrived, in tokens."""

    num_prompt_tokens: int
    max_new_tokens: int
