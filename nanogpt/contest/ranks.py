"""Ranks by promises: what a policy of the contest may look at, and the course's own answer."""

from typing import Protocol

from nanogpt.parts.request_view import RequestView

PREFILL_US = 512
"""What a token of a prompt costs on the contest's machine."""


class Rank(Protocol):
    """A request's rank at this moment: smaller goes first.

    `due_us` is when the next token that it has not given yet is due, `now_us` the time; both on
    the machine's clock. Asked in every step, of all that wait and all that run.
    """

    def __call__(self, request: RequestView, due_us: int, now_us: int, /) -> tuple[float, ...]:
        """Rank one request."""
        ...


def rank(request: RequestView, due_us: int, now_us: int) -> tuple[float, ...]:
    """What decodes goes on, then whatever must be begun first, and in the end what is too late.

    A prompt must be begun when its due time, less what its prefill takes, has come: the slack of
    the SLO lesson is then 0. Without the first rule two requests would push each other out in
    turns, and compute their prompts again each time.
    """
    missing = request.num_known - request.kv_tokens
    is_decode = missing <= 1
    begin_us = due_us if is_decode else due_us - missing * PREFILL_US
    if begin_us < now_us:
        return (2, begin_us)
    return (0 if is_decode else 1, begin_us)
