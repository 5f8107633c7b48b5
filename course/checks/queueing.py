"""Judging ranks in the queue: under a policy, and with a priority that ages."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from course.checks.comparing import Args, Mistake, alike
from course.checks.ranking import Ranking
from course.checks.requests import any_requests, draw_request, last_admitted, make_request
from course.showing import show
from nanogpt import policies
from nanogpt.policies import RequestView

_RANK_FIELDS = ("id", "priority", "arrival_time", "admitted_at")


def draw_ranks(name: str, args: Args) -> str:
    """Either of the two: sort_key has the request last, aged_key first."""
    shown = [
        draw_request(arg, _RANK_FIELDS) if isinstance(arg, RequestView) else show(arg)
        for arg in args
    ]
    return f"{name}({', '.join(shown)})"


def _rank_by(
    *, fcfs: Callable[[RequestView], Any], priority: Callable[[RequestView], Any]
) -> Callable[[str, RequestView], Any]:
    """A ranking of its own for each of the two policies."""
    return lambda policy, request: (fcfs if policy == "fcfs" else priority)(request)


def _by_arrival(request: RequestView) -> tuple[float, ...]:
    return (request.arrival_time,)


def _by_priority(request: RequestView) -> tuple[float, ...]:
    return (request.priority, request.arrival_time)


def _weighed(weight: float) -> Callable[[str, RequestView], Any]:
    return _rank_by(fcfs=_by_arrival, priority=lambda r: (weight * r.priority + r.arrival_time,))


def any_queues(rng: random.Random, count: int) -> list[list[Args]]:
    """Queues under "fcfs" and "priority" in turn, `count` of each."""
    return [
        [(policy, request) for request in any_requests(rng, 6)]
        for policy in ("fcfs", "priority") * count
    ]


_LAST_ADMISSION = (
    "A request keeps the place that its arrival gave it: its last admission says nothing about how "
    "long its reader has waited."
)
_POLICY = (
    'Priorities count under "priority" alone, and there they come first: look at what `policy` '
    "says."
)
_SHORTEST = (
    "Among equal priorities the earlier arrival goes first: with the shortest first, a long "
    "request may wait for ever."
)

SORT_KEY: Ranking[Callable[[str, RequestView], Any]] = Ranking(
    reference=_rank_by(fcfs=_by_arrival, priority=_by_priority),
    mistakes=(
        Mistake(
            "priority_sign",
            "Priority 0 is the most important and the smallest rank goes first: take the priority "
            "as it is, without a minus.",
            _rank_by(fcfs=_by_arrival, priority=lambda r: (-r.priority, r.arrival_time)),
        ),
        Mistake(
            "last_admission",
            _LAST_ADMISSION,
            _rank_by(
                fcfs=lambda r: (last_admitted(r),),
                priority=lambda r: (r.priority, last_admitted(r)),
            ),
        ),
        Mistake(
            "last_admission",
            _LAST_ADMISSION,
            _rank_by(fcfs=lambda r: (r.admitted_at,), priority=lambda r: (r.priority, None)),
        ),
        Mistake(
            "newest_first",
            "First come, first served: the earlier arrival has the smaller rank.",
            _rank_by(
                fcfs=lambda r: (-r.arrival_time,), priority=lambda r: (r.priority, -r.arrival_time)
            ),
        ),
        Mistake(
            "arrival_first",
            'Under "priority" the priority decides and the arrival breaks ties: tuples compare '
            "from the left.",
            _rank_by(fcfs=_by_arrival, priority=lambda r: (r.arrival_time, r.priority)),
        ),
        Mistake("ignores_policy", _POLICY, _rank_by(fcfs=_by_priority, priority=_by_priority)),
        Mistake("ignores_policy", _POLICY, _rank_by(fcfs=_by_arrival, priority=_by_arrival)),
        Mistake(
            "no_tie_break",
            "Among equal priorities the earlier arrival goes first, so the rank needs a second "
            "number.",
            _rank_by(fcfs=_by_arrival, priority=lambda r: (r.priority,)),
        ),
        *alike(
            "weighed",
            "One number cannot hold both: whatever a level is worth, somebody who arrived early "
            "enough overtakes a more important request, and here it never may.",
            *(_weighed(weight) for weight in (10, 50, 100, 1000, 10_000)),
        ),
        *alike(
            "by_id",
            "Ids are names: they say nothing about who came first.",
            _rank_by(fcfs=lambda r: (r.id,), priority=lambda r: (r.priority, r.id)),
            _rank_by(fcfs=_by_arrival, priority=lambda r: (r.priority, r.id)),
            _rank_by(fcfs=lambda r: (r.id,), priority=_by_priority),
        ),
        Mistake(
            "shortest_first",
            _SHORTEST,
            _rank_by(
                fcfs=_by_arrival,
                priority=lambda r: (r.priority, r.max_new_tokens - len(r.generated_tokens)),
            ),
        ),
    ),
    idea="The smaller rank goes first: look at what decides under this policy, and at what breaks "
    "a tie.",
    draw_call=draw_ranks,
    evidence=any_queues(random.Random(0), 2),
)


def _aged(id: int, priority: int, arrival: int) -> RequestView:
    return make_request(id, priority=priority, arrival_time=arrival)


def any_aged(rng: random.Random, rates: Sequence[float]) -> list[list[Args]]:
    """A queue for each rate, some of them long ago."""
    queues: list[list[Args]] = []
    for rate in rates:
        longest = rng.choice((6, 40, 40, 2000))
        queues.append(
            [
                (
                    make_request(i, priority=rng.randrange(5), arrival_time=rng.randrange(longest)),
                    rate,
                )
                for i in rng.sample(range(60), 6)
            ]
        )
    return queues


def uneven_ages() -> list[list[Args]]:
    """Rates that are no whole numbers, and high levels: where rounding shows for certain."""
    told = (
        (2.5, ((2, 0), (0, 4), (0, 6), (12, 0))),  # (priority, arrival)
        (0.5, ((4, 0), (0, 1), (0, 3))),
        (0.125, ((9, 0), (1, 1), (0, 2), (100, 0), (0, 12))),
        (1 / 3, ((4, 0), (0, 1), (0, 2), (30, 0))),
        (7.25, ((1, 0), (0, 7), (0, 8), (11, 3))),
        (4, ((9, 0), (8, 3))),
    )
    return [
        [
            (make_request(i, priority=p, arrival_time=arrival), rate)
            for i, (p, arrival) in enumerate(ages)
        ]
        for rate, ages in told
    ]


def _at_rate(fixed: float) -> Callable[[RequestView, float], Any]:
    return lambda r, rate: (r.arrival_time + fixed * r.priority,)


AGED_KEY: Ranking[Callable[[RequestView, float], Any]] = Ranking(
    reference=policies.aged_key,
    mistakes=(
        Mistake(
            "sign",
            "A larger number is a less important priority, which has to push the rank back: add "
            "it, do not take it away.",
            lambda r, rate: (r.arrival_time - rate * r.priority,),
        ),
        Mistake(
            "waiting_hurts",
            "Whoever arrived earlier has waited longer, and waiting has to help: the rank grows "
            "with the arrival.",
            lambda r, rate: (rate * r.priority - r.arrival_time,),
        ),
        Mistake(
            "rate_upside_down",
            "`rate` steps of waiting make up for one level of priority, not one step for `rate` "
            "levels.",
            lambda r, rate: (r.priority + rate * r.arrival_time,),
        ),
        Mistake(
            "no_ageing",
            "Here priority always wins, however long somebody has waited: one number has to hold "
            "both, so that they can make up for each other.",
            lambda r, rate: (r.priority, r.arrival_time),
        ),
        Mistake(
            "arrival_alone",
            "Here the priority does not count at all: a level is worth `rate` steps of waiting.",
            lambda r, rate: (r.arrival_time,),
        ),
        Mistake(
            "ignores_rate",
            "A level is worth `rate` steps of waiting, not one step.",
            lambda r, rate: (r.arrival_time + r.priority,),
        ),
        *alike(
            "ignores_rate",
            "How much a step of waiting is worth is what `rate` says: here it is always the same.",
            *(_at_rate(rate) for rate in (2, 4, 5, 8, 10, 100)),
        ),
        *alike(
            "whole_levels",
            "Every step of waiting counts, not only when a whole level is full: do not round.",
            lambda r, rate: (r.priority + r.arrival_time // rate,),
            lambda r, rate: (r.priority + r.arrival_time // rate, r.arrival_time),
            lambda r, rate: (r.priority + round(r.arrival_time / rate),),
        ),
        *alike(
            "rounds",
            "The rate need not be a whole number, and neither need the rank: do not round.",
            lambda r, rate: (r.arrival_time + round(rate * r.priority),),
            lambda r, rate: (r.arrival_time + int(rate * r.priority),),
            lambda r, rate: (r.arrival_time + int(rate) * r.priority,),
            lambda r, rate: (r.arrival_time + round(rate) * r.priority,),
            lambda r, rate: (r.arrival_time / max(1, int(rate)) + r.priority,),
        ),
        Mistake(
            "newest_first",
            "Among equals the one that has waited longer goes first.",
            lambda r, rate: (r.priority, -r.arrival_time),
        ),
    ),
    idea="At every step the order is that of `priority - (now - arrival_time) / rate`, and the "
    "rank has to give the same order without `now`.",
    draw_call=draw_ranks,
    evidence=[*any_aged(random.Random(0), (4, 3, 10)), *uneven_ages()],
)
