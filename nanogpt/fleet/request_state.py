"""A request on its way through the fleet."""

from dataclasses import dataclass, field
from typing import Literal

from nanogpt.fleet.fleet_record import Outcome, VisitEnd, VisitRecord
from nanogpt.fleet.speculating import Drafts
from nanogpt.fleet.workload import FleetRequest
from nanogpt.views.fleet_views import WaitingView

Place = Literal["waiting", "claimed", "dispatched", "prefilling", "decoding", "done"]


@dataclass(eq=False, slots=True)
class RequestState:
    """A request's place and progress. Mutable.

    "claimed": running requests are preempted for it at the next step boundary. `priority` is the
    current one; `stay` counts its stays in a queue. The K/V of `swapped_tokens` is on the host, and
    that of `sent_tokens` goes with it from a prefill worker to a decode worker.
    """

    request: FleetRequest
    id: int = field(init=False)
    kv_needed: int = field(init=False)
    priority: int = field(init=False)
    view: WaitingView = field(init=False)  # since it was last put into a queue
    place: Place = "waiting"
    generated: int = 0
    preemptions: int = 0
    stay: int = 0
    queue: int = 0
    first_token_us: int | None = None
    last_token_us: int = 0
    finished_us: int | None = None
    max_gap_us: int = 0
    swapped_tokens: int = 0
    sent_tokens: int = 0
    total_hits: int = 0
    total_computed: int = 0
    drafts: Drafts | None = None
    # Of this visit to a worker.
    worker: int = -1
    dispatched_us: int = 0
    start_us: int = 0
    hit_tokens: int = 0
    computed_tokens: int = 0
    generated_before: int = 0

    def __post_init__(self) -> None:
        self.id = self.request.id
        self.kv_needed = self.request.kv_tokens_needed
        self.priority = self.request.priority

    @property
    def known_tokens(self) -> int:
        """Prompt and generated tokens."""
        return len(self.request.prompt) + self.generated

    @property
    def left_tokens(self) -> int:
        """Tokens that it may still generate."""
        return self.request.max_new_tokens - self.generated

    @property
    def is_refused(self) -> bool:
        """Whether it was refused, because it fits into no worker."""
        return self.place == "done" and self.finished_us is None

    def outcome(self) -> Outcome:
        """Its outcome so far."""
        finished_us = self.finished_us
        return Outcome(
            id=self.id,
            first_token_us=self.first_token_us,
            finished_us=finished_us,
            generated=self.generated,
            preemptions=self.preemptions,
            hit_tokens=self.total_hits,
            computed_prefill_tokens=self.total_computed,
            max_gap_us=self.max_gap_us,
            refused=self.is_refused,
            attained=finished_us is not None and finished_us <= self.request.deadline_us,
        )

    def visit(self, end_us: int, ended: VisitEnd) -> VisitRecord:
        """Its visit to a worker, up to this moment."""
        return VisitRecord(
            request_id=self.id,
            worker=self.worker,
            dispatched_us=self.dispatched_us,
            start_us=end_us if self.place == "dispatched" else self.start_us,
            end_us=end_us,
            hit_tokens=self.hit_tokens,
            computed_tokens=self.computed_tokens,
            generated_tokens=self.generated - self.generated_before,
            ended=ended,
        )
