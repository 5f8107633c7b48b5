"""Seeded loads for the fleet: arrivals, prompts, priorities, deadlines.

Every kind of draw has a random stream of its own, so that no policy and no other setting can shift
it: two fleets meet the identical load. Which drafts are accepted belongs to the load too: see
`nanogpt.fleet.speculating`.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from nanogpt.validate import check_int, show

Scenario = Literal["steady", "burst", "mixed_priority"]

MOST_RPS, MOST_S, MOST_SEED = 10**6, 86_400, 2**63
_MOST = {
    "id": 2**53, "arrival_us": MOST_S * 10**6, "deadline_us": 2**53, "priority": 10**6,
    "max_new_tokens": 10**9,
}  # fmt: skip
"""The largest numbers of a request, which JSON and a run of seconds can hold."""

SOURCE_RPS = 30.0
"""The rate at which the scenarios are the source's."""
NUM_PROMPTS = 200
NUM_SYSTEM_PROMPTS = 12
SYSTEM_TOKENS = (24, 320)
"""Lengths of the openings that several prompts of the pool share."""

SHORTEST_TOKENS, LONGEST_TOKENS = 10, 1500
LENGTH_MU, LENGTH_SIGMA = 5.5, 1.0
"""Of the logarithm of a prompt's length."""
SHORTEST_OUTPUT, LONGEST_OUTPUT = 20, 256
FEWEST_KV_TOKENS = SHORTEST_TOKENS + SHORTEST_OUTPUT - 1
"""KV tokens of the smallest request."""

PRIORITY_WEIGHTS = (1, 2, 5, 8, 10, 10, 10, 10, 12, 12)
"""How often each priority comes, from 0, the most urgent: the source's weights, reversed."""
ACCEPTANCE_BETA = (8.0 * 0.85, 8.0 * (1 - 0.85))
"""Parameters of the Beta distribution of the requests' acceptances: 0.85 on average."""


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """A request of the load.

    `prompt`: its tokens; `priority`: 0, the most urgent, to 9; `acceptance`: the probability that
    one of its draft tokens is accepted.
    """

    id: int
    arrival_us: int
    prompt: tuple[int, ...]
    max_new_tokens: int
    priority: int
    deadline_us: int
    acceptance: float = 0.85

    @property
    def kv_tokens_needed(self) -> int:
        """KV tokens to reserve for it: the last generated token needs none."""
        return len(self.prompt) + self.max_new_tokens - 1


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in order of arrival, and the seed of their drafts.

    Raises: ValueError naming the first request that cannot be run.
    """

    requests: tuple[FleetRequest, ...]
    seed: int = 0
    scenario: str = "by hand"
    requests_per_s: float = 0.0
    duration_s: float = 0.0

    def __post_init__(self) -> None:
        for request in self.requests:
            for name, most in _MOST.items():
                check_int(f"{name} of a request", getattr(request, name), -most, most)
            if min(len(request.prompt), request.max_new_tokens) < 1:
                raise ValueError(
                    f"request {request.id} has {len(request.prompt)} prompt tokens and "
                    f"max_new_tokens {request.max_new_tokens}; both must be at least 1"
                )
            if request.arrival_us < 0 or request.priority < 0 or not 0 <= request.acceptance <= 1:
                raise ValueError(
                    f"request {request.id} arrives at {request.arrival_us} us with priority "
                    f"{request.priority} and acceptance {show(request.acceptance)}; the first two "
                    "must be at least 0, the last from 0 to 1"
                )
        for early, late in pairwise(self.requests):
            if late.arrival_us < early.arrival_us or late.id <= early.id:
                raise ValueError(
                    f"request {late.id} (at {late.arrival_us} us) follows request {early.id} (at "
                    f"{early.arrival_us} us); a load is in order of arrival, with ids that rise"
                )


def make_workload(
    scenario: Scenario, requests_per_s: float, duration_s: float, seed: int
) -> Workload:
    """Poisson arrivals for so long, from an empty start. The same arguments give the same load.

    At 30 requests/s the scenarios are the source's: "steady" 30 all along; "burst" 5, then 200
    for 5 s (at most a third of the duration) from a third of it on, then 5; "mixed_priority" 30,
    with 80 for 10 s (at most half of it) from a quarter on. Another rate scales all of them.

    Raises: ValueError for an unknown scenario or a number outside its limits.
    """
    for name, value, most in (("rate", requests_per_s, MOST_RPS), ("duration", duration_s, MOST_S)):
        if not 0 < value <= most:
            raise ValueError(f"the {name} is {show(value)}; it must be above 0 and at most {most}")
    check_int("seed", seed, -MOST_SEED, MOST_SEED)
    rates = phases(scenario, requests_per_s, duration_s)

    def stream(kind: str) -> random.Random:
        return random.Random(f"fleet load, seed {seed}, {kind}")

    arrivals, lengths, choices = stream("arrivals"), stream("lengths"), stream("prompts")
    priorities, acceptances = stream("priorities"), stream("acceptance")
    pool = _prompt_pool(stream("prompt pool"))
    requests: list[FleetRequest] = []
    for request_id, arrival_us in enumerate(_arrival_times(arrivals, rates)):
        length = int(lengths.lognormvariate(LENGTH_MU, LENGTH_SIGMA))
        priority = priorities.choices(range(10), PRIORITY_WEIGHTS)[0]
        requests.append(
            FleetRequest(
                id=request_id,
                arrival_us=arrival_us,
                prompt=choices.choice(pool)[: max(SHORTEST_TOKENS, min(length, LONGEST_TOKENS))],
                max_new_tokens=lengths.randint(SHORTEST_OUTPUT, LONGEST_OUTPUT),
                priority=priority,
                deadline_us=arrival_us + slo_us(priority),
                acceptance=acceptances.betavariate(*ACCEPTANCE_BETA),
            )
        )
    return Workload(tuple(requests), seed, scenario, requests_per_s, duration_s)


def slo_us(priority: int) -> int:
    """The time until the deadline: 0.5 s for priorities 0 to 2, 2 s for 3 to 5, else 5 s."""
    if priority <= 2:
        return 500_000
    return 2_000_000 if priority <= 5 else 5_000_000


def phases(scenario: str, rps: float, duration_s: float) -> list[tuple[float, float]]:
    """(requests per second, end in seconds) of each phase.

    Raises: ValueError for an unknown scenario.
    """
    if scenario == "steady":
        return [(rps, duration_s)]
    if scenario == "burst":
        start, length = duration_s / 3, min(5.0, duration_s / 3)
        quiet, loud = rps / 6, rps * 20 / 3
    elif scenario == "mixed_priority":
        start, length = duration_s / 4, min(10.0, duration_s / 2)
        quiet, loud = rps, rps * 8 / 3
    else:
        among = ", ".join(get_args(Scenario))
        raise ValueError(f"there is no scenario {scenario!r}; choose from {among}")
    return [(quiet, start), (loud, start + length), (quiet, duration_s)]


def _arrival_times(draw: random.Random, phases: Sequence[tuple[float, float]]) -> Iterator[int]:
    """Poisson arrivals in microseconds: unit gaps, scaled by the rate of the phase."""
    now_s, gap = 0.0, draw.expovariate(1.0)
    for rate, end_s in phases:
        while now_s + gap / rate < end_s:
            now_s += gap / rate
            yield round(now_s * 1e6)
            gap = draw.expovariate(1.0)
        gap -= (end_s - now_s) * rate
        now_s = end_s


def _prompt_pool(draw: random.Random) -> list[tuple[int, ...]]:
    """Prompts of maximal length, each a shared opening and its own text, tokens 0 to 255."""
    openings = [draw.randbytes(draw.randint(*SYSTEM_TOKENS)) for _ in range(NUM_SYSTEM_PROMPTS)]
    return [
        tuple((draw.choice(openings) + draw.randbytes(LONGEST_TOKENS))[:LONGEST_TOKENS])
        for _ in range(NUM_PROMPTS)
    ]
