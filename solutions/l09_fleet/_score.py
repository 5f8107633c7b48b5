"""A policy's score over several loads, beside FIFO's and the reference's on the same ones."""

import functools
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeAlias

from course.checks.fleet_loads import NUM_REQUESTS, Load
from course.exercise import Misconception
from nanogpt.experiments.paired_statistics import Estimate, paired
from nanogpt.fleet.fleet_views import FleetSnapshot
from solutions.l09_fleet._policies import first_by, is_lost, pairs, reference
from solutions.l09_fleet._serving import Served, serve, serve_by_fifo

NUM_LOADS = 4
MARGIN = 0.20  # by how much attainment has to be above FIFO's, on average over the loads
TOLERANCE = 0.02  # by how much it may be below FIFO's on a single load
LONGEST_WAIT_US = 2_000_000  # how long a request may wait for its first token
WANTED = (
    f"at least {100 * MARGIN:+.1f} percentage points to FIFO on average, on no load less than "
    f"{-100 * TOLERANCE:.1f}, and no request waits longer than {LONGEST_WAIT_US / 1e6:g} s"
)

# --- what keeps a policy from passing -----------------------------------------------------------


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
    "What is too late is not worth a place.",
    f"A request waits longer than {LONGEST_WAIT_US / 1e6:g} s for its first token, or for ever: "
    "being too late is no reason to be left out, so send it too when no other needs the place.",
    examples=(leaving_out_the_lost,),
)
HOLDS_BACK = Misconception(
    "holds_back",
    "Each worker in turn.",
    "You answer None while a request that waits has room at a worker, and an idle place serves "
    "none: look at every request and every worker before you end the round.",
    examples=((in_turn),),
)
ARRIVAL_ORDER = Misconception(
    "arrival_order",
    "First come, first served, where it fits.",
    "You nearly always take the oldest request, which is what FIFO does: look at which deadlines "
    "are near.",
    examples=(first_by(lambda snapshot, request: request.arrival_us),),
)
TAKES_THE_PATIENT = Misconception(
    "takes_the_patient",
    "The shortest first.",
    "You often take a request that has time, while the deadline of another is nearer and can still "
    "be kept: look at the deadlines.",
    examples=((first_by(lambda snapshot, request: request.remaining_us)),),
)
SERVES_THE_LOST = Misconception(
    "serves_the_lost",
    "A level is worth a tenth of a second.",
    "You often serve a request that is too late already, while another could still make it: ask "
    "what going first helps, once `now_us + remaining_us` is past the deadline.",
    examples=(first_by(lambda snapshot, request: request.arrival_us + 100_000 * request.priority),),
)
LUCKY = Misconception(
    "lucky",
    "What is good on average is good.",
    "On average it is good, but on one load it is worse than FIFO, and the next load may be such a "
    "one: look at what is different there.",
)
NOT_ENOUGH = Misconception(
    "not_enough",
    "Any order is better than none.",
    f"It does not beat FIFO by {100 * MARGIN:.0f} percentage points of attainment on average: ask "
    "which requests are helped by going first, and which no more.",
)
WEAK = (LEFT_OUT, HOLDS_BACK, ARRIVAL_ORDER, TAKES_THE_PATIENT, SERVES_THE_LOST)

# --- the score ----------------------------------------------------------------------------------

Baseline: TypeAlias = tuple[float, float]  # FIFO's attainment and the reference's on one load

# How many requests are in time on the page's own loads, so that its first verdict is quick too.
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
    """What FIFO and the reference make of a load, whatever the answer is."""
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
        """Of all loads; None when a request never got a token."""
        waits = [served.longest_wait_us for served in self.yours]
        return None if None in waits else max(wait for wait in waits if wait is not None)

    def problem(self) -> Misconception | None:
        """Why the policy does not pass, if it does not; what it does most often comes first."""
        wait_us = self.longest_wait_us
        waits_too_long = wait_us is None or wait_us > LONGEST_WAIT_US
        pairs = zip(self.yours, self.baselines, strict=True)
        # Rounded, since shares of whole numbers come to lie on the limits: 0.48 - 0.5 is not -0.02.
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
            f"{paired.mean:+.1f} percentage points to FIFO on average{interval}; longest wait "
            f"{seconds(self.longest_wait_us)}"
        )


def seconds(wait_us: int | None) -> str:
    """A wait in words."""
    return "for ever" if wait_us is None else f"{wait_us / 1e6:.2f} s"
