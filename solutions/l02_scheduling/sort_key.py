"""Exercise 2.1: the key of a request in the queue."""

import random
from collections.abc import Callable
from typing import Any

from course.checks.comparing import Args
from course.checks.ranking import Ranking, draw_ranked
from course.checks.requests import make_request
from course.exercise import Exercise, Misconception, Task
from course.format_values import show
from course.harness import Ask, Failure, Rows
from nanogpt.views.request_view import RequestView
from solutions.l02_scheduling._requests import any_requests, last_admitted

# --- right answers ------------------------------------------------------------------------------


def sort_key(policy: str, request: RequestView) -> tuple[float, ...]:
    """Return the request's key in the queue: a tuple of numbers; the smallest goes first."""
    # Tuples compare from the left: the first number decides, the next one breaks ties. The arrival
    # never changes, not even when a preempted request comes back to the queue.
    if policy == "fcfs":
        return (request.arrival_time,)
    if policy == "priority":
        return (request.priority, request.arrival_time)
    raise ValueError(f"there is no policy {policy!r}; choose 'fcfs' or 'priority'")


def with_match(policy: str, request: RequestView) -> tuple[float, ...]:
    match policy:
        case "fcfs":
            return request.arrival_time, request.id
        case "priority":
            return request.priority, request.arrival_time, request.id
        case _:
            raise ValueError(policy)


# --- wrong ideas --------------------------------------------------------------------------------


def under_priority(key: Callable[[RequestView], Any]) -> Callable[[str, RequestView], Any]:
    """The right answer, but with another key under "priority"."""
    return lambda policy, r: key(r) if policy == "priority" else sort_key(policy, r)


def with_arrival(arrival: Callable[[RequestView], Any]) -> Callable[[str, RequestView], Any]:
    """The right answer, but with another arrival."""
    return lambda policy, r: (*sort_key(policy, r)[:-1], arrival(r))


def weighed(weight: int) -> Callable[[str, RequestView], Any]:
    return under_priority(lambda r: (weight * r.priority + r.arrival_time,))


UNKNOWN_POLICY = Misconception(
    "unknown_policy",
    "The key under an unknown policy is None.",
    "There is no policy of that name: raise a ValueError. Otherwise a typo in a setting silently "
    "decides the order of the queue.",
    examples=((lambda policy, r: sort_key(policy, r) if policy in ("fcfs", "priority") else None),),
)
WRONG_ERROR = Misconception(
    "wrong_error",
    "Any error will do for an unknown policy.",
    lambda error: (
        f"An unknown policy is a wrong value, so the error is a ValueError; this one is of type "
        f"{error}."
    ),
    examples=(
        (
            lambda policy, r: {"fcfs": sort_key("fcfs", r), "priority": sort_key("priority", r)}[
                policy
            ]
        ),
    ),
)
MISCONCEPTIONS = (
    Misconception(
        "not_a_tuple", "A key is a number.", examples=(lambda policy, r: sum(sort_key(policy, r)),)
    ),
    Misconception(
        "not_numbers",
        "The key begins with the name of its policy.",
        examples=(lambda policy, r: (policy, *sort_key(policy, r)),),
    ),
    Misconception(
        "priority_sign",
        "A more important request has a larger priority number.",
        "Priority 0 is the most important and the smallest key goes first: take the priority as "
        "it is, without a minus.",
        under_priority(lambda r: (-r.priority, r.arrival_time)),
    ),
    Misconception(
        "last_admission",
        "A preempted request's place in the queue is set by its last admission.",
        "A request keeps the place that its arrival gave it. Its last admission does not say how "
        "long its user has waited.",
        with_arrival(last_admitted),
        same_result=(with_arrival(lambda r: r.admitted_at),),
    ),
    Misconception(
        "arrival_first",
        "Arrival decides, and priority only breaks ties.",
        'Under "priority" the priority decides and the arrival breaks ties: tuples compare from '
        "the left.",
        under_priority(lambda r: (r.arrival_time, r.priority)),
    ),
    Misconception(
        "ignores_policy",
        "Priority counts under every policy.",
        'Priorities count only under "priority", and there they come first: look at what `policy` '
        "says.",
        lambda policy, r: sort_key("priority", r),
        same_result=(lambda policy, r: sort_key("fcfs", r),),
    ),
    Misconception(
        "no_tie_break",
        "The priority is enough.",
        "Among equal priorities the earlier arrival goes first, so the key needs a second number.",
        under_priority(lambda r: (r.priority,)),
    ),
    Misconception(
        "weighed",
        "One priority level is worth ten steps of waiting.",
        "One number cannot hold priority and arrival. Whatever a level is worth, a request that "
        "arrived early enough would overtake a more important one, which must never happen here.",
        weighed(10),
        same_result=(weighed(100), weighed(1000)),
    ),
    Misconception(
        "by_id",
        "The request that arrived first has the smaller id.",
        "Ids are names: they say nothing about which request arrived first.",
        with_arrival(lambda r: r.id),
        same_result=(under_priority(lambda r: (r.priority, r.id)),),
    ),
    UNKNOWN_POLICY,
    WRONG_ERROR,
)

# --- cases --------------------------------------------------------------------------------------


def under(policy: str, *requests: RequestView) -> list[Args]:
    """A queue under this policy."""
    return [(policy, request) for request in requests]


def any_queues(rng: random.Random, count: int) -> list[list[Args]]:
    """Queues under "fcfs" and "priority" in turn, `count` of each."""
    return [under(policy, *any_requests(rng, 6)) for policy in ("fcfs", "priority") * count]


def unknown_policy(ask: Ask, rng: random.Random) -> Failure | None:
    for policy in ("shortest", "prio", "FCFS", ""):
        called = ask.call(policy, make_request(0), may_raise=True)
        if called.raised(ValueError):
            continue
        error = called.error and called.error.kind
        rows: Rows = (
            ("input", ask.draw_call(ask.name, ask.args)),
            ("expected", "ValueError"),
            ("got", error or show(called.value)),
        )
        return WRONG_ERROR.failure(rows, error) if error else UNKNOWN_POLICY.failure(rows)
    return None


JUDGE = Ranking(
    sort_key,
    MISCONCEPTIONS,
    "The smaller key goes first: look at which number decides under this policy, and which one "
    "breaks ties.",
    evidence=any_queues(random.Random(0), 2),
)

OLD = make_request(0, priority=2, arrival_time=0)
IMPORTANT = make_request(1, priority=0, arrival_time=1)
# The less important request arrived much earlier.
EARLY = make_request(3, priority=9, arrival_time=0)
LATE = make_request(1, priority=8, arrival_time=2 * 10**12)
LONG = make_request(0, priority=1, arrival_time=2, max_new_tokens=30)
SHORT = make_request(1, priority=1, arrival_time=5, max_new_tokens=3)
BACK = make_request(0, priority=1, arrival_time=2, admitted_at=9, generated=3)
NEW = make_request(1, priority=1, arrival_time=6)

EXERCISE = Exercise(
    number=1,
    title="The key of a request",
    minutes=6,
    points=1,
    task=Task(
        rules=(
            "Return the key of `request` in the queue: a tuple of numbers. The smallest key goes "
            "first, and tuples compare from the left.",
            'Under "fcfs" requests go in order of arrival. Under "priority" they go by '
            "`request.priority`, 0 before 1 before 2, and among equal priorities in order of "
            "arrival.",
            "For any other policy raise a `ValueError`.",
            "`request.arrival_time` is the step at which the request arrived. "
            "`request.admitted_at` is the step at which it last left the queue (None: never).",
        ),
        args=("fcfs", make_request(0, priority=2, arrival_time=5)),
        call='sort_key("fcfs", request)    # priority=2, arrival_time=5',
        steps=(
            "Under FCFS only the arrival decides, so the key is one number: 5.",
            "A request that arrived at step 4 has the key (4,) and goes first, because 4 < 5.",
        ),
        result=(5,),
    ),
    hints=(
        "Tuples compare from the left. Which number decides, and which one only breaks ties?",
        "Under FCFS one number is enough. Under priority you need two. Priority 0 is the most "
        "important, and the smallest key goes first: does either number need a minus?",
        "Three branches: one per policy and one for the rest. Before you write the code, write "
        "each key for a request of priority 1 that arrived at step 5.",
    ),
    right=(sort_key, with_match),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "two requests, two policies",
            JUDGE.on(under("fcfs", OLD, IMPORTANT), under("priority", OLD, IMPORTANT)),
        ),
        ("far apart", JUDGE.on(under("priority", EARLY, LATE), under("fcfs", EARLY, LATE))),
        ("equal priorities", JUDGE.on(under("priority", LONG, SHORT))),
        (
            "a preempted request",
            JUDGE.on(under("priority", BACK, NEW), under("fcfs", BACK, NEW)),
        ),
        ("a policy that does not exist", unknown_policy),
        ("any queue", JUDGE.on_drawn(lambda rng: any_queues(rng, 4))),
    ),
    draw_call=draw_ranked,
)
