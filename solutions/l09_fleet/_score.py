"""A policy's score over several loads, beside FIFO's and the reference's on the same loads."""

import functools
import random
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeAlias

from course.checks.fleet_loads import NUM_REQUESTS, Load
from course.exercise import Misconception
from course.harness import Ask, Failure
from nanogpt.experiments.paired_statistics import Estimate, paired
from nanogpt.views.fleet_views import FleetSnapshot
from solutions.l09_fleet._moments import ANY_PAIR, draw_decision, example
from solutions.l09_fleet._policies import first_by, is_lost, pairs, reference
from solutions.l09_fleet._serving import Served, serve, serve_by_fifo

NUM_LOADS = 4
MARGIN = 0.20  # by how much attainment has to be above FIFO's, on average over the loads
TOLERANCE = 0.02  # by how much it may be below FIFO's on a single load
LONGEST_WAIT_US = 2_000_000  # how long a request may wait for its first token
WANTED = (
    f"at least {100 * MARGIN:+.1f} percentage points against FIFO on average, on no load less than "
    f"{-100 * TOLERANCE:.1f}, and no request waits longer than {LONGEST_WAIT_US / 1e6:g} s"
)

# --- why a policy does not pass -----------------------------------------------------------------


def leaving_out_the_lost(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    savable = (each for each in snapshot.waiting if not is_lost(snapshot, each))
    return reference(replace(snapshot, waiting=tuple(savable)))


def in_turn(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    for request, worker in pairs(snapshot):
        if worker is snapshot.workers[request.id % len(snapshot.workers)]:
            return request.id, worker.id
    return None


LEFT_OUT = Misconception(
    "left_out",
    "A request that is too late is not worth a slot.",
    f"A request waits longer than {LONGEST_WAIT_US / 1e6:g} s for its first token, or for ever. A "
    "request that is too late must be served as well: send it when no other needs the slot.",
    examples=(leaving_out_the_lost,),
)
HOLDS_BACK = Misconception(
    "holds_back",
    "Each worker gets its turn.",
    "The policy returns None while a worker has room for a waiting request, which wastes a slot. "
    "Look at every request and every worker before you end the round.",
    examples=((in_turn),),
)
ARRIVAL_ORDER = Misconception(
    "arrival_order",
    "First come, first served, where it fits.",
    "The policy nearly always takes the oldest request, as FIFO does. Look at which deadlines are "
    "near.",
    examples=(first_by(lambda snapshot, request: request.arrival_us),),
)
TAKES_THE_PATIENT = Misconception(
    "takes_the_patient",
    "The shortest request goes first.",
    "The policy often takes a request that can wait, while another with a nearer deadline could "
    "still meet it. Look at the deadlines.",
    examples=((first_by(lambda snapshot, request: request.remaining_us)),),
)
SERVES_THE_LOST = Misconception(
    "serves_the_lost",
    "A priority level is worth a tenth of a second.",
    "The policy often serves a request that is too late, while another could still meet its "
    "deadline. Going first does not help a request whose `now_us + remaining_us` is past its "
    "deadline.",
    examples=(first_by(lambda snapshot, request: request.arrival_us + 100_000 * request.priority),),
)
LUCKY = Misconception(
    "lucky",
    "A good average is enough.",
    "The average is good, but on one load the policy is worse than FIFO, and the next load may be "
    "like it. Look at what differs on that load.",
)
NOT_ENOUGH = Misconception(
    "not_enough",
    "Any order is better than FIFO.",
    f"The policy does not beat FIFO by {100 * MARGIN:.0f} percentage points of attainment on "
    "average. Which requests still meet their deadline if they go first, and which are too late in "
    "any case?",
)
WEAK = (LEFT_OUT, HOLDS_BACK, ARRIVAL_ORDER, TAKES_THE_PATIENT, SERVES_THE_LOST)

# --- the score ----------------------------------------------------------------------------------

Baseline: TypeAlias = tuple[float, float]  # FIFO's attainment and the reference's on one load

# Requests in time on the loads of the lesson page, so that its first verdict is quick as well.
RECORDED: dict[int, Baseline] = {
    seed: (fifo / NUM_REQUESTS, best / NUM_REQUESTS)
    for seed, fifo, best in (
        (4061507595, 90, 131),
        (2795724557, 96, 133),
        (884821738, 91, 130),
        (1575060514, 86, 126),
    )
}


@functools.cache
def baseline(load: Load) -> Baseline:
    """The attainment of FIFO and of the reference on a load."""
    known = RECORDED.get(load.seed)
    return known or (serve_by_fifo(load).attainment, serve(reference, load).attainment)


@dataclass(frozen=True, slots=True)
class Score:
    """A policy beside FIFO and the reference on the same loads, in the same order."""

    yours: tuple[Served, ...]
    baselines: tuple[Baseline, ...]

    @property
    def difference(self) -> Estimate:
        """Attainment against FIFO's, in percentage points."""
        fifo = [100 * fifo for fifo, _ in self.baselines]
        return paired(fifo, [100 * served.attainment for served in self.yours])

    @property
    def longest_wait_us(self) -> int | None:
        """The longest wait on any load; None when a request never got a token."""
        waits = [served.longest_wait_us for served in self.yours]
        return None if None in waits else max(wait for wait in waits if wait is not None)

    def problem(self) -> Misconception | None:
        """Why the policy does not pass, by its most frequent habit; None if it passes."""
        wait_us = self.longest_wait_us
        waits_too_long = wait_us is None or wait_us > LONGEST_WAIT_US
        pairs = zip(self.yours, self.baselines, strict=True)
        # Rounded, because shares may lie exactly on a limit: 0.48 - 0.5 is not -0.02 in floats.
        gains = [round(mine.attainment - fifo, 9) for mine, (fifo, _) in pairs]
        worst, mean = min(gains), round(fmean(gains), 9)
        if not waits_too_long and worst >= -TOLERANCE and mean >= MARGIN:
            return None
        if wait_us is not None and self._share("held", "rounds") > 0.25:
            return HOLDS_BACK
        if waits_too_long:
            return LEFT_OUT
        if mean >= MARGIN:
            return LUCKY
        if self._share("oldest", "choices") > 0.8:
            return ARRIVAL_ORDER
        patient, lost = self._share("patient", "choices"), self._share("lost", "choices")
        if max(patient, lost) > 0.1:
            return TAKES_THE_PATIENT if patient > lost else SERVES_THE_LOST
        return NOT_ENOUGH

    def _share(self, what: str, of: str) -> float:
        times = sum(getattr(served.habits, what) for served in self.yours)
        return times / max(1, sum(getattr(served.habits, of) for served in self.yours))

    def table(self) -> str:
        """Load by load: attainment in percent, and your longest wait in seconds."""
        lines = ["load  FIFO  yours  reference  longest wait"]
        pairs = zip(self.yours, self.baselines, strict=True)
        for number, (yours, (fifo, best)) in enumerate(pairs, 1):
            shares = f"{number:4}{fifo:6.0%}{yours.attainment:7.0%}{best:11.0%}"
            lines.append(f"{shares}{seconds(yours.longest_wait_us):>14}")
        return "\n".join(lines)

    def summary(self) -> str:
        """The mean difference with its interval, and the longest wait of all."""
        paired = self.difference
        interval = (
            ""
            if paired.low is None or paired.high is None
            else f" (95 % interval {paired.low:+.1f} to {paired.high:+.1f})"
        )
        return (
            f"{paired.mean:+.1f} percentage points against FIFO on average{interval}; longest wait "
            f"{seconds(self.longest_wait_us)}"
        )


def seconds(wait_us: int | None) -> str:
    """A wait in words."""
    return "for ever" if wait_us is None else f"{wait_us / 1e6:.2f} s"


# --- the check ----------------------------------------------------------------------------------


def scored_loads(rng: random.Random) -> list[Load]:
    """The loads that a policy is scored on."""
    return [Load(rng.getrandbits(32)) for _ in range(NUM_LOADS)]


def judge_loads(ask: Ask, rng: random.Random) -> Failure | None:
    """Each load is served by the answer, by FIFO and by the reference."""
    loads = scored_loads(rng)
    yours: list[Served] = []
    for load in loads:
        served = ask(load)
        if served.problem is not None:
            rows = example(ask.name, served.snapshot, ANY_PAIR, draw_decision(served.decision))
            return replace(served.problem, example=rows)
        yours.append(served)
    score = Score(tuple(yours), tuple(map(baseline, loads)))
    problem, table = score.problem(), ("by load", score.table())
    if problem is None:
        ask.shown = (table, ("all in all", score.summary()))
        return None
    return problem.failure(
        (
            ("input", f"{NUM_LOADS} loads of {NUM_REQUESTS} requests"),
            ("expected", WANTED),
            ("got", score.summary()),
            table,
        )
    )
