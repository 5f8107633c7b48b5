"""Tokens to text that is sure to stay: whole characters, up to the first stop string."""

import codecs
from collections.abc import Sequence

from nanogpt.checkpoints.pieces import CHARACTERS, Tokenizer


class Continuation:
    """The text of one request, token by token.

    What is no whole character yet, or could be the beginning of a stop string, is held back until
    it is known. Mutable: `num_tokens` so far, the one that completed a stop string or ended the
    text included, and whether it `is_stopped`.
    """

    def __init__(
        self,
        stops: Sequence[str] = (),
        tokenizer: Tokenizer = CHARACTERS,
        *,
        ignores_end: bool = False,
    ) -> None:
        self.stops = tuple(stops)
        self.num_tokens = 0
        self.is_stopped = False
        self._piece = tokenizer.piece
        self._end_token = None if ignores_end else tokenizer.end_token
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, tokens: Sequence[int]) -> str:
        """The text that these tokens make sure of; nothing behind a stop string or the end.

        Raises: ValueError for a token that the tokenizer does not have.
        """
        sure: list[str] = []
        for token in tokens:
            if self.is_stopped:
                break
            self.num_tokens += 1
            if token == self._end_token:
                sure.append(self.rest())
                self.is_stopped = True
                break
            sure.append(self._add(self._decoder.decode(self._piece(token))))
        return "".join(sure)

    def rest(self) -> str:
        """What was held back, once no more tokens come."""
        text = self._add(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return text + held

    def _add(self, text: str) -> str:
        """The text that is sure now. Character by character: one token may be several."""
        return "".join(map(self._add_character, text))

    def _add_character(self, character: str) -> str:
        if self.is_stopped:
            return ""
        known = self._held + character
        for stop in self.stops:
            if known.endswith(stop):
                self.is_stopped, self._held = True, ""
                return known[: -len(stop)]
        doubtful = max((_overlap(known, stop) for stop in self.stops), default=0)
        sure, self._held = known[: len(known) - doubtful], known[len(known) - doubtful :]
        return sure


def _overlap(text: str, stop: str) -> int:
    """How much of the end of `text` begins the stop string."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if stop.startswith(text[-n:])), 0)
