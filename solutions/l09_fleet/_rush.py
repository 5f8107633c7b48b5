"""A tiny fleet under a rush: it shows the router a moment, and applies the decision itself."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from course.calling.plain_values import as_whole
from course.checks.comparing import Args
from nanogpt.fleet.fleet_views import WorkerView


def view(id: int, backlog: int = 0, running: int = 0, **fields: int) -> WorkerView:
    """A worker with room: `backlog` prompt tokens promised, `running` requests in its batch."""
    known = {"batch_size": max(8, 2 * running), "kv_free_tokens": 4000, "kv_tokens": 4000} | fields
    return WorkerView(id=id, backlog_tokens=backlog, num_running=running, **known)


@dataclass(frozen=True, slots=True)
class Rush:
    """Requests that begin alike, all at once; worker 0 knows the shared beginning."""

    num_requests: int
    shared_tokens: int
    own_tokens: int
    num_workers: int

    def __str__(self) -> str:
        return (
            f"{self.num_requests} requests at once, {self.shared_tokens + self.own_tokens} tokens "
            f"each, of which worker 0 knows {self.shared_tokens}; {self.num_workers} workers"
        )


@dataclass(slots=True)
class Prefills:
    """Sends the requests of a rush one by one. Mutable: which worker has promised how much."""

    rush: Rush
    views: list[WorkerView] = field(default_factory=list[WorkerView])
    asked: list[Args] = field(default_factory=list[Args])

    def run(self, route: Callable[[list[WorkerView], dict[int, int]], Any]) -> "Prefills":
        """Every decision is applied, right or wrong, if it names a worker."""
        rush = self.rush
        self.views = [view(id, batch_size=64) for id in range(rush.num_workers)]
        for _ in range(rush.num_requests):
            args = (list(self.views), {0: rush.shared_tokens})
            self.asked.append(args)
            chosen = as_whole(route(*args))
            if chosen is None or not 0 <= chosen < rush.num_workers:
                break
            before = self.views[chosen]
            own = rush.own_tokens + (rush.shared_tokens if chosen else 0)
            self.views[chosen] = replace(
                before,
                backlog_tokens=before.backlog_tokens + own,
                num_running=before.num_running + 1,
            )
        return self

    @property
    def longest_backlog(self) -> int:
        """Tokens that the worker that is done last has to compute."""
        return max(w.backlog_tokens for w in self.views)

    def __str__(self) -> str:
        return "\n".join(
            f"worker {w.id}: {w.num_running} requests, {w.backlog_tokens} tokens to compute"
            for w in self.views
        )
