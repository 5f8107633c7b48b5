"""Exercise 5.4: the gate, which decides whether a runner gives way."""

import random
from dataclasses import replace
from typing import Any

import numpy as np

from course.checks.comparing import Args, Comparison
from course.checks.shrinking import shrink
from course.exercise import Exercise
from course.harness import Ask, Failure, Rows
from course.task import Task
from nanogpt.slo import SloView
from solutions.l05_slo_policy._gates import MISCONCEPTIONS
from solutions.l05_slo_policy._prefills import (
    Job,
    Prefills,
    Workload,
    any_workloads,
    smaller_workloads,
)
from solutions.l05_slo_policy._views import any_moments, seen

# --- right answers ------------------------------------------------------------------------------


def gate(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
    """Return the id of the runner to preempt for `waiter`, or None if there is no preemption."""
    # The signs go first. A margin asks for more only where scores are positive: times 1.2, a score
    # of -0.010 becomes -0.012, and a waiter with -0.011, less urgent, would pass.
    candidates = [runner for runner in runners if runner.num_preemptions == 0]
    candidates.sort(key=lambda runner: (-runner.urgency, runner.id))
    if waiter.slack_us < 0 or not candidates:
        return None
    reference = candidates[0] if mode == "conservative" else candidates[-1]
    if reference.slack_us < 0 or waiter.urgency > margin * reference.urgency:
        return candidates[-1].id
    return None


def by_four_cases(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
    can_go = [runner for runner in runners if not runner.num_preemptions]
    if not can_go:
        return None
    last = min(can_go, key=lambda runner: (runner.urgency, -runner.id))
    first = max(can_go, key=lambda runner: runner.urgency)
    reference = {"conservative": first, "aggressive": last}[mode]
    match waiter.slack_us >= 0, reference.slack_us >= 0:
        case False, _:
            return None
        case True, False:
            return last.id
        case _:
            return last.id if waiter.urgency / margin > reference.urgency else None


def with_one_comparison(
    waiter: SloView, runners: list[SloView], margin: float, mode: str
) -> int | None:
    # A waiter that can make it has a score above 0; that of a doomed reference stays below.
    scores = sorted((r.urgency, -r.id) for r in runners if r.num_preemptions < 1)
    if waiter.urgency < 0 or not scores:
        return None
    reference, _ = scores[-1] if mode == "conservative" else scores[0]
    return -scores[0][1] if waiter.urgency > margin * reference else None


def by_loop(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> int | None:
    first: SloView | None = None
    last: SloView | None = None
    for runner in sorted(runners, key=lambda runner: runner.id):
        if runner.num_preemptions > 0:
            continue
        if first is None or runner.urgency > first.urgency:
            first = runner
        if last is None or runner.urgency <= last.urgency:
            last = runner
    reference = last if mode == "aggressive" else first
    if reference is None or last is None or waiter.is_doomed:
        return None
    if reference.is_doomed:
        return last.id
    return last.id if waiter.urgency > reference.urgency * margin else None


def by_counting_those_it_beats(
    waiter: SloView, runners: list[SloView], margin: float, mode: str
) -> int | None:
    can_go = [runner for runner in runners if runner.num_preemptions == 0]
    # A waiter that can make it beats any doomed runner: its score is above 0, theirs below.
    beaten = [runner for runner in can_go if waiter.urgency > margin * runner.urgency]
    enough = all if mode == "conservative" else any
    if waiter.slack_us < 0 or not can_go or not enough(each in beaten for each in can_go):
        return None
    can_go.sort(key=lambda runner: runner.id, reverse=True)
    return min(can_go, key=lambda runner: runner.urgency).id


def with_numpy(waiter: SloView, runners: list[SloView], margin: float, mode: str) -> Any:
    can_go = [runner for runner in runners if runner.num_preemptions == 0]
    if not can_go or waiter.slack_us < 0:
        return None
    scores = np.array([runner.urgency for runner in can_go])
    bar = scores.max() if mode == "conservative" else scores.min()
    ids = np.array([runner.id for runner in can_go])
    # A doomed reference has a score below 0, and so has margin times it.
    return ids[scores == scores.min()].max() if waiter.urgency > margin * bar else None


# --- cases --------------------------------------------------------------------------------------


def draw_gate(name: str, args: Args) -> str:
    waiter, runners, margin, mode = args
    lines = [f"{name}(waiter, runners, margin={margin}, mode={mode!r})"]
    for role, view in (("waiter", waiter), *(("runner", each) for each in runners)):
        lines.append(
            f"{role} id={view.id}: slack_us={view.slack_us}, urgency={view.urgency:.4g}, "
            f"num_preemptions={view.num_preemptions}"
        )
    return "\n".join(lines)


JUDGE = Comparison(
    gate,
    MISCONCEPTIONS,
    "A preemption is worth its price when it saves the waiter, and takes the time from a runner "
    "that has more of it or has lost already.",
    evidence=any_moments(random.Random(5), 40),
)


def moment(
    waiter: SloView, *runners: SloView, margin: float = 1.2, mode: str = "conservative"
) -> Args:
    return waiter, list(runners), margin, mode


WAITER, MIDDLE = seen(7, 50, 10), seen(7, 100, 10)
NEAR, FAR, LATE = seen(2, 45, 20), seen(5, 400, 300), seen(4, 120, -30)
IMMUNE_NEAR, IMMUNE_FAR = seen(2, 45, 20, preempted=1), seen(5, 400, 300, preempted=1)
ONE_RUNNER = (
    *(
        moment(WAITER, seen(3, left_ms, slack_ms))
        for left_ms, slack_ms in ((400, 300), (52, 30), (20, 5), (50, 25), (64, 30))
    ),
    moment(WAITER, seen(3, 52, 30), margin=1.0),
    moment(WAITER, seen(3, 100, 30), margin=2.0),
    moment(WAITER, seen(3, 50, 30), margin=1.0),
    moment(seen(7, 60, 10), seen(3, 69, 30)),
    moment(seen(7, 400, 10), seen(3, 449, 300), margin=1.125),
    moment(WAITER),
)
DOOMED = (
    moment(seen(7, 91, -4), seen(3, 100, -20)),
    moment(seen(7, 91, -4), seen(3, 400, 300)),
    moment(seen(7, 90, 10), seen(3, 100, -20)),
    moment(seen(7, 90, 10), seen(3, 20, -20)),
    moment(seen(7, 400, -0.001), seen(3, 50, -20)),
    moment(seen(7, 400, 1), seen(3, 50, -0.001)),
    moment(seen(7, 50, 0), seen(3, 400, 300)),
    moment(seen(7, 50, 20), seen(3, 40, 0)),
)
SEVERAL_RUNNERS = (
    moment(WAITER, FAR, NEAR),
    moment(WAITER, NEAR, FAR, mode="aggressive"),
    moment(WAITER, FAR, seen(2, 200, 150)),
    moment(WAITER, seen(2, 200, 150), FAR),
    moment(MIDDLE, LATE, seen(2, 90, 50)),
    moment(MIDDLE, seen(2, 90, 50), LATE, mode="aggressive"),
    moment(MIDDLE, LATE, seen(5, 40, -30)),
    moment(MIDDLE, LATE, seen(5, 40, -30), mode="aggressive"),
    moment(WAITER, FAR, seen(3, 400, 200)),
    moment(WAITER, seen(3, 400, 200), FAR, mode="aggressive"),
)
IMMUNE = (
    moment(WAITER, IMMUNE_FAR),
    moment(WAITER, IMMUNE_FAR, seen(6, 800, 500, preempted=2), mode="aggressive"),
    moment(WAITER, IMMUNE_NEAR, FAR),
    moment(WAITER, NEAR, IMMUNE_FAR, mode="aggressive"),
    moment(WAITER, seen(3, 200, 150), IMMUNE_FAR),
    moment(WAITER, seen(3, 200, 150), IMMUNE_FAR, FAR, mode="aggressive"),
    moment(seen(7, 50, 10, preempted=1), FAR),
    moment(WAITER, seen(3, 30, -9, preempted=1)),
)
STARVED = Workload(
    "conservative",
    1.2,
    1,
    (Job(0, 2000, 4000), *(Job(150 * number, 200, 60) for number in range(1, 5))),
)
MAX_PASSES = 40


def long_prompt(ask: Ask, rng: random.Random) -> Failure | None:
    """Liveness: each decision is applied, right or wrong, and none may be thrown back twice."""
    asked: list[Args] = []

    def gate(*args: Any) -> Any:
        asked.append(args)
        return ask(*args)

    prefills = Prefills(STARVED, gate)
    prefills.run(MAX_PASSES)
    failure = JUDGE.judge(ask, asked) if max(prefills.lost) > 1 else None
    if failure is None:
        return None
    rows: Rows = (("workload", str(STARVED)), ("passes", "\n".join(prefills.diary)))
    return replace(failure, example=rows + failure.example)


class Found(Exception):
    """Ends a workload at the first wrong decision."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.idea)
        self.failure = failure


def first_wrong(ask: Ask, workload: Workload) -> tuple[Prefills, Failure] | None:
    """Where a workload, served by the rules, comes to a decision that the answer gets wrong."""

    def judged(*args: Any) -> Any:
        failure = JUDGE.judge(ask, [args])
        if failure:
            raise Found(failure)
        return gate(*args)

    prefills = Prefills(workload, judged)
    try:
        prefills.run(MAX_PASSES)
    except Found as found:
        return prefills, found.failure
    return None


def whole_workloads(ask: Ask, rng: random.Random) -> Failure | None:
    """The first wrong decision, in the smallest workload that comes to one of the same kind."""
    for workload in any_workloads(rng, (2, 3, 3, 4, 5, 6)):
        bad = first_wrong(ask, workload)
        if bad is None:
            continue

        def breaks(candidate: Workload) -> bool:
            nonlocal bad
            found = first_wrong(ask, candidate)
            if found is None or bad is None or found[1].misconception != bad[1].misconception:
                return False
            bad = found
            return True

        shrink(workload, smaller_workloads, breaks)
        prefills, failure = bad
        now = f"{prefills.now_us / 1000:g} ms: the gate is asked"
        rows: Rows = (
            ("workload", str(prefills.workload)),
            ("passes", "\n".join([*prefills.diary[-5:], now])),
        )
        return replace(failure, example=rows + failure.example)
    return None


NOT_ITS_OWN = "the rules look at the runners' own"
SIGN_ALONE = "only its sign counts"
BEATEN_ANYWAY = "a doomed reference has an urgency below 0, and that of the waiter is above"
BEATS_THE_DOOMED = "a waiter that can make it beats a doomed reference anyway"

EXERCISE = Exercise(
    number=4,
    title="Which runner gives way",
    minutes=14,
    points=4,
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
    right=(
        gate,
        by_four_cases,
        with_one_comparison,
        by_loop,
        by_counting_those_it_beats,
        with_numpy,
    ),
    misconceptions=MISCONCEPTIONS,
    draw_call=draw_gate,
    checks=(
        ("one runner", JUDGE.on(*ONE_RUNNER)),
        ("those that cannot be saved", JUDGE.on(*DOOMED)),
        ("several runners, two modes", JUDGE.on(*SEVERAL_RUNNERS)),
        ("a long prompt among urgent ones", long_prompt),
        ("immune runners", JUDGE.on(*IMMUNE)),
        ("any moment", JUDGE.on_drawn(lambda rng: any_moments(rng, 60))),
        ("whole workloads", whole_workloads),
    ),
    still_right={
        "waiter.id always 7": NOT_ITS_OWN,
        "waiter.id at most 7": NOT_ITS_OWN,
        "waiter.id at least 1": NOT_ITS_OWN,
        "waiter.slack_us at most 7": SIGN_ALONE,
        "waiter.num_preemptions always 0": NOT_ITS_OWN,
        "waiter.num_preemptions at most 7": NOT_ITS_OWN,
        "waiter.num_preemptions at least 1": NOT_ITS_OWN,
        "runners: reversed": "they come in any order",
        "runners.slack_us always 300000": BEATEN_ANYWAY,
        "runners.slack_us at most 7": SIGN_ALONE,
        "runners.slack_us at least 1": BEATEN_ANYWAY,
        "runners.num_preemptions at most 7": "above 0 is immune",
        "if waiter.urgency > margin * reference.urgency:": BEATEN_ANYWAY,
        "gate(): if reference.slack_us < {0 => -1} or waiter.urgency > margin * "
        "reference.urgency:": BEATS_THE_DOOMED,
        "by_four_cases(): match (waiter.slack_us >= 0, reference.slack_us >= {0 => -1}):": (
            BEATS_THE_DOOMED
        ),
        "with_one_comparison(): if waiter.urgency {< => <=} 0 or not scores:": "a score is never 0",
        "by_loop(): if first is None or runner.urgency {> => >=} first.urgency:": (
            "of the most urgent only the urgency matters"
        ),
    },
)
