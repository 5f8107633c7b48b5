"""Messages between the engine and its ranks: calls of a rank's methods, and frozen replies.

An exception does not survive a process boundary, so a failure is a reply, too. Replies carry the
step they mean.

Shapes: R rows, V vocabulary.
"""

import pickle
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal, TypeAlias

from torch import Tensor

Method: TypeAlias = Literal["join", "load", "run", "resume", "drop"]
"""The methods of `Rank` that the engine calls; all but "drop" are answered by a reply."""


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One rank at one attention op: when it came, its vote, and how long agreeing took.

    Times are nanoseconds of the machine's monotonic clock, which all its processes share.
    """

    layer: int
    reached_ns: int
    vote: int
    agree_ns: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The rank has started, joined or loaded."""

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


def send(link: Connection, message: tuple[Method, tuple[Any, ...]] | Reply) -> None:
    """Write one message. Raises: OSError when the other end is closed.

    Pickled here, because `Connection.send` would share tensors as open files.
    """
    link.send_bytes(pickle.dumps(message))


def receive(link: Connection) -> Any:
    """Wait for one message. Raises: EOFError or OSError when the other side is gone."""
    return pickle.loads(link.recv_bytes())
