"""A request on its way through the fleet."""

from typing import Literal

from nanogpt.fleet.fleet_record import Outcome
from nanogpt.fleet.speculating import Drafts
from nanogpt.fleet.views import WaitingView
from nanogpt.fleet.workload import FleetRequest

Place = Literal["waiting", "claimed", "dispatched", "prefilling", "decoding", "done"]


class RequestState:
    """Where a request is and how far it has come. Mutable.

    "claimed": it waits for the end of a step, when another leaves for it. `priority` is the one
    that counts now; `stay` tells its stays in the queue apart. `known_tokens` are its prompt and
    what it has generated; `swapped_tokens` of them have their K/V on the host.
    """

    __slots__ = (
        "computed_tokens", "dispatched_us", "drafts", "finished_us", "first_token_us", "generated",
        "generated_before", "hit_tokens", "hits_seen", "id", "kv_needed", "last_token_us",
        "max_gap_us", "place", "preemptions", "priority", "queue", "request", "start_us", "stay",
        "swapped_tokens", "total_computed", "total_hits", "view", "worker",
    )  # fmt: skip

    def __init__(self, request: FleetRequest) -> None:
        self.request = request
        self.id = request.id
        self.kv_needed = request.kv_tokens_needed
        self.priority = request.priority
        self.place: Place = "waiting"
        self.generated = 0
        self.preemptions = 0
        self.stay = 0
        self.queue = 0
        self.first_token_us: int | None = None
        self.last_token_us = 0
        self.finished_us: int | None = None
        self.max_gap_us = 0
        self.swapped_tokens = 0
        self.total_hits = 0
        self.total_computed = 0
        self.drafts: Drafts | None = None
        self.view: WaitingView | None = None
        # Of this visit.
        self.worker = -1
        self.dispatched_us = 0
        self.start_us = 0
        self.hit_tokens = 0
        self.computed_tokens = 0
        self.generated_before = 0
        # (version of the index, worker id -> hit), so that nothing is looked up twice
        self.hits_seen: tuple[int, dict[int, int]] = (-1, {})

    @property
    def known_tokens(self) -> int:
        """Tokens whose K/V it needs before it can go on, the last one's aside."""
        return len(self.request.prompt) + self.generated

    @property
    def left_tokens(self) -> int:
        """Tokens that it still may generate."""
        return self.request.max_new_tokens - self.generated

    def emit_first(self, now_us: int) -> int | None:
        """One token comes out of its prefill: the gap to the last one, None if it is the first."""
        self.generated += 1
        gap_us = None
        if self.first_token_us is None:
            self.first_token_us = now_us
        else:
            gap_us = now_us - self.last_token_us
            self.max_gap_us = max(self.max_gap_us, gap_us)
        self.last_token_us = now_us
        return gap_us

    def outcome(self) -> Outcome:
        """How it fared, so far."""
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
            refused=self.place == "done" and finished_us is None,
            attained=finished_us is not None and finished_us <= self.request.deadline_us,
        )
