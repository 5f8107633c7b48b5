"""Exercise 5.3: which running request to preempt, if any."""

import random
from dataclasses import replace
from typing import Any

from course.checks.comparing import Args, Comparison
from course.checks.shrinking import shrink
from course.exercise import Exercise
from course.harness import Ask, Failure, Rows
from course.task import Task
from nanogpt.slo.slo_view import SloView
from solutions.l05_slo_policy._prefills import (
    Job,
    Prefills,
    Workload,
    any_workloads,
    smaller_workloads,
)
from solutions.l05_slo_policy._views import any_moments, seen
from solutions.l05_slo_policy._wrong_victims import MISCONCEPTIONS

# --- right answers ------------------------------------------------------------------------------


def select_victim(
    candidate: SloView, running: list[SloView], margin: float, mode: str
) -> int | None:
    """Return the id of the request to preempt for `candidate`, or None for no preemption."""
    # Compare the signs first. A margin raises the bar only where scores are positive: 1.2 times
    # -0.010 is -0.012, and a less urgent candidate with -0.011 would pass.
    candidates = [runner for runner in running if runner.num_preemptions == 0]
    candidates.sort(key=lambda runner: (-runner.edf_score, runner.id))
    if candidate.slack_us < 0 or not candidates:
        return None
    incumbent = candidates[0] if mode == "conservative" else candidates[-1]
    if incumbent.slack_us < 0 or candidate.edf_score > margin * incumbent.edf_score:
        return candidates[-1].id
    return None


def by_four_cases(
    candidate: SloView, running: list[SloView], margin: float, mode: str
) -> int | None:
    can_go = [runner for runner in running if not runner.num_preemptions]
    if not can_go:
        return None
    last = min(can_go, key=lambda runner: (runner.edf_score, -runner.id))
    first = max(can_go, key=lambda runner: runner.edf_score)
    incumbent = {"conservative": first, "aggressive": last}[mode]
    match candidate.slack_us >= 0, incumbent.slack_us >= 0:
        case False, _:
            return None
        case True, False:
            return last.id
        case _:
            return last.id if candidate.edf_score / margin > incumbent.edf_score else None


def by_loop(candidate: SloView, running: list[SloView], margin: float, mode: str) -> int | None:
    first: SloView | None = None
    last: SloView | None = None
    for runner in sorted(running, key=lambda runner: runner.id):
        if runner.num_preemptions > 0:
            continue
        if first is None or runner.edf_score > first.edf_score:
            first = runner
        if last is None or runner.edf_score <= last.edf_score:
            last = runner
    incumbent = last if mode == "aggressive" else first
    if incumbent is None or last is None or candidate.is_doomed:
        return None
    if incumbent.is_doomed:
        return last.id
    return last.id if candidate.edf_score > incumbent.edf_score * margin else None


# --- cases --------------------------------------------------------------------------------------


def draw_call(name: str, args: Args) -> str:
    candidate, running, margin, mode = args
    lines = [f"{name}(candidate, running, margin={margin}, mode={mode!r})"]
    for role, view in (("candidate", candidate), *(("running", each) for each in running)):
        lines.append(
            f"{role} id={view.id}: slack_us={view.slack_us}, edf_score={view.edf_score:.4g}, "
            f"num_preemptions={view.num_preemptions}"
        )
    return "\n".join(lines)


JUDGE = Comparison(
    select_victim,
    MISCONCEPTIONS,
    "A preemption is worth its price when it saves the candidate and takes time from a request "
    "that has more time, or that misses its deadline anyway.",
    evidence=any_moments(random.Random(5), 40),
)


def moment(
    candidate: SloView, *running: SloView, margin: float = 1.2, mode: str = "conservative"
) -> Args:
    return candidate, list(running), margin, mode


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

    def select_victim(*args: Any) -> Any:
        asked.append(args)
        return ask(*args)

    prefills = Prefills(STARVED, select_victim)
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
        return select_victim(*args)

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
        now = f"{prefills.now_us / 1000:g} ms: select_victim is called"
        rows: Rows = (
            ("workload", str(prefills.workload)),
            ("passes", "\n".join([*prefills.diary[-5:], now])),
        )
        return replace(failure, example=rows + failure.example)
    return None


NOT_ITS_OWN = "the rules look at the running requests' own"
SIGN_ALONE = "only its sign counts"
BEATEN_ANYWAY = "a doomed incumbent scores below 0, and the candidate above"
BEATS_THE_DOOMED = "a candidate that can make it beats a doomed incumbent anyway"

EXERCISE = Exercise(
    number=3,
    title="Which request is preempted",
    minutes=14,
    points=4,
    task=Task(
        signature=(
            "select_victim(candidate: slo.SloView, running: list[slo.SloView], margin: float, "
            "mode: str) -> int | None"
        ),
        rules=(
            "`running` are the requests that run now, in any order; the list may be empty. A "
            "running request that was preempted before (`num_preemptions` above 0) is immune: "
            "leave it out of everything that follows.",
            "A higher `edf_score` is more urgent; among equal scores, the lower `id` is.",
            "Compare the candidate with one running request, the incumbent: the most urgent one if "
            '`mode` is "conservative", the least urgent one if it is "aggressive".',
            "A request with a `slack_us` below 0 is doomed: it misses its deadline anyway. Its "
            "`edf_score` is negative.",
            "If the candidate is doomed, nothing is preempted. If only the incumbent is doomed, a "
            "running request is preempted.",
            "If both can meet their deadlines, the candidate's score has to be more than `margin` "
            "(at least 1) times the incumbent's.",
            "Returns the `id` of the request to preempt, or None for no preemption. The victim is "
            "the least urgent running request in both modes.",
        ),
        args=(seen(7, 50, 10), [seen(5, 400, 300), seen(3, 100, 30)], 1.2, "conservative"),
        result=5,
    ),
    hints=(
        "Multiply a score of -0.010 by 1.2. Is the bar higher or lower now? So what do you have to "
        "know before you use the margin?",
        "Leave out the immune requests first. Then there are four cases, the candidate and the "
        "incumbent each doomed or not: write down what happens in each. Only one of them needs the "
        "margin.",
        "Sort the requests that are not immune once: highest score first, lowest id first among "
        "equals. The incumbent is the first or the last of that list, depending on the mode; the "
        "victim is always the last.",
    ),
    right=(select_victim, by_four_cases, by_loop),
    misconceptions=MISCONCEPTIONS,
    draw_call=draw_call,
    checks=(
        ("one running request", JUDGE.on(*ONE_RUNNER)),
        ("doomed requests", JUDGE.on(*DOOMED)),
        ("several running requests, two modes", JUDGE.on(*SEVERAL_RUNNERS)),
        ("a long prompt among urgent ones", long_prompt),
        ("immune requests", JUDGE.on(*IMMUNE)),
        ("any moment", JUDGE.on_drawn(lambda rng: any_moments(rng, 60))),
        ("whole workloads", whole_workloads),
    ),
    equivalent_mutants={
        "candidate.id always 7": NOT_ITS_OWN,
        "candidate.id at most 7": NOT_ITS_OWN,
        "candidate.id at least 1": NOT_ITS_OWN,
        "candidate.slack_us at most 7": SIGN_ALONE,
        "candidate.num_preemptions always 0": NOT_ITS_OWN,
        "candidate.num_preemptions at most 7": NOT_ITS_OWN,
        "candidate.num_preemptions at least 1": NOT_ITS_OWN,
        "running: reversed": "they come in any order",
        "running.slack_us always 300000": BEATEN_ANYWAY,
        "running.slack_us at most 7": SIGN_ALONE,
        "running.slack_us at least 1": BEATEN_ANYWAY,
        "running.num_preemptions at most 7": "above 0 is immune",
        "if candidate.edf_score > margin * incumbent.edf_score:": BEATEN_ANYWAY,
        "select_victim(): if incumbent.slack_us < {0 => -1} or candidate.edf_score > "
        "margin * incumbent.edf_score:": BEATS_THE_DOOMED,
        "by_four_cases(): match (candidate.slack_us >= 0, incumbent.slack_us >= {0 => -1}):": (
            BEATS_THE_DOOMED
        ),
        "by_loop(): if first is None or runner.edf_score {> => >=} first.edf_score:": (
            "of the most urgent request only the score matters"
        ),
    },
)
