"""When first tokens are due: a policy that serves the earliest deadline first."""

from nanogpt.parts.request_view import RequestView

PATIENCE_S = 10.0
"""What a request without an SLO counts as having been promised: so none is put off for ever."""


class Deadlines:
    """The deadlines of unfinished requests, by id. Mutable; used by the engine's thread alone.

    `EngineConfig(policy=deadlines.key)` ranks by them. Source: Liu and Layland, "Scheduling
    algorithms for multiprogramming in a hard-real-time environment", 1973.
    """

    def __init__(self) -> None:
        self._due_s: dict[int, float] = {}

    def note(self, request_id: int, arrived_s: float, slo_ttft_s: float | None) -> None:
        """A request that is about to be submitted. Seconds of one clock."""
        promised_s = PATIENCE_S if slo_ttft_s is None else slo_ttft_s
        self._due_s[request_id] = arrived_s + promised_s

    def forget(self, request_id: int) -> None:
        """A request that has left."""
        self._due_s.pop(request_id, None)

    def key(self, view: RequestView) -> tuple[float, ...]:
        """The earliest deadline first; among equals the more important, then the first to come."""
        due_s = self._due_s.get(view.id, float("inf"))
        return (due_s, view.priority, view.arrival_time)
