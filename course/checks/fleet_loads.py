"""The fleet that a policy of the learner's own decides for, and the loads that it serves."""

import random
from dataclasses import dataclass

from nanogpt.fleet.costs import CALIBRATED_COST
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.workload import FleetRequest, Workload

FLEET = FleetConfig(
    name="yours",
    num_workers=3,
    batch_size=3,
    kv_tokens=3000,
    cost=CALIBRATED_COST,
    order="fifo",
    urgency="off",
    ageing_us=None,
    preemption_gap=None,
    routing="least_running",
    prefix_cache="radix",
    speculation=False,
    backoff=False,
    dispatch_us=2000,
)
_WAVES, _WAVE_US = 3, 420_000
_OF_EACH, _GAP_US = 15, 2_000  # requests of each priority in a wave, and the time between two
_NUM_LONG = 5  # of the most patient in a wave
_SLO_US = (200_000, 500_000, 1_000_000)
_NUM_OPENINGS = 10
NUM_REQUESTS = _WAVES * _OF_EACH * len(_SLO_US)


@dataclass(frozen=True, slots=True, repr=False)
class Load:
    """One of the loads, by its seed.

    Each wave is as much as the fleet can serve until the next one comes, and more than it can
    serve within 200 or 500 ms. So those with more time have to wait for those with less, and
    taking them in another order misses deadlines that could be kept. Loads differ in
    everything but how much there is to do.
    """

    seed: int

    def __repr__(self) -> str:
        return f"a snapshot out of a load of {NUM_REQUESTS} requests"

    def workload(self) -> Workload:
        """Waves of all priorities, in any order, on prompts that share their beginnings."""
        draw = random.Random(f"fleet policies {self.seed}")
        openings = [draw.randbytes(length) for length in _spread(draw, 300, 700, _NUM_OPENINGS)]
        requests: list[FleetRequest] = []
        for wave in range(_WAVES):
            priorities = list(range(len(_SLO_US))) * _OF_EACH
            draw.shuffle(priorities)
            own = _spread(draw, 20, 160, len(priorities))
            new = _spread(draw, 20, 60, len(priorities))
            patient = [i for i, priority in enumerate(priorities) if priority == 2]
            for i, length in zip(patient, _spread(draw, 200, 600, _NUM_LONG), strict=False):
                own[i] = length
            for i, priority in enumerate(priorities):
                arrival_us = wave * _WAVE_US + round((i + draw.random()) * _GAP_US)
                requests.append(
                    FleetRequest(
                        id=len(requests),
                        arrival_us=arrival_us,
                        prompt=tuple(draw.choice(openings) + draw.randbytes(own[i])),
                        max_new_tokens=new[i],
                        priority=priority,
                        deadline_us=arrival_us + _SLO_US[priority],
                    )
                )
        return Workload(tuple(requests), self.seed)


def _spread(draw: random.Random, low: int, high: int, count: int) -> list[int]:
    """Numbers evenly spread from low to high, in any order: luck does not change their sum."""
    numbers = [low + round((high - low) * (i + 0.5) / count) for i in range(count)]
    draw.shuffle(numbers)
    return numbers
