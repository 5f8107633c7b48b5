"""Requests drawn at random."""

import random
from dataclasses import replace

from course.checks.comparing import Args
from course.checks.requests import make_request
from nanogpt.views.request_view import RequestView


def any_requests(rng: random.Random, count: int) -> list[RequestView]:
    """Requests with ties in priority and arrival, and with arrivals too far apart for any weight.

    Some were admitted before; ids are not in the order of arrival.
    """
    ids = rng.sample(range(60), count)
    steps = [rng.choice((rng.randrange(4), rng.randrange(40), rng.randrange(10**6))) for _ in "abc"]
    levels = [0, 1, 2, rng.randrange(3, 30)]
    requests: list[RequestView] = []
    for id in ids:
        arrival = rng.choice(steps)
        admitted_at = arrival + rng.randrange(9) if rng.random() < 0.5 else None
        generated = rng.randrange(5) if admitted_at is not None else 0
        requests.append(
            make_request(
                id,
                rng.randint(1, 6),
                generated,
                priority=rng.choice(levels),
                arrival_time=arrival,
                admitted_at=admitted_at,
                max_new_tokens=generated + rng.randint(1, 9),
            )
        )
    return requests


def last_admitted(request: RequestView) -> int:
    """The step of the last admission, or of the arrival if it was never admitted."""
    return request.arrival_time if request.admitted_at is None else request.admitted_at


def any_running(rng: random.Random) -> list[Args]:
    """Running requests, from few to many; each part of the order decides in some of the cases.

    A key has one number or several, which need not be the priority and the arrival.
    """
    cases: list[Args] = []
    for index, count in enumerate((2, 2, 2, 2, 3, 3, 3, 3, 3, 3, *[4] * 15)):
        requests = any_requests(rng, count)
        rng.shuffle(requests)
        active: list[RequestView] = []
        for request in requests:
            keys = (
                (request.arrival_time,),
                (request.priority, request.arrival_time),
                (float(request.priority % 2),),
                (rng.randrange(2), rng.randrange(2)),
                (request.max_new_tokens % 2, 0, rng.randrange(2)),
            )
            active.append(
                replace(
                    request,
                    key=keys[index % len(keys)],
                    admitted_at=last_admitted(request),
                    kv_tokens=request.num_tokens - rng.randrange(2),
                )
            )
        cases.append((active,))
    return cases
