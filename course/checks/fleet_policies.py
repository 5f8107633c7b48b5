"""Scoring a fleet policy of the learner's own: legal decisions, then loads that it has not seen.

A load is served inside one call of the answer, so that one limit holds for all of its decisions
and only plain data comes out. Two policies meet the identical load, and are compared in pairs.
"""

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from course.checks.comparing import a_kind
from course.showing import show
from nanogpt.experiments.paired_statistics import Paired, paired
from nanogpt.fleet.costs import CALIBRATED_COST
from nanogpt.fleet.dispatching import Dispatcher
from nanogpt.fleet.fleet_config import FleetConfig
from nanogpt.fleet.fleet_parts import FleetParts
from nanogpt.fleet.simulation import Simulation
from nanogpt.fleet.tracing import Tracer
from nanogpt.fleet.views import FleetSnapshot, WaitingView, WorkerView
from nanogpt.fleet.workload import FleetRequest, Workload
from nanogpt.parts.plain_values import as_items, as_whole

Decide = Callable[[FleetSnapshot], Any]
Problem = tuple[str, str]
"""(key, idea) of what is wrong with a decision."""

NUM_LOADS = 4
MARGIN = 0.20
"""By how much attainment has to be above FIFO's, on average over the loads."""
TOLERANCE = 0.02
"""By how much it may be below FIFO's on a single load."""
LONGEST_WAIT_US = 2_000_000
"""How long a request may wait for its first token."""

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
_FIFO = replace(FLEET, name="FIFO", routing="round_robin")
"""The same fleet with the same caches: each arrival goes to the next worker and queues there."""

# --- loads -----------------------------------------------------------------------------------

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


# --- policies --------------------------------------------------------------------------------


def has_room(request: WaitingView, worker: WorkerView) -> bool:
    """Whether the worker could take the request now."""
    return (
        worker.num_running < worker.batch_size and request.kv_tokens_needed <= worker.kv_free_tokens
    )


def reference(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    """The nearest deadline of those that can be saved, then the others; by backlog minus hit."""

    def rank(request: WaitingView) -> tuple[bool, int]:
        return not _can_be_saved(snapshot, request), request.deadline_us

    for request in sorted(snapshot.waiting, key=rank):
        workers = [worker for worker in snapshot.workers if has_room(request, worker)]
        hits = snapshot.hit_tokens.get(request.id, {})
        if workers:
            best = min(
                workers, key=lambda w: (w.backlog_tokens - hits.get(w.id, 0), w.num_running, w.id)
            )
            return request.id, best.id
    return None


def _pair(decision: Any) -> tuple[int, int] | None:
    """The decision's two ids, if that is what it is."""
    ids = [as_whole(part) for part in as_items(decision) or ()]
    return (ids[0], ids[1]) if len(ids) == 2 and ids[0] is not None and ids[1] is not None else None


def illegal(snapshot: FleetSnapshot, decision: Any) -> Problem | None:
    """Why the decision cannot be carried out, if it cannot."""
    if decision is None:
        return None
    pair = _pair(decision)
    if pair is None:
        kind = a_kind(decision) if as_items(decision) is None else "this one"
        return "not_a_pair", f"A decision is `(request_id, worker_id)` or None, not {kind}."
    request_id, worker_id = pair
    request = next((each for each in snapshot.waiting if each.id == request_id), None)
    worker = next((each for each in snapshot.workers if each.id == worker_id), None)
    if request is None or worker is None:
        return _unknown(snapshot, request_id, worker_id, request is None)
    if worker.num_running >= worker.batch_size:
        return (
            "full_batch",
            f"The batch of worker {worker_id} is full: only a worker with `num_running` below its "
            "`batch_size` can take another request.",
        )
    if request.kv_tokens_needed > worker.kv_free_tokens:
        return (
            "no_room",
            f"Request {request_id} needs {request.kv_tokens_needed} KV tokens and worker "
            f"{worker_id} has {worker.kv_free_tokens} free: compare them before you dispatch.",
        )
    return None


def _unknown(snapshot: FleetSnapshot, request_id: int, worker_id: int, is_request: bool) -> Problem:
    waits = any(each.id == worker_id for each in snapshot.waiting)
    if waits and any(each.id == request_id for each in snapshot.workers):
        return "swapped", "The request comes first, then the worker: `(request_id, worker_id)`."
    if is_request:
        return (
            "unknown_request",
            f"No request {request_id} waits: take the `id` of one of `snapshot.waiting`, or "
            "answer None.",
        )
    return (
        "unknown_worker",
        f"There is no worker {worker_id}: take the `id` of one of `snapshot.workers`, not its "
        "place in a list.",
    )


# --- serving a load --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Habits:
    """How often a policy did what it might have done better.

    Of its `choices`, decisions when several requests had room, it took the `oldest`, or one that
    was `lost` although another could be saved, or a `patient` one, although another that could be
    saved had the nearer deadline. Of the `rounds` that it ended it `held` back one that had room.
    """

    choices: int = 0
    oldest: int = 0
    lost: int = 0
    patient: int = 0
    rounds: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class Served:
    """How a policy served a load, or what put an end to it.

    `attainment` is the share of all arrivals that finished by their deadline; `longest_wait_us`
    is None when a request never got a token.
    """

    attainment: float
    longest_wait_us: int | None
    habits: Habits
    problem: Problem | None = None
    snapshot: FleetSnapshot | None = None
    decision: Any = None


class _IllegalError(Exception):
    """Ends a load at a decision that cannot be carried out."""

    def __init__(self, problem: Problem, snapshot: FleetSnapshot, decision: Any) -> None:
        super().__init__(problem[1])
        self.served = Served(0.0, None, Habits(), problem, snapshot, decision)


class Policy:
    """A policy as a function of a snapshot, or of a whole load. Errors name a line of its own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__code__ = getattr(function, "__code__", None)

    def __call__(self, what: FleetSnapshot | Load) -> Any:
        """One decision, or how the load was served."""
        if isinstance(what, Load):
            return serve(self._function, what)
        return self._function(what)


def serve(function: Decide, load: Load) -> Served:
    """Serve a load by a policy. Raises: whatever the policy raises.

    The dispatcher asks the policy without a guard: all of this runs under the limit of one call.
    """
    habits = dict.fromkeys(Habits.__slots__, 0)

    def decide(snapshot: FleetSnapshot) -> tuple[int, int] | None:
        answer = function(snapshot)
        problem = illegal(snapshot, answer)
        if problem is not None:
            raise _IllegalError(problem, snapshot, answer)
        decision = _pair(answer)
        _observe(habits, snapshot, decision)
        return decision

    workload = load.workload()
    simulation = Simulation(FLEET, workload)
    parts = FleetParts(decide=decide)
    simulation.dispatcher = Dispatcher(
        FLEET, parts, simulation.workers, simulation, Tracer(enabled=False)
    )
    try:
        simulation.advance()
    except _IllegalError as error:
        return error.served
    return _summary(simulation, Habits(**habits))


def serve_by_fifo(load: Load) -> Served:
    """The baseline on a load."""
    simulation = Simulation(_FIFO, load.workload())
    simulation.advance()
    return _summary(simulation, Habits())


def _summary(simulation: Simulation, habits: Habits) -> Served:
    run = simulation.result()
    waits_us: list[int] = []
    for outcome, request in zip(run.outcomes, run.workload.requests, strict=True):
        if outcome.first_token_us is not None:
            waits_us.append(outcome.first_token_us - request.arrival_us)
    longest_us = max(waits_us) if len(waits_us) == len(run.outcomes) else None
    return Served(fmean(outcome.attained for outcome in run.outcomes), longest_us, habits)


def _observe(
    habits: dict[str, int], snapshot: FleetSnapshot, decision: tuple[int, int] | None
) -> None:
    """Count the decision under what it says of the policy."""
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
        saved = [request.deadline_us for request in able if _can_be_saved(snapshot, request)]
        habits["choices"] += 1
        habits["oldest"] += chosen is able[0]
        if saved and not _can_be_saved(snapshot, chosen):
            habits["lost"] += 1
        elif saved and min(saved) < chosen.deadline_us:
            habits["patient"] += 1


def _can_be_saved(snapshot: FleetSnapshot, request: WaitingView) -> bool:
    return snapshot.now_us + request.remaining_us <= request.deadline_us


# --- the verdict -----------------------------------------------------------------------------

Baseline = tuple[float, float]
"""FIFO's attainment and the reference's on one load."""

_RECORDED: dict[int, Baseline] = {
    seed: (fifo / NUM_REQUESTS, best / NUM_REQUESTS)
    for seed, fifo, best in (
        (162890784, 88, 128),
        (987493596, 90, 128),
        (212538937, 94, 133),
        (3855250690, 90, 126),
    )
}
"""How many requests are in time on the page's own loads, so that its first verdict is quick too."""


@functools.cache
def baseline(load: Load) -> Baseline:
    """What FIFO and the reference make of a load, whatever the answer is."""
    known = _RECORDED.get(load.seed)
    return known or (serve_by_fifo(load).attainment, serve(reference, load).attainment)


@dataclass(frozen=True, slots=True)
class Score:
    """A policy beside FIFO and the reference on the same loads, in the same order."""

    yours: tuple[Served, ...]
    baselines: tuple[Baseline, ...]

    @property
    def difference(self) -> Paired:
        """Attainment against FIFO's, in percentage points."""
        fifo = [100 * fifo for fifo, _ in self.baselines]
        return paired(fifo, [100 * served.attainment for served in self.yours])

    @property
    def longest_wait_us(self) -> int | None:
        """Of all loads; None when a request never got a token."""
        waits = [served.longest_wait_us for served in self.yours]
        return None if None in waits else max(wait for wait in waits if wait is not None)

    def problem(self) -> Problem | None:
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
            return _HELD
        if waits_too_long:
            return _LEFT_OUT
        if mean >= MARGIN:
            return _LUCKY
        if self._share("oldest", "choices") > 0.8:
            return _OLDEST
        patient, lost = self._share("patient", "choices"), self._share("lost", "choices")
        if max(patient, lost) > 0.1:
            return _PATIENT if patient > lost else _LOST
        return _NOT_ENOUGH

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


WANTED = (
    f"at least {100 * MARGIN:+.1f} percentage points to FIFO on average, on no load less than "
    f"{-100 * TOLERANCE:.1f}, and no request waits longer than {LONGEST_WAIT_US / 1e6:g} s"
)
_LEFT_OUT = (
    "left_out",
    f"A request waits longer than {LONGEST_WAIT_US / 1e6:g} s for its first token, or for ever: "
    "being too late is no reason to be left out, so send it too when no other needs the place.",
)
_HELD = (
    "holds_back",
    "You answer None while a request that waits has room at a worker, and an idle place serves "
    "none: look at every request and every worker before you end the round.",
)
_OLDEST = (
    "arrival_order",
    "You nearly always take the oldest request, which is what FIFO does: look at which deadlines "
    "are near.",
)
_PATIENT = (
    "takes_the_patient",
    "You often take a request that has time, while the deadline of another is nearer and can "
    "still be kept: look at the deadlines.",
)
_LOST = (
    "serves_the_lost",
    "You often serve a request that is too late already, while another could still make it: ask "
    "what going first helps, once `now_us + remaining_us` is past the deadline.",
)
_LUCKY = (
    "lucky",
    "On average it is good, but on one load it is worse than FIFO, and the next load may be such a "
    "one: look at what is different there.",
)
_NOT_ENOUGH = (
    "not_enough",
    f"It does not beat FIFO by {100 * MARGIN:.0f} percentage points of attainment on average: ask "
    "which requests are helped by going first, and which no more.",
)


def seconds(wait_us: int | None) -> str:
    """A wait in words."""
    return "for ever" if wait_us is None else f"{wait_us / 1e6:.2f} s"


# --- snapshots -------------------------------------------------------------------------------


def draw_snapshot(name: str, snapshot: FleetSnapshot) -> str:
    """The call with what matters of its snapshot, long queues cut."""
    lines = [f"{name}(snapshot)"]
    lines += [
        f"worker {w.id}: num_running={w.num_running} of {w.batch_size}, "
        f"kv_free_tokens={w.kv_free_tokens}"
        for w in snapshot.workers
    ]
    shown = snapshot.waiting[:3]
    lines += [f"waiting {r.id}: kv_tokens_needed={r.kv_tokens_needed}" for r in shown]
    if len(snapshot.waiting) > len(shown):
        lines.append(f"and {len(snapshot.waiting) - len(shown)} more that wait")
    return "\n".join(lines if shown else [*lines, "none waits"])


def draw_decision(decision: Any) -> str:
    """The decision, or what came instead."""
    text = show(decision)
    return text if len(text) <= 80 else f"{text[:79]}…"


def waiting(id: int, tokens: int = 200, **fields: int) -> WaitingView:
    """A request that waits, with `tokens` of prompt and 40 tokens to generate."""
    known = {"priority": 1, "arrival_us": 900_000, "deadline_us": 1_400_000, "left_tokens": 40}
    known |= {"remaining_us": 90_000, "known_tokens": tokens}
    return WaitingView(id=id, **(known | fields))


def idle(id: int, running: int = 0, free: int | None = None, backlog: int = 0) -> WorkerView:
    """A worker with a batch of 4 and 4000 KV tokens."""
    free = 4000 - 500 * running if free is None else free
    return WorkerView(id, backlog, running, 4, free, 4000)


def moment(
    waiting: Sequence[WaitingView],
    workers: Sequence[WorkerView],
    hit_tokens: dict[int, dict[int, int]] | None = None,
) -> FleetSnapshot:
    """A snapshot at 1 s."""
    return FleetSnapshot(1_000_000, tuple(waiting), tuple(workers), hit_tokens or {})


def any_moments(rng: random.Random, count: int) -> list[FleetSnapshot]:
    """Snapshots in which batches and KV are nearly full, the few waiting first."""
    moments: list[FleetSnapshot] = []
    for _ in range(count):
        requests = [
            waiting(
                id,
                rng.randint(20, 1200),
                priority=rng.randrange(3),
                arrival_us=rng.randint(0, 1_000_000),
                deadline_us=rng.randint(900_000, 1_900_000),
                remaining_us=rng.randint(40_000, 150_000),
            )
            for id in rng.sample(range(100, 200), rng.choice((0, 1, 1, 2, 3, 6)))
        ]
        workers = [
            idle(id, rng.choice((0, 2, 3, 4, 4)), rng.randint(100, 1500), rng.randint(0, 900))
            for id in rng.sample(range(3), 3)
        ]
        hits = {
            request.id: {rng.randrange(3): rng.randint(1, request.known_tokens)}
            for request in requests
            if rng.random() < 0.5
        }
        requests.sort(key=lambda request: (request.arrival_us, request.id))
        moments.append(moment(requests, workers, hits))
    return sorted(moments, key=lambda snapshot: len(snapshot.waiting))
