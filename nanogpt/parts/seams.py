"""What features may add to a step: K/V that others computed, and drafts. Here, nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from nanogpt.executors.base import Row
from nanogpt.request import Request
from nanogpt.scheduler import Scheduler
from nanogpt.trace import StepRecord


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a pass gave a request: its first `num_accepted` drafts, and `last` after them."""

    last: int
    num_accepted: int = 0


@dataclass(frozen=True, slots=True)
class BlockHit:
    """The blocks that hold the first `num_tokens` of some known tokens."""

    blocks: tuple[int, ...]
    num_tokens: int


class Prefixes:
    """Where K/V of shared prefixes is found: here, nowhere."""

    def find(self, known: Sequence[int], salt: str | None = None) -> BlockHit | None:
        """What a request with these known tokens need not compute. Changes nothing."""
        return None

    def adopt(self, request_id: int, blocks: Sequence[int], num_tokens: int) -> None:
        """Let the request's empty table name these blocks, which hold its first tokens."""

    def publish(self, request: Request, new: Sequence[int] = ()) -> None:
        """Let others find the request's K/V, of committed steps only. `new` are sampled tokens that
        it does not list yet.
        """

    def shared(self, requests: Sequence[Request]) -> int:
        """KV tokens that these count with more than once, and that are there once."""
        return 0

    def noted(self, record: StepRecord) -> StepRecord:
        """The step's record, with what there is to say of the store."""
        return record


class Drafter:
    """What guesses ahead for decodes and judges the guesses: here, nothing."""

    def propose(
        self, planned: Sequence[tuple[Request, int]], scheduler: Scheduler
    ) -> Mapping[int, tuple[int, ...]]:
        """Drafts for the decodes of a plan, where there is room, by request id."""
        return {}

    def judge(self, row: Row, logits: Tensor) -> Drawn:
        """What becomes of a row's drafts. Shapes: logits (K + 1, V)."""
        raise NotImplementedError
