"""Seeded loads of two tiers.

One request in five is urgent: its SLO is 1.0 to 1.3 times its own prefill's time. The others have
3 to 10 times as long.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nanogpt.clock import CostModel
from nanogpt.validate import check_amount, check_int, show

URGENT_SHARE = 0.2
URGENT_FACTORS = (1.0, 1.3)
GENEROUS_FACTORS = (3.0, 10.0)

MOST_TOKENS, MOST_US = 10**6, 10**12
"""The most tokens of a prompt, and microseconds of a time: 11 days."""

SHORTEST_TOKENS = 16
LONGEST_TOKENS = 8000
LENGTH_SIGMA = 0.6
LENGTH_MU = 6.3348
"""Mean of a length's logarithm: between the limits, lengths average 675 tokens.

The source publishes no lengths; with this spread, arrival order gives its figures.
"""


@dataclass(frozen=True, slots=True)
class PrefillCost:
    """What a prefill costs: a pass by `model`, spread evenly over its layers, and `request_us`.

    `request_us` lies between the end of the pass and a request's first token: scheduling, messages
    between processes, sampling. The engine computes the next pass meanwhile.
    Raises: ValueError for a number that no pass can be timed with.
    """

    model: CostModel
    num_layers: int
    request_us: int = 0

    def __post_init__(self) -> None:
        check_int("num_layers", self.num_layers, 1, 10**6)
        check_int("request_us", self.request_us, 0, MOST_US)
        if not self.model.token_us or not self.pass_us(1):
            token, least = show(self.model.token_us), self.pass_us(1)
            raise ValueError(
                f"a token takes {token} us and a pass at least {least} us; both must be above 0"
            )

    @property
    def a_us(self) -> float:
        """The predicted line's microseconds per token."""
        return self.model.token_us

    @property
    def c_us(self) -> float:
        """The predicted line's constant, exact where the arithmetic takes longer than the floor."""
        return self.model.fixed_us + self.request_us

    def pass_us(self, tokens: int) -> int:
        """The time of a pass over so many tokens."""
        return self.model.step_us(tokens, 0)


POST_COST = PrefillCost(
    CostModel(
        "Llama-3.3-70B on four A100", modelled=True,
        fixed_us=17_133, floor_us=17_000, token_us=173.046, context_us=0, prompt_scale=1,
    ),
    num_layers=80,
    request_us=17_000,
)  # fmt: skip
"""The line that the post's author measured, 173.046 us per token and 34,133 us, as a cost model.

Half of the constant is charged to the pass and half to the request: the fit does not say how it is
split. Reading 140 GB of weights at 8 TB/s takes 17 ms.
"""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request of the load."""

    id: int
    arrival_us: int
    tokens: int
    urgent: bool
    slo_us: int

    @property
    def deadline_us(self) -> int:
        """The moment for which its first token is promised."""
        return self.arrival_us + self.slo_us


def two_tier_load(
    seed: int, requests_per_s: float, duration_s: float, cost: PrefillCost = POST_COST
) -> tuple[Arrival, ...]:
    """Poisson arrivals for so long, from an empty start. The same arguments give the same load.

    Raises: ValueError for a rate or a duration that is not above 0, or beyond 100,000.
    """
    check_int("the seed", seed, 0)
    for name, value in (("the rate", requests_per_s), ("the duration", duration_s)):
        check_amount(name, value, 10**5)
        if not value:
            raise ValueError(f"{name} is {value}; it must be above 0")
    draw = random.Random(f"two tiers, seed {seed}, {requests_per_s:.6f} requests/s")
    arrivals: list[Arrival] = []
    for request_id, arrival_us in enumerate(_arrival_times(draw, requests_per_s, duration_s)):
        tokens = _length(draw)
        urgent = draw.random() < URGENT_SHARE
        low, high = URGENT_FACTORS if urgent else GENEROUS_FACTORS
        factor = low + (high - low) * draw.random()
        slo_us = round(factor * (cost.pass_us(tokens) + cost.request_us))
        arrivals.append(Arrival(request_id, arrival_us, tokens, urgent, slo_us))
    return tuple(arrivals)


def check_load(arrivals: Sequence[Arrival]) -> None:
    """Raises: ValueError naming the first request of a load that cannot be run."""
    for arrival in arrivals:
        check_int("a request's id", arrival.id, 0)
        check_int(f"request {arrival.id}: tokens", arrival.tokens, 1, MOST_TOKENS)
        check_int(f"request {arrival.id}: arrival_us", arrival.arrival_us, 0, MOST_US)
        check_int(f"request {arrival.id}: slo_us", arrival.slo_us, 1, MOST_US)
    for early, late in pairwise(arrivals):
        if late.arrival_us < early.arrival_us or late.id <= early.id:
            raise ValueError(
                f"request {late.id} (at {late.arrival_us} us) follows request {early.id} (at "
                f"{early.arrival_us} us); a load is in order of arrival, with ids that rise"
            )


def _arrival_times(draw: random.Random, requests_per_s: float, duration_s: float) -> Iterator[int]:
    now_s = draw.expovariate(requests_per_s)
    while now_s < duration_s:
        yield round(now_s * 1e6)
        now_s += draw.expovariate(requests_per_s)


def _length(draw: random.Random) -> int:
    """A log-normal length, drawn again until it is within the limits."""
    while True:
        tokens = round(math.exp(draw.gauss(LENGTH_MU, LENGTH_SIGMA)))
        if SHORTEST_TOKENS <= tokens <= LONGEST_TOKENS:
            return tokens
