"""Snapshots that the check of my_policy asks about, and how they are drawn."""

import random
from collections.abc import Sequence
from typing import Any

from course.calling.errors import shortened
from course.checks.fleet_loads import Load
from course.format_values import show, show_call
from course.harness import Rows
from nanogpt.views.fleet_views import FleetSnapshot, WaitingView, WorkerView


def draw_snapshot(name: str, snapshot: FleetSnapshot) -> str:
    """The call with the fields of its snapshot that decide whether there is room."""
    lines = [f"{name}(snapshot)"]
    lines += [
        f"worker {w.id}: num_running={w.num_running} of {w.batch_size}, "
        f"kv_free_tokens={w.kv_free_tokens}"
        for w in snapshot.workers
    ]
    shown = snapshot.waiting[:3]
    lines += [f"waiting {r.id}: kv_tokens_needed={r.kv_tokens_needed}" for r in shown]
    if len(snapshot.waiting) > len(shown):
        lines.append(f"and {len(snapshot.waiting) - len(shown)} more waiting requests")
    return "\n".join(lines if shown else [*lines, "no request waits"])


def draw_asked(name: str, args: tuple[FleetSnapshot | Load]) -> str:
    """The question: one decision, or all decisions of a load."""
    (what,) = args
    return show_call(name, args) if isinstance(what, Load) else draw_snapshot(name, what)


def draw_decision(decision: Any) -> str:
    """The decision, or what was returned instead."""
    return shortened(show(decision), 80)


def example(name: str, snapshot: FleetSnapshot, expected: str, got: str) -> Rows:
    return ("input", draw_snapshot(name, snapshot)), ("expected", expected), ("got", got)


def waiting(id: int, tokens: int = 200, **fields: int) -> WaitingView:
    """A waiting request with `tokens` of prompt and 40 tokens to generate."""
    known = {"priority": 1, "arrival_us": 900_000, "deadline_us": 1_400_000, "left_tokens": 40}
    known |= {"remaining_us": 90_000, "known_tokens": tokens}
    return WaitingView(id=id, **(known | fields))


def idle(id: int, running: int = 0, free: int | None = None, backlog: int = 0) -> WorkerView:
    """A worker with a batch of 4 and 4000 KV tokens."""
    free = 4000 - 500 * running if free is None else free
    return WorkerView(id, backlog, running, 4, free, 4000)


def moment(
    waiting: Sequence[WaitingView],
    workers: Sequence[WorkerView],
    hit_tokens: dict[int, dict[int, int]] | None = None,
) -> FleetSnapshot:
    """A snapshot at 1 s."""
    return FleetSnapshot(1_000_000, tuple(waiting), tuple(workers), hit_tokens or {})


def any_moments(rng: random.Random, count: int = 40) -> list[FleetSnapshot]:
    """Snapshots in which batches and KV are nearly full, those with few waiting requests first."""
    moments: list[FleetSnapshot] = []
    for _ in range(count):
        requests = [
            waiting(
                id,
                rng.randint(20, 1200),
                priority=rng.randrange(3),
                arrival_us=rng.randint(0, 1_000_000),
                deadline_us=rng.randint(900_000, 1_900_000),
                remaining_us=rng.randint(40_000, 150_000),
            )
            for id in rng.sample(range(100, 200), rng.choice((0, 1, 1, 2, 3, 6)))
        ]
        workers = [
            idle(id, rng.choice((0, 2, 3, 4, 4)), rng.randint(100, 1500), rng.randint(0, 900))
            for id in rng.sample(range(3), 3)
        ]
        hits = {
            request.id: {rng.randrange(3): rng.randint(1, request.known_tokens)}
            for request in requests
            if rng.random() < 0.5
        }
        requests.sort(key=lambda request: (request.arrival_us, request.id))
        moments.append(moment(requests, workers, hits))
    return sorted(moments, key=lambda snapshot: len(snapshot.waiting))


ANY_PAIR = "None, or a request and a worker with room for it"
ONE, BIG = waiting(41), waiting(57, 1000, arrival_us=950_000)
FULL, TIGHT = idle(0, 4), idle(1, 2, ONE.kv_tokens_needed - 1)
ROOM = idle(2, 3, ONE.kv_tokens_needed, 900)
