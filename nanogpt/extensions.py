"""What guesses ahead for decodes. Here, nothing does."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from nanogpt.kv_cache_manager import KVCacheManager
from nanogpt.outputs import Row, Sampled
from nanogpt.request import Request


class Drafter:
    """What guesses ahead for decodes and judges the guesses; this one never guesses."""

    def propose(
        self,
        planned: Sequence[tuple[Request, int]],
        running: Sequence[Request],
        kv: KVCacheManager,
    ) -> Mapping[int, tuple[int, ...]]:
        """Drafts for the decodes of a plan, where there is room, by request id."""
        return {}

    def judge(self, row: Row, logits: Tensor) -> Sampled:
        """What becomes of a row's drafts. Shapes: logits (K + 1, V)."""
        raise NotImplementedError
