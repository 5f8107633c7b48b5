"""The outcome of one pass from the ranks' replies: complete, left by all, or the group's end.

Every reply is read, whatever the first ones say: one that is left in its socket would be taken for
the reply to the next pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from nanogpt.preemption.rank_messages import Crashed, Done, Left, Ready, Reply


class RanksFailed(RuntimeError):
    """A rank crashed, hung or vanished; all ranks were ended, as none can go on without it."""


@dataclass(frozen=True, slots=True)
class Complete:
    """Every rank has finished the pass. Shapes: logits (R, V)."""

    step: int
    logits: Tensor
    replies: tuple[Done, ...]


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Every rank has left the pass at the attention op of `layer`; `suspended` if it was kept."""

    step: int
    layer: int
    suspended: bool
    replies: tuple[Left, ...]


Outcome: TypeAlias = Complete | Abandoned
NextReply = Callable[[], Reply]


def read_all(next_reply: NextReply, num_ranks: int) -> list[Reply]:
    """One reply of every rank."""
    return [next_reply() for _ in range(num_ranks)]


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
        return Abandoned(step, left[0].layer, left[0].suspended, left)
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


@dataclass(frozen=True, slots=True)
class RunnerPolicies:
    """The exchangeable functions of the engine's side of a pass."""

    read_replies: Callable[[NextReply, int], list[Reply]] = read_all
    judge: Callable[[Sequence[Reply], int, int], Outcome] = judge


RUNNER_POLICIES = RunnerPolicies()
"""The reference."""
