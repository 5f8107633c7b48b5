"""Exercise 2.3: which running request is preempted."""

import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, Comparison, a_kind
from course.checks.requests import draw_request, make_request
from course.exercise import Exercise, Misconception, Task
from course.harness import Ask, Failure
from nanogpt.views.request_view import RequestView
from solutions.l02_scheduling._requests import any_running, last_admitted
from solutions.l02_scheduling._serving import (
    TWO_EQUAL,
    WrongDecision,
    any_workloads,
    draw_run,
    first_wrong,
    judged,
    serve,
    start_over,
)

# --- right answers ------------------------------------------------------------------------------


def choose_victim(running: list[RequestView]) -> int:
    """Return the id of the running request to preempt when the KV budget is exceeded."""
    # The last request in the queue's order. The first one is then never chosen, so it keeps its K/V
    # and finishes, and after it the next one does. Any other rule can livelock if a preempted
    # request starts its text over.
    last = max(running, key=lambda request: (request.key, request.arrival_time, request.id))
    return last.id


def by_sorting(running: list[RequestView]) -> int:
    queue = sorted(running, key=lambda request: request.id)
    queue.sort(key=lambda request: request.arrival_time)
    queue.sort(key=lambda request: request.key)
    return queue[-1].id


# --- wrong ideas --------------------------------------------------------------------------------


def last_by(key: Callable[[RequestView], Any]) -> Callable[[list[RequestView]], int]:
    return lambda running: max(running, key=key).id


def last_of_all_by(key: Callable[[RequestView], Any]) -> Callable[[list[RequestView]], int]:
    """Among equal keys the last in the list."""
    return lambda running: sorted(running, key=key)[-1].id


MISCONCEPTIONS = (
    Misconception(
        "not_an_id",
        "The answer is a request.",
        lambda value: f"The answer is the `id` of one request, not {a_kind(value)}.",
        matches=lambda value: as_whole(value) is None,
        examples=((lambda running: max(running, key=lambda r: (r.key, r.arrival_time, r.id))),),
    ),
    Misconception(
        "oldest",
        "The request that was admitted first has had its share.",
        "The oldest request has the most to recompute. If a preempted request starts over, two "
        "requests preempt each other in turn and neither finishes: among equal keys, preempt the "
        "newest.",
        last_by(lambda r: (-last_admitted(r), -r.id)),
        same_result=(
            last_by(lambda r: (-r.arrival_time, -r.id)),
            last_by(lambda r: (r.priority, -r.arrival_time)),
        ),
    ),
    Misconception(
        "most_important",
        "The victim is the first request in the order.",
        "This is the most important request, the first in the queue's order. The smallest key "
        "goes first, so the victim is the request with the largest key.",
        lambda running: min(running, key=lambda r: (r.key, r.arrival_time, r.id)).id,
    ),
    Misconception(
        "ignores_key",
        "The victim is the newest request.",
        "The key comes first: a new request may be the most important one. Arrival decides only "
        "among equal keys.",
        last_by(lambda r: (r.arrival_time, r.id)),
    ),
    Misconception(
        "priority_not_key",
        "The priority decides, whatever the policy.",
        "The key says what the policy in force ranks first. The priority counts only if the policy "
        "put it into the key.",
        last_by(lambda r: (r.priority, r.arrival_time, r.id)),
    ),
    Misconception(
        "key_alone",
        "Among equal keys the order of the list decides.",
        "Among equal keys the request with the latest arrival_time is preempted, and among equal "
        "arrivals the one with the larger id. The order of the list must not matter.",
        last_by(lambda r: r.key),
        same_result=(
            last_of_all_by(lambda r: (r.key,)),
            last_by(lambda r: (r.key, r.arrival_time)),
            last_of_all_by(lambda r: (r.key, r.arrival_time)),
        ),
    ),
    Misconception(
        "last_admission",
        "The newest request is the one admitted last.",
        "Among equal keys the arrival_time decides, because it never changes. The time of the last "
        "admission depends on how full the memory was.",
        last_by(lambda r: (r.key, last_admitted(r), r.id)),
    ),
    Misconception(
        "first_number_alone",
        "Only the first number of a key counts.",
        "A key may hold several numbers, and the policy decides what they mean: compare whole "
        "keys, as Python compares tuples.",
        last_by(lambda r: (r.key[0], r.arrival_time, r.id)),
        same_result=(last_by(lambda r: (r.key[0], r.id)),),
    ),
    Misconception(
        "in_place",
        "The function may sort the list.",
        examples=(lambda running: (choose_victim(running), running.sort(key=lambda r: r.id))[0],),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def draw_victims(name: str, args: Args) -> str:
    fields = ("id", "key", "priority", "arrival_time", "admitted_at")
    lines = [f"  {draw_request(request, fields)}," for request in args[0]]
    return "\n".join([f"{name}([", *lines, "])"])


def runner(id: int, key: tuple[float, ...], **fields: Any) -> RequestView:
    """A running request, of priority 0 unless `fields` has another."""
    return make_request(id, 10, key=key, **({"admitted_at": 0, "kv_tokens": 10} | fields))


def two_equal(ask: Ask, rng: random.Random) -> Failure | None:
    """Whether all finish if every choice is applied and a preempted request starts over."""
    asked: list[Args] = []

    def choose(running: list[RequestView]) -> int:
        chosen = ask(running)
        if chosen not in [request.id for request in running]:
            raise WrongDecision(JUDGE.judge(ask, [(running,)]) or Failure(JUDGE.idea))
        if chosen != choose_victim(running):
            asked.append((running,))
        return int(chosen)  # 3.0 names request 3 as well

    try:
        trace = serve(TWO_EQUAL, 59, choose_victim=choose, requeue=start_over)
    except WrongDecision as wrong:
        return wrong.failure
    if trace.error is None:
        return None
    failure = JUDGE.judge(ask, asked) or Failure(JUDGE.idea)
    rows = draw_run(TWO_EQUAL, trace) + failure.example
    return Failure(failure.idea, rows, failure.misconception)


def whole_workloads(ask: Ask, rng: random.Random) -> Failure | None:
    choose = judged(JUDGE, ask)
    found = (
        first_wrong(each, choose_victim=choose, requeue=start_over) for each in any_workloads(rng)
    )
    return next(filter(None, found), None)


JUDGE = Comparison(
    choose_victim,
    MISCONCEPTIONS,
    "In the order of key, arrival_time and id, a request behind this one keeps running.",
    evidence=any_running(random.Random(0)),
)

UNIMPORTANT = runner(0, (2, 0), priority=2, generated=2, kv_tokens=11)
NEWCOMER = runner(1, (0, 1), arrival_time=1, admitted_at=1)
OLD = runner(3, (1,), priority=1, arrival_time=0, admitted_at=6)
NEW = runner(1, (1,), priority=1, arrival_time=4, admitted_at=5)
TWIN = runner(2, (1,), priority=1, arrival_time=4, admitted_at=5)
FIRST, SECOND = runner(50, (7,), arrival_time=800), runner(9, (7,), arrival_time=900)
EARLIEST, NEXT = runner(5, (7,), arrival_time=0), runner(2, (7,), arrival_time=1)
# Under FCFS the key is the arrival, whatever the priority.
FCFS_FIRST = runner(3, (0,), priority=2, arrival_time=0)
FCFS_SECOND = runner(1, (5,), priority=0, arrival_time=5, admitted_at=5)
AGED = runner(4, (9.5,), priority=1, arrival_time=2, admitted_at=2)

EXERCISE = Exercise(
    number=3,
    title="Choosing the victim",
    minutes=10,
    points=3,
    task=Task(
        rules=(
            "`running` are all running requests, prefilling or decoding, in any order. Their K/V "
            "no longer fits into the budget. Return the `id` of the request to preempt.",
            "`key` is a request's key under the policy in force. Equal keys are ordered by "
            "`arrival_time`, then by `id`.",
            "Every request must finish, even in an engine where a preempted request starts its "
            "text over. And no request may lose its K/V so that one which the policy puts behind "
            "it can keep running.",
            "Do not change the list.",
        ),
        args=([make_request(4, key=(1,)), make_request(2, key=(0,), arrival_time=3)],),
        call="choose_victim([a, b])\n# a: id=4, key=(1,), arrival_time=0\n"
        "# b: id=2, key=(0,), arrival_time=3",
        steps=("The policy puts b in front of a, because b has the smaller key.",),
        result=4,
    ),
    hints=(
        "Say that a preempted request comes back and preempts the one for which it had to go. "
        "Which rule makes that impossible?",
        "One request must be safe from all others, so that it finishes. Which place in the queue's "
        "order has that guarantee, if no request may lose its K/V to one behind it?",
        "Python compares tuples from the left, and `max` and `min` take a `key`. Write the "
        "queue's order as such a key, and return an id.",
    ),
    right=(choose_victim, by_sorting),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "an important newcomer",
            JUDGE.on(
                ([UNIMPORTANT, NEWCOMER],),
                ([NEWCOMER, UNIMPORTANT, runner(2, (1, 0), priority=1, generated=1)],),
                ([NEWCOMER],),
            ),
        ),
        ("two equal requests, to the last token", two_equal),
        (
            "equal keys",
            JUDGE.on(
                *((each,) for each in ([OLD, NEW], [NEW, OLD], [NEW, TWIN, OLD], [TWIN, NEW])),
                *((each,) for each in ([FIRST, SECOND], [SECOND, FIRST], [EARLIEST, NEXT])),
            ),
        ),
        (
            "the key of another policy",
            JUDGE.on(
                ([FCFS_FIRST, FCFS_SECOND],),
                ([FCFS_SECOND, AGED, FCFS_FIRST],),
                ([runner(i, (1, n), arrival_time=9 - n) for i, n in ((5, 2), (6, 8), (7, 5))],),
            ),
        ),
        ("any running requests", JUDGE.on_drawn(any_running)),
        ("whole workloads, to the last token", whole_workloads),
    ),
    draw_call=draw_victims,
    equivalent_mutants={"running: reversed": "the order of the list does not matter"},
)
