"""Misconceptions of routing."""

from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.fleet.decisions import route, source_score
from nanogpt.views.fleet_views import WorkerView


def smallest(rank: Callable[[WorkerView, int], Any]) -> Callable[..., int]:
    """The worker with the smallest rank(worker, hit), the first of equals."""
    return lambda workers, hits: min(workers, key=lambda w: rank(w, hits.get(w.id, 0))).id


def by(rank: Callable[[WorkerView, int], Any]) -> Callable[..., int]:
    """By another rank, with ties as the contract says."""
    return smallest(lambda w, hit: (rank(w, hit), w.num_running, w.id))


def left(worker: WorkerView, hit: int) -> int:
    return worker.backlog_tokens - hit


def with_a_hit(workers: list[WorkerView], hits: dict[int, int]) -> list[WorkerView]:
    return [worker for worker in workers if hits.get(worker.id, 0)] or workers


def sorts_the_workers(workers: list[WorkerView], hits: dict[int, int]) -> int:
    workers.sort(key=lambda w: (w.backlog_tokens - hits.get(w.id, 0), w.num_running, w.id))
    return workers[0].id


KEY_ERROR = Misconception(
    "key_error",
    "Every worker is in `hits`.",
    "A worker without a hit is not in `hits`: use `hits.get(worker.id, 0)`.",
    examples=(
        lambda workers, hits: (
            min(workers, key=lambda w: (w.backlog_tokens - hits[w.id], w.num_running, w.id)).id
        ),
    ),
)
MISCONCEPTIONS = (
    Misconception(
        "not_an_id",
        "A tie has several results.",
        lambda value: f"Return the `id` of one of the workers, not {a_kind(value)}.",
        matches=lambda value: as_whole(value) is None,
        examples=(lambda workers, hits: [route(workers, hits)],),
    ),
    KEY_ERROR,
    Misconception(
        "hotspot",
        "A hit token counts ten times.",
        "A hit saves its tokens once. If it weighs more, all requests with one prefix go to one "
        "worker and queue there while the other workers are idle.",
        smallest(lambda w, hit: (-source_score(w, hit), w.id)),
        same_result=(smallest(lambda w, hit: -source_score(w, hit)),),
    ),
    Misconception(
        "chases_hits",
        "The longest hit wins.",
        "A worker computes its backlog before this prompt, however long its hit is: count its "
        "`backlog_tokens` as well.",
        by(lambda w, hit: -hit),
        same_result=(by(lambda w, hit: (-hit, w.backlog_tokens)),),
    ),
    Misconception(
        "only_those_with_a_hit",
        "Only a worker with a hit is worth it.",
        "A worker without a hit may still finish earlier. Look at all workers, and take a missing "
        "hit as 0.",
        lambda workers, hits: route(with_a_hit(workers, hits), hits),
    ),
    Misconception(
        "ignores_hits",
        "The shortest backlog wins.",
        "A worker need not compute the tokens that it has in its cache. Subtract the hit from the "
        "backlog.",
        by(lambda w, hit: w.backlog_tokens),
        same_result=(smallest(lambda w, hit: (w.backlog_tokens, w.id)),),
    ),
    Misconception(
        "sign",
        "Backlog and hit add up.",
        "A hit is work that need not be done: subtract it from the backlog.",
        by(lambda w, hit: w.backlog_tokens + hit),
    ),
    Misconception(
        "clamped",
        "Backlog minus hit is at least 0.",
        "Backlog minus hit may be below 0, and that matters: of two idle workers, the one with the "
        "longer hit finishes earlier.",
        by(lambda w, hit: max(0, left(w, hit))),
    ),
    Misconception(
        "by_the_running",
        "The worker with the fewest running requests wins.",
        "The number of running requests does not say how many prompt tokens are left to compute. "
        "Compare backlog minus hit first, and the running requests only in a tie.",
        smallest(lambda w, hit: (w.num_running, left(w, hit), w.id)),
    ),
    Misconception(
        "tie",
        "In a tie the lower id wins.",
        "In a tie take the worker with fewer running requests, and only then the lower id.",
        smallest(lambda w, hit: (left(w, hit), w.id)),
    ),
    Misconception(
        "in_place", "The list of workers may be sorted in place.", examples=(sorts_the_workers,)
    ),
    Misconception(
        "no_return",
        "Choosing the worker is enough, without a return.",
        examples=(lambda workers, hits: None,),
    ),
)
