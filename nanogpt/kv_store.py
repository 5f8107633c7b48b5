"""What a step's executor may ask of the K/V storage, whichever way it is laid out."""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor


class KVStore(Protocol):
    """Holds the K/V of running requests. A step writes, and what it wrote counts from the commit.

    Shapes: L layers, H heads, S entries held, D head size, N new tokens of all rows in order.
    """

    def place(self, rows: Sequence[tuple[int, int]]) -> Any:
        """Where the new tokens of [(request id, how many), ...] will go, for `write`."""
        ...

    def write(self, layer: int, place: Any, k: Tensor, v: Tensor) -> None:
        """Put down one layer's K/V of the step, first to last. Shapes: k, v (N, H, D)."""
        ...

    def gather(self, request_id: int, layer: int) -> tuple[Tensor, Tensor]:
        """What is held, oldest first, without what this step wrote. Shapes: -> k, v (H, S, D)."""
        ...

    def held(self, request_id: int) -> Tensor:
        """The same in all layers at once. Shapes: -> (2, L, H, S, D)."""
        ...

    def length(self, request_id: int) -> int:
        """S, how many KV tokens the request holds; 0 when it is unknown."""
        ...

    def live_bytes(self, request_id: int) -> int:
        """Bytes of memory that the request's K/V keeps from others."""
        ...

    def holders(self) -> Sequence[int]:
        """Ids of the requests that are in, in the order they came."""
        ...

    def positions(self, request_id: int) -> Sequence[int]:
        """The positions whose K/V is held, in the order of `gather`."""
        ...

    def mask(self, request_id: int, num_new: int) -> Tensor | None:
        """Which keys, held and new, a query sees, (T, S + T) bool; None: the causal mask."""
        ...
