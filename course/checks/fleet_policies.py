"""Scoring a fleet policy of the learner's own: legal decisions, then loads that it has not seen.

A load is served inside one call of the answer, so that one limit holds for all of its decisions
and only plain data comes out. Two policies meet the identical load, and are compared in pairs.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, cast

from course.checks.comparing import a_kind
from course.showing import show
from nanogpt.fleet.costs import CALIBRATED_COST
from nanogpt.fleet.dispatching import Dispatcher
from nanogpt.fleet.parts import FleetParts
from nanogpt.fleet.settings import FleetConfig
from nanogpt.fleet.simulation import Simulation
from nanogpt.fleet.statistics import Paired, paired
from nanogpt.fleet.tracing import Tracer
from nanogpt.fleet.views import FleetSnapshot, WaitingView, WorkerView
from nanogpt.fleet.workload import FleetRequest, Workload

Decide = Callable[[FleetSnapshot], Any]
Problem = tuple[str, str]
"""(key, idea) of what is wrong with a decision."""

NUM_LOADS = 4
MARGIN = 0.20
"""By how much attainment has to be above FIFO's, on average over the loads."""
TOLERANCE = 0.02
"""By how much it may be below FIFO's on a single load."""
LONGEST_WAIT_US = 1_300_000
"""How long anybody may wait for a first token."""

FLEET = FleetConfig(
    name="yours",
    num_workers=3,
    batch_size=4,
    kv_tokens=4000,
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

_RUSH, _AFTER = 60, 140  # requests: everybody at once, then urgent ones for as long as they last
_RUSH_GAP_US, _AFTER_GAP_US = 3_000, 9_000
_SLO_US = {0: 200_000, 1: 500_000, 2: 1_000_000}
_NUM_OPENINGS = 10


@dataclass(frozen=True, slots=True, repr=False)
class Load:
    """One of the loads, by its seed."""

    seed: int

    def __repr__(self) -> str:
        return f"a snapshot out of a load of {_RUSH + _AFTER} requests"

    def workload(self) -> Workload:
        """A rush of all priorities, and then as many urgent ones as the fleet can just bear."""
        draw = random.Random(f"fleet policies {self.seed}")
        openings = [draw.randbytes(draw.randint(300, 700)) for _ in range(_NUM_OPENINGS)]
        requests: list[FleetRequest] = []
        now_us = 0.0
        for number in range(_RUSH + _AFTER):
            rush = number < _RUSH
            now_us += draw.expovariate(1 / (_RUSH_GAP_US if rush else _AFTER_GAP_US))
            priority = draw.choices((0, 1, 2), (3, 3, 5) if rush else (4, 4, 0))[0]
            is_long = priority == 2 and draw.random() < 0.3
            own = draw.randbytes(draw.randint(200, 600) if is_long else draw.randint(20, 160))
            requests.append(
                FleetRequest(
                    id=number,
                    arrival_us=round(now_us),
                    prompt=tuple(draw.choice(openings) + own),
                    max_new_tokens=draw.randint(20, 60),
                    priority=priority,
                    deadline_us=round(now_us) + _SLO_US[priority],
                )
            )
        return Workload(tuple(requests), self.seed)


# --- policies --------------------------------------------------------------------------------


def has_room(request: WaitingView, worker: WorkerView) -> bool:
    """Whether the worker could take the request now."""
    return (
        worker.num_running < worker.batch_size and request.kv_tokens_needed <= worker.kv_free_tokens
    )


def reference(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    """The earliest deadline among those who can be saved, by backlog minus hit, with ageing."""

    def rank(request: WaitingView) -> tuple[int, int]:
        if snapshot.now_us - request.arrival_us > 800_000:
            return 0, request.arrival_us
        can_be_saved = snapshot.now_us + request.remaining_us <= request.deadline_us
        return (1 if can_be_saved else 2), request.deadline_us

    for request in sorted(snapshot.waiting, key=rank):
        workers = [worker for worker in snapshot.workers if has_room(request, worker)]
        hits = snapshot.hit_tokens.get(request.id, {})
        if workers:
            best = min(
                workers, key=lambda w: (w.backlog_tokens - hits.get(w.id, 0), w.num_running, w.id)
            )
            return request.id, best.id
    return None


def illegal(snapshot: FleetSnapshot, decision: Any) -> Problem | None:
    """Why the decision cannot be carried out, if it cannot."""
    if decision is None:
        return None
    pair = cast("tuple[Any, ...]", decision)
    if type(decision) is not tuple or [type(part) for part in pair] != [int, int]:
        kind = "this tuple" if type(decision) is tuple else a_kind(decision)
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
            "`batch_size` can take anybody.",
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
            f"Nobody with id {request_id} waits: take the `id` of one of `snapshot.waiting`, or "
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

    Of its `choices`, decisions when several had room, it took the `oldest`, or one that was `lost`
    although another could be saved; of the `rounds` that it ended it `held` back somebody with
    room.
    """

    choices: int = 0
    oldest: int = 0
    lost: int = 0
    rounds: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class Served:
    """How a policy served a load, or what put an end to it.

    `attainment` is the share of all arrivals that finished by their deadline; `longest_wait_us`
    is None when somebody never got a token.
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
        decision = function(snapshot)
        problem = illegal(snapshot, decision)
        if problem is not None:
            raise _IllegalError(problem, snapshot, decision)
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
        saved = [_can_be_saved(snapshot, request) for request in able]
        habits["choices"] += 1
        habits["oldest"] += chosen is able[0]
        habits["lost"] += any(saved) and not _can_be_saved(snapshot, chosen)


def _can_be_saved(snapshot: FleetSnapshot, request: WaitingView) -> bool:
    return snapshot.now_us + request.remaining_us <= request.deadline_us


# --- the verdict -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Score:
    """A policy, FIFO and the reference on the same loads, in the same order."""

    yours: tuple[Served, ...]
    fifo: tuple[Served, ...]
    best: tuple[Served, ...]

    @property
    def difference(self) -> Paired:
        """Attainment against FIFO's, in percentage points."""
        return paired(_percent(self.fifo), _percent(self.yours))

    @property
    def longest_wait_us(self) -> int | None:
        """Of all loads; None when somebody never got a token."""
        waits = [served.longest_wait_us for served in self.yours]
        return None if None in waits else max(wait for wait in waits if wait is not None)

    def problem(self) -> Problem | None:
        """Why the policy does not pass, if it does not; what it does most often comes first."""
        wait_us = self.longest_wait_us
        waits_too_long = wait_us is None or wait_us > LONGEST_WAIT_US
        pairs = zip(self.yours, self.fifo, strict=True)
        # Rounded, since shares of 200 come to lie on the limits, and 0.48 - 0.5 is not -0.02.
        gains = [round(mine.attainment - base.attainment, 9) for mine, base in pairs]
        worst, mean = min(gains), round(fmean(gains), 9)
        if not waits_too_long and worst >= -TOLERANCE and mean >= MARGIN:
            return None
        if self._share("held", "rounds") > 0.25:
            return _HELD
        if waits_too_long:
            return _STARVES
        if self._share("oldest", "choices") > 0.8:
            return _OLDEST
        if self._share("lost", "choices") > 0.1:
            return _LOST
        return _LUCKY if mean >= MARGIN else _NOT_ENOUGH

    def _share(self, what: str, of: str) -> float:
        times = sum(getattr(served.habits, what) for served in self.yours)
        return times / max(1, sum(getattr(served.habits, of) for served in self.yours))

    def table(self) -> str:
        """Load by load: attainment in percent, and your longest wait in seconds."""
        lines = ["load  FIFO  yours  reference  longest wait"]
        for number, (fifo, yours, best) in enumerate(
            zip(self.fifo, self.yours, self.best, strict=True), 1
        ):
            shares = (
                f"{number:4}{fifo.attainment:6.0%}{yours.attainment:7.0%}{best.attainment:11.0%}"
            )
            lines.append(f"{shares}{seconds(yours.longest_wait_us):>14}")
        return "\n".join(lines)

    def summary(self) -> str:
        """The mean difference with its interval, and the longest wait of all."""
        paired = self.difference
        interval = (
            ""
            if paired.low is None or paired.high is None
            else f" (95 % interval {paired.low:+.0f} to {paired.high:+.0f})"
        )
        return (
            f"{paired.mean:+.0f} percentage points to FIFO on average{interval}; longest wait "
            f"{seconds(self.longest_wait_us)}"
        )


WANTED = (
    f"at least {100 * MARGIN:+.0f} percentage points to FIFO on average, on no load less than "
    f"{-100 * TOLERANCE:.0f}, and nobody waits longer than {LONGEST_WAIT_US / 1e6:g} s"
)
_STARVES = (
    "starves",
    f"Somebody waits longer than {LONGEST_WAIT_US / 1e6:g} s for a first token, because others "
    "come first for ever: let waiting count, so that who has waited long enough is next.",
)
_HELD = (
    "holds_back",
    "You answer None while somebody has room at a worker, and an idle place serves nobody: look "
    "at the others who wait before you end the round.",
)
_OLDEST = (
    "arrival_order",
    "You nearly always take the oldest one, which is what FIFO does: look at whose deadline is "
    "near, and at who can still make it.",
)
_LOST = (
    "serves_the_lost",
    "You often serve somebody who is too late already while another could still make it: with "
    "`now_us + remaining_us` past the deadline, let the others go first.",
)
_LUCKY = (
    "lucky",
    "On average it is good, but on one load it is worse than FIFO, and the next load may be such a "
    "one: look at what is different there.",
)
_NOT_ENOUGH = (
    "not_enough",
    f"It does not beat FIFO by {100 * MARGIN:.0f} percentage points of attainment on average: ask "
    "who is helped by going first, and who no more.",
)


def _percent(served: Sequence[Served]) -> list[float]:
    return [100 * each.attainment for each in served]


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
        lines.append(f"and {len(snapshot.waiting) - len(shown)} more who wait")
    return "\n".join(lines if shown else [*lines, "nobody waits"])


def draw_decision(decision: Any) -> str:
    """The decision, or what came instead."""
    text = show(decision)
    return text if len(text) <= 80 else f"{text[:79]}…"


def waiting(id: int, tokens: int = 200, **fields: int) -> WaitingView:
    """Somebody who waits, with `tokens` of prompt and 40 tokens to generate."""
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
