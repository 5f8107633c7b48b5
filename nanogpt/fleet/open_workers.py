"""The workers of a queue that take requests, kept in order, so that a dispatch asks only a few.

With a thousand workers a look at each for every request is what a fleet's router spends its time
on. So those that changed are put in their place again, and the rest are left alone; and of the
prefixes that they hold there is an index. What is chosen is what `decisions.route` chooses.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence

from nanogpt.fleet.prefix_index import PrefixIndex
from nanogpt.fleet.request_state import RequestState
from nanogpt.fleet.worker import Worker

Rank = tuple[int, int, int]
"""(backlog minus hit, num_running, id), as in `decisions.route`: the smallest is chosen."""


class OpenWorkers:
    """Those of `workers`, by id from their first on, that are open. Mutable."""

    def __init__(self, workers: Sequence[Worker], index: PrefixIndex | None) -> None:
        self.all = workers
        self._first_id = workers[0].id
        self._index = index
        self._rank_of: dict[int, Rank] = {}  # of the open, without a hit
        self._ranks: list[Rank] = []  # the same in order
        self._changed = {worker.id for worker in workers}
        for worker in workers:
            worker.is_watched_by(self._changed, index)

    def renew(self) -> None:
        """Puts the workers that have changed where they belong now."""
        for worker_id in self._changed:
            worker = self._worker(worker_id)
            rank = (worker.backlog_tokens, worker.num_running, worker_id)
            old = self._rank_of.pop(worker_id, None)
            if old is not None:
                del self._ranks[bisect_left(self._ranks, old)]
            if worker.is_open:
                self._rank_of[worker_id] = rank
                insort(self._ranks, rank)
        self._changed.clear()

    @property
    def know_hits(self) -> bool:
        """Whether `best` finds every hit: in the index, or because there is none."""
        return self._index is not None or self.all[0].config.prefix_cache == "none"

    def any_besides(self, kept_free: Worker | None) -> bool:
        """Whether any is open, of those that are not kept free."""
        is_counted = kept_free is not None and kept_free.id in self._rank_of
        return len(self._ranks) > is_counted

    def with_room(self, kv_tokens: int, kept_free: Worker | None) -> list[Worker]:
        """All that are open and have so many KV tokens free, by id."""
        return [
            worker
            for worker in self.all
            if worker.kv_free_tokens >= kv_tokens
            and worker.id in self._rank_of
            and worker is not kept_free
        ]

    def hits(self, state: RequestState, among: Sequence[Worker]) -> dict[int, int]:
        """How many known tokens each of them need not compute, without those that have none."""
        if self._index is None:
            found = {worker.id: worker.hit(state) for worker in among}
        else:
            found, most = dict[int, int](), state.known_tokens - 1
            for start, end, holders in self._index.hits(state.request.prompt):
                for worker_id, held in holders.items():
                    if worker_id not in found:
                        found[worker_id] = min(start + held, end, most)
        return {worker.id: hit for worker in among if (hit := found.get(worker.id, 0)) > 0}

    def hits_seen(self, state: RequestState) -> dict[int, int]:
        """The hits of all for a request that waits, looked up only if there may be others."""
        if self._index is None:
            return self.hits(state, self.all)
        if state.hits_seen[0] != self._index.version:
            state.hits_seen = self._index.version, self.hits(state, self.all)
        return dict(state.hits_seen[1])

    def best(self, state: RequestState, kept_free: Worker | None) -> Worker | None:
        """What `decisions.route` chooses of those with room; None when none has.

        From the longest hits to the shortest, as long as a worker without any backlog could still
        be better than the best so far; then those without a hit.
        """
        best: Rank | None = None
        most = state.known_tokens - 1
        for start, end, holders in self._index.hits(state.request.prompt) if self._index else ():
            if best is not None and best[0] < -min(end, most):
                return self._worker(best[2])
            for worker_id, held in holders.items():
                rank = self._rank_of.get(worker_id)
                if rank is None:
                    continue
                rank = (rank[0] - min(start + held, end, most), rank[1], worker_id)
                if (best is None or rank < best) and self._has_room(worker_id, state, kept_free):
                    best = rank
        for rank in self._ranks:
            if best is not None and best < rank:
                break
            if self._has_room(rank[2], state, kept_free):
                return self._worker(rank[2])
        return None if best is None else self._worker(best[2])

    def _has_room(self, worker_id: int, state: RequestState, kept_free: Worker | None) -> bool:
        worker = self._worker(worker_id)
        return worker.kv_free_tokens >= state.kv_needed and worker is not kept_free

    def _worker(self, worker_id: int) -> Worker:
        return self.all[worker_id - self._first_id]
