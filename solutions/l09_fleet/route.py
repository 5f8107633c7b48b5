"""Exercise 9.3: which worker a request is sent to."""

import random

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise
from course.harness import Ask, Failure, Rows
from course.task import Task
from nanogpt.fleet.fleet_views import WorkerView
from solutions.l09_fleet._routes import KEY_ERROR, MISCONCEPTIONS
from solutions.l09_fleet._rush import Prefills, Rush, view

# --- right answers ------------------------------------------------------------------------------


def route(workers: "list[WorkerView]", hits: dict[int, int]) -> int:
    """Return the `id` of the worker to send a request to: where its prefill is done first."""
    # Both are tokens to compute, so they can be weighed one to one. A hit that counts ten times
    # calls all with the same beginning to one worker, long after its queue has eaten it up.
    return min(
        workers,
        key=lambda worker: (
            worker.backlog_tokens - hits.get(worker.id, 0),
            worker.num_running,
            worker.id,
        ),
    ).id


def by_loop(workers: list[WorkerView], hits: dict[int, int]) -> int:
    best = None
    for worker in workers:
        left = worker.backlog_tokens
        if worker.id in hits:
            left -= hits[worker.id]
        rank = (left, worker.num_running, worker.id)
        if best is None or rank < best:
            best = rank
    assert best is not None
    return best[2]


def by_stable_sorts(workers: list[WorkerView], hits: dict[int, int]) -> int:
    order = sorted(workers, key=lambda worker: worker.id)
    order.sort(key=lambda worker: worker.num_running)
    order.sort(key=lambda worker: hits.get(worker.id, 0) - worker.backlog_tokens, reverse=True)
    return order[0].id


# --- cases --------------------------------------------------------------------------------------


def any_choices(rng: random.Random, count: int = 80) -> list[Args]:
    """Fleets in which every rule decides somewhere: few workers first."""
    choices: list[Args] = []
    for _ in range(count):
        ids = rng.sample(range(7), rng.choice((1, 2, 2, 3, 3, 4)))
        views = [
            view(
                id,
                rng.choice((0, 0, 1, 100, 100, 101, 103, 200, 300, rng.randint(1, 3000))),
                rng.randrange(8),
                kv_free_tokens=rng.randint(1500, 4000),
            )
            for id in ids
        ]
        hits = {
            id: rng.choice((100, 200, 300, rng.randint(1, 1400)))
            for id in rng.sample(range(7), rng.randint(0, 5))
        }
        choices.append((views, hits))
    return sorted(choices, key=lambda args: len(args[0]))


def draw_call(name: str, args: Args) -> str:
    workers, hits = args
    lines = [f"{name}(workers, hits={hits})"]
    lines += [
        f"worker {w.id}: backlog_tokens={w.backlog_tokens}, num_running={w.num_running}"
        for w in workers
    ]
    return "\n".join(lines)


JUDGE = Comparison(
    route,
    MISCONCEPTIONS,
    "Ask of each worker when it would be done with the prefill of this prompt.",
    evidence=[
        # A somewhat longer hit behind a far longer backlog, a hit that is all but worth it, and
        # one where many run.
        ([view(1, 3000), view(2)], {1: 110, 2: 100}),
        ([view(1, 300), view(2)], {1: 250}),
        ([view(1, 0, 7), view(2)], {1: 103, 2: 100}),
        *any_choices(random.Random(4), 60),
    ],
)


BACKLOGS = [view(5, 300), view(2, 100), view(4, 200)]


def a_hit_at_a_busy_worker(ask: Ask, rng: random.Random) -> Failure | None:
    """Liveness: each decision is applied, right or wrong, and no request may queue behind a hit."""
    for rush in (Rush(6, 200, 200, 2), Rush(16, 300, 100, 4)):
        prefills = Prefills(rush).run(ask)
        best = Prefills(rush).run(route)
        if prefills.longest_backlog <= 1.25 * best.longest_backlog:
            continue
        failure = JUDGE.judge(ask, prefills.asked)
        if failure is None:
            continue
        rows: Rows = (("load", str(rush)), ("in the end", str(prefills)))
        return Failure(failure.idea, rows + failure.example, failure.misconception)
    return JUDGE.judge(
        ask,
        [
            ([view(1, 900), view(2, 100)], {1: 300}),
            ([view(1, 900), view(2, 100)], {1: 801}),
            ([view(1, 900), view(2, 100)], {1: 799}),
            ([view(1, 900), view(2, 100), view(4, 50)], {1: 300, 2: 40}),
            ([view(1, 200, 1), view(6, 100, 5)], {}),
        ],
    )


EXERCISE = Exercise(
    number=3,
    title="Where the prefill is done first",
    minutes=6,
    points=2,
    task=Task(
        signature="route(workers: list[WorkerView], hits: dict[int, int]) -> int",
        rules=(
            "The result is the `id` of the worker to send a request to: the one that is done "
            "first with the prefill of its prompt.",
            "`workers` are those with room for it, at least one, in any order. Each has an "
            "`id`, its `backlog_tokens` (prompt tokens that it has promised to compute before "
            "this request's) and `num_running`, how many requests run there.",
            "`hits[id]` is how many tokens of this prompt the worker with that id has in its "
            "cache and need not compute. A worker without any is left out. One without room "
            "may be named, but cannot be chosen.",
            "All workers compute equally fast. Of those that are done at the same time, take "
            "the one with fewer running requests, and then the one with the lower id.",
        ),
        args=([view(5, 300), view(2, 100)], {}),
        result=2,
    ),
    hints=(
        "A worker knows 300 tokens of the prompt, and has 900 to compute before it comes to "
        "it. Another one is idle. Where is the prefill done first?",
        "Give each worker a number: the tokens that it has promised, less those that it knows. "
        "The smallest wins; for equals, think of a tuple.",
        "`min(workers, key=...)` finds the worker, and its `id` is the result. The key is a "
        "tuple of three, what decides first in front; a worker that `hits` leaves out has a "
        "hit of 0, which is what `hits.get` is for.",
    ),
    right=(route, by_loop, by_stable_sorts),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "different backlogs",
            # Where all have a hit, a KeyError comes of something else.
            lambda ask, rng: (
                JUDGE.on((BACKLOGS, {2: 60, 4: 60, 5: 60}))(ask, rng)
                or JUDGE.on_raising(KEY_ERROR, (KeyError,), (BACKLOGS, {}), ([view(3)], {}))(
                    ask, rng
                )
            ),
        ),
        (
            "some know it",
            JUDGE.on(
                ([view(1, 100), view(2, 100)], {2: 60}),
                ([view(1, 100), view(2, 150)], {2: 90}),
                ([view(1), view(2)], {1: 30, 2: 200}),
                ([view(1, 20), view(2, 0, 3)], {1: 100, 2: 60}),
            ),
        ),
        ("all begin alike", a_hit_at_a_busy_worker),
        (
            "among equals",
            JUDGE.on(
                ([view(1, 100, 3), view(2, 100, 1)], {}),
                ([view(2, 100, 1), view(1, 100, 1)], {}),
                ([view(1, 100, 1), view(2, 200, 1)], {2: 100}),
                ([view(1, 100, 4), view(2, 101, 1)], {}),
                ([view(9, 0, 3), view(8, 1, 1)], {}),
                ([view(11, 100, 150), view(12, 101, 20)], {}),
                ([view(11, 100, 120), view(12, 100, 119)], {}),
                ([view(12, 100, 1), view(11, 100, 1)], {}),
                ([view(10, 100, 1), view(9, 100, 1)], {}),
                ([view(1, 200, 1), view(2, 100, 2)], {1: 100}),
                ([view(2, 200, 1), view(1, 100, 1), view(6, 300, 0)], {2: 100, 6: 200}),
            ),
        ),
        (
            "hits where there is no room",
            JUDGE.on(
                ([view(1, 100), view(2, 300)], {7: 900}),
                ([view(4, 100), view(2, 300)], {0: 900, 2: 50}),
            ),
        ),
        ("any choice", JUDGE.on_drawn(any_choices)),
    ),
    draw_call=draw_call,
    equivalent_mutants={
        "workers: reversed": "they come in any order",
        "by_loop(): if best is None or rank {< => <=} best:": "ids are unique",
    },
)
