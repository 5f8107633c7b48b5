"""Wrong ways to route a request, and what puts them right."""

from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.fleet.decisions import route, source_score
from nanogpt.fleet.fleet_views import WorkerView


def smallest(rank: Callable[[WorkerView, int], Any]) -> Callable[..., int]:
    """The worker with the smallest rank(worker, hit), the first of equals."""
    return lambda workers, hits: min(workers, key=lambda w: rank(w, hits.get(w.id, 0))).id


def by(rank: Callable[[WorkerView, int], Any]) -> Callable[..., int]:
    """By another rank, but among equals as the rules say."""
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
    "Every worker has a hit.",
    "A worker without a hit is not in `hits` at all: `hits.get(worker.id, 0)`.",
    examples=(
        lambda workers, hits: (
            min(workers, key=lambda w: (w.backlog_tokens - hits[w.id], w.num_running, w.id)).id
        ),
    ),
)
MISCONCEPTIONS = (
    Misconception(
        "not_an_id",
        "There may be several.",
        lambda value: f"The answer is the `id` of one of the workers, not {a_kind(value)}.",
        matches=lambda value: as_whole(value) is None,
        examples=(lambda workers, hits: [route(workers, hits)],),
    ),
    KEY_ERROR,
    Misconception(
        "hotspot",
        "A hit counts ten times.",
        "A hit saves its tokens once, and no more: weighed heavier, it sends all that share a "
        "prefix to one worker, where they queue while the others stand idle.",
        smallest(lambda w, hit: (-source_score(w, hit), w.id)),
        same_result=(smallest(lambda w, hit: -source_score(w, hit)),),
    ),
    Misconception(
        "chases_hits",
        "The longest hit.",
        "What the worker has promised to compute comes first, however much it knows of this "
        "prompt: count its `backlog_tokens` as well.",
        by(lambda w, hit: -hit),
        same_result=(by(lambda w, hit: (-hit, w.backlog_tokens)),),
    ),
    Misconception(
        "only_those_with_a_hit",
        "A hit is a hit.",
        "A worker without a hit may still be done earlier: look at all of them, and take its hit "
        "as 0.",
        lambda workers, hits: route(with_a_hit(workers, hits), hits),
    ),
    Misconception(
        "ignores_hits",
        "The shortest queue.",
        "What a worker has of the prompt already it need not compute: take its hit off its "
        "backlog.",
        by(lambda w, hit: w.backlog_tokens),
        same_result=(smallest(lambda w, hit: (w.backlog_tokens, w.id)),),
    ),
    Misconception(
        "sign",
        "Add both up.",
        "A hit is work that need not be done: subtract it from the backlog, do not add it.",
        by(lambda w, hit: w.backlog_tokens + hit),
    ),
    Misconception(
        "clamped",
        "Less than nothing is nothing.",
        "Backlog minus hit may be below 0, and should: of two idle workers the one that knows more "
        "of the prompt is done earlier.",
        by(lambda w, hit: max(0, left(w, hit))),
    ),
    Misconception(
        "by_the_running",
        "The least running.",
        "How many requests run does not say how much they still have to prefill: compare "
        "`backlog_tokens`, and the running ones among equals alone.",
        smallest(lambda w, hit: (w.num_running, left(w, hit), w.id)),
    ),
    Misconception(
        "tie",
        "Ids are as good as anything.",
        "Among equals the worker with fewer running requests is next, and only then the one with "
        "the lower id.",
        smallest(lambda w, hit: (left(w, hit), w.id)),
    ),
    Misconception("in_place", "Sort them, take the first.", examples=((sorts_the_workers),)),
    Misconception("no_return", "Sent is sent.", examples=(lambda workers, hits: None,)),
)
