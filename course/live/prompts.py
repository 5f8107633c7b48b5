"""What a guest may send: how long, of which characters, how often. Says why not in one sentence."""

from collections import deque

from nanogpt.checkpoints.tokenizer import ALPHABET, encode

MAX_PROMPT = 120
NEW_TOKENS = 32
LONG_PROMPT = (
    "Now is the winter of our discontent\nMade glorious summer by this sun of York;\n"
    "And all the clouds that lour'd upon our house\nIn the deep bosom of the ocean buried.\n"
    "Now are our brows bound with victorious wreaths;\nOur bruised arms hung up for monuments;\n"
)
URGENT_PROMPT = "MESSENGER:\nMy lord, my lord! "
MAX_WAITING_EACH = 2
MAX_UNFINISHED = 250
GAP_S = 2.0
BURST = 100
"""Prompts that the whole room may send within a second."""

_KNOWN = "letters, spaces, line breaks and " + " ".join(
    mark for mark in ALPHABET if not mark.isalpha() and not mark.isspace()
)


class Refused(Exception):
    """What was asked is not done; the message says why, to the person who asked."""


def checked_prompt(text: object) -> list[int]:
    """A prompt as token ids. Raises: Refused."""
    if not isinstance(text, str):
        raise Refused("A prompt is text.")
    text = text.replace("\r\n", "\n")
    if not text.strip():
        raise Refused("The prompt is empty; send at least one character.")
    if len(text) > MAX_PROMPT:
        raise Refused(f"The prompt has {len(text)} characters; {MAX_PROMPT} is the most.")
    unknown = next((mark for mark in text if mark not in ALPHABET), None)
    if unknown is not None:
        shown = f"“{unknown}”" if unknown.isprintable() else f"character {ord(unknown)}"
        raise Refused(f"The model has never seen {shown}; it knows {_KNOWN}.")
    return encode(text)


class Rate:
    """At most `most` events within `window_s` seconds. Mutable: when the latest were."""

    def __init__(self, most: int, window_s: float) -> None:
        self.window_s = window_s
        self._times: deque[float] = deque(maxlen=most)

    def wait_s(self, now: float) -> float:
        """How many seconds are left until one more may come; 0 when it may come now."""
        if len(self._times) < (self._times.maxlen or 0):
            return 0.0
        return max(0.0, self._times[0] + self.window_s - now)

    def note(self, now: float) -> None:
        """One more has come."""
        self._times.append(now)
