"""Exercise 9.4: a policy of one's own, scored on loads that it has not seen."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from course.calling.errors import shortened
from course.checks.fleet_loads import FLEET, NUM_REQUESTS, Load
from course.exercise import Exercise, Misconception
from course.format_values import show, show_call
from course.harness import Ask, Check, Failure, Rows
from course.task import Task
from nanogpt.fleet.fleet_views import FleetSnapshot, WaitingView, WorkerView
from solutions.l09_fleet._decisions import ILLEGAL, illegal, pair_of
from solutions.l09_fleet._policies import pairs, to_compute
from solutions.l09_fleet._score import (
    LONGEST_WAIT_US,
    MARGIN,
    NUM_LOADS,
    TOLERANCE,
    WANTED,
    WEAK,
    Score,
    baseline,
)
from solutions.l09_fleet._serving import Policy, Served
from solutions.l09_fleet.route import route

# --- right answers ------------------------------------------------------------------------------


def my_policy(snapshot: "FleetSnapshot") -> tuple[int, int] | None:
    """Return `(request_id, worker_id)`: which request is given to which worker."""
    # Time is given where it helps: the nearest deadline goes first, since those with more time can
    # wait for it, and what is too late already goes behind all others.

    def rank(request: WaitingView) -> tuple[bool, int]:
        is_lost = snapshot.now_us + request.remaining_us > request.deadline_us
        return is_lost, request.deadline_us

    for request in sorted(snapshot.waiting, key=rank):
        hits = snapshot.hit_tokens.get(request.id, {})
        able = [
            worker
            for worker in snapshot.workers
            if worker.num_running < worker.batch_size
            and request.kv_tokens_needed <= worker.kv_free_tokens
        ]
        if able:
            return request.id, route(able, hits)
    return None


def by_slack(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    best = None
    for request, worker in pairs(snapshot):
        slack_us = request.deadline_us - snapshot.now_us - request.remaining_us
        waited_us = snapshot.now_us - request.arrival_us
        rank = (1 if slack_us >= 0 else 2, slack_us)
        if waited_us > 800_000:
            rank = (0, -waited_us)
        candidate = (rank, to_compute(snapshot, request, worker), request.id, worker.id)
        best = candidate if best is None else min(best, candidate)
    return None if best is None else best[2:]


def by_points(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    """One number for everything: level, age, and what the worker has to compute first."""

    def points(pair: tuple[WaitingView, WorkerView]) -> float:
        request, worker = pair
        waited_ms = (snapshot.now_us - request.arrival_us) / 1000
        can_make_it = snapshot.now_us + request.remaining_us <= request.deadline_us
        value = 600 * can_make_it + 200 * (2 - request.priority)
        if waited_ms > 850:
            value += 2000 + waited_ms
        return value - to_compute(snapshot, request, worker) / 20

    legal = pairs(snapshot)
    if not legal:
        return None
    request, worker = max(legal, key=points)
    return request.id, worker.id


# --- wrong ideas --------------------------------------------------------------------------------


def the_nearest_deadline_of_all(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    request = min(snapshot.waiting, key=lambda request: request.deadline_us)
    for other, worker in pairs(snapshot):
        if other is request:
            return request.id, worker.id
    return None


def leaves_a_token_free(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    workers = tuple(replace(w, kv_free_tokens=w.kv_free_tokens - 1) for w in snapshot.workers)
    return my_policy(replace(snapshot, workers=workers))


NEVER = Misconception(
    "never",
    "No request has to go.",
    lambda expected: (
        f"{expected} would do, yet the answer is None, which ends the round: look at every request "
        "and every worker, and mind that a way without a `return` gives None too."
    ),
    examples=((lambda snapshot: None),),
)
EXACT_FIT = Misconception(
    "exact_fit",
    "Some must be left over.",
    lambda request, worker: (
        f"Request {request.id} needs {request.kv_tokens_needed} KV tokens and worker {worker.id} "
        f"has {worker.kv_free_tokens} free: that is room, for a request may take all that is free."
    ),
    examples=(leaves_a_token_free,),
)
EMPTY_RAISES = Misconception(
    "empty_raises",
    "A request waits.",
    "A snapshot in which no request waits is no error: answer None.",
    examples=(the_nearest_deadline_of_all,),
)

# --- cases --------------------------------------------------------------------------------------


def draw_snapshot(name: str, snapshot: FleetSnapshot) -> str:
    """The call with what matters of its snapshot, long queues cut."""
    lines = [f"{name}(snapshot)"]
    lines += [
        f"worker {w.id}: num_running={w.num_running} of {w.batch_size}, "
        f"kv_free_tokens={w.kv_free_tokens}"
        for w in snapshot.workers
    ]
    shown = snapshot.waiting[:3]
    lines += [f"waiting {r.id}: kv_tokens_needed={r.kv_tokens_needed}" for r in shown]
    if len(snapshot.waiting) > len(shown):
        lines.append(f"and {len(snapshot.waiting) - len(shown)} more that wait")
    return "\n".join(lines if shown else [*lines, "none waits"])


def draw_asked(name: str, args: tuple[FleetSnapshot | Load]) -> str:
    """What is asked: a decision, or all those of a load."""
    (what,) = args
    return show_call(name, args) if isinstance(what, Load) else draw_snapshot(name, what)


def draw_decision(decision: Any) -> str:
    """The decision, or what came instead."""
    return shortened(show(decision), 80)


def waiting(id: int, tokens: int = 200, **fields: int) -> WaitingView:
    """A request that waits, with `tokens` of prompt and 40 tokens to generate."""
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
    """Snapshots in which batches and KV are nearly full, the few waiting first."""
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


def judge(ask: Ask, cases: Sequence[tuple[FleetSnapshot, str]]) -> Failure | None:
    """The first wrong one of some decisions, each with what is expected of it."""
    return next(filter(None, (judge_one(ask, *case) for case in cases)), None)


def judge_one(ask: Ask, snapshot: FleetSnapshot, expected: str) -> Failure | None:
    """A decision has to be legal; where None is not expected, a request has to go."""
    called = ask.call(snapshot, may_raise=not snapshot.waiting)
    got = draw_decision(called.value) if called.error is None else called.error.kind
    rows = example(ask, snapshot, expected, got)
    if called.raised(IndexError, ValueError, TypeError, StopIteration):
        return EMPTY_RAISES.failure(rows)
    if called.error is not None:
        ask(snapshot)  # ends the check with the error's own words
    if called.value is None and "None" not in expected:
        return why_never(ask, snapshot, expected, rows)
    problem = illegal(snapshot, called.value)
    return problem and replace(problem, example=rows)


def why_never(ask: Ask, snapshot: FleetSnapshot, expected: str, rows: Rows) -> Failure:
    """What is wrong with None where a request has to go."""
    new = renamed(snapshot)
    if pair_of(ask(new)) is not None:
        sent = snapshot.waiting[0].id
        idea = (
            f"With ids that are new the answer is a pair, with {sent} it is None: go by this "
            "snapshot alone, and remember nothing of those that were sent before."
        )
        return Failure(idea, rows, "remembers")
    tight = pairs(snapshot)
    if all(request.kv_tokens_needed == worker.kv_free_tokens for request, worker in tight):
        return EXACT_FIT.failure(rows, *tight[0])
    return NEVER.failure(rows, expected)


def renamed(snapshot: FleetSnapshot) -> FleetSnapshot:
    """The same moment, with ids that have not been asked about."""
    return replace(
        snapshot,
        waiting=tuple(replace(each, id=each.id + 1000) for each in snapshot.waiting),
        hit_tokens={id + 1000: hits for id, hits in snapshot.hit_tokens.items()},
    )


def example(ask: Ask, snapshot: FleetSnapshot, expected: str, got: str) -> Rows:
    return ("input", draw_snapshot(ask.name, snapshot)), ("expected", expected), ("got", got)


def on(*cases: tuple[FleetSnapshot, str]) -> Check:
    """The check that asks for these decisions."""
    return lambda ask, rng: judge(ask, cases)


def scored_loads(rng: random.Random) -> list[Load]:
    """The loads that a policy is scored on."""
    return [Load(rng.getrandbits(32)) for _ in range(NUM_LOADS)]


def loads_it_has_not_seen(ask: Ask, rng: random.Random) -> Failure | None:
    """Every load in turn, served by the answer, by FIFO and by the reference."""
    loads = scored_loads(rng)
    yours: list[Served] = []
    for load in loads:
        served = ask(load)
        if served.problem is not None:
            rows = example(ask, served.snapshot, ANY_PAIR, draw_decision(served.decision))
            return replace(served.problem, example=rows)
        yours.append(served)
    score = Score(tuple(yours), tuple(map(baseline, loads)))
    problem, table = score.problem(), ("by load", score.table())
    if problem is None:
        ask.shown = (table, ("all in all", score.summary()))
        return None
    return problem.failure(
        (
            ("input", f"{NUM_LOADS} loads of {NUM_REQUESTS} requests"),
            ("expected", WANTED),
            ("got", score.summary()),
            table,
        )
    )


ANY_PAIR = "None, or a pair that has room"
ONE, BIG = waiting(41), waiting(57, 1000, arrival_us=950_000)
FULL, TIGHT = idle(0, 4), idle(1, 2, ONE.kv_tokens_needed - 1)
ROOM = idle(2, 3, ONE.kv_tokens_needed, 900)

EXERCISE = Exercise(
    number=4,
    title="A policy of your own",
    minutes=20,
    points=5,
    task=Task(
        signature="my_policy(snapshot: FleetSnapshot) -> tuple[int, int] | None",
        rules=(
            "The result is `(request_id, worker_id)`: which request is given to which worker "
            "now. You are asked again, with a new snapshot, until you answer `None`, which "
            "ends the round; the next comes with an arrival, or when a worker ends what it runs.",
            "Go by the snapshot alone, leave it as it is, and remember nothing between calls.",
            "`snapshot.now_us` is the time; all times are in microseconds.",
            "`snapshot.waiting` are the requests that wait, the oldest first, at most 64 and "
            "perhaps none. Each has an `id`, `priority` (0 is the highest), `arrival_us`, "
            "`deadline_us`, `known_tokens`, `left_tokens` (to generate), `remaining_us` (the least "
            "time that it needs) and `kv_tokens_needed`.",
            "`snapshot.workers` have an `id`, `backlog_tokens`, `num_running` of `batch_size`, "
            "and `kv_free_tokens` of `kv_tokens`. A worker has room if `num_running` is below "
            "its `batch_size` and the request's `kv_tokens_needed` are at most its "
            "`kv_free_tokens`; elsewhere no request may be sent. One that waits alone is sent if "
            "a worker has room for it.",
            "`snapshot.hit_tokens[request_id][worker_id]` is how many tokens of the request "
            "that worker knows; what is 0 is left out, whole requests too.",
            f"The policy serves {NUM_LOADS} unseen loads of {NUM_REQUESTS} requests with "
            f"{FLEET.num_workers} workers. They come in waves, priorities mixed, and have "
            "200 ms, 500 ms or 1 s. Attainment is the share of all requests that finish "
            "by their deadline. To pass, it is at least "
            f"{100 * MARGIN:.0f} percentage points above FIFO's on average, on no load more "
            f"than {100 * TOLERANCE:.0f} below, and no request waits longer than "
            f"{LONGEST_WAIT_US / 1e6:g} s for its first token.",
            "FIFO has the same workers and caches, and lets each arrival queue at the next worker "
            "in turn.",
        ),
        args=(moment([ONE], [idle(2)]),),
        result=(41, 2),
    ),
    hints=(
        "Begin with any decision that is legal: the oldest request that has room at some "
        "worker. Then look at the table: how many deadlines are missed that another order "
        "would keep?",
        "Sort those that wait by how near their deadlines are, those that can still make it "
        "in front of the lost ones. Of the first one with room somewhere, choose the worker as "
        "in `route`.",
        "The sort key is a tuple: whether `now_us + remaining_us` is past `deadline_us`, then "
        "the deadline. Go through the requests in that order; the first for which the list of "
        "workers with room is not empty is the one to send. None comes after the loop.",
    ),
    right=(my_policy, by_slack, by_points),
    misconceptions=(NEVER, EXACT_FIT, EMPTY_RAISES, *ILLEGAL, *WEAK),
    checks=(
        (
            "one decision",
            on(
                (moment([ONE], [idle(0)]), "(41, 0)"),
                (moment([ONE], [idle(2), idle(1)]), "(41, 2) or (41, 1)"),
                (moment([ONE], [idle(0)], {41: {0: 120}}), "(41, 0)"),
            ),
        ),
        ("none waits", on((moment([], [idle(0), idle(1)]), "None"))),
        (
            "no room",
            on(
                (moment([ONE], [FULL]), "None"),
                (moment([ONE], [TIGHT]), "None"),
                (moment([ONE], [FULL, TIGHT, idle(2, 3)]), "(41, 2)"),
                (moment([ONE], [idle(0, 0, ONE.kv_tokens_needed)]), "(41, 0)"),
                (moment([ONE], [FULL, TIGHT, ROOM]), "(41, 2)"),
                (moment([ONE], [FULL, ROOM], {41: {0: 199}}), "(41, 2)"),
                (moment([ONE, BIG], [FULL, ROOM]), "(41, 2) or None"),
                (moment([BIG, ONE], [FULL, ROOM]), "(41, 2) or None"),
            ),
        ),
        ("any moment", lambda ask, rng: judge(ask, [(s, ANY_PAIR) for s in any_moments(rng)])),
        ("loads it has not seen", loads_it_has_not_seen),
    ),
    draw_call=draw_asked,
    asked_as=Policy,
)
