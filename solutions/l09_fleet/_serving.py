"""A load served by a policy: its attainment, its longest wait, and the policy's habits.

A load is served inside one call of the answer, so one time limit holds for all of its decisions
and only plain data comes out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from course.checks.fleet_loads import FLEET, Load
from course.exercise import Adapted
from course.harness import Failure
from nanogpt.fleet.fleet_policies import FleetPolicies
from nanogpt.fleet.simulation import Simulation
from nanogpt.views.fleet_views import FleetSnapshot
from solutions.l09_fleet._decisions import illegal, pair_of
from solutions.l09_fleet._policies import has_room, is_lost

# The same fleet and caches: each arrival goes to the next worker and queues there.
FIFO = replace(FLEET, name="FIFO", routing="round_robin")


@dataclass(frozen=True, slots=True)
class Habits:
    """How often a policy did something that it might have done better.

    `choices` are decisions when several requests had room. In so many of them it took the `oldest`
    request, a `lost` one although another could be saved, or a `patient` one although another with
    a nearer deadline could be saved. `rounds` are the rounds that it ended; in `held` of them a
    request still had room.
    """

    choices: int = 0
    oldest: int = 0
    lost: int = 0
    patient: int = 0
    rounds: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class Served:
    """How a policy served a load, or the problem that ended it.

    `attainment` is the share of all arrivals that finished by their deadline; `longest_wait_us`
    is None when a request never got a token.
    """

    attainment: float
    longest_wait_us: int | None
    habits: Habits
    problem: Failure | None = None
    snapshot: FleetSnapshot | None = None
    decision: Any = None


class IllegalError(Exception):
    """Ends a load at an illegal decision."""

    def __init__(self, problem: Failure, snapshot: FleetSnapshot, decision: Any) -> None:
        super().__init__(problem.idea)
        self.served = Served(0.0, None, Habits(), problem, snapshot, decision)


class Policy(Adapted):
    """A policy as a function of a snapshot, or of a whole load."""

    def __call__(self, what: FleetSnapshot | Load) -> Any:
        """One decision for a snapshot, or a whole load served."""
        if isinstance(what, Load):
            return serve(self._function, what)
        return self._function(what)


def serve(function: Callable[[FleetSnapshot], Any], load: Load) -> Served:
    """Serve a load by a policy. Raises: whatever the policy raises."""
    habits = dict.fromkeys(Habits.__slots__, 0)

    def decide(snapshot: FleetSnapshot) -> tuple[int, int] | None:
        answer = function(snapshot)
        problem = illegal(snapshot, answer)
        if problem is not None:
            raise IllegalError(problem, snapshot, answer)
        decision = pair_of(answer)
        observe(habits, snapshot, decision)
        return decision

    simulation = Simulation(FLEET, load.workload(), FleetPolicies(decide=decide))
    try:
        simulation.advance()
    except IllegalError as error:
        return error.served
    return summary(simulation, Habits(**habits))


def serve_by_fifo(load: Load) -> Served:
    """The baseline on a load."""
    simulation = Simulation(FIFO, load.workload())
    simulation.advance()
    return summary(simulation, Habits())


def summary(simulation: Simulation, habits: Habits) -> Served:
    run = simulation.result()
    waits_us: list[int] = []
    for outcome, request in zip(run.outcomes, run.workload.requests, strict=True):
        if outcome.first_token_us is not None:
            waits_us.append(outcome.first_token_us - request.arrival_us)
    longest_us = max(waits_us) if len(waits_us) == len(run.outcomes) else None
    return Served(fmean(outcome.attained for outcome in run.outcomes), longest_us, habits)


def observe(
    habits: dict[str, int], snapshot: FleetSnapshot, decision: tuple[int, int] | None
) -> None:
    """Count the decision under the habits that it shows."""
    able = [
        request
        for request in snapshot.waiting
        if any(has_room(request, worker) for worker in snapshot.workers)
    ]
    if decision is None:
        habits["rounds"] += 1
        habits["held"] += bool(able)
        return
    if len(able) > 1:
        chosen = next(request for request in able if request.id == decision[0])
        saved = [request.deadline_us for request in able if not is_lost(snapshot, request)]
        habits["choices"] += 1
        habits["oldest"] += chosen is able[0]
        if saved and is_lost(snapshot, chosen):
            habits["lost"] += 1
        elif saved and min(saved) < chosen.deadline_us:
            habits["patient"] += 1
