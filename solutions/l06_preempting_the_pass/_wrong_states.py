"""Misconceptions of the scheduler's state after an aborted step."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeAlias

from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.preemption.cleanup import rollback_step
from nanogpt.views.scheduler_state import SchedulerState
from solutions.l06_preempting_the_pass._scheduler_state import misfit

Field: TypeAlias = Callable[[SchedulerState, list[int], int | None], Any]


def but_for(**fields: Field) -> Callable[..., Any]:
    """The right state, with the given fields replaced."""

    def answer(state: SchedulerState, aborted: list[int], candidate: int | None) -> Any:
        wrong = {name: field(state, aborted, candidate) for name, field in fields.items()}
        return replace(rollback_step(state, aborted, candidate), **wrong)

    return answer


def back(state: SchedulerState, aborted: Sequence[int]) -> tuple[int, ...]:
    return tuple(i for i in state.running if i in aborted)


def candidate_first(
    state: SchedulerState, aborted: Sequence[int], candidate: int | None
) -> tuple[int, ...]:
    queue = back(state, aborted) + state.waiting
    return tuple(sorted(queue, key=lambda request: request != candidate))


NOT_A_STATE = Misconception(
    "not_a_state",
    "A dict with the fields is enough.",
    lambda value: f"Return a new state, made with `replace(state, ...)`; this is {a_kind(value)}.",
    examples=(lambda *args: asdict(rollback_step(*args)),),
)
WRONG_TYPE = Misconception(
    "wrong_type",
    "Ids may be text.",
    misfit,
    examples=(
        (
            lambda *args: replace(
                rollback_step(*args), waiting=" ".join(map(str, rollback_step(*args).waiting))
            )
        ),
    ),
)
MISCONCEPTIONS = (
    Misconception("no_return", "The state is changed in place.", examples=(lambda *args: None,)),
    NOT_A_STATE,
    WRONG_TYPE,
    Misconception(
        "still_running",
        "The aborted requests are only interrupted.",
        "Aborted requests no longer run. Left in `running`, they run and wait at the same time.",
        but_for(running=lambda state, aborted, candidate: state.running),
    ),
    Misconception(
        "collateral",
        "There is one victim.",
        "The whole pass is left, so every request in `aborted` has lost this step, not only the "
        "first.",
        lambda state, aborted, candidate: rollback_step(state, aborted[:1], candidate),
    ),
    Misconception(
        "lost",
        "An aborted request is gone.",
        "An aborted request has to wait again, or it is never served. Put it into `waiting`.",
        but_for(waiting=lambda state, aborted, candidate: state.waiting),
    ),
    Misconception(
        "behind",
        "A request that comes back queues at the end.",
        "The aborted requests were admitted before all waiting requests, so they go back in front "
        "of them. At the end of the queue, the abort would also cost them their place.",
        but_for(waiting=lambda state, aborted, candidate: state.waiting + back(state, aborted)),
    ),
    Misconception(
        "order",
        "Each one goes to the front, one after the other.",
        "The aborted requests go back in the order in which they stand in `running`, so that no "
        "request overtakes another by being aborted.",
        but_for(
            waiting=lambda state, aborted, candidate: back(state, aborted)[::-1] + state.waiting
        ),
        same_result=(
            but_for(waiting=lambda state, aborted, candidate: (*aborted, *state.waiting)),
            but_for(waiting=lambda state, aborted, candidate: (*sorted(aborted), *state.waiting)),
        ),
    ),
    Misconception(
        "candidate_moves",
        "The urgent request goes to the front of the queue.",
        "The candidate keeps its place in `waiting`: `admit_next` lets it go first.",
        but_for(
            waiting=lambda state, aborted, candidate: candidate_first(state, aborted, candidate)
        ),
    ),
    Misconception(
        "clears_kv",
        "An aborted pass leaves no K/V.",
        "The requests that were not aborted still need their K/V: release only that of `aborted`.",
        but_for(kv=lambda *args: frozenset()),
    ),
    Misconception(
        "clears_previous_step",
        "The step did not happen, so no request was in it.",
        "The other requests stay in `previous_step`: take only the aborted ones out.",
        but_for(previous_step=lambda *args: frozenset()),
    ),
    Misconception(
        "leaks_kv",
        "Computed K/V is kept for later.",
        "Aborted requests compute everything again, so their K/V is of no use. Kept, it fills the "
        "memory from one abort to the next.",
        but_for(kv=lambda state, aborted, candidate: state.kv),
    ),
    Misconception(
        "keeps_previous_step",
        "`previous_step` needs no change: a preemption within `schedule` does not touch it either.",
        "`schedule` recorded the requests before the pass was aborted. Take them out of "
        "`previous_step`, or the engine refuses to admit them again.",
        but_for(previous_step=lambda state, aborted, candidate: state.previous_step),
    ),
    Misconception(
        "forgets_the_candidate",
        "The urgent request is first anyway.",
        "The aborted requests wait in front, so the next step would admit them again. Name the "
        "candidate in `admit_next`, because the pass was aborted for it.",
        but_for(admit_next=lambda state, aborted, candidate: state.admit_next),
        same_result=(but_for(admit_next=lambda *args: None),),
    ),
    Misconception(
        "candidate_is_gone",
        "The candidate still waits.",
        "The candidate may be gone when the pass is left. Name it only if it is in `waiting`, or "
        "the next step admits no request.",
        but_for(admit_next=lambda state, aborted, candidate: candidate),
    ),
)
