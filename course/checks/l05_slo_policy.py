"""Checks of lesson 5, the SLO policy."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from course.checks.comparing import Args
from course.checks.gates import GATE, any_moments, seen
from course.checks.prefills import Job, Prefills, Workload, smaller_workloads
from course.checks.sharing import BATCH, any_queues
from course.checks.shrinking import shrink
from course.checks.urgency import FIT, SLACK, URGENCY, Points, any_sweep
from course.judging import Ask, Check, Failure, Rows, run_checks
from course.registry import Exercise
from course.report import Report
from course.showing import show, show_call
from course.task import Task
from nanogpt.slo.policy import SloView

# --- fit -------------------------------------------------------------------------------------


def _judge_fit(ask: Ask, *sweeps: Points) -> Failure | None:
    return FIT.judge(ask, [(sweep,) for sweep in sweeps])


def _on_a_line(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_fit(
        ask,
        [(100, 20_000.0), (200, 30_000.0)],
        [(300, 40_000.0), (100, 20_000.0), (200, 30_000.0)],
        [(100, 5_000.0), (400, 20_000.0)],
    )


def _around_a_line(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_fit(
        ask,
        [(100, 21_000.0), (200, 28_000.0), (400, 55_000.0)],
        [(400, 55_000.0), (100, 21_000.0), (800, 88_000.0), (200, 28_000.0)],
        [(100, 4_000.0), (800, 71_000.0), (300, 19_000.0)],
    )


def _measured_twice(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_fit(
        ask,
        [(100, 20_000.0), (200, 36_000.0), (200, 30_000.0)],
        [(100, 20_000.0), (100, 20_000.0), (200, 33_000.0), (300, 40_000.0)],
    )


def _one_length(ask: Ask, rng: random.Random) -> Failure | None:
    sweeps: list[Points] = [[(100, 20_000.0), (100, 24_000.0)], [(100, 20_000.0)], []]
    for points in sweeps:
        called = ask.call(points, may_raise=True)
        if isinstance(called.error, ValueError):
            continue
        if called.error is None:
            got, key = show(called.value), "one_length"
            idea = (
                "Any slope fits a single length, so what comes out is made up: raise a ValueError, "
                "or requests are scheduled by it."
            )
        else:
            got, key = type(called.error).__name__, "wrong_error"
            idea = (
                f"Too few lengths are a wrong value and deserve a ValueError that says so; a {got} "
                "looks like a mistake in your own code."
            )
        rows: Rows = (
            ("input", show_call(ask.name, ask.args)),
            ("expected", "ValueError"),
            ("got", got),
        )
        return Failure(idea, rows, key)
    return None


def _any_sweep(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_fit(ask, *(any_sweep(rng, count) for count in (2, 3, 4, 6, 9, 12, 20, 40)))


_FIT_CHECKS: tuple[tuple[str, Check], ...] = (
    ("points on a line", _on_a_line),
    ("points around a line", _around_a_line),
    ("a length measured twice", _measured_twice),
    ("one length", _one_length),
    ("any sweep", _any_sweep),
)


def check_fit(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l05.fit."""
    return run_checks("l05.fit", function, _FIT_CHECKS, seed=seed)


# --- slack -----------------------------------------------------------------------------------


def _waits(ask: Ask, rng: random.Random) -> Failure | None:
    return SLACK.judge(
        ask, [(30_000, 90_000, 400, 0, 100.0, 10_000.0), (0, 90_000, 400, 0, 100.0, 10_000.0)]
    )


def _runs(ask: Ask, rng: random.Random) -> Failure | None:
    return SLACK.judge(
        ask,
        [
            (60_000, 90_000, 400, 300, 100.0, 10_000.0),
            (65_000, 90_000, 400, 360, 100.0, 10_000.0),
            (0, 90_000, 400, 2, 0.5, 300.0),
        ],
    )


def _too_late(ask: Ask, rng: random.Random) -> Failure | None:
    return SLACK.judge(
        ask,
        [
            (60_000, 90_000, 400, 0, 100.0, 10_000.0),
            (100_000, 90_000, 400, 200, 100.0, 10_000.0),
            (40_000, 90_000, 400, 0, 100.0, 10_000.0),
        ],
    )


def _nothing_left(ask: Ask, rng: random.Random) -> Failure | None:
    return SLACK.judge(
        ask,
        [
            (50_000, 90_000, 400, 400, 100.0, 10_000.0),
            (50_000, 90_000, 400, 399, 100.0, 10_000.0),
            (90_000, 90_000, 1, 1, 100.0, 10_000.0),
        ],
    )


def _any_request(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for _ in range(60):
        total = 8 * rng.randint(1, 150)
        done = 8 * rng.randint(0, total // 8) if rng.random() < 0.7 else 0
        now, left = rng.randint(0, 10**6), rng.randint(-50_000, 150_000)
        a, c = rng.choice(((100.0, 10_000.0), (0.5, 300.0), (172.625, 34_000.0), (41.0, 0.0)))
        cases.append((now, now + left, total, done, a, c))
    return SLACK.judge(ask, cases)


_SLACK_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a request that waits", _waits),
    ("a request that runs", _runs),
    ("a request that is too late", _too_late),
    ("nothing left to compute", _nothing_left),
    ("any request", _any_request),
)


def check_slack(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l05.slack."""
    return run_checks("l05.slack", function, _SLACK_CHECKS, seed=seed, draw_call=SLACK.draw_call)


# --- urgency ---------------------------------------------------------------------------------


def _time_enough(ask: Ask, rng: random.Random) -> Failure | None:
    return URGENCY.judge(ask, [(20_000, 100_000), (20_000, 50_000), (3_000, 2_500_000)])


def _doomed(ask: Ask, rng: random.Random) -> Failure | None:
    return URGENCY.judge(
        ask, [(-20_000, 100_000), (-20_000, 50_000), (-60_000, -40_000), (-1, 8_000), (-400, 1_600)]
    )


def _at_the_deadline(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = [
        *((-30_000, 0), (0, 0), (0, 500), (-30_000, -200), (-7_000, 999)),
        *((-9_000, -1), (500, 1_001), (-9_000, -1_001)),
    ]
    for args in cases:
        called = ask.call(*args, may_raise=True)
        if isinstance(called.error, ZeroDivisionError):
            rows: Rows = (
                ("input", URGENCY.draw_call(ask.name, args)),
                ("expected", URGENCY.draw(URGENCY.reference(*args))),
                ("got", "ZeroDivisionError"),
            )
            idea = (
                "Every request that is late passes its deadline, and there the time left is 0: "
                "count it as at least 1 ms before you divide by it."
            )
            return Failure(idea, rows, "divides_by_zero")
    return URGENCY.judge(ask, cases)


def _just_makes_it(ask: Ask, rng: random.Random) -> Failure | None:
    return URGENCY.judge(ask, [(0, 40_000), (1, 40_000), (0, 1_000)])


def _any_time(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for _ in range(60):
        left = rng.choice((1, 1, -1)) * rng.randint(0, rng.choice((1_500, 5_000, 300_000)))
        cases.append((left - rng.randint(0, 100_000), left))
    return URGENCY.judge(ask, cases)


_URGENCY_CHECKS: tuple[tuple[str, Check], ...] = (
    ("time enough", _time_enough),
    ("too late", _doomed),
    ("at the deadline", _at_the_deadline),
    ("a slack of 0", _just_makes_it),
    ("any time", _any_time),
)


def check_urgency(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l05.urgency."""
    return run_checks(
        "l05.urgency", function, _URGENCY_CHECKS, seed=seed, draw_call=URGENCY.draw_call
    )


# --- gate ------------------------------------------------------------------------------------

_MAX_PASSES = 40


def _one_runner(ask: Ask, rng: random.Random) -> Failure | None:
    waiter, near = seen(7, 50, 10), seen(3, 52, 30)
    cases = [seen(3, 400, 300), near, seen(3, 20, 5), seen(3, 50, 25), seen(3, 64, 30)]
    return GATE.judge(
        ask,
        [
            *((waiter, [runner], 1.2, "conservative") for runner in cases),
            (waiter, [near], 1.0, "conservative"),
            (waiter, [seen(3, 100, 30)], 2.0, "conservative"),
            (waiter, [seen(3, 50, 30)], 1.0, "conservative"),
            (seen(7, 60, 10), [seen(3, 69, 30)], 1.2, "conservative"),
            (seen(7, 400, 10), [seen(3, 449, 300)], 1.125, "conservative"),
            (waiter, [], 1.2, "conservative"),
        ],
    )


def _doomed_and_not(ask: Ask, rng: random.Random) -> Failure | None:
    saved, doomed = seen(7, 90, 10), seen(7, 91, -4)
    return GATE.judge(
        ask,
        [
            (doomed, [seen(3, 100, -20)], 1.2, "conservative"),
            (doomed, [seen(3, 400, 300)], 1.2, "conservative"),
            (saved, [seen(3, 100, -20)], 1.2, "conservative"),
            (saved, [seen(3, 20, -20)], 1.2, "conservative"),
            (seen(7, 400, -0.001), [seen(3, 50, -20)], 1.2, "conservative"),
            (seen(7, 400, 1), [seen(3, 50, -0.001)], 1.2, "conservative"),
            (seen(7, 50, 0), [seen(3, 400, 300)], 1.2, "conservative"),
            (seen(7, 50, 20), [seen(3, 40, 0)], 1.2, "conservative"),
        ],
    )


def _several_runners(ask: Ask, rng: random.Random) -> Failure | None:
    waiter, middle = seen(7, 50, 10), seen(7, 100, 10)
    near, far, late = seen(2, 45, 20), seen(5, 400, 300), seen(4, 120, -30)
    two_late = [seen(4, 120, -30), seen(5, 40, -30)]
    return GATE.judge(
        ask,
        [
            (waiter, [far, near], 1.2, "conservative"),
            (waiter, [near, far], 1.2, "aggressive"),
            (waiter, [far, seen(2, 200, 150)], 1.2, "conservative"),
            (waiter, [seen(2, 200, 150), far], 1.2, "conservative"),
            (middle, [late, seen(2, 90, 50)], 1.2, "conservative"),
            (middle, [seen(2, 90, 50), late], 1.2, "aggressive"),
            (middle, two_late, 1.2, "conservative"),
            (middle, two_late, 1.2, "aggressive"),
            (waiter, [seen(5, 400, 300), seen(3, 400, 200)], 1.2, "conservative"),
            (waiter, [seen(3, 400, 200), seen(5, 400, 300)], 1.2, "aggressive"),
        ],
    )


_STARVED = Workload(
    "conservative",
    1.2,
    1,
    (Job(0, 2000, 4000), *(Job(150 * number, 200, 60) for number in range(1, 5))),
)


def _long_prompt(ask: Ask, rng: random.Random) -> Failure | None:
    """Liveness: each decision is applied, right or wrong, and none may be thrown back twice."""
    asked: list[Args] = []

    def gate(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
        asked.append((waiter, runners, margin, mode))
        return ask(*asked[-1])

    prefills = Prefills(_STARVED, gate)
    prefills.run(_MAX_PASSES)
    if max(prefills.lost) <= 1:
        return None
    failure = GATE.judge(ask, asked)
    if failure is None:
        return None
    rows: Rows = (("workload", str(_STARVED)), ("passes", "\n".join(prefills.diary)))
    return Failure(failure.idea, rows + failure.example, failure.misconception)


def _immune_runners(ask: Ask, rng: random.Random) -> Failure | None:
    waiter, again = seen(7, 50, 10), seen(7, 50, 10, preempted=1)
    near, far = seen(2, 45, 20), seen(5, 400, 300)
    immune_near, immune_far = seen(2, 45, 20, preempted=1), seen(5, 400, 300, preempted=1)
    return GATE.judge(
        ask,
        [
            (waiter, [immune_far], 1.2, "conservative"),
            (waiter, [immune_far, seen(6, 800, 500, preempted=2)], 1.2, "aggressive"),
            (waiter, [immune_near, far], 1.2, "conservative"),
            (waiter, [near, immune_far], 1.2, "aggressive"),
            (waiter, [seen(3, 200, 150), immune_far], 1.2, "conservative"),
            (waiter, [seen(3, 200, 150), immune_far, far], 1.2, "aggressive"),
            (again, [far], 1.2, "conservative"),
            (waiter, [seen(3, 30, -9, preempted=1)], 1.2, "conservative"),
        ],
    )


def _any_moment(ask: Ask, rng: random.Random) -> Failure | None:
    return GATE.judge(ask, any_moments(rng, 60))


class _Found(Exception):
    """Ends a workload at the first wrong decision."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.idea)
        self.failure = failure


def _first_wrong(ask: Ask, workload: Workload) -> tuple[Prefills, Failure] | None:
    """Where a workload, served by the rules, comes to a decision that the answer gets wrong."""

    def gate(*args: Any) -> Any:
        failure = GATE.judge(ask, [args])
        if failure:
            raise _Found(failure)
        return GATE.reference(*args)

    prefills = Prefills(workload, gate)
    try:
        prefills.run(_MAX_PASSES)
    except _Found as found:
        return prefills, found.failure
    return None


def _judge_workloads(ask: Ask, workloads: Sequence[Workload]) -> Failure | None:
    """The first wrong decision, in the smallest workload that comes to one of the same kind."""
    for workload in workloads:
        found = _first_wrong(ask, workload)
        if found is None:
            continue
        key, bad = found[1].misconception, (workload, *found)

        def breaks(candidate: Workload, key: str | None = key) -> bool:
            nonlocal bad
            found = _first_wrong(ask, candidate)
            if found is None or found[1].misconception != key:
                return False
            bad = (candidate, *found)
            return True

        shrink(workload, smaller_workloads, breaks)
        smallest, prefills, failure = bad
        now = f"{prefills.now_us / 1000:g} ms: the gate is asked"
        rows: Rows = (
            ("workload", str(smallest)),
            ("passes", "\n".join([*prefills.diary[-5:], now])),
        )
        return Failure(failure.idea, rows + failure.example, failure.misconception)
    return None


def _any_workloads(rng: random.Random, sizes: Sequence[int]) -> list[Workload]:
    """Long prompts that begin together, and short ones that come in between with little time."""
    workloads: list[Workload] = []
    for number, size in enumerate(sizes):
        slots = rng.choice((1, 2, 2, 3)) if size > 2 else 1
        jobs: list[Job] = []
        for i in range(size):
            tokens = 100 * (rng.randint(4, 9) if i < slots else rng.randint(1, 4))
            slo_ms = round((10 + tokens / 10) * rng.choice((0.5, 1.1, 1.5, 3, 3, 6, 12)))
            jobs.append(Job(0 if i < slots else rng.randint(0, 150), tokens, slo_ms))
        mode = ("conservative", "aggressive")[number % 2]
        workloads.append(Workload(mode, rng.choice((1.2, 2.0)), slots, tuple(jobs)))
    return workloads


def _gate_workloads(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_workloads(ask, _any_workloads(rng, (2, 3, 3, 4, 5, 6)))


_GATE_CHECKS: tuple[tuple[str, Check], ...] = (
    ("one runner", _one_runner),
    ("those that cannot be saved", _doomed_and_not),
    ("several runners, two modes", _several_runners),
    ("a long prompt among urgent ones", _long_prompt),
    ("immune runners", _immune_runners),
    ("any moment", _any_moment),
    ("whole workloads", _gate_workloads),
)


def check_gate(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l05.gate."""
    return run_checks("l05.gate", function, _GATE_CHECKS, seed=seed, draw_call=GATE.draw_call)


# --- slo_batch -------------------------------------------------------------------------------


def _batch_view(id: int, tokens: int, left_ms: float, slo_ms: int = 200) -> SloView:
    """A request whose slack is that of a pass with 0.1 ms per token and 10 ms besides."""
    return seen(id, left_ms, left_ms - 10 - tokens / 10, tokens=tokens, slo_us=1000 * slo_ms)


def _batch_case(head: SloView, *waiters: SloView, bound: int = 2048, guard: float = 0.125) -> Args:
    return head, list(waiters), 100.0, 10_000.0, bound, guard


def _room_for_all(ask: Ask, rng: random.Random) -> Failure | None:
    head = _batch_view(4, 300, 150)
    return BATCH.judge(
        ask,
        [
            _batch_case(head, _batch_view(2, 200, 160), _batch_view(7, 100, 900)),
            _batch_case(head),
        ],
    )


def _head_in_danger(ask: Ask, rng: random.Random) -> Failure | None:
    head = _batch_view(4, 300, 90)
    a, b = _batch_view(2, 200, 400, 400), _batch_view(7, 200, 900, 2000)
    exact = _batch_view(4, 300, 105)
    return BATCH.judge(
        ask,
        [
            _batch_case(head, a, b),
            _batch_case(_batch_view(4, 300, 70), a, b),
            _batch_case(exact, b, a, guard=0.25),
            _batch_case(_batch_view(4, 300, 110), b, a, guard=0.25),
            _batch_case(_batch_view(4, 300, 135), b, a, guard=0.375),
            _batch_case(_batch_view(4, 300, 175), _batch_view(2, 500, 176), b),
            _batch_case(_batch_view(4, 300, 115), _batch_view(2, 300, 80), b),
        ],
    )


def _up_to_the_bound(ask: Ask, rng: random.Random) -> Failure | None:
    head = _batch_view(4, 300, 900)
    waiters = _batch_view(2, 200, 950), _batch_view(7, 100, 960), _batch_view(1, 100, 970)
    return BATCH.judge(
        ask, [_batch_case(head, *waiters, bound=bound) for bound in (600, 599, 500, 400, 601)]
    )


def _one_that_does_not_fit(ask: Ask, rng: random.Random) -> Failure | None:
    head, short = _batch_view(4, 300, 200), _batch_view(2, 100, 900)
    return BATCH.judge(
        ask,
        [
            _batch_case(head, _batch_view(7, 2000, 300), short),
            _batch_case(
                head, _batch_view(7, 200, 300), _batch_view(1, 900, 400), short, bound=1000
            ),
        ],
    )


def _head_alone(ask: Ask, rng: random.Random) -> Failure | None:
    waiter = _batch_view(2, 100, 900)
    return BATCH.judge(
        ask,
        [
            _batch_case(_batch_view(4, 3000, 900), waiter),
            _batch_case(_batch_view(4, 300, 30), waiter),
            _batch_case(_batch_view(4, 300, -20)),
        ],
    )


def _any_queue(ask: Ask, rng: random.Random) -> Failure | None:
    # Short by 1 us with this a, but not with its first two digits behind the point.
    head, waiter = seen(4, 198.099, 119.049, tokens=400), _batch_view(2, 400, 900)
    close: Args = (head, [waiter], 172.625, 10_000.0, 1000, 0.25)
    return BATCH.judge(ask, [close, *any_queues(rng, 60)])


_BATCH_CHECKS: tuple[tuple[str, Check], ...] = (
    ("room for all", _room_for_all),
    ("a head that others endanger", _head_in_danger),
    ("up to the bound", _up_to_the_bound),
    ("one that does not fit", _one_that_does_not_fit),
    ("a head that has no room itself", _head_alone),
    ("any queue", _any_queue),
)


def check_slo_batch(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l05.slo_batch."""
    return run_checks(
        "l05.slo_batch", function, _BATCH_CHECKS, seed=seed, draw_call=BATCH.draw_call
    )


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l05.fit",
        lesson="l05_slo_policy",
        name="fit",
        title="How long a prefill takes",
        minutes=9,
        points=2,
        part=None,
        hints=(
            "A good line passes through the middle of the points. If you know its slope and one "
            "point on it, what is left to find?",
            "Move the middle of the points to zero: subtract the mean from the tokens and from the "
            "times. Each point now has a slope of its own, time over tokens. Which of these "
            "slopes should count more, those near the middle or those far from it?",
            "A point's slope counts by the square of its tokens from the middle: write the weighed "
            "mean of these slopes as one sum over another, and a factor cancels. The middle of "
            "the points then leaves one value for c. Count the different lengths before all that.",
        ),
        check=check_fit,
        task=Task(
            signature="fit(points: list[tuple[int, float]]) -> tuple[float, float]",
            rules=(
                "`points` are measured prefills, (tokens, microseconds) each, in any order; a "
                "length may come more than once.",
                "Returns `(a, c)`: a prefill of n tokens is predicted to take a * n + c "
                "microseconds.",
                "The line is the one of least squared error: no other a and c make the sum of "
                "(a * tokens + c - microseconds) ** 2 over all points smaller.",
                "Fewer than 2 different lengths do not say how a line lies: raise a ValueError.",
                "`points` stay as they are.",
            ),
            args=([(100, 21_000.0), (200, 28_000.0), (300, 41_000.0)],),
            result=(100.0, 10_000.0),
        ),
    ),
    Exercise(
        id="l05.slack",
        lesson="l05_slo_policy",
        name="slack",
        title="Time to spare",
        minutes=6,
        points=2,
        part=None,
        hints=(
            "A request has computed 300 of its 400 tokens. What does it still have to pay for, and "
            "what has it paid already?",
            "The time to the deadline is deadline - now. A pass over how many tokens has to be "
            "taken off it?",
            "Only the tokens that are left cost a each. And look at a request that has none left: "
            "what would a * n + c charge it for?",
        ),
        check=check_slack,
        task=Task(
            signature="slack(now: int, deadline: int, total: int, done: int, a: float, c: float) "
            "-> float",
            rules=(
                "It is `now`, and `done` of the request's `total` tokens need no more computing.",
                "A pass over n tokens takes a * n + c microseconds, and no time at all if there is "
                "no token to compute.",
                "Returns the slack: what remains of the time until `deadline` when the work that "
                "is still to do is paid for.",
                "Below 0 the request is doomed: it misses its deadline even if it runs from now "
                "on.",
                "`now` and `deadline` are in microseconds, as is the result, rounded or not.",
            ),
            args=(20_000, 90_000, 400, 0, 100.0, 10_000.0),
            result=20_000.0,
        ),
    ),
    Exercise(
        id="l05.urgency",
        lesson="l05_slo_policy",
        name="urgency",
        title="What goes first",
        minutes=6,
        points=2,
        part=None,
        hints=(
            "Two questions, two arguments: which one says whether there is hope, and which one how "
            "soon it is over?",
            "Work out the size first, always positive, from the time to the deadline alone. Then "
            "give it the sign of the slack.",
            "Before you divide 1 by it, the time has to lose its sign, become milliseconds and be "
            "at least 1. The slack decides whether a minus stands in front, and nothing else.",
        ),
        check=check_urgency,
        task=Task(
            signature="urgency(slack: float, time_to_deadline: int) -> float",
            rules=(
                "`slack` and `time_to_deadline` are in microseconds; once the deadline is past, "
                "`time_to_deadline` is below 0.",
                "Returns a score from -1 to 1: the higher goes first.",
                "Its sign says whether the request can still make it: it is the sign of `slack`, "
                "where 0 counts as positive.",
                "Its size says how near the deadline is, ahead or past: 1 divided by the distance "
                "in milliseconds.",
                "A deadline nearer than 1 ms counts as 1 ms away.",
            ),
            args=(5_000, 20_000),
            result=0.05,
        ),
    ),
    Exercise(
        id="l05.gate",
        lesson="l05_slo_policy",
        name="gate",
        title="Which runner gives way",
        minutes=14,
        points=4,
        part=None,
        hints=(
            "Multiply an urgency of -0.010 by 1.2. Has the bar become higher or lower? So what has "
            "to be clear before the margin is used?",
            "Leave out the immune before all else. Then there are four cases, the waiter and the "
            "reference each doomed or not: write down what happens in each. Only one of them "
            "needs the margin.",
            "Sort the runners that are not immune once, by urgency from the highest and by id "
            "among equals. Either mode's reference stands at an end of that list, and the runner "
            "to preempt always stands at the same end.",
        ),
        check=check_gate,
        task=Task(
            signature="gate(waiter: slo.SloView, runners: list[slo.SloView], margin: float, mode: "
            "str) -> int | None",
            rules=(
                "`runners` run now, in any order; there may be none. A runner that was preempted "
                "before (`num_preemptions` above 0) is immune: it is left out of all that follows.",
                "The higher `urgency` is the more urgent; among equals, the lower `id` is.",
                "The waiter is measured by a reference: the most urgent runner if `mode` is "
                '"conservative", the least urgent one if it is "aggressive".',
                "A request with a `slack_us` below 0 is doomed: it misses its deadline anyway. Its "
                "`urgency` is negative.",
                "A preemption has to save its waiter, so there is none for a doomed one. A "
                "reference that is doomed has nothing to lose: it does not stand in the way of a "
                "waiter that can make it.",
                "If both can make it, the waiter's urgency has to be more than `margin` (at least "
                "1) times the reference's.",
                "Returns the `id` of the runner to preempt, the least urgent one whichever the "
                "reference is, or None if there is no preemption.",
            ),
            args=(
                seen(7, 50, 10),
                [seen(5, 400, 300), seen(3, 100, 30)],
                1.2,
                "conservative",
            ),
            result=5,
        ),
    ),
    Exercise(
        id="l05.slo_batch",
        lesson="l05_slo_policy",
        name="slo_batch",
        title="Which waiters come along",
        minutes=9,
        points=3,
        part=None,
        hints=(
            "When does the head get its first token if three others share its pass? And when would "
            "it, alone?",
            "Keep the ids and the tokens of the batch so far, the head's to begin with, and look "
            "at the batch as it would be with the next waiter.",
            "Add the waiter's tokens before you judge. Two numbers decide: the tokens of the whole "
            "batch, and what is left of the head's time to its deadline once a pass over them is "
            "paid for. Each has its own limit, and the first waiter that breaks one ends the loop.",
        ),
        check=check_slo_batch,
        task=Task(
            signature="slo_batch(head: slo.SloView, waiters: list[slo.SloView], a: float, "
            "c: float, bound: int, guard: float) -> list[int]",
            rules=(
                "A pass over n tokens takes a * n + c microseconds, and all requests in it get "
                "done when it ends. Each brings the `tokens` that it still has to compute.",
                "`waiters` are in order, the most urgent first. Take one after the other along as "
                "long as the batch with it keeps to the next two limits.",
                "All together, the head included, bring at most `bound` tokens.",
                "The head, whose deadline is `time_to_deadline_us` microseconds away, has at least "
                "`guard` times its SLO (`slo_us`) to spare when the pass ends.",
                "Stop at the first waiter for which there is no room: none behind it may overtake "
                "it.",
                "The head always runs, alone if it has to.",
                "Returns the ids of the batch, the head's first. `waiters` stay as they are.",
            ),
            args=(
                _batch_view(4, 300, 90),
                [_batch_view(2, 200, 400), _batch_view(7, 100, 900)],
                100.0,
                10_000.0,
                2048,
                0.125,
            ),
            result=[4, 2],
        ),
    ),
)
