"""The records that travel between a check and an answer: a closed list.

They and what serves its calls are all of the project that an answer's process has. No module here
may hold a function that an exercise asks for: the answer can reach every module of its process.
"""

from collections.abc import Mapping
from typing import Any

from course.calling.results import Raised
from course.checks.step_cost import StepCost
from nanogpt.fleet.views import FleetSnapshot, WaitingView, WorkerView
from nanogpt.parts.cached_block import CachedBlock
from nanogpt.parts.request_view import RequestView
from nanogpt.preemption.scheduler_books import Books
from nanogpt.server.server_views import DoorLimits, NewRequest, QueueView
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
PACKED: Mapping[str, type[Any]] = {"FleetSnapshot": FleetSnapshot}
"""Goes out a thousand times for one load, and is whole numbers all through."""
