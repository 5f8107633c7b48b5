"""What the engine orders and what ranks reply: frozen data over a socket, never an exception.

An exception that crosses a process boundary arrives as something else, so a reply says what it is:
ready, done, left (the pass was preempted) or crashed. Orders and replies carry the step they mean.

Shapes: N tokens of a row, S entries of its context, R rows, V vocabulary.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from torch import Tensor

from nanogpt.preemption.agreement import RankParts
from nanogpt.preemption.sharding import Shard


@dataclass(frozen=True, slots=True)
class PassRow:
    """One request's tokens in a pass: N ids, their positions, and the slot its K/V lies in.

    `mask` (N, S) bool says what may be seen of the context, which ends with the N tokens.
    """

    slot: int
    tokens: Sequence[int]
    positions: Sequence[int]
    num_past: int
    mask: Tensor


@dataclass(frozen=True, slots=True)
class Join:
    """Meet the other ranks through the file `store`; a collective may take `timeout_s` seconds."""

    store: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """Serve this share of a model, with K/V for `num_slots` requests, by these parts."""

    shard: Shard
    num_slots: int
    agreement: str
    parts: RankParts


@dataclass(frozen=True, slots=True)
class Run:
    """Run the pass `step` over `rows`. Without `vote` no rank looks whether to leave.

    `suspend`: a rank that leaves keeps the pass to go on with, instead of throwing it away.
    """

    step: int
    rows: tuple[PassRow, ...]
    vote: bool
    suspend: bool


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with the suspended pass, under the new number `step`: the old one may be a target."""

    step: int
    suspended_step: int
    vote: bool
    suspend: bool


@dataclass(frozen=True, slots=True)
class Drop:
    """Throw a suspended pass away; needs no reply."""

    suspended_step: int


Order: TypeAlias = Join | Load | Run | Resume | Drop


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One rank at one attention op: when it came there, what it voted, how long agreeing took.

    Times are nanoseconds of the machine's monotonic clock, the same for all its processes.
    """

    layer: int
    reached_ns: int
    vote: int
    agree_ns: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The rank has done what `Join` or `Load` asked, or has just started."""

    rank: int


@dataclass(frozen=True, slots=True)
class Done:
    """The pass is complete. `logits` (R, V) from rank 0, None from the others."""

    rank: int
    step: int
    logits: Tensor | None
    checks: tuple[CheckRecord, ...]
    num_collectives: int


@dataclass(frozen=True, slots=True)
class Left:
    """The rank left the pass at the attention op of `layer`, having computed the layers below."""

    rank: int
    step: int
    layer: int
    suspended: bool
    checks: tuple[CheckRecord, ...]
    num_collectives: int


@dataclass(frozen=True, slots=True)
class Crashed:
    """The rank failed at `layer` of `step` (both -1 outside a pass), and cannot go on."""

    rank: int
    step: int
    layer: int
    error: str
    in_collective: bool


Reply: TypeAlias = Ready | Done | Left | Crashed


def send(link: Connection, message: Order | Reply) -> None:
    """Write one message. Raises: OSError when the other end is closed.

    `Connection.send` would hand tensors over as open files; these go as plain bytes.
    """
    link.send_bytes(pickle.dumps(message))


def receive(link: Connection) -> Any:
    """Wait for one message. Raises: EOFError or OSError when the other side is gone."""
    return pickle.loads(link.recv_bytes())
