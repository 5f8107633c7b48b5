"""What the SLO policy sees of a request: plain data, and nothing that decides.

Times are integer microseconds, lengths are tokens.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SloRequest:
    """A request as the monitor's snapshot holds it: what stays true while time passes.

    `done_tokens` of its `total_tokens` need no more computing. `slo_us` is the time that it was
    promised its first token in, `deadline_us` the moment that follows.
    """

    id: int
    total_tokens: int
    done_tokens: int
    deadline_us: int
    slo_us: int
    num_preemptions: int


@dataclass(frozen=True, slots=True)
class SloView:
    """A request as the policy sees it at one moment; `tokens` are those still to compute."""

    id: int
    tokens: int
    slack_us: int
    time_to_deadline_us: int
    urgency: float
    slo_us: int
    num_preemptions: int

    @property
    def is_doomed(self) -> bool:
        """Whether it misses its deadline even if it runs from now on."""
        return self.slack_us < 0
