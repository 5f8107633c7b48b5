"""Messages between the engine and its ranks, and what the replies to a pass mean together.

The engine calls methods of a rank. A failure is a reply too, since an exception does not survive a
process boundary. Replies name the step that they answer.

Shapes: R rows, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch import Tensor

Method: TypeAlias = Literal["join", "load", "run", "resume"]
"""The methods of `Rank` that the engine calls; each is answered by a reply."""


class RanksFailed(RuntimeError):
    """A rank crashed, hung or vanished; all ranks were ended, as none can go on without it."""


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


@dataclass(frozen=True, slots=True)
class Left:
    """The rank left the pass at the attention op of `layer`, having computed the layers below."""

    rank: int
    step: int
    layer: int
    checks: tuple[CheckRecord, ...]


@dataclass(frozen=True, slots=True)
class Crashed:
    """The rank failed at `layer` of `step` (both -1 outside a pass), and cannot go on."""

    rank: int
    step: int
    layer: int
    error: str
    in_collective: bool = False


Reply: TypeAlias = Ready | Done | Left | Crashed


# --- the outcome of a pass ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Complete:
    """Every rank has finished the pass. Shapes: logits (R, V)."""

    step: int
    logits: Tensor
    replies: tuple[Done, ...]


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Every rank has left the pass at the attention op of `layer`."""

    step: int
    layer: int
    replies: tuple[Left, ...]


Outcome: TypeAlias = Complete | Abandoned


def judge(replies: Sequence[Reply], step: int, target: int) -> Outcome:
    """Whether pass `step` is complete or was left.

    Only the replies decide: the `target` may have been written after the last rank read it.
    Raises: RanksFailed for a crash, naming every rank, and for replies that do not fit together.
    """
    done = tuple(reply for reply in replies if isinstance(reply, Done))
    left = tuple(reply for reply in replies if isinstance(reply, Left))
    late = next((reply for reply in (*done, *left) if reply.step != step), None)
    if late is not None and len(done) + len(left) == len(replies):
        raise RanksFailed(f"rank {late.rank} answered step {late.step}, not step {step}")
    logits = next((reply.logits for reply in done if reply.logits is not None), None)
    if len(done) == len(replies) and logits is not None:
        return Complete(step, logits, done)
    if left and len(left) == len(replies) and len({reply.layer for reply in left}) == 1:
        return Abandoned(step, left[0].layer, left)
    raise RanksFailed("; ".join(_in_words(reply) for reply in replies))


def _in_words(reply: Reply) -> str:
    match reply:
        case Crashed(in_collective=True):
            why = reply.error.rpartition("] ")[2]  # behind the place in gloo's own source
            what = f"waited in a collective for a rank that did not come ({why})"
        case Crashed():
            what = f"failed: {reply.error}"
        case Left():
            what = "left the pass"
        case Done():
            return f"rank {reply.rank} finished step {reply.step}"
        case Ready():
            return f"rank {reply.rank} is ready"
    if reply.step < 0:
        return f"rank {reply.rank} {what}"
    return f"rank {reply.rank} at step {reply.step}, layer {reply.layer}: {what}"
