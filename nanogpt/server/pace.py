"""How fast an engine gives tokens: over its newest steps, the newest counting most."""

FADES = 0.95
"""What an older step counts for once there is a newer one: about the last 20 say it."""


class Pace:
    """Tokens per second of computing. Mutable: faded sums of tokens and of seconds."""

    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0

    def step(self, num_tokens: int, seconds: float) -> None:
        """A step gave so many tokens in so many seconds."""
        self._tokens = FADES * self._tokens + num_tokens
        self._seconds = FADES * self._seconds + seconds

    @property
    def tokens_per_s(self) -> float:
        """Of all requests together; 0 before the first token."""
        return self._tokens / self._seconds if self._seconds else 0.0
