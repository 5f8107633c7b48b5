"""What the engine asks of a store of K/V, whatever form it has.

Shapes: L layers, H heads, S entries held, D head size, N new tokens of all rows in order, T new
tokens of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nanogpt.outputs import PrefixHit, Row, SchedulerOutput
from nanogpt.request import Request
from nanogpt.trace import StepRecord

if TYPE_CHECKING:
    from torch import Tensor

    from nanogpt.model import Attend


class KVStore:
    """Holds the K/V of running requests. A step writes; from its commit on, what it wrote is held.

    A store that nothing is written to is what the posts' own loops give their scheduler.
    """

    def reserve(self, request_id: int) -> None:
        """Take the request in, holding nothing."""
        raise NotImplementedError

    def free(self, request_id: int) -> None:
        """Give all of the request's memory back."""
        raise NotImplementedError

    def commit(self, request_id: int, num_tokens: int) -> None:
        """Commit the first `num_tokens` tokens that the step wrote for the request."""
        raise NotImplementedError

    def discard_written(self, request_id: int) -> None:
        """Let go of what was written and never committed."""
        raise NotImplementedError

    def allocate(self, rows: Sequence[Row]) -> None:
        """Take the memory for the rows' new tokens; `discard_written` gives it back."""

    def slot_mapping(self, rows: Sequence[Row]) -> Any:
        """Where the rows' new tokens go, for `write`. Changes nothing."""
        raise NotImplementedError

    def write(self, layer: int, slot_mapping: Any, k: Tensor, v: Tensor) -> None:
        """Put down one layer's K/V of the step, first to last. Shapes: k, v (N, H, D)."""
        raise NotImplementedError

    def attention(self, rows: Sequence[Row]) -> Attend:
        """The attention of a flat batch; `rows` are sorted by their number of tokens."""
        raise NotImplementedError

    def held(self, request_id: int) -> Tensor:
        """What is held in all layers, oldest first. Shapes: -> (2, L, H, S, D)."""
        raise NotImplementedError

    def positions(self, request_id: int) -> Sequence[int]:
        """The positions whose K/V is held, in the order of `held`."""
        raise NotImplementedError

    def live_bytes(self, request_id: int) -> int:
        """Bytes of memory that the request's K/V keeps from others."""
        raise NotImplementedError

    def holders(self) -> Sequence[int]:
        """Ids of the requests that are in, in the order they came."""
        return ()

    def gather(self, request_id: int, layer: int) -> tuple[Tensor, Tensor]:
        """What is held in one layer, oldest first. Shapes: -> k, v (H, S, D)."""
        k, v = self.held(request_id)[:, layer]
        return k, v

    def length(self, request_id: int) -> int:
        """S, how many KV tokens the request holds; 0 when it is unknown."""
        return len(self.positions(request_id))

    def held_tokens(self) -> int:
        """KV tokens held by all requests together."""
        return sum(map(self.length, self.holders()))

    def slot(self, request_id: int) -> int:
        """The request's place in storage; executors sort by it, so that neighbours share a view."""
        return 0

    def mask(self, request_id: int, num_new: int) -> Tensor | None:
        """Which keys, held and new, a query sees, (T, S + T) bool; None: the causal mask."""
        return None

    def match(self, request: Request) -> PrefixHit | None:
        """What a request need not compute. Changes nothing."""
        return None

    def attach(self, request_id: int, hit: PrefixHit) -> None:
        """Let the request's empty table name the blocks of a hit, which hold its first tokens."""

    def register(self, request: Request, new: Sequence[int] = ()) -> None:
        """Let others find the request's full blocks. `new` are tokens that it does not list yet."""

    def lasting_blocks(self, request: Request) -> Sequence[int]:
        """The blocks, those of a hit too, that a request refers to until all its tokens are there.

        Each request is charged for all of its blocks; one that several refer to is stored once.
        """
        return ()

    def annotate(self, record: StepRecord) -> StepRecord:
        """The step's record, with what there is to say of blocks."""
        return record

    def transaction(self, scheduled: SchedulerOutput) -> Transaction:
        """A step in a `with` statement: `begin_step` before it, `end_step` behind it."""
        return Transaction(self, scheduled)

    def begin_step(self, scheduled: SchedulerOutput) -> None:
        """Reserve the admitted requests, and allocate for all rows."""
        for request_id in scheduled.admitted:
            self.reserve(request_id)
        self.allocate(scheduled.rows)

    def end_step(self, scheduled: SchedulerOutput, *, failed: bool) -> None:
        """If the step failed, leave the store as it was before."""
        held = set(self.holders() if failed else ())
        for request_id in held.intersection([row.request_id for row in scheduled.rows]):
            self.discard_written(request_id)
        for request_id in held.intersection(scheduled.admitted):
            self.free(request_id)


class Transaction:
    """A step's changes to a store; an error undoes them. A generator would cost a step 3 us."""

    def __init__(self, store: KVStore, scheduled: SchedulerOutput) -> None:
        self.store = store
        self.scheduled = scheduled

    def __enter__(self) -> None:
        try:
            self.store.begin_step(self.scheduled)
        except BaseException:
            self.store.end_step(self.scheduled, failed=True)
            raise

    def __exit__(self, error: object, *_: object) -> None:
        self.store.end_step(self.scheduled, failed=error is not None)
