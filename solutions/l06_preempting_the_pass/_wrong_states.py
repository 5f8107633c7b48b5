"""Misconceptions of the scheduler's state after an aborted step."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeAlias

from course.checks.comparing import a_kind
from course.exercise import Misconception
from nanogpt.preemption.cleanup import rollback_step
from nanogpt.preemption.scheduler_state import SchedulerState
from solutions.l06_preempting_the_pass._scheduler_state import misfit

Field: TypeAlias = Callable[[SchedulerState, list[int], int | None], Any]


def but_for(**fields: Field) -> Callable[..., Any]:
    """Right but for the fields that are given."""

    def answer(state: SchedulerState, aborted: list[int], waiter: int | None) -> Any:
        wrong = {name: field(state, aborted, waiter) for name, field in fields.items()}
        return replace(rollback_step(state, aborted, waiter), **wrong)

    return answer


def back(state: SchedulerState, aborted: Sequence[int]) -> tuple[int, ...]:
    return tuple(i for i in state.running if i in aborted)


def others(state: SchedulerState, waiter: int | None) -> tuple[int, ...]:
    return tuple(i for i in state.waiting if i != waiter)


def if_it_waits(state: SchedulerState, waiter: int | None) -> tuple[int, ...]:
    return tuple(i for i in state.waiting if i == waiter)


KEEPS_ITS_PLACE = (
    "The waiter keeps its place in the queue: to be named in `admit_next` is enough to be admitted "
    "first, and the engine admits from the queue."
)
NOT_A_STATE = Misconception(
    "not_a_state",
    "Fields by their names are enough.",
    lambda value: f"Return a new state, not {a_kind(value)}: make it with `replace(state, ...)`.",
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
        "They are only interrupted.",
        "The aborted ones do not run any more: left in `running`, they run and wait at once.",
        but_for(running=lambda state, aborted, waiter: state.running),
    ),
    Misconception(
        "collateral",
        "There is one victim.",
        "A pass is left as a whole: every request whose prefill was in it has lost this step, not "
        "only the first one named.",
        lambda state, aborted, waiter: rollback_step(state, aborted[:1], waiter),
    ),
    Misconception(
        "admits_the_waiter",
        "All this was done to let it run.",
        "Admitting is up to the next step, which looks at budgets and batch: here the waiter is "
        "only named in `admit_next`.",
        but_for(
            running=lambda state, aborted, waiter: (
                *rollback_step(state, aborted, waiter).running,
                *if_it_waits(state, waiter),
            )
        ),
    ),
    Misconception(
        "lost",
        "They are out.",
        "What stops running has to wait again, or is never served: put the aborted ones into "
        "`waiting`.",
        but_for(waiting=lambda state, aborted, waiter: state.waiting),
    ),
    Misconception(
        "behind",
        "What comes back queues at the end.",
        "They had been admitted before all that wait, so they go back in front of them: at the end "
        "of the queue, an abort would cost them their place too.",
        but_for(waiting=lambda state, aborted, waiter: state.waiting + back(state, aborted)),
    ),
    Misconception(
        "order",
        "Each one goes to the front.",
        "They go back in the order they ran in, so that none overtakes another by being aborted: "
        "go through `running`.",
        but_for(waiting=lambda state, aborted, waiter: back(state, aborted)[::-1] + state.waiting),
    ),
    Misconception(
        "moves_the_waiter",
        "What is next stands first.",
        KEEPS_ITS_PLACE,
        but_for(
            waiting=lambda state, aborted, waiter: (
                if_it_waits(state, waiter) + back(state, aborted) + others(state, waiter)
            )
        ),
    ),
    Misconception(
        "leaks_kv",
        "What has been computed is kept.",
        "They will compute everything again, so their K/V is of no use: kept, it fills the memory "
        "from one abort to the next.",
        but_for(kv=lambda state, aborted, waiter: state.kv),
    ),
    Misconception(
        "releases_all",
        "The pass is gone, and its K/V with it.",
        "Those that go on running need their K/V: release only that of the aborted ones.",
        but_for(kv=lambda state, aborted, waiter: frozenset[int]()),
    ),
    Misconception(
        "keeps_previous_step",
        "It is a preemption like the one in scheduling, which needs no more than that.",
        "Scheduling has noted the victims before the pass was aborted: take them out of "
        "`previous_step`, or the engine takes their return for an error.",
        but_for(previous_step=lambda state, aborted, waiter: state.previous_step),
    ),
    Misconception(
        "forgets_the_waiter",
        "What is urgent is first anyway.",
        "The aborted ones wait in front, so the next step would admit them again: name the waiter "
        "in `admit_next`, since all this was done for it.",
        but_for(admit_next=lambda state, aborted, waiter: state.admit_next),
    ),
    Misconception(
        "waiter_is_gone",
        "The waiter waits.",
        "The waiter may have gone while its pass was aborted: name it only if it still waits, or "
        "the next step admits none.",
        but_for(admit_next=lambda state, aborted, waiter: waiter),
    ),
)
