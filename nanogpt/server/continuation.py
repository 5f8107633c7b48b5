"""One request's text, from the engine's tokens to the client that reads it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Literal

from nanogpt.checkpoints.tokenizer import CHARACTERS, Tokenizer
from nanogpt.server.server_policies import StreamDelta, stream_delta

Reason = Literal["stop", "length", "abort", "refused", "error"]
"""vLLM's finish reasons, and "refused" for a request that the engine did not accept."""


class Continuation:
    """The text of one request, token by token: whole characters, up to the first stop string.

    `tokenizer` gives a token's bytes, and `delta` selects the new text. Text that could be the
    beginning of a stop string is held back until it is known not to be. As in vLLM, a stop string
    that is complete within the first `min_tokens` tokens does not count. Mutable: the pieces, the
    held text, and whether it `is_stopped` by a stop string or an end token.
    """

    def __init__(
        self,
        stops: Sequence[str] = (),
        tokenizer: Tokenizer = CHARACTERS,
        delta: StreamDelta = stream_delta,
        *,
        ignores_end: bool = False,
        min_tokens: int = 0,
    ) -> None:
        self.stops = tuple(stops)
        self.min_tokens = min_tokens
        self.is_stopped = False
        self._piece = tokenizer.piece
        self._end_tokens = () if ignores_end else tokenizer.end_tokens
        self._delta = delta
        self._pieces: list[bytes] = []
        self._num_taken = 0
        self._held = ""

    @property
    def num_tokens(self) -> int:
        """The number of tokens, including one that completed a stop string or ended the text."""
        return len(self._pieces)

    def feed(self, tokens: Sequence[int]) -> str:
        """The text that is final with these tokens, without a stop string.

        Raises: ValueError for a token that the tokenizer does not have; PolicyError.
        """
        final: list[str] = []
        for token in tokens:
            if self.is_stopped:
                break
            self._pieces.append(self._piece(token))
            if token in self._end_tokens:
                final.append(self.rest())
                self.is_stopped = True
                break
            final.append(self._take(is_done=False))
        return "".join(final)

    def rest(self) -> str:
        """The held text, once no more tokens come."""
        text = "" if self.is_stopped else self._take(is_done=True)
        held, self._held = self._held, ""
        return text + held

    def restart(self, num_tokens: int) -> None:
        """Keep only so many tokens: a preempted request computes the others again."""
        del self._pieces[num_tokens:]

    def _take(self, *, is_done: bool) -> str:
        new = "".join(self._delta(self._pieces, self._num_taken, is_done))
        self._num_taken += len(new)
        known = self._held + new
        # A stop string that the held text completes was not counted before.
        firsts = {stop: max(0, len(self._held) - len(stop) + 1) for stop in self.stops}
        found = [(at, stop) for stop in self.stops if (at := known.find(stop, firsts[stop])) >= 0]
        if found and len(self._pieces) > self.min_tokens:  # the one that is complete first
            start, _ = min(found, key=lambda each: each[0] + len(each[1]))
            self.is_stopped, self._held = True, ""
            return known[:start]
        doubtful = max((_overlap(known, stop) for stop in self.stops), default=0)
        final, self._held = known[: len(known) - doubtful], known[len(known) - doubtful :]
        return final


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that begins the stop string."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if stop.startswith(text[-n:])), 0)


@dataclass(frozen=True, slots=True)
class End:
    """How a request ended; `message` says why if not by a stop string or its length.

    `num_cached` tokens of its prompt were found in shared blocks.
    """

    reason: Reason
    num_tokens: int = 0
    message: str = ""
    token_ids: tuple[int, ...] = ()
    num_cached: int = 0


class TokenStream:
    """The text of one request that its client has not read yet. Used only in the event loop.

    Mutable: that text, which `max_new_tokens` bounds however slow the client is, and the `end`.
    """

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self.accepted = asyncio.Event()
        self.end: End | None = None
        self._text = ""
        self._news = asyncio.Event()

    def put(self, text: str, end: End | None) -> None:
        """Add text, or the end. The first call says that the engine accepted or refused it."""
        self._text += text
        self.end = self.end or end
        self.accepted.set()
        if text or end:
            self._news.set()

    def take(self) -> str:
        """All the text since the last call."""
        text, self._text = self._text, ""
        return text

    async def pieces(self) -> AsyncGenerator[str]:
        """The text to its end, each time all of it that is new."""
        while self.end is None:
            await self._news.wait()
            self._news.clear()
            if text := self.take():
                yield text
        if text := self.take():
            yield text
