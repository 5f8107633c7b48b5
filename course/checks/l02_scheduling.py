"""Checks of lesson 2, the scheduler."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from course.checks.comparing import Args, Comparison
from course.checks.queueing import (
    SORT_KEY,
    any_queues,
    draw_ranks,
)
from course.checks.requests import last_admitted, make_request
from course.checks.scheduling import (
    ADMIT,
    CHOOSE_VICTIM,
    RECORD,
    RESUME,
    any_candidates,
    any_resumed,
    any_running,
)
from course.checks.serving import (
    Decisions,
    Job,
    Serving,
    Workload,
    sawtooth,
    smaller_workloads,
    start_over,
)
from course.checks.shrinking import shrink
from course.judging import Ask, Check, Failure, Rows, run_checks
from course.registry import Exercise
from course.report import Report
from course.showing import show
from course.task import Task
from nanogpt import policies
from nanogpt.policies import RequestView

# --- sort_key --------------------------------------------------------------------------------


def _two_policies(ask: Ask, rng: random.Random) -> Failure | None:
    early = make_request(0, priority=2, arrival_time=0)
    late = make_request(1, priority=0, arrival_time=1)
    return SORT_KEY.judge(ask, [[(p, early), (p, late)] for p in ("fcfs", "priority")])


def _far_apart(ask: Ask, rng: random.Random) -> Failure | None:
    """However early the less important one came, and however unimportant it is."""
    early = make_request(3, priority=9, arrival_time=0)
    late = make_request(1, priority=8, arrival_time=2_000_000)
    return SORT_KEY.judge(ask, [[(p, early), (p, late)] for p in ("priority", "fcfs")])


def _among_equals(ask: Ask, rng: random.Random) -> Failure | None:
    early = make_request(0, priority=1, arrival_time=2, max_new_tokens=30)
    late = make_request(1, priority=1, arrival_time=5, max_new_tokens=3)
    return SORT_KEY.judge(ask, [[("priority", early), ("priority", late)]])


def _come_back(ask: Ask, rng: random.Random) -> Failure | None:
    back = make_request(0, priority=1, arrival_time=2, admitted_at=9, generated=3)
    new = make_request(1, priority=1, arrival_time=6)
    return SORT_KEY.judge(ask, [[(p, back), (p, new)] for p in ("priority", "fcfs")])


def _unknown_policy(ask: Ask, rng: random.Random) -> Failure | None:
    called = ask.call("shortest", make_request(0), may_raise=True)
    if isinstance(called.error, ValueError):
        return None
    if called.error is None:
        idea = (
            "There is no policy of that name: raise a ValueError, or a typing error in a setting "
            "goes unnoticed and decides who waits."
        )
        got, key = show(called.value), "unknown_policy"
    else:
        got, key = type(called.error).__name__, "wrong_error"
        idea = (
            f"An unknown policy is a wrong value and deserves a ValueError; a {got} looks like a "
            "mistake in your own code."
        )
    rows: Rows = (
        ("input", draw_ranks(ask.name, ask.args)),
        ("expected", "ValueError"),
        ("got", got),
    )
    return Failure(idea, rows, key)


def _any_queue(ask: Ask, rng: random.Random) -> Failure | None:
    return SORT_KEY.judge(ask, any_queues(rng, 4))


_SORT_KEY_CHECKS: tuple[tuple[str, Check], ...] = (
    ("two requests, two policies", _two_policies),
    ("far apart", _far_apart),
    ("equal priorities", _among_equals),
    ("a request that comes back", _come_back),
    ("a policy that does not exist", _unknown_policy),
    ("any queue", _any_queue),
)


def check_sort_key(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l02.sort_key."""
    return run_checks("l02.sort_key", function, _SORT_KEY_CHECKS, seed=seed)


# --- workloads -------------------------------------------------------------------------------

_MAX_STEPS = 400


class _Found(Exception):
    """Ends a workload at the first wrong decision."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.idea)
        self.failure = failure


def _judged(comparison: Comparison[Any], ask: Ask) -> Callable[..., Any]:
    """The learner's decision, judged before it is applied."""

    def decide(*args: Any) -> Any:
        failure = comparison.judge(ask, [args])
        if failure:
            raise _Found(failure)
        return comparison.reference(*args)

    return decide


def _first_wrong(workload: Workload, decisions: Decisions) -> tuple[int, Failure] | None:
    """The step of the first wrong decision, and what is wrong with it; None when all are right."""
    serving = Serving(workload, decisions)
    try:
        serving.run(_MAX_STEPS)
    except _Found as found:
        return serving.step, found.failure
    return None


def _judge_workloads(decisions: Decisions, workloads: Sequence[Workload]) -> Failure | None:
    """The first wrong decision, in the smallest workload that comes to one of the same kind."""
    for workload in workloads:
        found = _first_wrong(workload, decisions)
        if found is None:
            continue
        key, bad = found[1].misconception, (workload, *found)

        def breaks(candidate: Workload, key: str | None = key) -> bool:
            nonlocal bad
            found = _first_wrong(candidate, decisions)
            if found is None or found[1].misconception != key:
                return False
            bad = (candidate, *found)
            return True

        shrink(workload, smaller_workloads, breaks)
        smallest, step, failure = bad
        rows: Rows = (("workload", str(smallest)), ("step", str(step)))
        return Failure(failure.idea, rows + failure.example, failure.misconception)
    return None


def _any_workloads(rng: random.Random, sizes: Sequence[int], slack: int) -> list[Workload]:
    """Workloads whose KV budget is short: `slack` tokens more than the largest job needs."""
    workloads: list[Workload] = []
    for size in sizes:
        jobs = tuple(
            Job(rng.randint(0, 4), rng.randrange(3), rng.randint(1, 7), rng.randint(3, 8))
            for _ in range(size)
        )
        needed = max(job.prompt + job.new - 1 for job in jobs)
        policy = rng.choice(("fcfs", "priority", "priority alone"))
        workloads.append(Workload(policy, needed + rng.randint(0, slack), rng.randint(2, 4), jobs))
    return workloads


_TWO_EQUAL = Workload("fcfs", 22, 8, (Job(0, 0, 10, 10), Job(0, 0, 10, 10)))


# --- admit -----------------------------------------------------------------------------------


def _now_or_later(ask: Ask, rng: random.Random) -> Failure | None:
    candidate = make_request(1, 10, max_new_tokens=6)
    return ADMIT.judge(
        ask,
        [
            (candidate, 0, 22, 0, 4),
            (candidate, 8, 22, 1, 4),
            (candidate, 15, 22, 1, 4),
            (candidate, 4, 22, 4, 4),
        ],
    )


def _to_the_last(ask: Ask, rng: random.Random) -> Failure | None:
    candidate = make_request(1, 10, max_new_tokens=6)
    return ADMIT.judge(
        ask,
        [
            (candidate, 8, 22, 3, 4),
            (candidate, 12, 22, 1, 4),
            (candidate, 13, 22, 1, 4),
            (candidate, 0, 15, 0, 4),
            (make_request(1, 1, max_new_tokens=1), 0, 1, 0, 1),
            (candidate, 60, 100, 63, 64),
            (candidate, 60, 100, 64, 64),
        ],
    )


def _on_its_way_back(ask: Ask, rng: random.Random) -> Failure | None:
    back = make_request(1, 10, 3, max_new_tokens=6)
    return ADMIT.judge(
        ask, [(back, 11, 22, 1, 4), (back, 9, 22, 1, 4), (back, 10, 22, 1, 4), (back, 0, 15, 0, 4)]
    )


def _never(ask: Ask, rng: random.Random) -> Failure | None:
    long_prompt, long_text = (
        make_request(1, 23, max_new_tokens=4),
        make_request(1, 10, max_new_tokens=14),
    )
    return ADMIT.judge(
        ask,
        [
            (long_prompt, 0, 22, 0, 4),
            (long_text, 0, 22, 0, 4),
            (long_text, 20, 22, 2, 4),
            (long_text, 4, 22, 4, 4),
            (make_request(1, 10, max_new_tokens=13), 0, 22, 0, 4),
            (make_request(1, 1, max_new_tokens=1), 0, 0, 0, 4),
        ],
    )


def _no_limit(ask: Ask, rng: random.Random) -> Failure | None:
    candidate = make_request(1, 10, max_new_tokens=6)
    return ADMIT.judge(ask, [(candidate, 500, None, 1, 4), (candidate, 500, None, 4, 4)])


def _any_candidate(ask: Ask, rng: random.Random) -> Failure | None:
    return ADMIT.judge(ask, any_candidates(rng, 60))


def _admit_workloads(ask: Ask, rng: random.Random) -> Failure | None:
    workloads = _any_workloads(rng, (2, 3, 5), slack=3)
    never = Job(1, 0, workloads[-1].kv_budget, 2)
    workloads[-1] = replace(workloads[-1], slots=2, jobs=(*workloads[-1].jobs, never))
    return _judge_workloads(Decisions(admit=_judged(ADMIT, ask)), workloads)


_ADMIT_CHECKS: tuple[tuple[str, Check], ...] = (
    ("now or later", _now_or_later),
    ("to the last token and the last place", _to_the_last),
    ("on the way back from a preemption", _on_its_way_back),
    ("what can never run", _never),
    ("no limit", _no_limit),
    ("any candidate", _any_candidate),
    ("whole workloads, to the last token", _admit_workloads),
)


def check_admit(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l02.admit."""
    return run_checks("l02.admit", function, _ADMIT_CHECKS, seed=seed)


# --- choose_victim ---------------------------------------------------------------------------


def _running(id: int, key: tuple[float, ...], **fields: Any) -> RequestView:
    """A running request; its priority is 0 unless it is said."""
    return make_request(id, 10, key=key, **({"admitted_at": 0, "kv_tokens": 10} | fields))


def _important_newcomer(ask: Ask, rng: random.Random) -> Failure | None:
    a = _running(0, (2, 0), priority=2, generated=2, kv_tokens=11)
    b = _running(1, (0, 1), arrival_time=1, admitted_at=1)
    c = _running(2, (1, 0), priority=1, generated=1)
    return CHOOSE_VICTIM.judge(ask, [([a, b],), ([b, a, c],), ([b],)])


def _two_equal(ask: Ask, rng: random.Random) -> Failure | None:
    """Liveness: each choice is applied, right or wrong, and whoever is preempted starts over."""
    asked: list[Args] = []

    def choose(active: list[RequestView]) -> int:
        chosen = ask(active)
        if chosen not in [request.id for request in active]:
            raise _Found(CHOOSE_VICTIM.judge(ask, [(active,)]) or Failure(CHOOSE_VICTIM.idea))
        if chosen != policies.choose_victim(active):
            asked.append((active,))
        return chosen

    serving = Serving(_TWO_EQUAL, Decisions(choose_victim=choose, resume=start_over))
    try:
        if serving.run(60):
            return None
    except _Found as found:
        return found.failure
    failure = CHOOSE_VICTIM.judge(ask, asked) or Failure(CHOOSE_VICTIM.idea)
    rows: Rows = (
        ("workload", f"{_TWO_EQUAL}\nwhoever is preempted starts over, as in a simple engine"),
        ("generated", sawtooth(serving)),
    )
    return Failure(failure.idea, rows + failure.example, failure.misconception)


def _among_equal_keys(ask: Ask, rng: random.Random) -> Failure | None:
    old = _running(3, (1,), priority=1, arrival_time=0, admitted_at=6)
    new = _running(1, (1,), priority=1, arrival_time=4, admitted_at=5)
    twin = _running(2, (1,), priority=1, arrival_time=4, admitted_at=5)
    first, second = (_running(i, (7,), arrival_time=t) for i, t in ((50, 0), (9, 1)))
    third, fourth = (_running(i, (7,), arrival_time=t) for i, t in ((50, 800), (9, 900)))
    return CHOOSE_VICTIM.judge(
        ask,
        [
            ([old, new],),
            ([new, old],),
            ([new, twin, old],),
            ([twin, new],),
            ([first, second],),
            ([second, first],),
            ([third, fourth],),
        ],
    )


def _keys_of_a_policy(ask: Ask, rng: random.Random) -> Failure | None:
    """Under FCFS the key is the arrival, whatever the priorities are."""
    first = _running(3, (0,), priority=2, arrival_time=0)
    second = _running(1, (5,), priority=0, arrival_time=5, admitted_at=5)
    aged = _running(4, (9.5,), priority=1, arrival_time=2, admitted_at=2)
    two = [_running(i, (1, left), arrival_time=9 - left) for i, left in ((5, 2), (6, 8), (7, 5))]
    return CHOOSE_VICTIM.judge(ask, [([first, second],), ([second, aged, first],), (two,)])


def _any_running(ask: Ask, rng: random.Random) -> Failure | None:
    return CHOOSE_VICTIM.judge(ask, any_running(rng))


def _victim_workloads(ask: Ask, rng: random.Random) -> Failure | None:
    decisions = Decisions(choose_victim=_judged(CHOOSE_VICTIM, ask), resume=start_over)
    return _judge_workloads(decisions, _any_workloads(rng, (2, 3, 4, 6), slack=5))


_VICTIM_CHECKS: tuple[tuple[str, Check], ...] = (
    ("an important newcomer", _important_newcomer),
    ("two equal requests, to the last token", _two_equal),
    ("equal keys", _among_equal_keys),
    ("the key of another policy", _keys_of_a_policy),
    ("any running requests", _any_running),
    ("whole workloads, to the last token", _victim_workloads),
)


def check_choose_victim(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l02.choose_victim."""
    return run_checks("l02.choose_victim", function, _VICTIM_CHECKS, seed=seed)


# --- resume ----------------------------------------------------------------------------------


def _before_its_first_token(ask: Ask, rng: random.Random) -> Failure | None:
    return RESUME.judge(
        ask,
        [
            (make_request(0, 5, arrival_time=2, admitted_at=3, kv_tokens=4),),
            (make_request(0, 3, arrival_time=4, admitted_at=7, kv_tokens=0),),
        ],
    )


def _two_equal_come_back(ask: Ask, rng: random.Random) -> Failure | None:
    """The victim is whoever was admitted first, which is bad luck and no excuse."""

    def unlucky(active: list[RequestView]) -> int:
        return min(active, key=lambda request: (last_admitted(request), request.id)).id

    workload = replace(_TWO_EQUAL, jobs=(Job(1, 0, 10, 5), Job(2, 0, 10, 5)))
    decisions = Decisions(choose_victim=unlucky, resume=_judged(RESUME, ask))
    found = _first_wrong(workload, decisions)
    if found is None:
        return None
    failure = found[1]
    rows: Rows = ()
    if failure.misconception == "restarts":
        restarting = Serving(workload, Decisions(choose_victim=unlucky, resume=start_over))
        restarting.run(60)
        rows = (("workload", str(workload)), ("generated", sawtooth(restarting)))
    return Failure(failure.idea, rows + failure.example, failure.misconception)


def _anybody_resumed(ask: Ask, rng: random.Random) -> Failure | None:
    return RESUME.judge(ask, any_resumed(rng, 40))


def _resume_workloads(ask: Ask, rng: random.Random) -> Failure | None:
    decisions = Decisions(resume=_judged(RESUME, ask))
    return _judge_workloads(decisions, _any_workloads(rng, (2, 3, 4, 6), slack=5))


_RESUME_CHECKS: tuple[tuple[str, Check], ...] = (
    ("preempted before its first token", _before_its_first_token),
    ("two equal requests, to the last token", _two_equal_come_back),
    ("preempted at any moment", _anybody_resumed),
    ("whole workloads, to the last token", _resume_workloads),
)


def check_resume(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l02.resume."""
    return run_checks("l02.resume", function, _RESUME_CHECKS, seed=seed)


# --- record ----------------------------------------------------------------------------------


def _all_still_there(ask: Ask, rng: random.Random) -> Failure | None:
    return RECORD.judge(ask, [([3], [3], [41]), ([3, 5], [3, 5], [41, 7]), ([], [2], [])])


def _one_joined(ask: Ask, rng: random.Random) -> Failure | None:
    return RECORD.judge(ask, [([0, 1], [2, 0, 1], [41, 7]), ([4, 0], [0, 4, 1], [9, 9])])


def _one_done(ask: Ask, rng: random.Random) -> Failure | None:
    return RECORD.judge(ask, [([0, 1, 2], [1, 2], [41, 7, 30]), ([6], [], [7])])


def _any_step(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for _ in range(30):
        ids = rng.sample(range(300), rng.randint(1, 6))
        others = [i for i in range(300, 303) if rng.random() < 0.4]
        active = [i for i in ids if rng.random() < 0.8] + others
        rng.shuffle(active)
        cases.append((ids, active, [rng.randrange(rng.choice((3, 65))) for _ in ids]))
    return RECORD.judge(ask, sorted(cases, key=lambda case: len(case[0])))


_RECORD_CHECKS: tuple[tuple[str, Check], ...] = (
    ("nothing has changed since", _all_still_there),
    ("one has joined", _one_joined),
    ("one is done", _one_done),
    ("any step", _any_step),
)


def check_record(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l02.record."""
    return run_checks("l02.record", function, _RECORD_CHECKS, seed=seed)


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l02.sort_key",
        lesson="l02_scheduling",
        name="sort_key",
        title="Who goes first",
        minutes=6,
        points=1,
        part="sort_key",
        hints=(
            "Tuples compare from the left. Which number decides, and which one only breaks ties?",
            "Under fcfs one number is enough. Under priority it takes two, and 0 is the most "
            "important priority while the smallest rank goes first: does anything need a minus?",
            "Three branches, one per policy and one for the rest. Write each rank for a request of "
            "priority 1 that arrived in step 5 before you write the code.",
        ),
        check=check_sort_key,
        task=Task(
            signature="sort_key(policy: str, request: RequestView) -> tuple[float, ...]",
            rules=(
                "Return the rank of `request` in the queue: a tuple of numbers. The smallest goes "
                "first, and tuples compare from the left.",
                'Under "fcfs" requests go in order of arrival. Under "priority" they go by '
                "`request.priority`, 0 before 1 before 2, and among equals in order of arrival.",
                "For any other policy raise a `ValueError`.",
                "`request.arrival_time` is the step in which the request arrived, "
                "`request.admitted_at` the step in which it last left the queue (None: never).",
            ),
            args=("fcfs", make_request(0, priority=2, arrival_time=5)),
            result=(5,),
        ),
    ),
    Exercise(
        id="l02.admit",
        lesson="l02_scheduling",
        name="admit",
        title="The gatekeeper",
        minutes=10,
        points=3,
        part="admit",
        hints=(
            "What would happen to the queue if its head could never run and were told to wait?",
            "Ask about never first: how long does its text get at most, and which of those tokens "
            "has no K/V? Then about now: is there a place in the batch, and room for what it "
            "computes first?",
            "Three questions in turn, each with a return of its own. Only one of them is asked "
            "when `kv_budget` is None, and none of them is about priorities.",
        ),
        check=check_admit,
        task=Task(
            signature="admit(candidate: RequestView, held: int, kv_budget: int | None, "
            "num_running: int, max_batch_size: int) -> str",
            rules=(
                'Return whether the head of the queue may start: "admit", "wait" or "refuse".',
                "All requests together may hold `kv_budget` KV tokens (None: no limit), and "
                "`max_batch_size` of them may run at once. Now `num_running` run, with `held` KV "
                "tokens in use or promised to them. Both limits may be used up exactly.",
                "`candidate` has `prompt_tokens`, `generated_tokens` (empty unless it was "
                "preempted) and `max_new_tokens`. The last token that it generates is never fed to "
                "the model, so it has no K/V.",
                '"refuse": the budget could never hold it, not even alone and at its longest.',
                '"wait": it could run, but not now. When it starts it computes the K/V of all that '
                "is known of it.",
            ),
            args=(make_request(1, 3, max_new_tokens=4), 5, 8, 1, 4),
            result="admit",
        ),
    ),
    Exercise(
        id="l02.choose_victim",
        lesson="l02_scheduling",
        name="choose_victim",
        title="Who gives way",
        minutes=10,
        points=3,
        part="choose_victim",
        hints=(
            "Two equal requests do not fit together. Which one has more to compute again if it has "
            "to leave, and what if they take turns at leaving?",
            "Somebody has to be sure never to give way, so that it gets done. Which place in the "
            "queue's order makes sure of that, and which one is left to go?",
            "Python compares tuples from the left, and `max` and `min` take a `key`. Write the "
            "queue's order as such a key, and mind that the answer is an id.",
        ),
        check=check_choose_victim,
        task=Task(
            signature="choose_victim(active: list[RequestView]) -> int",
            rules=(
                "`active` are the running requests, at least one, in any order. Their K/V no "
                "longer fits: return the `id` of the one whose K/V is released.",
                "The queue has an order: by `key`, the rank under whatever policy is in force (the "
                "smallest goes first), among equal keys by `arrival_time`, then by `id`.",
                "No request may give way to one that stands behind it in this order. That leaves "
                "one answer, and only with that one everything gets done.",
                "Leave the list as it is.",
            ),
            args=([make_request(4, key=(1,)), make_request(2, key=(0,), arrival_time=3)],),
            result=4,
        ),
    ),
    Exercise(
        id="l02.resume",
        lesson="l02_scheduling",
        name="resume",
        title="The way back",
        minutes=8,
        points=2,
        part="resume",
        hints=(
            "What is lost when the K/V is released, and what is still known?",
            "The text is known, and its reader has seen it. Of how many of its tokens is there any "
            "K/V now, and so from which one on must it be computed?",
            "Go through the four values for a request with prompt [1, 2] and generated [7] that "
            "arrived in step 5 and was admitted in step 9. Which of them did preemption change?",
        ),
        check=check_resume,
        task=Task(
            signature="resume(request: RequestView) -> tuple[list[int], int, int, int]",
            rules=(
                "`request` was preempted: all of its K/V has been released. Return `(tokens, "
                "cursor, arrival, num_generated)`, with which it goes back to wait.",
                "`tokens` is the list of the tokens whose K/V it computes when it is admitted "
                "again, in the order of the text, and `cursor` says how many of them are computed "
                "already.",
                "`arrival` is the arrival time that it queues with. `num_generated` says how many "
                "of its generated tokens it keeps, so that its text goes on after them.",
                "`request` has `prompt_tokens` and `generated_tokens` (tuples), `arrival_time`, "
                "`admitted_at` and `kv_tokens` (how many it held until now). Its reader has seen "
                "the generated tokens.",
            ),
            args=(make_request(0, 3, arrival_time=2, admitted_at=4, kv_tokens=2),),
            result=([1, 2, 3], 0, 2, 0),
        ),
    ),
    Exercise(
        id="l02.record",
        lesson="l02_scheduling",
        name="record",
        title="Whose token is whose",
        minutes=4,
        points=1,
        part="record",
        hints=(
            "Which list had the order of the rows when the model ran?",
            "Take the case of three rows whose middle request is done by now. Who gets the third "
            "token?",
            "One of the three lists is not needed. The other two are equally long, and Python has "
            "a function that walks through two lists together.",
        ),
        check=check_record,
        task=Task(
            signature="record(forwarded: list[int], active_now: list[int], sampled: list[int]) -> "
            "dict[int, int]",
            rules=(
                "Return whose token is whose: a dict `{id: token}`.",
                "Row i of the forward pass was fed by request `forwarded[i]`, and `sampled[i]` is "
                "the token that was sampled from it.",
                "`active_now` are the ids of the requests that are active by now: since the batch "
                "was built some may have joined, some may be done, and their order may be another.",
                "Leave the three lists as they are.",
            ),
            args=([4, 7], [4, 7], [51, 12]),
            result={4: 51, 7: 12},
        ),
    ),
)
