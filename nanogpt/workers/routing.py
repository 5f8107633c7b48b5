"""Which worker serves a request: the exchangeable choice, asked under guard, and what it may know.

A route is what `nanogpt.fleet.decisions.route` is: workers with room and their prefix hits in, one
worker's id out.
"""

from collections.abc import Callable, Mapping, Sequence

from nanogpt.fleet import decisions
from nanogpt.fleet.views import WorkerView
from nanogpt.parts.guard import guarded
from nanogpt.validate import PartError

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


def guard_route(route: Route) -> Route:
    """The same route under a time limit, its answer looked at, unless it is ours."""
    if route is decisions.route or isinstance(route, RoundRobin):
        return route
    timed = guarded("route", route)

    def checked(workers: Sequence[WorkerView], hits: Mapping[int, int]) -> int:
        chosen = timed(tuple(workers), dict(hits))
        ids = [worker.id for worker in workers]
        if type(chosen) is not int or chosen not in ids:
            raise PartError(f"your route named worker {chosen!r}; those with room are {ids}")
        return chosen

    return checked
