"""What was promised to each request, and how often it was preempted: what a snapshot is made of."""

from collections.abc import Iterable
from dataclasses import replace

from nanogpt.preemption.monitor import now_us
from nanogpt.request import Request
from nanogpt.slo.slo_view import SloRequest

NO_SLO_US = 10**12
"""Eleven days: the SLO of a request without one."""


def promise(request: Request, slo_us: int) -> SloRequest:
    """A request that arrives now, to get its first token within `slo_us` microseconds."""
    return SloRequest(
        id=request.id,
        total_tokens=len(request.prompt_tokens),
        done_tokens=0,
        deadline_us=now_us() + slo_us,
        slo_us=slo_us,
        num_preemptions=0,
    )


class Promises:
    """The promises of an engine, by request. Mutable: it counts preemptions."""

    def __init__(self) -> None:
        self._by_id: dict[int, SloRequest] = {}

    def note(self, slo: SloRequest) -> None:
        """Remember a promise to a request that the engine has taken in."""
        self._by_id[slo.id] = slo

    def forget(self, request_id: int) -> None:
        """Keep nothing of a request that has left; its id may come again."""
        self._by_id.pop(request_id, None)

    def seen(self, request: Request) -> SloRequest:
        """The request as the monitor may see it: scalars, nothing that changes later."""
        return replace(
            self._by_id[request.id],
            total_tokens=request.num_known,
            done_tokens=request.prefill_cursor,
        )

    def count_preemption(self, request_ids: Iterable[int]) -> None:
        """Note that these were preempted once more."""
        for request_id in request_ids:
            slo = self._by_id[request_id]
            self._by_id[request_id] = replace(slo, num_preemptions=slo.num_preemptions + 1)
