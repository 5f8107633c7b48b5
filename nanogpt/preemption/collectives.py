"""The two collectives that ranks need, over gloo, and how many of them there were."""

from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor


class Collectives:
    """This rank's membership in the group of all ranks. A group of one sends nothing.

    Mutable: `count`, the collectives so far, and `waiting`, whether it is inside one.
    """

    def __init__(self, rank: int, num_ranks: int) -> None:
        self.rank = rank
        self.num_ranks = num_ranks
        self.count = 0
        self.waiting = False

    def join(self, store: Path, timeout_s: float) -> None:
        """Meet the others through a file; every collective may take `timeout_s` seconds.

        Raises: RuntimeError when the others do not come.
        """
        if self.num_ranks > 1:
            dist.init_process_group(
                "gloo",
                init_method=store.as_uri(),
                rank=self.rank,
                world_size=self.num_ranks,
                timeout=timedelta(seconds=timeout_s),
            )

    def sum(self, partial: Tensor) -> Tensor:
        """Add `partial` up over the ranks, in place."""
        return self._all_reduce(partial, dist.ReduceOp.SUM)

    def max(self, vote: int) -> int:
        """The largest vote of all ranks."""
        return int(self._all_reduce(torch.tensor(vote, dtype=torch.int32), dist.ReduceOp.MAX))

    def _all_reduce(self, tensor: Tensor, operation: dist.ReduceOp.RedOpType) -> Tensor:
        """Raises: RuntimeError when another rank does not come within the time, or is gone."""
        if self.num_ranks > 1:
            self.waiting = True
            dist.all_reduce(tensor, operation)
            self.waiting = False
            self.count += 1
        return tensor
