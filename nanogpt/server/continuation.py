"""Tokens to text that is sure to stay: up to the first stop string, and none of its beginning."""

from collections.abc import Sequence

from nanogpt.checkpoints.tokenizer import decode


class Continuation:
    """The text of one request, token by token.

    What could be the beginning of a stop string is held back until it is known not to be. What one
    token gives is never split. Mutable: `num_tokens` so far, the one that completed a stop string
    included, and whether one has been found.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self.stops = tuple(stops)
        self.num_tokens = 0
        self.is_stopped = False
        self._held = ""

    def feed(self, tokens: Sequence[int]) -> str:
        """The text that these tokens make sure of; nothing behind a stop string.

        Raises: ValueError for a token that the tokenizer does not have.
        """
        sure: list[str] = []
        for token in tokens:
            if self.is_stopped:
                break
            self.num_tokens += 1
            sure.append(self._add(decode([token])))
        return "".join(sure)

    def rest(self) -> str:
        """What was held back, once no more tokens come."""
        held, self._held = self._held, ""
        return held

    def _add(self, text: str) -> str:
        known = self._held + text
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
