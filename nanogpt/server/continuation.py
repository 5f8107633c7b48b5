"""Tokens to text that is sure to stay: whole characters, up to the first stop string."""

from collections.abc import Sequence

from nanogpt.checkpoints.pieces import CHARACTERS, Tokenizer
from nanogpt.server.server_parts import NextEvents, next_events


class Continuation:
    """The text of one request, token by token.

    `tokenizer` gives a token's bytes, and `events` says which text of all pieces is new and whole.
    What could be the beginning of a stop string is held back until it is known not to be. Mutable:
    the pieces, how much of their text was taken, `num_tokens` so far, the one that completed a stop
    string or ended the text included, and whether it `is_stopped`.
    """

    def __init__(
        self,
        stops: Sequence[str] = (),
        tokenizer: Tokenizer = CHARACTERS,
        events: NextEvents = next_events,
        *,
        ignores_end: bool = False,
    ) -> None:
        self.stops = tuple(stops)
        self.is_stopped = False
        self._piece = tokenizer.piece
        self._end_token = None if ignores_end else tokenizer.end_token
        self._events = events
        self._pieces: list[bytes] = []
        self._num_taken = 0
        self._held = ""

    @property
    def num_tokens(self) -> int:
        """How many tokens it is made of."""
        return len(self._pieces)

    def feed(self, tokens: Sequence[int]) -> str:
        """The text that these tokens make sure of; nothing behind a stop string or the end.

        Raises: ValueError for a token that the tokenizer does not have; PartError of a part.
        """
        sure: list[str] = []
        for token in tokens:
            if self.is_stopped:
                break
            self._pieces.append(self._piece(token))
            if token == self._end_token:
                sure.append(self.rest())
                self.is_stopped = True
                break
            sure.append(self._take(is_done=False))
        return "".join(sure)

    def rest(self) -> str:
        """What was held back, once no more tokens come."""
        text = "" if self.is_stopped else self._take(is_done=True)
        held, self._held = self._held, ""
        return text + held

    def restart(self, num_tokens: int) -> None:
        """Only so many tokens are committed now: a preempted request computes the others again."""
        del self._pieces[num_tokens:]

    def _take(self, *, is_done: bool) -> str:
        """The new text, less what a stop string may want of it."""
        new = "".join(self._events(self._pieces, self._num_taken, is_done))
        self._num_taken += len(new)
        return "".join(map(self._add, new))

    def _add(self, character: str) -> str:
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
