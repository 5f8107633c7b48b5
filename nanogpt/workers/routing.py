"""Which worker serves a request: the exchangeable choice.

A route is what `nanogpt.fleet.decisions.route` is: workers with room and their prefix hits in, one
worker's id out.
"""

from collections.abc import Callable, Mapping, Sequence

from nanogpt.fleet.views import WorkerView

Route = Callable[[Sequence[WorkerView], Mapping[int, int]], int]
"""route(workers, hits) -> the id of one of the workers; `hits` are KV tokens by worker id."""


class RoundRobin:
    """Every worker in turn, whatever prefix it has. Mutable: the last one."""

    def __init__(self) -> None:
        self.last = -1

    def __call__(self, workers: Sequence[WorkerView], hits: Mapping[int, int]) -> int:
        """The next id after the last one chosen; after the highest comes the lowest."""
        self.last = min((w.id for w in workers), key=lambda i: (i <= self.last, i))
        return self.last
