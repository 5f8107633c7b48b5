"""Exercise 9.2: which worker a request is sent to."""

import random

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Task
from nanogpt.views.fleet_views import WorkerView
from solutions.l09_fleet._routes import KEY_ERROR, MISCONCEPTIONS

# --- right answers ------------------------------------------------------------------------------


def route(workers: list[WorkerView], hits: dict[int, int]) -> int:
    """Return the `id` of the worker that finishes the prefill of a request first."""
    # Backlog and hit are both tokens, so they weigh the same. If a hit counts ten times, it sends
    # all requests with one prefix to one worker, even when the wait there costs more than it saves.
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


# --- cases --------------------------------------------------------------------------------------


def view(id: int, backlog: int = 0, running: int = 0, free: int = 4000) -> WorkerView:
    """A worker with room: `backlog` prompt tokens to compute, `running` requests in its batch."""
    return WorkerView(id, backlog, running, max(8, 2 * running), free, 4000)


def any_choices(rng: random.Random, count: int = 80) -> list[Args]:
    """Fleets in which every part of the key decides somewhere; few workers first."""
    choices: list[Args] = []
    for _ in range(count):
        ids = rng.sample(range(7), rng.choice((1, 2, 2, 3, 3, 4)))
        views = [
            view(
                id,
                rng.choice((0, 0, 1, 100, 100, 101, 103, 200, 300, rng.randint(1, 3000))),
                rng.randrange(8),
                rng.randint(1500, 4000),
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
    "For each worker, count the tokens that it must compute before this prompt is prefilled. Only "
    "a tie is decided by the running requests, and then by the id.",
    evidence=[
        # A slightly longer hit behind a far longer backlog, a hit that is almost worth it, and one
        # at a worker with many running requests.
        ([view(1, 3000), view(2)], {1: 110, 2: 100}),
        ([view(1, 300), view(2)], {1: 250}),
        ([view(1, 0, 7), view(2)], {1: 103, 2: 100}),
        *any_choices(random.Random(4), 60),
    ],
)
BACKLOGS = [view(5, 300), view(2, 100), view(4, 200)]

EXERCISE = Exercise(
    number=2,
    title="The worker that finishes the prefill first",
    minutes=6,
    points=2,
    task=Task(
        rules=(
            "Return the `id` of the worker that finishes the prefill of this request first.",
            "`workers` are the workers with room for the request, at least one, in any order. "
            "`backlog_tokens` are the prompt tokens that a worker computes before this prompt, "
            "and `num_running` is the number of its running requests.",
            "`hits[id]` is the number of this prompt's tokens that worker `id` has in its cache "
            "and need not compute. A worker without a hit is left out. `hits` may also name a "
            "worker without room, which cannot be chosen.",
            "All workers compute equally fast. If several finish at the same time, take the one "
            "with fewer running requests, and then the one with the lower id. Do not change "
            "`workers` and `hits`.",
        ),
        args=([view(5, 300, 2), view(2, 100, 2), view(4, 250, 1)], {5: 220}),
        call="route(workers, hits={5: 220})\n"
        "worker 5: backlog_tokens=300, num_running=2\n"
        "worker 2: backlog_tokens=100, num_running=2\n"
        "worker 4: backlog_tokens=250, num_running=1",
        steps=(
            "Say that the prompt has 400 tokens. Worker 5 computes 300 tokens before it, and then "
            "180 of the prompt, because the other 220 are in its cache: 480 in all.",
            "Workers 2 and 4 have no hit. They compute 100 + 400 = 500 and 250 + 400 = 650 tokens.",
            "480 is the least, so worker 5 finishes first. The prompt is equally long for all "
            "workers, so its length does not change the choice.",
        ),
        result=5,
    ),
    hints=(
        "One worker has 300 tokens of the prompt and a backlog of 900. Another has no hit and no "
        "backlog. Which one finishes the prefill first?",
        "Give each worker a number: its backlog minus its hit. The smallest wins. For ties, use a "
        "tuple.",
        "`min(workers, key=...)` finds the worker; return its `id`. The key is a tuple of three, "
        "the most important part first. A worker that `hits` leaves out has a hit of 0: "
        "`hits.get(worker.id, 0)`.",
    ),
    right=(route, by_loop),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "different backlogs",
            # If all workers have a hit, a KeyError has another cause.
            lambda ask, rng: (
                JUDGE.on((BACKLOGS, {2: 60, 4: 60, 5: 60}))(ask, rng)
                or JUDGE.on_raising(KEY_ERROR, (KeyError,), (BACKLOGS, {}), ([view(3)], {}))(
                    ask, rng
                )
            ),
        ),
        (
            "some have a hit",
            JUDGE.on(
                ([view(1, 100), view(2, 100)], {2: 60}),
                ([view(1, 100), view(2, 150)], {2: 90}),
                ([view(1), view(2)], {1: 30, 2: 200}),
                ([view(1, 20), view(2, 0, 3)], {1: 100, 2: 60}),
            ),
        ),
        (
            "a hit at a busy worker",
            JUDGE.on(
                ([view(0, 200, 1), view(1)], {0: 200}),
                ([view(0, 1000, 5), view(1)], {0: 200}),
                ([view(1, 900), view(2, 100)], {1: 300}),
                ([view(1, 900), view(2, 100)], {1: 801}),
                ([view(1, 900), view(2, 100)], {1: 799}),
                ([view(1, 900), view(2, 100), view(4, 50)], {1: 300, 2: 40}),
                ([view(1, 200, 1), view(6, 100, 5)], {}),
            ),
        ),
        (
            "ties",
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
            "hits without room",
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
