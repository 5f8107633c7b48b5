"""The queue: a heap by rank with lazy deletion, in place, or through another `on_event`."""

import heapq
from typing import Protocol

import nanogpt.fleet.decisions as policy
from nanogpt.fleet.decisions import Entry, Key
from nanogpt.fleet.fleet_parts import OnEvent
from nanogpt.validate import PartError


class WaitingQueue(Protocol):
    """Requests by rank, the smallest key first. A request is in it once or not at all."""

    def push(self, request_id: int, key: Key) -> None:
        """Puts a request in, or at another rank."""
        ...

    def pop(self) -> int | None:
        """Takes the first one out; None when none waits."""
        ...

    def __len__(self) -> int: ...


class LazyQueue:
    """The reference in place: what `policy.on_event` does, without copying the heap. Mutable."""

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._generations: dict[int, int] = {}
        self._waiting: dict[int, None] = {}

    def push(self, request_id: int, key: Key) -> None:
        """Puts a request in; an entry of it from before is stale from now on."""
        generation = self._generations.get(request_id, 0) + 1
        self._generations[request_id] = generation
        self._waiting[request_id] = None
        heapq.heappush(self._heap, (key, request_id, generation))

    def pop(self) -> int | None:
        """Takes the first live one out."""
        while self._heap:
            _, request_id, generation = heapq.heappop(self._heap)
            if self._generations[request_id] == generation:
                del self._waiting[request_id]
                return request_id
        return None

    def __len__(self) -> int:
        return len(self._waiting)


class PartQueue:
    """The same through `on_event`; what waits is known here; answers are held to it. Mutable."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._heap: list[Entry] = []
        self._generations: dict[int, int] = {}
        self._waiting: dict[int, None] = {}

    def push(self, request_id: int, key: Key) -> None:
        """Puts a request in, or at another rank."""
        event = ("push", request_id, key)
        self._heap, self._generations, _ = self._on_event(self._heap, self._generations, event)
        self._waiting[request_id] = None

    def pop(self) -> int | None:
        """Takes the first one out. Raises: PartError when that one does not wait."""
        event = ("pop",)
        self._heap, self._generations, popped = self._on_event(self._heap, self._generations, event)
        if popped is None and self._waiting:
            raise PartError(f"on_event popped nothing although {len(self)} requests wait")
        if popped is not None:
            if popped not in self._waiting:
                raise PartError(f"on_event popped request {popped}, which is not waiting")
            del self._waiting[popped]
        return popped

    def __len__(self) -> int:
        return len(self._waiting)


def make_queue(on_event: OnEvent) -> WaitingQueue:
    """An empty queue."""
    return LazyQueue() if on_event is policy.on_event else PartQueue(on_event)
