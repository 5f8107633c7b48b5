"""Exercise 2.3: which running request gives way."""

import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, Comparison, a_kind
from course.checks.requests import draw_request, make_request
from course.exercise import Exercise, Misconception
from course.harness import Ask, Failure, Rows
from course.task import Task
from nanogpt.policy_views import RequestView
from solutions.l02_scheduling._requests import any_running, last_admitted
from solutions.l02_scheduling._serving import (
    Decisions,
    Job,
    Serving,
    Workload,
    sawtooth,
    start_over,
)
from solutions.l02_scheduling._workloads import (
    WrongDecision,
    any_workloads,
    judge_workloads,
    judged,
)

# --- right answers ------------------------------------------------------------------------------


def choose_victim(active: list[RequestView]) -> int:
    """Return the id of the running request that gives way when the KV budget is short."""
    # The least important pays. Among equals the newest does, since it has the least to recompute,
    # and since one must never be chosen: the first in this order keeps running, so it gets
    # done, and then the next one is first.
    last = max(active, key=lambda request: (request.key, request.arrival_time, request.id))
    return last.id


def by_sorting(active: list[RequestView]) -> int:
    queue = sorted(active, key=lambda request: request.id)
    queue.sort(key=lambda request: request.arrival_time)
    queue.sort(key=lambda request: request.key)
    return queue[-1].id


def by_narrowing(active: list[RequestView]) -> int:
    for rank in (lambda r: r.key, lambda r: r.arrival_time, lambda r: r.id):
        highest = max(rank(request) for request in active)
        active = [request for request in active if rank(request) == highest]
    return active[0].id


# --- wrong ideas --------------------------------------------------------------------------------


def last_by(rank: Callable[[RequestView], Any]) -> Callable[[list[RequestView]], int]:
    return lambda active: max(active, key=rank).id


def last_of_all_by(rank: Callable[[RequestView], Any]) -> Callable[[list[RequestView]], int]:
    """Among equals the last in the list."""
    return lambda active: sorted(active, key=rank)[-1].id


def sorts_in_place(active: list[RequestView]) -> int:
    active.sort(key=lambda r: (r.key, r.arrival_time, r.id))
    return active[-1].id


MISCONCEPTIONS = (
    Misconception(
        "not_an_id",
        "The victim is a request.",
        lambda value: f"The answer is the `id` of one request, not {a_kind(value)}.",
        matches=lambda value: as_whole(value) is None,
        examples=((lambda active: max(active, key=lambda r: (r.key, r.arrival_time, r.id))),),
    ),
    Misconception(
        "oldest",
        "What was admitted longest ago has had its share.",
        "The oldest has the most to compute again, and when it comes back the others are older, so "
        "all of them may go in turn and none gets done: among equals the newest gives way.",
        last_by(lambda r: (-last_admitted(r), -r.id)),
        same_result=(
            last_by(lambda r: (-r.arrival_time, -r.id)),
            last_by(lambda r: (r.priority, -r.arrival_time)),
        ),
    ),
    Misconception(
        "most_important",
        "The first in the order is the one to take.",
        "This is the most important request, the first in the order: the smallest key goes first, "
        "so the largest one gives way.",
        lambda active: min(active, key=lambda r: (r.key, r.arrival_time, r.id)).id,
    ),
    Misconception(
        "ignores_key",
        "The most recent gives way.",
        "The key comes first: a newcomer may be the most important of all, and arrival only "
        "decides among equal keys.",
        last_by(lambda r: (r.arrival_time, r.id)),
    ),
    Misconception(
        "priority_not_key",
        "Importance is the priority, whatever the policy.",
        "The key is the rank under the policy in force; the priority counts only as far as the "
        "policy has put it there.",
        last_by(lambda r: (r.priority, r.arrival_time, r.id)),
    ),
    Misconception(
        "tie_to_first",
        "Equal is equal: the list decides.",
        "Key and arrival are equal, so the larger id gives way: the order of the list has no say.",
        last_by(lambda r: (r.key, r.arrival_time)),
        same_result=(last_of_all_by(lambda r: (r.key, r.arrival_time)),),
    ),
    Misconception(
        "key_alone",
        "The key says it all.",
        "Among equal keys the latest arrival_time gives way, and then the larger id: the order of "
        "the list has no say.",
        last_by(lambda r: r.key),
        same_result=(last_of_all_by(lambda r: r.key),),
    ),
    Misconception(
        "last_admission",
        "The most recent is the one admitted last.",
        "Among equal keys the arrival_time decides, which never changes: which was admitted last "
        "is an accident of how full the memory was.",
        last_by(lambda r: (r.key, last_admitted(r), r.id)),
    ),
    Misconception(
        "first_number_alone",
        "A key is a number and something to break ties.",
        "A key may hold several numbers, and which those are is the policy's affair: compare whole "
        "keys, as Python compares tuples.",
        last_by(lambda r: (r.key[0], r.arrival_time, r.id)),
        same_result=(last_by(lambda r: (r.key[0], r.id)),),
    ),
    Misconception(
        "list_order",
        "The list is in order.",
        "The order of the list says nothing about importance: the queue's order is that of key, "
        "arrival_time and id.",
        lambda active: active[0].id,
        same_result=(lambda active: active[-1].id,),
    ),
    Misconception("in_place", "The list is mine to sort.", examples=(sorts_in_place,)),
)

# --- cases --------------------------------------------------------------------------------------


def draw_victims(name: str, args: Args) -> str:
    fields = ("id", "key", "priority", "arrival_time", "admitted_at")
    lines = [f"  {draw_request(request, fields)}," for request in args[0]]
    return "\n".join([f"{name}([", *lines, "])"])


def running(id: int, key: tuple[float, ...], **fields: Any) -> RequestView:
    """A running request; its priority is 0 unless it is said."""
    return make_request(id, 10, key=key, **({"admitted_at": 0, "kv_tokens": 10} | fields))


def two_equal(ask: Ask, rng: random.Random) -> Failure | None:
    """Liveness: each choice is applied, right or wrong, and what is preempted starts over."""
    asked: list[Args] = []

    def choose(active: list[RequestView]) -> int:
        chosen = ask(active)
        if chosen not in [request.id for request in active]:
            raise WrongDecision(JUDGE.judge(ask, [(active,)]) or Failure(JUDGE.idea))
        if chosen != choose_victim(active):
            asked.append((active,))
        return int(chosen)  # 3.0 names request 3 as well

    workload = Workload("fcfs", 22, 8, (Job(0, 0, 10, 10), Job(0, 0, 10, 10)))
    serving = Serving(workload, Decisions(choose_victim=choose, requeue=start_over))
    try:
        if serving.run(60):
            return None
    except WrongDecision as wrong:
        return wrong.failure
    failure = JUDGE.judge(ask, asked) or Failure(JUDGE.idea)
    rows: Rows = (
        ("workload", f"{workload}\nwhat is preempted starts over, as in a simple engine"),
        ("generated", sawtooth(serving)),
    )
    return Failure(failure.idea, rows + failure.example, failure.misconception)


def whole_workloads(ask: Ask, rng: random.Random) -> Failure | None:
    decisions = Decisions(choose_victim=judged(JUDGE, ask), requeue=start_over)
    return judge_workloads(decisions, any_workloads(rng, (2, 3, 4, 6), slack=5))


JUDGE = Comparison(
    choose_victim,
    MISCONCEPTIONS,
    "No request may give way to one that stands behind it in the queue's order of key, "
    "arrival_time and id.",
    evidence=any_running(random.Random(0)),
)

UNIMPORTANT = running(0, (2, 0), priority=2, generated=2, kv_tokens=11)
NEWCOMER = running(1, (0, 1), arrival_time=1, admitted_at=1)
OLD = running(3, (1,), priority=1, arrival_time=0, admitted_at=6)
NEW = running(1, (1,), priority=1, arrival_time=4, admitted_at=5)
TWIN = running(2, (1,), priority=1, arrival_time=4, admitted_at=5)
FIRST, SECOND = running(50, (7,), arrival_time=0), running(9, (7,), arrival_time=1)
# Under FCFS the key is the arrival, whatever the priorities are.
FCFS_FIRST = running(3, (0,), priority=2, arrival_time=0)
FCFS_SECOND = running(1, (5,), priority=0, arrival_time=5, admitted_at=5)
AGED = running(4, (9.5,), priority=1, arrival_time=2, admitted_at=2)

EXERCISE = Exercise(
    number=3,
    title="Which gives way",
    minutes=10,
    points=3,
    part="choose_victim",
    task=Task(
        signature="choose_victim(active: list[RequestView]) -> int",
        rules=(
            "`active` are the running requests, at least one, in any order. Their K/V no longer "
            "fits: return the `id` of the one whose K/V is released.",
            "The queue has an order: by `key`, the rank under whatever policy is in force (the "
            "smallest goes first), among equal keys by `arrival_time`, then by `id`.",
            "No request may give way to one that stands behind it in this order. That leaves one "
            "answer, and only with that one everything gets done.",
            "Leave the list as it is.",
        ),
        args=([make_request(4, key=(1,)), make_request(2, key=(0,), arrival_time=3)],),
        result=4,
    ),
    hints=(
        "Two equal requests do not fit together. Which one has more to compute again if it has to "
        "leave, and what if they take turns at leaving?",
        "One has to be sure never to give way, so that it gets done. Which place in the queue's "
        "order makes sure of that, and which one is left to go?",
        "Python compares tuples from the left, and `max` and `min` take a `key`. Write the "
        "queue's order as such a key, and mind that the answer is an id.",
    ),
    right=(choose_victim, by_sorting, by_narrowing),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "an important newcomer",
            JUDGE.on(
                ([UNIMPORTANT, NEWCOMER],),
                ([NEWCOMER, UNIMPORTANT, running(2, (1, 0), priority=1, generated=1)],),
                ([NEWCOMER],),
            ),
        ),
        ("two equal requests, to the last token", two_equal),
        (
            "equal keys",
            JUDGE.on(
                ([OLD, NEW],),
                ([NEW, OLD],),
                ([NEW, TWIN, OLD],),
                ([TWIN, NEW],),
                ([FIRST, SECOND],),
                ([SECOND, FIRST],),
                ([running(50, (7,), arrival_time=800), running(9, (7,), arrival_time=900)],),
            ),
        ),
        (
            "the key of another policy",
            JUDGE.on(
                ([FCFS_FIRST, FCFS_SECOND],),
                ([FCFS_SECOND, AGED, FCFS_FIRST],),
                (
                    [
                        running(i, (1, left), arrival_time=9 - left)
                        for i, left in ((5, 2), (6, 8), (7, 5))
                    ],
                ),
            ),
        ),
        ("any running requests", JUDGE.on_drawn(any_running)),
        ("whole workloads, to the last token", whole_workloads),
    ),
    draw_call=draw_victims,
    equivalent_mutants={
        "active: reversed": "the order of the list has no say",
        "by_narrowing(): return active[{0 => -1}].id": "ids are unique: one is left",
    },
)
