"""The records that travel between a check and an answer: a closed list, in which nothing decides.

They are all of the project that an answer's process has in it besides what serves its calls.
"""

from collections.abc import Mapping
from typing import Any

from course.called import Raised
from course.checks.step_cost import StepCost
from nanogpt.fleet.views import FleetSnapshot, WaitingView, WorkerView
from nanogpt.parts.cached_block import CachedBlock
from nanogpt.parts.request_view import RequestView
from nanogpt.preemption.scheduler_books import Books
from nanogpt.server.server_parts import DoorLimits, NewRequest, QueueView
from nanogpt.slo.slo_view import SloRequest, SloView

RECORDS: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Books,
        CachedBlock,
        DoorLimits,
        FleetSnapshot,
        NewRequest,
        QueueView,
        Raised,
        RequestView,
        SloRequest,
        SloView,
        StepCost,
        WaitingView,
        WorkerView,
    )
}
