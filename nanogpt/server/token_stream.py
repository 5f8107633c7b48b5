"""What a request gives, on its way from the engine's thread to the one client that reads it."""

import asyncio
from dataclasses import dataclass
from typing import Literal

Reason = Literal["stop", "length", "cancelled", "refused", "failed", "shutdown"]


@dataclass(frozen=True, slots=True)
class End:
    """How a request ended: by a stop string or its length, or else, and then `message` says why.

    `token_ids` are its tokens, `num_tokens` of them; `num_cached` tokens of its prompt were found
    in shared blocks.
    """

    reason: Reason
    num_tokens: int = 0
    message: str = ""
    token_ids: tuple[int, ...] = ()
    num_cached: int = 0


class TokenStream:
    """The text of one request that its client has not read yet. Lives in the event loop.

    What comes while the client is slow is added to one text, so it is never more than what the
    request's `max_new_tokens` make. Mutable: that text, and the `end` once there is one.
    """

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self.accepted = asyncio.Event()
        self.end: End | None = None
        self._text = ""
        self._news = asyncio.Event()

    def put(self, text: str, end: End | None) -> None:
        """More text, and the end if this is it. The first call: the engine has answered."""
        self._text += text
        self.end = self.end or end
        self.accepted.set()
        if text or end:
            self._news.set()

    async def read(self) -> str:
        """Wait for text or for the end; all the text since the last time, "" only at the end."""
        await self._news.wait()
        if self.end is None:
            self._news.clear()
        text, self._text = self._text, ""
        return text
