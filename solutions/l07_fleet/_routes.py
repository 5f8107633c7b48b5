"""Wrong ways to route a request, and what puts them right."""

from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.fleet.decisions import route, source_score
from nanogpt.fleet.views import WorkerView


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


def wherever_the_hit_is(workers: list[WorkerView], hits: dict[int, int]) -> int:
    return max(hits, key=lambda id: (hits[id], -id)) if hits else route(workers, hits)


def hits_by_place(first: int) -> Callable[..., int]:
    """Looks a worker's hit up under its place in the list."""
    return lambda workers, hits: min(
        (w.backlog_tokens - hits.get(place, 0), w.num_running, w.id)
        for place, w in enumerate(workers, first)
    )[2]


def sorts_the_workers(workers: list[WorkerView], hits: dict[int, int]) -> int:
    workers.sort(key=lambda w: (w.backlog_tokens - hits.get(w.id, 0), w.num_running, w.id))
    return workers[0].id


KEY_ERROR = Misconception(
    "key_error",
    "Every worker has a hit.",
    "A worker without a hit is not in `hits` at all: `hits.get(worker.id, 0)`.",
    also=(
        lambda workers, hits: (
            min(workers, key=lambda w: (w.backlog_tokens - hits[w.id], w.num_running, w.id)).id
        ),
    ),
)
MISCONCEPTIONS = (
    Misconception(
        "the_worker_itself",
        "A worker is wanted.",
        "The answer is the worker's `id`, not the worker.",
        form=lambda value: isinstance(value, WorkerView),
        also=(lambda workers, hits: next(w for w in workers if w.id == route(workers, hits)),),
    ),
    Misconception(
        "not_an_id",
        "There may be several.",
        lambda value: f"The answer is the `id` of one of the workers, not {a_kind(value)}.",
        form=lambda value: as_whole(value) is None,
        also=(lambda workers, hits: [route(workers, hits)],),
    ),
    KEY_ERROR,
    Misconception(
        "hotspot",
        "A hit counts ten times.",
        "A hit saves its tokens once, and no more: weighed heavier, it sends all that share a "
        "prefix to one worker, where they queue while the others stand idle.",
        smallest(lambda w, hit: (-source_score(w, hit), w.id)),
        alike=(
            smallest(lambda w, hit: -source_score(w, hit)),
            smallest(lambda w, hit: -10 * hit + 100 * w.num_running / w.batch_size),
            by(lambda w, hit: w.backlog_tokens - 10 * hit),
            by(lambda w, hit: w.backlog_tokens - 2 * hit),
        ),
    ),
    Misconception(
        "chases_hits",
        "The longest hit.",
        "What the worker has promised to compute comes first, however much it knows of this "
        "prompt: count its `backlog_tokens` as well.",
        by(lambda w, hit: -hit),
        alike=(
            by(lambda w, hit: (-hit, w.backlog_tokens)),
            smallest(lambda w, hit: (-hit, w.id)),
            smallest(lambda w, hit: -hit),
        ),
    ),
    Misconception(
        "only_those_with_a_hit",
        "A hit is a hit.",
        "A worker without a hit may still be done earlier: look at all of them, and take its hit "
        "as 0.",
        lambda workers, hits: route(with_a_hit(workers, hits), hits),
        alike=(lambda workers, hits: route(with_a_hit(workers, hits), {}),),
    ),
    Misconception(
        "ignores_hits",
        "The shortest queue.",
        "What a worker has of the prompt already it need not compute: take its hit off its "
        "backlog.",
        by(lambda w, hit: w.backlog_tokens),
        alike=(
            smallest(lambda w, hit: (w.backlog_tokens, w.id)),
            smallest(lambda w, hit: w.backlog_tokens),
        ),
    ),
    Misconception(
        "hit_only_among_equals",
        "The shortest queue, and among equals the longest hit.",
        "A hit counts in tokens like the backlog, so it may outweigh one: subtract it, rather than "
        "look at it among equals alone.",
        by(lambda w, hit: (w.backlog_tokens, -hit)),
        alike=(smallest(lambda w, hit: (w.backlog_tokens, -hit)),),
    ),
    Misconception(
        "sign",
        "Add both up.",
        "A hit is work that need not be done: subtract it from the backlog, do not add it.",
        by(lambda w, hit: w.backlog_tokens + hit),
    ),
    Misconception(
        "the_last",
        "The largest wins.",
        "The smallest is wanted: the most backlog without a hit is where it would wait longest.",
        by(lambda w, hit: -left(w, hit)),
        alike=(smallest(lambda w, hit: -left(w, hit)),),
    ),
    Misconception(
        "clamped",
        "Less than nothing is nothing.",
        "Backlog minus hit may be below 0, and should: of two idle workers the one that knows more "
        "of the prompt is done earlier.",
        by(lambda w, hit: max(0, left(w, hit))),
        alike=(by(lambda w, hit: abs(left(w, hit))),),
    ),
    Misconception(
        "by_the_running",
        "The least running.",
        "How many requests run does not say how much they still have to prefill: compare "
        "`backlog_tokens`, and the running ones among equals alone.",
        smallest(lambda w, hit: (w.num_running, left(w, hit), w.id)),
        alike=(
            smallest(lambda w, hit: (w.num_running, w.id)),
            smallest(lambda w, hit: (w.num_running, -hit, w.id)),
            smallest(lambda w, hit: w.num_running),
        ),
    ),
    Misconception(
        "adds_the_running",
        "Every request takes its time.",
        "A running request is no token: how many run decides among equals alone.",
        smallest(lambda w, hit: (left(w, hit) + w.num_running, w.id)),
        alike=(
            smallest(lambda w, hit: left(w, hit) + w.num_running),
            by(lambda w, hit: left(w, hit) + w.num_running),
        ),
    ),
    Misconception(
        "by_the_free_kv",
        "Where there is most room.",
        "All of these workers have room, and more room computes nothing faster: compare the "
        "backlog minus the hit.",
        smallest(lambda w, hit: (-w.kv_free_tokens, w.id)),
        alike=(smallest(lambda w, hit: -w.kv_free_tokens),),
    ),
    Misconception(
        "tie",
        "Ids are as good as anything.",
        "Among equals the worker with fewer running requests is next, and only then the one with "
        "the lower id.",
        smallest(lambda w, hit: (left(w, hit), w.id)),
        alike=(
            smallest(left),
            smallest(lambda w, hit: (left(w, hit), w.num_running)),
            smallest(lambda w, hit: (left(w, hit), w.num_running, -w.id)),
            smallest(lambda w, hit: (left(w, hit), w.num_running, str(w.id))),
            smallest(lambda w, hit: (left(w, hit), -w.num_running, w.id)),
            by(lambda w, hit: (left(w, hit), -hit)),
            smallest(lambda w, hit: (left(w, hit), -hit, w.id)),
            smallest(lambda w, hit: (left(w, hit), -hit)),
            by(lambda w, hit: (left(w, hit), hit)),
        ),
    ),
    Misconception(
        "no_room_there",
        "Where the hit is.",
        "`hits` also names workers that have no room: only those in `workers` can take the "
        "request.",
        wherever_the_hit_is,
    ),
    Misconception(
        "list_order",
        "One after the other.",
        "The order of the list says nothing about the workers.",
        lambda workers, hits: workers[0].id,
        alike=(lambda workers, hits: workers[-1].id,),
    ),
    Misconception(
        "hits_by_place",
        "The first worker is number 0.",
        "`hits` goes by the worker's `id`, which is not its place in the list.",
        hits_by_place(0),
        alike=(hits_by_place(1),),
    ),
    Misconception(
        "index",
        "Which one of the list?",
        "This is a place in the list; the answer is the worker's own `id`.",
        lambda workers, hits: [w.id for w in workers].index(route(workers, hits)),
    ),
    Misconception("in_place", "Sort them, take the first.", also=((sorts_the_workers),)),
    Misconception("no_return", "Sent is sent.", also=(lambda workers, hits: None,)),
)
