"""Exercise 9.4: a policy of one's own, scored on hidden loads."""

from collections.abc import Sequence
from dataclasses import replace

from course.checks.fleet_loads import FLEET, NUM_REQUESTS
from course.exercise import Exercise, Misconception, Task
from course.harness import Ask, Check, Failure, Rows
from nanogpt.views.fleet_views import FleetSnapshot, WaitingView
from solutions.l09_fleet._decisions import ILLEGAL, illegal
from solutions.l09_fleet._moments import (
    ANY_PAIR,
    BIG,
    FULL,
    ONE,
    ROOM,
    TIGHT,
    any_moments,
    draw_asked,
    draw_decision,
    idle,
    moment,
)
from solutions.l09_fleet._policies import pairs, to_compute
from solutions.l09_fleet._score import (
    LONGEST_WAIT_US,
    MARGIN,
    NUM_LOADS,
    TOLERANCE,
    WEAK,
    judge_loads,
)
from solutions.l09_fleet._serving import Policy
from solutions.l09_fleet.route import route

# --- right answers ------------------------------------------------------------------------------


def my_policy(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    """Return `(request_id, worker_id)`: which request goes to which worker. None ends the round."""
    # Give the time to a request that it helps: the nearest deadline goes first, because requests
    # with later deadlines can wait. A request that is too late already goes behind all others.

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


# --- wrong ideas --------------------------------------------------------------------------------


def leaves_a_token_free(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    workers = tuple(replace(w, kv_free_tokens=w.kv_free_tokens - 1) for w in snapshot.workers)
    return my_policy(replace(snapshot, workers=workers))


NEVER = Misconception(
    "never",
    "No request has to be sent.",
    lambda expected: (
        f"{expected} would be right, but the answer is None, which ends the round. Look at every "
        "request and every worker. A way through the function without a `return` gives None too."
    ),
    examples=((lambda snapshot: None),),
)
EXACT_FIT = Misconception(
    "exact_fit",
    "Some KV tokens must stay free.",
    lambda request, worker: (
        f"Request {request.id} needs {request.kv_tokens_needed} KV tokens and worker {worker.id} "
        f"has {worker.kv_free_tokens} free. That is room: a request may take all free tokens."
    ),
    examples=(leaves_a_token_free,),
)
EMPTY_RAISES = Misconception(
    "empty_raises",
    "At least one request waits.",
    "A snapshot in which no request waits is no error: return None.",
    examples=(lambda snapshot: snapshot.waiting[0] and my_policy(snapshot),),
)

# --- cases --------------------------------------------------------------------------------------


def judge(ask: Ask, cases: Sequence[tuple[FleetSnapshot, str]]) -> Failure | None:
    """The first wrong decision; each case has a snapshot and the expected answer in words."""
    return next(filter(None, (judge_one(ask, *case) for case in cases)), None)


def judge_one(ask: Ask, snapshot: FleetSnapshot, expected: str) -> Failure | None:
    """A decision must be legal, and None only where it is expected."""
    called = ask.call(snapshot, may_raise=not snapshot.waiting)
    got = draw_decision(called.value) if called.error is None else called.error.kind
    asked = ask.draw_call(ask.name, (snapshot,))
    rows = ("input", asked), ("expected", expected), ("got", got)
    if called.raised(IndexError, ValueError, TypeError, StopIteration):
        return EMPTY_RAISES.failure(rows)
    if called.error is not None:
        ask(snapshot)  # ends the check with the error's own words
    if called.value is None and "None" not in expected:
        return why_never(ask, snapshot, expected, rows)
    problem = illegal(snapshot, called.value)
    return problem and replace(problem, example=rows)


def why_never(ask: Ask, snapshot: FleetSnapshot, expected: str, rows: Rows) -> Failure:
    """The failure of None where a request has to be sent."""
    again = ask.asked_again()
    if again is not None:
        return again
    tight = pairs(snapshot)
    if all(request.kv_tokens_needed == worker.kv_free_tokens for request, worker in tight):
        return EXACT_FIT.failure(rows, *tight[0])
    return NEVER.failure(rows, expected)


def on(*cases: tuple[FleetSnapshot, str]) -> Check:
    """The check that asks about these snapshots."""
    return lambda ask, rng: judge(ask, cases)


EXERCISE = Exercise(
    number=4,
    title="A contest: your own policy",
    minutes=20,
    points=5,
    task=Task(
        rules=(
            "Return `(request_id, worker_id)`: which request goes to which worker now. You are "
            "asked again with a new snapshot until you return `None`, which ends the round. The "
            "next round starts when a request arrives, or when a worker finishes a prefill or a "
            "request.",
            "`snapshot.now_us` is the time. All times are in microseconds.",
            "`snapshot.waiting` are the waiting requests, the oldest first, at most 64 and perhaps "
            "none. Each has `id`, `priority` (0 is the highest), `arrival_us`, `deadline_us`, "
            "`known_tokens`, `left_tokens` (to generate), `remaining_us` (the least time that it "
            "needs) and `kv_tokens_needed`.",
            "`snapshot.workers` have `id`, `backlog_tokens`, `num_running`, `batch_size`, "
            "`kv_free_tokens` and `kv_tokens`. A worker has room for a request if `num_running` is "
            "below `batch_size` and `kv_tokens_needed` is at most `kv_free_tokens`. You may only "
            "send a request to a worker with room.",
            "`snapshot.hit_tokens[request_id][worker_id]` is the length of a prefix hit. Hits of 0 "
            "are left out, and so are requests without any.",
            "If only one request waits and a worker has room for it, send it. Go by the snapshot "
            "only, and remember nothing between calls.",
            f"The policy serves {NUM_LOADS} hidden loads of {NUM_REQUESTS} requests with "
            f"{FLEET.num_workers} workers. Requests come in waves and have deadlines of 200 ms, "
            "500 ms or 1 s. Attainment is the share of requests that finish by their deadline. To "
            f"pass, it must be at least {100 * MARGIN:.0f} percentage points above FIFO's on "
            f"average and at most {100 * TOLERANCE:.0f} below it on any load, and no request may "
            f"wait longer than {LONGEST_WAIT_US / 1e6:g} s for its first token. FIFO has the same "
            "workers and caches, and queues each arrival at the next worker in turn.",
        ),
        args=(moment([ONE, BIG], [FULL, idle(2)]),),
        call="my_policy(snapshot)\n"
        "now_us=1000000\n"
        "waiting 41: deadline_us=1400000, kv_tokens_needed=239\n"
        "waiting 57: deadline_us=1400000, kv_tokens_needed=1039\n"
        "worker 0: num_running=4, batch_size=4, kv_free_tokens=2000\n"
        "worker 2: num_running=0, batch_size=4, kv_free_tokens=4000",
        steps=(
            "Worker 0 has a full batch. Worker 2 has room for either request.",
            "Both deadlines are equal. This policy sends request 41, the older one, to worker 2.",
            "It is asked again, now with only request 57 in `waiting`.",
        ),
        result=(41, 2),
    ),
    hints=(
        "Start with any legal decision: the oldest request for which a worker has room. Then look "
        "at the check's table of loads. How many of the missed deadlines would be met in another "
        "order?",
        "Sort the waiting requests by their deadlines, and put requests that can no longer meet "
        "their deadlines behind the others. Send the first one for which a worker has room, and "
        "choose the worker as in `route`.",
        "The sort key is a tuple: whether `now_us + remaining_us` is past `deadline_us`, then "
        "`deadline_us`. Go through the requests in that order and list the workers with room for "
        "each. Send the first request whose list is not empty. Return None after the loop.",
    ),
    right=(my_policy, by_slack),
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
        ("loads it has not seen", judge_loads),
    ),
    draw_call=draw_asked,
    asked_as=Policy,
)
