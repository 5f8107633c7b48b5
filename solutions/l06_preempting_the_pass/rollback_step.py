"""Exercise 6.3: the scheduler's state once an aborted step is rolled back."""

import random
from collections.abc import Sequence
from dataclasses import replace

from course.checks.comparing import Args, Result, those_of
from course.exercise import Exercise, Task
from course.harness import Ask, Check, Failure, Rows, returned_nothing
from nanogpt.views.scheduler_state import SchedulerState
from solutions.l06_preempting_the_pass._scheduler_state import (
    FIELDS,
    any_states,
    draw_state,
    make_state,
    misfit,
    next_step,
)
from solutions.l06_preempting_the_pass._wrong_states import MISCONCEPTIONS, NOT_A_STATE, WRONG_TYPE

# --- right answers ------------------------------------------------------------------------------


def rollback_step(
    state: "SchedulerState", aborted: list[int], candidate: int | None
) -> "SchedulerState":
    """Return the scheduler's state once an aborted step is rolled back."""
    # The state still records the step that was aborted. Without one of these lines the engine fails
    # in the next step, or when the memory is full.
    back = tuple(i for i in state.running if i in aborted)
    return replace(
        state,
        waiting=back + state.waiting,
        running=tuple(i for i in state.running if i not in aborted),
        kv=state.kv.difference(aborted),
        previous_step=state.previous_step.difference(aborted),
        admit_next=candidate if candidate in state.waiting else None,
    )


def by_loop(state: SchedulerState, aborted: list[int], candidate: int | None) -> SchedulerState:
    back: list[int] = []
    running: list[int] = []
    for request in state.running:
        if request in aborted:
            back.append(request)
        else:
            running.append(request)
    admit_next = None
    for request in state.waiting:
        if request == candidate:
            admit_next = request
    kv = {request for request in state.kv if request not in aborted}
    previous_step = {request for request in state.previous_step if request not in aborted}
    waiting = (*back, *state.waiting)
    return SchedulerState(
        waiting, tuple(running), frozenset(kv), frozenset(previous_step), admit_next
    )


def with_sets(state: SchedulerState, aborted: list[int], candidate: int | None) -> SchedulerState:
    gone = frozenset(aborted)
    back = sorted(gone, key=state.running.index)
    return SchedulerState(
        waiting=(*back, *state.waiting),
        running=tuple(filter(lambda i: i not in gone, state.running)),
        kv=state.kv - gone,
        previous_step=state.previous_step - gone,
        admit_next=candidate if candidate in set(state.waiting) else None,
    )


# --- judging ------------------------------------------------------------------------------------

IDEAS = {
    "running": "Look at `running`: which requests were in the pass, and which go on as before?",
    "waiting": "Look at `waiting`: which requests wait now, and in which order?",
    "kv": "Look at `kv`: whose K/V is released, and which requests still need theirs?",
    "previous_step": "Look at `previous_step`: which requests should no longer be in it?",
    "admit_next": "`admit_next` names the request that the pass was aborted for, if it waits.",
}


def draw_call(name: str, args: Args) -> str:
    state, aborted, candidate = args
    return f"{name}(state, aborted={aborted}, candidate={candidate})\n{draw_state(state)}"


def judge(ask: Ask, cases: Sequence[Args]) -> Failure | None:
    """Ask about each case; the failure is about the first wrong field of the first wrong result."""
    results: list[Result] = []
    for args in cases:
        got = ask(*args)
        rows = ask.example(draw_state(rollback_step(*args)), draw_state(got))
        if got is None:
            return Failure(returned_nothing(ask.name), rows, "no_return")
        if not isinstance(got, SchedulerState):
            return NOT_A_STATE.failure(rows, got)
        if misfit(got):
            return WRONG_TYPE.failure(rows, got)
        results.insert(0, (args, got))
        field = wrong_field(args, got)
        if field:
            then = next_step(got, args)
            rows += (("then", then),) if then else ()
            more = those_of(ask, any_states(random.Random(0), 20))
            return wrong_state(field, rows, results + more)
    return None


def wrong_field(args: Args, got: SchedulerState) -> str | None:
    wanted = rollback_step(*args)
    return next((name for name in FIELDS if getattr(got, name) != getattr(wanted, name)), None)


def wrong_state(field: str, rows: Rows, results: Sequence[Result]) -> Failure:
    """The failure for this field: the first misconception that explains all results."""
    for idea in MISCONCEPTIONS:
        for answer in idea.answers:
            if all(
                isinstance(got, SchedulerState)
                and getattr(got, field) == getattr(answer(*args), field)
                for args, got in results
            ):
                return idea.failure(rows)
    return Failure(IDEAS[field], rows)


# --- cases --------------------------------------------------------------------------------------


def on(*cases: Args) -> Check:
    """The check that asks about these cases."""
    return lambda ask, rng: judge(ask, cases)


ONE, WAITING, RUNNING = make_state([2], [1]), make_state([5, 3], [4, 1]), [6, 2, 8, 4]
ANY_ORDER = "`aborted` is asked only whether it holds an id"

EXERCISE = Exercise(
    number=3,
    title="Rolling back an aborted step",
    minutes=8,
    points=3,
    task=Task(
        rules=(
            "`state` records each request by its id. `waiting` and `running` are tuples in order. "
            "`kv`, the requests that hold K/V, and `previous_step`, the requests that the newest "
            "step was scheduled with, are frozensets. `admit_next` is the request to admit before "
            "all others, or `None`.",
            "A state is frozen. `replace(state, waiting=..., running=...)` makes a new one.",
            "`aborted` are the ids, in any order, of the requests whose prefill was in the pass. "
            "They no longer run and their K/V is released. They wait in front of the other waiting "
            "requests, in the order in which they ran. Do not change `aborted`.",
            "The engine refuses to admit a request that is in `previous_step`. The aborted "
            "requests did not complete the step, so they must not stay in `previous_step`. All "
            "other requests stay as they are.",
            "`candidate` is the id of the request that the pass was aborted for, or `None`. If it "
            "is in `waiting`, it keeps its place there and becomes `admit_next`; otherwise "
            "`admit_next` is `None`.",
        ),
        args=(make_state([3], [1, 2]), [2], 3),
        call="rollback_step(state, aborted=[2], candidate=3)\n"
        "waiting (3,), running (1, 2), admit_next None\n"
        "kv {1, 2}, previous_step {1, 2}",
        steps=(
            "Request 2 was in the aborted pass: it moves from `running` to the front of `waiting`.",
            "Its K/V is released, and it is taken out of `previous_step`.",
            "Request 1 was decoding beside it: it keeps its place and its K/V.",
            "Request 3 still waits, behind 2 now, and becomes `admit_next`.",
        ),
        result=make_state([2, 3], [1], admit_next=3),
    ),
    hints=(
        "Look at the five fields one by one: where is an aborted request recorded, and where "
        "should it be? Which ids must stay where they are?",
        "Filter `running` twice: requests in `aborted` go in front of `waiting`, the others stay. "
        "Take the aborted ones out of both sets. Then look whether the candidate is in `waiting`.",
        "Build both tuples by going through `state.running`, because `aborted` has an order of its "
        "own. `state.kv.difference(ids)` is the set without those ids. One `replace` sets all five "
        "fields at the end.",
    ),
    right=(rollback_step, by_loop, with_sets),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("one prefill", on((ONE, [1], 2))),
        (
            "beside others",
            on((WAITING, [1], 3), (WAITING, [4], 5), (replace(WAITING, admit_next=5), [1], 3)),
        ),
        (
            "several at once",
            on(
                (make_state([3, 1], RUNNING), [2, 8], 3),
                (make_state([3, 1], RUNNING), [8, 2], 1),
                (make_state([3, 1], RUNNING, kv=[6, 8], previous_step=[6, 2, 8]), [8, 6, 2], 1),
            ),
        ),
        (
            "no candidate in the queue",
            on(
                (ONE, [1], 9),
                (ONE, [1], None),
                (make_state([], [1, 4]), [4], 9),
                (make_state([2, 3], [1], admit_next=3), [1], 9),
                (make_state([2, 3], [1], admit_next=3), [1], None),
                (make_state([2], [1, 5], admit_next=2), [1], 5),
            ),
        ),
        ("any aborted pass", lambda ask, rng: judge(ask, any_states(rng, 40))),
    ),
    draw_call=draw_call,
    equivalent_mutants={
        "aborted: reversed": ANY_ORDER,
        "aborted: sorted": ANY_ORDER,
        "aborted: without repeats": ANY_ORDER,
    },
)
