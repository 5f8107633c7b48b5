"""Exercise 5.3: which running request to preempt, if any."""

import random
from dataclasses import replace
from typing import Any

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Task
from course.harness import Ask, Failure, Rows
from nanogpt.slo.prefill_simulation import simulate
from nanogpt.slo.slo_policies import SloPolicies
from nanogpt.slo.variants import BATCHED, ROUND_COST, starved
from nanogpt.views.slo_view import SloView
from solutions.l05_slo_policy._views import any_moments, seen
from solutions.l05_slo_policy._wrong_victims import MISCONCEPTIONS

# --- right answers ------------------------------------------------------------------------------


def select_victim(candidate: SloView, running: list[SloView], margin: float) -> int | None:
    """Return the id of the request to preempt for `candidate`, or None for no preemption."""
    # Compare the signs first, because the margin raises the bar only for positive scores: 1.2 times
    # -0.010 is -0.012, and a less urgent candidate with -0.011 would be above it.
    eligible = [runner for runner in running if runner.num_preemptions == 0]
    eligible.sort(key=lambda runner: (-runner.edf_score, runner.id))
    if candidate.slack_us < 0 or not eligible:
        return None
    incumbent = eligible[0]
    if incumbent.slack_us < 0 or candidate.edf_score > margin * incumbent.edf_score:
        return eligible[-1].id
    return None


def by_each_claim(candidate: SloView, running: list[SloView], margin: float) -> int | None:
    if candidate.slack_us < 0:
        return None
    left = [runner for runner in running if not runner.num_preemptions]
    for runner in left:
        if runner.slack_us >= 0 and candidate.edf_score <= margin * runner.edf_score:
            return None
    return min(left, key=lambda runner: (runner.edf_score, -runner.id)).id if left else None


def by_loop(candidate: SloView, running: list[SloView], margin: float) -> int | None:
    first: SloView | None = None
    last: SloView | None = None
    for runner in sorted(running, key=lambda runner: runner.id):
        if runner.num_preemptions > 0:
            continue
        if first is None or runner.edf_score > first.edf_score:
            first = runner
        if last is None or runner.edf_score <= last.edf_score:
            last = runner
    if first is None or last is None or candidate.is_doomed:
        return None
    if first.is_doomed:
        return last.id
    return last.id if candidate.edf_score / margin > first.edf_score else None


# --- cases --------------------------------------------------------------------------------------


def draw_call(name: str, args: Args) -> str:
    candidate, running, margin = args
    lines = [f"{name}(candidate, running, margin={margin})"]
    for role, view in (("candidate", candidate), *(("running", each) for each in running)):
        lines.append(
            f"{role} id={view.id}: slack_us={view.slack_us}, edf_score={view.edf_score:.4g}, "
            f"num_preemptions={view.num_preemptions}"
        )
    return "\n".join(lines)


JUDGE = Comparison(
    select_victim,
    MISCONCEPTIONS,
    "Which running requests are not immune, does one of them forbid the preemption, and which one "
    "is the least urgent?",
    evidence=any_moments(random.Random(5), 40),
)


def moment(candidate: SloView, *running: SloView, margin: float = 1.2) -> Args:
    return candidate, list(running), margin


CANDIDATE, MIDDLE = seen(7, 50, 10), seen(7, 100, 10)
NEAR, FAR, LATE = seen(2, 45, 20), seen(5, 400, 300), seen(4, 120, -30)
IMMUNE_NEAR, IMMUNE_FAR = seen(2, 45, 20, preempted=1), seen(5, 400, 300, preempted=1)
ONE_RUNNER = (
    *(
        moment(CANDIDATE, seen(3, left_ms, slack_ms))
        for left_ms, slack_ms in ((400, 300), (52, 30), (20, 5), (50, 25), (64, 30))
    ),
    moment(CANDIDATE, seen(3, 52, 30), margin=1.0),
    moment(CANDIDATE, seen(3, 100, 30), margin=2.0),
    moment(CANDIDATE, seen(3, 50, 30), margin=1.0),
    moment(seen(7, 60, 10), seen(3, 69, 30)),
    moment(seen(7, 400, 10), seen(3, 449, 300), margin=1.125),
    moment(CANDIDATE),
    moment(CANDIDATE, seen(0, 400, 300)),
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
    moment(CANDIDATE, FAR, NEAR),
    moment(CANDIDATE, FAR, seen(2, 200, 150)),
    moment(CANDIDATE, seen(2, 200, 150), FAR),
    moment(MIDDLE, LATE, seen(2, 90, 50)),
    moment(MIDDLE, LATE, seen(5, 40, -30)),
    moment(CANDIDATE, FAR, seen(3, 400, 200)),
    moment(CANDIDATE, seen(3, 400, 200), FAR),
    moment(CANDIDATE, FAR, seen(9, 200, 150)),
)
IMMUNE = (
    moment(CANDIDATE, IMMUNE_FAR),
    moment(CANDIDATE, IMMUNE_FAR, seen(6, 800, 500, preempted=2)),
    moment(CANDIDATE, IMMUNE_NEAR, FAR),
    moment(CANDIDATE, NEAR, IMMUNE_FAR),
    moment(CANDIDATE, seen(3, 200, 150), IMMUNE_FAR),
    moment(CANDIDATE, seen(3, 200, 150), IMMUNE_FAR, FAR),
    moment(seen(7, 50, 10, preempted=1), FAR),
    moment(CANDIDATE, seen(3, 30, -9, preempted=1)),
)
WORKLOAD = "request 0: 4000 tokens, at 0 ms; urgent ones of 200 tokens, at 300 and 600 ms"


def long_prompt(ask: Ask, rng: random.Random) -> Failure | None:
    """Apply every decision, right or wrong: the long prompt may not be preempted twice."""
    asked: list[Args] = []

    def select_victim(*args: Any) -> int | None:
        asked.append(args)
        victim = ask(*args)
        return next((runner.id for runner in args[1] if runner.id == victim), None)

    run = simulate(starved(2), BATCHED, ROUND_COST, SloPolicies(select_victim=select_victim))
    failure = JUDGE.judge(ask, asked) if run.results[0].num_preemptions > 1 else None
    if failure is None:
        return None
    passes = "\n".join(f"{p.start_us // 1000} ms: {p.ids[0]}, {p.ending}" for p in run.passes)
    rows: Rows = (("workload", WORKLOAD), ("passes", passes))
    return replace(failure, example=rows + failure.example)


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
        rules=(
            "`running` are the requests of the pass that runs now, in any order. Those with "
            "`num_preemptions` above 0 are immune and do not count; perhaps none is left.",
            "Preempt only if the candidate can still meet its deadline (`slack_us` of 0 or more), "
            "and only if its `edf_score` is more than `margin` times the score of every request "
            "that counts and can still meet its own deadline.",
            "Return the `id` of the least urgent request that counts, or None for no preemption. "
            "Of two equal scores, the request with the lower `id` is more urgent. `running` must "
            "not be changed.",
        ),
        args=(seen(7, 50, 10), [seen(5, 400, 300), seen(3, 100, 30)], 1.2),
        call="select_victim(candidate, running, 1.2)\n"
        "candidate: id 7, slack 10 ms, edf_score 0.02\n"
        "running:   id 5, slack 300 ms, edf_score 0.0025\n"
        "           id 3, slack 30 ms, edf_score 0.01\n"
        "None of them was preempted before.",
        steps=(
            "Neither 5 nor 3 is immune, and both can meet their deadlines. So can the candidate.",
            "Its score of 0.02 is more than 1.2 times 0.0025 and more than 1.2 times 0.01.",
            "So a request is preempted: 5, the less urgent of the two.",
        ),
        result=5,
    ),
    hints=(
        "Multiply a score of -0.010 by 1.2. Is the result higher or lower? So what do you have to "
        "know before you use the margin?",
        "Three questions end in None: can the candidate be in time, does any running request "
        "count, and does one of those that can be in time score too high?",
        "Keep the requests that are not immune in a list. Return None if the candidate's slack is "
        "below 0 or the list is empty. Compare scores only with those whose slack is not below 0. "
        "The victim is the minimum by `(edf_score, -id)`.",
    ),
    right=(select_victim, by_each_claim, by_loop),
    misconceptions=MISCONCEPTIONS,
    draw_call=draw_call,
    checks=(
        ("one running request", JUDGE.on(*ONE_RUNNER)),
        ("doomed requests", JUDGE.on(*DOOMED)),
        ("several running requests", JUDGE.on(*SEVERAL_RUNNERS)),
        ("a long prompt among urgent ones", long_prompt),
        ("immune requests", JUDGE.on(*IMMUNE)),
        ("any moment", JUDGE.on_drawn(lambda rng: any_moments(rng, 60))),
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
        "by_each_claim(): if runner.slack_us >= {0 => -1} and candidate.edf_score <= margin * "
        "runner.edf_score:": BEATS_THE_DOOMED,
        "by_loop(): if first is None or runner.edf_score {> => >=} first.edf_score:": (
            "of the most urgent request only the score matters"
        ),
    },
)
