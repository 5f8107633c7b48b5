"""Guests and their requests: what they may send, and how far each has come."""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from course.live.tuning import SLIDERS
from nanogpt.checkpoints.tokenizer import ALPHABET, CHARACTERS, Tokenizer
from nanogpt.server.continuation import TokenStream
from nanogpt.server.served_request import Asked

MAX_PROMPT = 120
NEW_TOKENS = 32
MAX_TOKENS = SLIDERS["max_kv_tokens"].least - NEW_TOKENS
"""Tokens of a prompt that the smallest KV budget holds with its text."""
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
"""Prompts that the whole room may send in a second."""

_KNOWN = "letters, spaces, line breaks and " + " ".join(
    mark for mark in ALPHABET if not mark.isalpha() and not mark.isspace()
)


class Refused(Exception):
    """Why something is not done, in a sentence for the person who asked."""


def checked_prompt(text: object, tokenizer: Tokenizer = CHARACTERS) -> str:
    """A prompt that the room can serve. Raises: Refused."""
    if not isinstance(text, str):
        raise Refused("A prompt is text.")
    text = text.replace("\r\n", "\n")
    if not text.strip():
        raise Refused("The prompt is empty; send at least one character.")
    if len(text) > MAX_PROMPT:
        raise Refused(f"The prompt has {len(text)} characters; {MAX_PROMPT} is the most.")
    unknown = next((mark for mark in text if mark not in ALPHABET), None)
    if tokenizer is CHARACTERS and unknown is not None:
        shown = f"“{unknown}”" if unknown.isprintable() else f"character {ord(unknown)}"
        raise Refused(f"The model has never seen {shown}; it knows {_KNOWN}.")
    try:
        num_tokens = len(tokenizer.encode(text))
    except ValueError as error:
        raise Refused(f"{error}.") from None
    if num_tokens > MAX_TOKENS:
        raise Refused(f"The prompt has {num_tokens} tokens; {MAX_TOKENS} is the most.")
    return text


class Rate:
    """At most `most` events within `window_s` seconds. Mutable: when the latest were."""

    def __init__(self, most: int, window_s: float) -> None:
        self.window_s = window_s
        self._times: deque[float] = deque(maxlen=most)

    def wait_s(self, now: float) -> float:
        """Seconds until one more is allowed."""
        if len(self._times) < (self._times.maxlen or 0):
            return 0.0
        return max(0.0, self._times[0] + self.window_s - now)

    def note(self, now: float) -> None:
        """Add an event."""
        self._times.append(now)


@dataclass(slots=True, eq=False)
class Guest:
    """A phone in the room. Mutable: its open pages, and its rate."""

    key: str
    rate: Rate = field(default_factory=lambda: Rate(1, GAP_S))
    pages: int = 0


State = Literal["waiting", "prefilling", "active", "preempted", "lost", "done", "refused"]


@dataclass(slots=True)
class RoomRequest:
    """A prompt and its progress. Mutable: its state in words, its text, and its window."""

    stream: TokenStream
    prompt: str
    asked: Asked
    guest: Guest | None
    slo_steps: int
    arrival_step: int
    window: int
    state: State = "waiting"
    words: str = "It is on its way to the engine."
    text: str = ""
    num_generated: int = 0
    first_step: int | None = None

    @property
    def id(self) -> int:
        """The id that the engine knows it by."""
        return self.stream.request_id

    @property
    def is_over(self) -> bool:
        """Whether it is finished or refused."""
        return self.state in ("done", "refused")

    @property
    def num_known(self) -> int:
        """Tokens of the prompt and of the text."""
        return len(self.asked.prompt_tokens) + self.num_generated

    @property
    def kept_slo(self) -> bool | None:
        """Whether its first token came in time; None before it came."""
        if self.first_step is None:
            return None
        return self.first_step - self.arrival_step < self.slo_steps
