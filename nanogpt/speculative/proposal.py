"""What was guessed for a request, as frozen plain data."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Proposal:
    """Drafted tokens, and for each the distribution that it was drawn from, V numbers."""

    tokens: tuple[int, ...] = ()
    probabilities: tuple[Sequence[float], ...] = ()
