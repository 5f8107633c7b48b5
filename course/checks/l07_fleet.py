"""Checks of lesson 7, the fleet."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course.checks.comparing import Args
from course.checks.dispatching import (
    BUMP,
    ROUTE,
    Prefills,
    Rush,
    any_choices,
    any_requests,
    worker,
)
from course.checks.fleet_policies import (
    FLEET,
    LONGEST_WAIT_US,
    MARGIN,
    NUM_LOADS,
    NUM_REQUESTS,
    TOLERANCE,
    WANTED,
    Load,
    Policy,
    Score,
    Served,
    any_moments,
    baseline,
    draw_decision,
    draw_snapshot,
    idle,
    illegal,
    moment,
    waiting,
)
from course.checks.lazy_deletion import (
    HEAP,
    REFERENCE,
    RIGHT_ORDER,
    Event,
    any_states,
    life,
)
from course.judging import Ask, Check, Failure, Rows, run_checks
from course.registry import Exercise
from course.report import Report
from course.task import Task
from nanogpt.fleet.views import FleetSnapshot

# --- on_event --------------------------------------------------------------------------------


def _judge_heap(ask: Ask, *cases: Args) -> Failure | None:
    """The first wrong event; and, where it makes a difference, what comes of it later."""
    failure = HEAP.judge(ask, cases)
    if failure is None or failure.misconception == "in_place":
        return failure
    out = life(ask)
    if out in (None, RIGHT_ORDER):
        return failure
    then = (
        "push 3 with (0, 100), remove 3, push 3 with (2, 900), push 5 with (1, 500), three pops: "
        f"{out} instead of {RIGHT_ORDER}"
    )
    return replace(failure, example=(*failure.example, ("then", then)))


_POP: Event = ("pop",)


def _one_request(ask: Ask, rng: random.Random) -> Failure | None:
    one = ((1, 200), 3, 1)
    return _judge_heap(
        ask,
        ([], {}, ("push", 3, (1, 200))),
        ([one], {3: 1}, _POP),
        ([], {3: 2}, ("push", 3, (0, 900))),
    )


def _several_requests(ask: Ask, rng: random.Random) -> Failure | None:
    three, five, four = ((1, 200), 3, 1), ((0, 900), 5, 1), ((1, 100), 4, 3)
    return _judge_heap(
        ask,
        ([three], {3: 1}, ("push", 5, (0, 900))),
        ([five], {5: 1}, ("push", 3, (1, 200))),
        ([five, three], {3: 1, 5: 1}, _POP),
        ([five, three, four], {3: 1, 4: 3, 5: 1}, _POP),
        ([four, three], {3: 1, 4: 3, 5: 2}, _POP),
        ([((1, 200), 2, 1), ((1, 200), 6, 1)], {6: 1, 2: 1}, _POP),
    )


def _none_waits(ask: Ask, rng: random.Random) -> Failure | None:
    cases: tuple[Args, ...] = (
        ([], {}, _POP),
        ([], {3: 2}, _POP),
        ([((1, 200), 3, 1)], {3: 2}, _POP),
    )
    for args in cases:
        called = ask.call(*args, may_raise=True)
        if isinstance(called.error, IndexError | KeyError | ValueError | StopIteration):
            rows: Rows = (
                ("input", HEAP.draw_call(ask.name, args)),
                ("expected", HEAP.draw(REFERENCE(*args))),
                ("got", type(called.error).__name__),
            )
            idea = (
                "A queue in which no request waits is no error: look whether the heap still has an "
                "entry before you take one, and `popped` is None if it has not."
            )
            return Failure(idea, rows, "empty_raises")
    return _judge_heap(ask, *cases)


def _a_removal(ask: Ask, rng: random.Random) -> Failure | None:
    three, five = ((1, 200), 3, 1), ((1, 300), 5, 1)
    return _judge_heap(
        ask,
        ([three], {3: 1}, ("remove", 3)),
        ([three, five], {3: 1, 5: 1}, ("remove", 3)),
        ([three, five], {3: 2, 5: 1}, _POP),
        ([((1, 100), 3, 1), ((1, 300), 3, 3), five], {3: 3, 5: 2}, _POP),
        ([three], {3: 2}, ("remove", 3)),
    ) or _never_pushed(ask)


def _never_pushed(ask: Ask) -> Failure | None:
    """A removal of a request that `generations` does not name."""
    cases: tuple[Args, ...] = (([], {}, ("remove", 3)), ([((1, 200), 5, 1)], {5: 1}, ("remove", 3)))
    for args in cases:
        if isinstance(ask.call(*args, may_raise=True).error, KeyError):
            rows: Rows = (
                ("input", HEAP.draw_call(ask.name, args)),
                ("expected", HEAP.draw(REFERENCE(*args))),
                ("got", "KeyError"),
            )
            idea = "A request that `generations` does not name has generation 0."
            return Failure(idea, rows, "key_error")
    return _judge_heap(ask, *cases)


def _comes_back(ask: Ask, rng: random.Random) -> Failure | None:
    stale, again = ((1, 200), 3, 1), ((1, 200), 3, 3)
    return _judge_heap(
        ask,
        ([stale], {3: 2}, ("push", 3, (1, 200))),
        ([stale, again], {3: 3}, _POP),
        ([((1, 200), 3, 2), again], {3: 3, 7: 5}, ("remove", 3)),
    )


def _a_new_key(ask: Ask, rng: random.Random) -> Failure | None:
    early, late = ((0, 900), 3, 1), ((1, 900), 3, 2)
    return _judge_heap(
        ask,
        ([((1, 900), 3, 1)], {3: 1}, ("push", 3, (0, 900))),
        ([((0, 900), 3, 2), ((1, 900), 3, 1)], {3: 2}, _POP),
        ([((1, 900), 3, 1)], {3: 3}, _POP),
        ([early], {3: 1}, ("push", 3, (1, 900))),
        ([early, late], {3: 2}, _POP),
        ([early, ((0, 950), 4, 1), late], {3: 2, 4: 1}, _POP),
    )


def _any_event(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_heap(ask, *any_states(rng, 60))


_HEAP_CHECKS: tuple[tuple[str, Check], ...] = (
    ("one request", _one_request),
    ("several requests", _several_requests),
    ("none waits", _none_waits),
    ("a removal", _a_removal),
    ("a request that comes back", _comes_back),
    ("a new key", _a_new_key),
    ("any event", _any_event),
)


def check_on_event(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l07.on_event."""
    return run_checks("l07.on_event", function, _HEAP_CHECKS, seed=seed)


# --- bump ------------------------------------------------------------------------------------


def _judge_bump(ask: Ask, *cases: Args) -> Failure | None:
    """The first wrong priority; one that changes when it is asked for again has a reason."""
    for args in cases:
        failure = BUMP.judge(ask, [args])
        if failure is None:
            continue
        again = BUMP.draw(ask(*args))
        if again == dict(failure.example)["got"]:
            return failure
        idea = (
            "Asked again it gives another answer: urgent lifts a request by two levels in all, not "
            "by two at every tick, so start from `priority` each time and remember nothing."
        )
        return Failure(idea, (*failure.example, ("asked again", again)), "compounds")
    return None


def _little_time(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_bump(
        ask,
        (6, 100_000, 200_000, 80_000),
        (6, 100_000, 900_000, 80_000),
        (6, 100_000, 130_000, 0),
        (6, 100_000, 400_000, 280_000),
        (9, 0, 40_000, 39_000),
    )


def _at_every_tick(ask: Ask, rng: random.Random) -> Failure | None:
    """One request, asked about again and again, as the queue does."""
    return _judge_bump(ask, *((8, now, 230_000, 80_000) for now in range(91_000, 150_000, 4_000)))


def _too_late(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_bump(
        ask,
        (6, 300_000, 200_000, 80_000),
        (6, 100_000, 120_000, 80_000),
        (6, 100_000, 900_000, 805_000),
        (6, 300_000, 200_000, 0),
    )


def _near_the_top(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_bump(ask, *((level, 100_000, 200_000, 80_000) for level in (1, 0, 2, 3, 9)))


def _at_the_edges(ask: Ask, rng: random.Random) -> Failure | None:
    slacks = (50_000, 50_001, 0, -1, 49_999, 1)
    return _judge_bump(
        ask,
        *((6, 70_000, 150_000 + slack, 80_000) for slack in slacks),
        (6, 0, 50_001, 0),
        (6, 0, 0, 1),
        (6, 0, 0, 0),
    )


def _any_request(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_bump(ask, *any_requests(rng, 80))


_BUMP_CHECKS: tuple[tuple[str, Check], ...] = (
    ("little time and much", _little_time),
    ("at every tick", _at_every_tick),
    ("too late", _too_late),
    ("near the top", _near_the_top),
    ("at the edges", _at_the_edges),
    ("any request", _any_request),
)


def check_bump(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l07.bump."""
    return run_checks("l07.bump", function, _BUMP_CHECKS, seed=seed)


# --- route -----------------------------------------------------------------------------------


def _backlogs(ask: Ask, rng: random.Random) -> Failure | None:
    views = [worker(5, 300), worker(2, 100), worker(4, 200)]
    cases: list[Args] = [(views, {}), ([worker(3)], {})]
    failure = ROUTE.judge(ask, [(views, {2: 60, 4: 60, 5: 60})])
    if failure is not None:
        return failure
    for args in cases:
        called = ask.call(*args, may_raise=True)
        if isinstance(called.error, KeyError):
            rows: Rows = (
                ("input", ROUTE.draw_call(ask.name, args)),
                ("expected", ROUTE.draw(ROUTE.reference(*args))),
                ("got", "KeyError"),
            )
            idea = "A worker without a hit is not in `hits` at all: `hits.get(worker.id, 0)`."
            return Failure(idea, rows, "key_error")
    return ROUTE.judge(ask, cases)


def _hits(ask: Ask, rng: random.Random) -> Failure | None:
    return ROUTE.judge(
        ask,
        [
            ([worker(1, 100), worker(2, 100)], {2: 60}),
            ([worker(1, 100), worker(2, 150)], {2: 90}),
            ([worker(1), worker(2)], {1: 30, 2: 200}),
            ([worker(1, 20), worker(2, 0, 3)], {1: 100, 2: 60}),
        ],
    )


def _a_hit_at_a_busy_worker(ask: Ask, rng: random.Random) -> Failure | None:
    """Liveness: each decision is applied, right or wrong, and no request may queue behind a hit."""
    for rush in (Rush(6, 200, 200, 2), Rush(16, 300, 100, 4)):
        prefills = Prefills(rush).run(ask)
        best = Prefills(rush).run(ROUTE.reference)
        if prefills.longest_backlog <= 1.25 * best.longest_backlog:
            continue
        failure = ROUTE.judge(ask, prefills.asked)
        if failure is None:
            continue
        rows: Rows = (("load", str(rush)), ("in the end", str(prefills)))
        return Failure(failure.idea, rows + failure.example, failure.misconception)
    return ROUTE.judge(
        ask,
        [
            ([worker(1, 900), worker(2, 100)], {1: 300}),
            ([worker(1, 900), worker(2, 100)], {1: 801}),
            ([worker(1, 900), worker(2, 100)], {1: 799}),
            ([worker(1, 900), worker(2, 100), worker(4, 50)], {1: 300, 2: 40}),
            ([worker(1, 200, 1), worker(6, 100, 5)], {}),
        ],
    )


def _among_equals(ask: Ask, rng: random.Random) -> Failure | None:
    return ROUTE.judge(
        ask,
        [
            ([worker(1, 100, 3), worker(2, 100, 1)], {}),
            ([worker(2, 100, 1), worker(1, 100, 1)], {}),
            ([worker(1, 100, 1), worker(2, 200, 1)], {2: 100}),
            ([worker(1, 100, 4), worker(2, 101, 1)], {}),
            ([worker(9, 0, 3), worker(8, 1, 1)], {}),
            ([worker(11, 100, 150), worker(12, 101, 20)], {}),
            ([worker(11, 100, 120), worker(12, 100, 119)], {}),
            ([worker(12, 100, 1), worker(11, 100, 1)], {}),
            ([worker(1, 200, 1), worker(2, 100, 2)], {1: 100}),
            ([worker(2, 200, 1), worker(1, 100, 1), worker(6, 300, 0)], {2: 100, 6: 200}),
        ],
    )


def _hits_elsewhere(ask: Ask, rng: random.Random) -> Failure | None:
    return ROUTE.judge(
        ask,
        [
            ([worker(1, 100), worker(2, 300)], {7: 900}),
            ([worker(4, 100), worker(2, 300)], {0: 900, 2: 50}),
        ],
    )


def _any_choice(ask: Ask, rng: random.Random) -> Failure | None:
    return ROUTE.judge(ask, any_choices(rng, 80))


_ROUTE_CHECKS: tuple[tuple[str, Check], ...] = (
    ("different backlogs", _backlogs),
    ("some know it", _hits),
    ("all begin alike", _a_hit_at_a_busy_worker),
    ("among equals", _among_equals),
    ("hits where there is no room", _hits_elsewhere),
    ("any choice", _any_choice),
)


def check_route(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l07.route."""
    return run_checks("l07.route", function, _ROUTE_CHECKS, seed=seed)


# --- my_policy -------------------------------------------------------------------------------


def _decides(ask: Ask, snapshot: FleetSnapshot, expected: str, *, must: bool) -> Failure | None:
    """One decision: it has to be legal, and, if it `must`, a request has to go."""
    called = ask.call(snapshot, may_raise=not snapshot.waiting)
    got = draw_decision(called.value) if called.error is None else type(called.error).__name__
    rows: Rows = (
        ("input", draw_snapshot(ask.name, snapshot)),
        ("expected", expected),
        ("got", got),
    )
    if isinstance(called.error, IndexError | ValueError | TypeError | StopIteration):
        idea = "A snapshot in which no request waits is no error: answer None."
        return Failure(idea, rows, "empty_raises")
    if called.error is not None:
        ask(snapshot)  # ends the check with the error's own words
    problem = illegal(snapshot, called.value)
    if problem is None and must and called.value is None:
        problem = (
            "never",
            f"{expected} would do, yet the answer is None, which ends the round: look at every "
            "request and every worker, and mind that a way without a `return` gives None too.",
        )
    return None if problem is None else Failure(problem[1], rows, problem[0])


def _one_decision(ask: Ask, rng: random.Random) -> Failure | None:
    one = waiting(41)
    return (
        _decides(ask, moment([one], [idle(0)]), "(41, 0)", must=True)
        or _decides(ask, moment([one], [idle(2), idle(1)]), "(41, 2) or (41, 1)", must=True)
        or _decides(ask, moment([one], [idle(0)], {41: {0: 120}}), "(41, 0)", must=True)
    )


def _none_there(ask: Ask, rng: random.Random) -> Failure | None:
    return _decides(ask, moment([], [idle(0), idle(1)]), "None", must=False)


def _no_room(ask: Ask, rng: random.Random) -> Failure | None:
    one, big = waiting(41), waiting(57, 1000, arrival_us=950_000)
    exact = one.kv_tokens_needed
    full, tight = idle(0, 4), idle(1, 2, exact - 1)
    room = idle(2, 3, exact, 900)
    return (
        _decides(ask, moment([one], [full]), "None", must=False)
        or _decides(ask, moment([one], [tight]), "None", must=False)
        or _decides(ask, moment([one], [full, tight, room]), "(41, 2)", must=True)
        or _decides(ask, moment([one], [full, room], {41: {0: 199}}), "(41, 2)", must=True)
        or _decides(ask, moment([one, big], [full, room]), "(41, 2) or None", must=False)
        or _decides(ask, moment([big, one], [full, room]), "(41, 2) or None", must=False)
    )


def _any_snapshot(ask: Ask, rng: random.Random) -> Failure | None:
    for snapshot in any_moments(rng, 40):
        expected = "None, or a pair that has room"
        failure = _decides(ask, snapshot, expected, must=False)
        if failure is not None:
            return failure
    return None


def scored_loads(rng: random.Random) -> list[Load]:
    """The loads that a policy is scored on."""
    return [Load(rng.getrandbits(32)) for _ in range(NUM_LOADS)]


def _score(ask: Ask, rng: random.Random) -> tuple[Failure | None, Rows]:
    """Every load in turn, served by the answer, by FIFO and by the reference."""
    loads = scored_loads(rng)
    yours: list[Served] = []
    for load in loads:
        yours.append(ask(load))
        problem = yours[-1].problem
        if problem is not None and yours[-1].snapshot is not None:
            rows: Rows = (
                ("input", draw_snapshot(ask.name, yours[-1].snapshot)),
                ("expected", "None, or a pair that has room"),
                ("got", draw_decision(yours[-1].decision)),
            )
            return Failure(problem[1], rows, problem[0]), rows
    score = Score(tuple(yours), tuple(map(baseline, loads)))
    problem = score.problem()
    table = ("by load", score.table())
    if problem is None:
        return None, (table, ("all in all", score.summary()))
    rows = (
        ("input", f"{NUM_LOADS} loads of {NUM_REQUESTS} requests"),
        ("expected", WANTED),
        ("got", score.summary()),
        table,
    )
    return Failure(problem[1], rows, problem[0]), rows


def check_my_policy(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l07.my_policy; a report that passed has the table by load as well."""
    found: list[Rows] = []

    def loads_it_has_not_seen(ask: Ask, rng: random.Random) -> Failure | None:
        failure, rows = _score(ask, rng)
        found.append(rows)
        return failure

    checks: tuple[tuple[str, Check], ...] = (
        ("one decision", _one_decision),
        ("none waits", _none_there),
        ("no room", _no_room),
        ("any moment", _any_snapshot),
        ("loads it has not seen", loads_it_has_not_seen),
    )
    report = run_checks("l07.my_policy", Policy(function), checks, seed=seed)
    return replace(report, example=found[0]) if report.status == "passed" else report


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l07.on_event",
        lesson="l07_fleet",
        name="on_event",
        title="Deleted, but still in the heap",
        minutes=12,
        points=3,
        part=None,
        hints=(
            "Request 3 is pushed, removed and pushed again, and both of its entries lie in the "
            "heap. By what can a pop tell the one that counts from the one that does not?",
            "Copy both first. A push counts up and pushes the new number along; a removal only "
            "counts up; a pop takes entries off until one has its request's latest number, and "
            "counts that request up.",
            "Counting up is the same everywhere: `generations.get(id, 0) + 1`. `heapq.heappush` "
            "takes one tuple of three. A pop is a loop with two ways out: the heap is empty, or "
            "the generation that came off is the one that its request has now.",
        ),
        check=check_on_event,
        task=Task(
            signature="on_event(heap: list[tuple[tuple, int, int]], generations: dict[int, int], "
            "event: tuple) -> tuple[list[tuple[tuple, int, int]], dict[int, int], int | None]",
            rules=(
                "The result is `(heap, generations, popped)` as they are after one event in a "
                "queue of requests. Leave the arguments as they are, and work on copies.",
                "`heap` is a list as `heapq` keeps it. Its entries are `(key, id, generation)`, "
                "and the smallest goes first. `generations[id]` is the newest generation of that "
                "request; one that is missing has 0.",
                "An entry is live while its generation is the newest of its request, and stale "
                "from then on. Stale entries stay where they are until a pop meets them.",
                '`("push", id, key)`: the request waits with this key; an older entry of it is '
                'stale by that. `("remove", id)`: it waits no more; the heap stays as it is. '
                '`("pop",)`: entries come off the top, up to and with the first live one, whose '
                "id is `popped`.",
                "`popped` is `None` where none was live, and for the other events.",
                "Each push, each removal, and a pop for the request that it gives count that "
                "request's generation up by 1. Nothing else changes one, and none is forgotten.",
            ),
            args=([((1, 200), 3, 1)], {3: 1}, ("push", 5, (0, 900))),
            result=([((0, 900), 5, 1), ((1, 200), 3, 1)], {3: 1, 5: 1}, None),
        ),
    ),
    Exercise(
        id="l07.bump",
        lesson="l07_fleet",
        name="bump",
        title="About to be late",
        minutes=5,
        points=2,
        part=None,
        hints=(
            "Two requests have 60 ms to their deadlines. One still needs 20 ms, the other 100. "
            "Which of them is helped by going first?",
            "Take the slack: deadline - now - remaining. Only between 0 and 50 ms is the request "
            "lifted, and two levels up means a smaller number that stops at 0.",
            "One name for the slack, one comparison with both of its edges, in microseconds, and "
            "two results: `priority` as it came, or two less, which `max` keeps from going below "
            "0.",
        ),
        check=check_bump,
        task=Task(
            signature="bump(priority: int, now: int, deadline: int, remaining: int) -> int",
            rules=(
                "The result is the priority that a request has at the moment `now`. 0 is the "
                "highest.",
                "A request that is about to be late is lifted by 2 levels, but never above 0: one "
                "that can afford to lose at most 50 ms before its deadline is missed.",
                "Going first has to help it: one that misses its deadline in any case keeps its "
                "priority, and so does every other.",
                "`priority` is the request's own. The queue asks again and again, always with this "
                "one, and the result depends on nothing but the arguments.",
                "`remaining` is the least time that it still needs. All times are in microseconds.",
            ),
            args=(6, 100_000, 200_000, 80_000),
            result=4,
        ),
    ),
    Exercise(
        id="l07.route",
        lesson="l07_fleet",
        name="route",
        title="Where the prefill is done first",
        minutes=6,
        points=2,
        part=None,
        hints=(
            "A worker knows 300 tokens of the prompt, and has 900 to compute before it comes to "
            "it. Another one is idle. Where is the prefill done first?",
            "Give each worker a number: the tokens that it has promised, less those that it knows. "
            "The smallest wins; for equals, think of a tuple.",
            "`min(workers, key=...)` finds the worker, and its `id` is the result. The key is a "
            "tuple of three, what decides first in front; a worker that `hits` leaves out has a "
            "hit of 0, which is what `hits.get` is for.",
        ),
        check=check_route,
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
            args=([worker(5, 300), worker(2, 100)], {}),
            result=2,
        ),
    ),
    Exercise(
        id="l07.my_policy",
        lesson="l07_fleet",
        name="my_policy",
        title="A policy of your own",
        minutes=20,
        points=5,
        part=None,
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
        check=check_my_policy,
        task=Task(
            signature="my_policy(snapshot: FleetSnapshot) -> tuple[int, int] | None",
            rules=(
                "The result is `(request_id, worker_id)`: which request is given to which worker "
                "now. You are asked again, with a new snapshot, until you answer `None`, which "
                "ends the round. The next round comes with the next arrival, or when a worker ends "
                "what it runs.",
                "`snapshot.now_us` is the time; all times are in microseconds.",
                "`snapshot.waiting` are the requests that wait, the oldest first, at most 64. Each "
                "has an `id`, `priority` (0 is the highest), `arrival_us`, `deadline_us`, "
                "`known_tokens`, `left_tokens` (to generate), `remaining_us` (the least time that "
                "it needs) and `kv_tokens_needed`.",
                "`snapshot.workers` have an `id`, `backlog_tokens`, `num_running` of `batch_size`, "
                "and `kv_free_tokens` of `kv_tokens`. A worker has room if `num_running` is below "
                "its `batch_size` and the request's `kv_tokens_needed` are at most its "
                "`kv_free_tokens`; elsewhere no request may be sent.",
                "`snapshot.hit_tokens[request_id][worker_id]` is how many tokens of the request "
                "that worker knows; what is 0 is left out, whole requests too.",
                f"The policy serves {NUM_LOADS} loads of {NUM_REQUESTS} requests that you cannot "
                f"see, with {FLEET.num_workers} workers. They come in waves, priorities mixed, and "
                "have 200 ms, 500 ms or 1 s. Attainment is the share of all requests that finish "
                "by their deadline. To pass, it is at least "
                f"{100 * MARGIN:.0f} percentage points above FIFO's on average, on no load more "
                f"than {100 * TOLERANCE:.0f} below, and no request waits longer than "
                f"{LONGEST_WAIT_US / 1e6:g} s for its first token.",
                "FIFO has the same workers and caches, sends each arrival to the next worker in "
                "turn, and lets it queue there.",
            ),
            args=(moment([waiting(41)], [idle(2)]),),
            result=(41, 2),
        ),
    ),
)
