"""Views of requests for the SLO policy.

Times are integer microseconds, lengths are tokens.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SloRequest:
    """A request in the monitor's snapshot: the fields that do not depend on the time.

    `done_tokens` of its `total_tokens` need no more computing. Its first token is promised within
    `slo_us`, which is at `deadline_us`.
    """

    id: int
    total_tokens: int
    done_tokens: int
    deadline_us: int
    slo_us: int
    num_preemptions: int


@dataclass(frozen=True, slots=True)
class SloView:
    """A request as the policy sees it at one moment; `tokens` are still to be computed."""

    id: int
    tokens: int
    slack_us: int
    time_to_deadline_us: int
    edf_score: float
    slo_us: int
    num_preemptions: int

    @property
    def is_doomed(self) -> bool:
        """Whether it misses its deadline even if it runs at once."""
        return self.slack_us < 0
