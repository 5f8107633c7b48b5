"""What happens after a preemption: undoing an aborted pass, waking or dropping a suspended one.

Preemption for lack of memory happens during scheduling, before the step's requests are recorded.
An aborted pass comes after that: its victims are recorded as scheduled in a step that never
finished, and must be readmitted as if they had not been.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from nanogpt.slo.policy import SLEEP_BOUND, slept_enough
from nanogpt.views.scheduler_state import SchedulerState

Way: TypeAlias = Literal["stay_suspended", "resume", "abort"]


def rollback_step(
    state: SchedulerState, aborted: Sequence[int], candidate: int | None
) -> SchedulerState:
    """Undo an aborted pass: its prefills lose their K/V and wait again, in front and in order.

    `candidate` is the request that the pass was aborted for, None if it is unknown or gone.
    """
    back = tuple(request_id for request_id in state.running if request_id in aborted)
    return SchedulerState(
        waiting=(*back, *state.waiting),
        running=tuple(request_id for request_id in state.running if request_id not in aborted),
        kv=state.kv.difference(aborted),
        previous_step=state.previous_step.difference(aborted),
        admit_next=candidate if candidate in state.waiting else None,
    )


def admission_problem(newcomers: Iterable[int], previous_step: Iterable[int]) -> str | None:
    """Why these requests may not be admitted now: those of the last step are running already."""
    twice = sorted(set(newcomers).intersection(previous_step))
    if twice:
        return f"requests {twice} are admitted, yet the last step was scheduled with them"
    return None


def resume_or_abort(
    suspended_us: int,
    pass_us: int,
    *,
    urgent_waits: bool,
    memory_is_short: bool,
    bound: float = SLEEP_BOUND,
) -> Way:
    """What to do with a suspended pass now.

    It stays suspended while an urgent request waits, for at most `bound` times the duration of the
    whole pass, so that no pass is suspended forever. If its K/V's memory is needed, it is aborted.
    """
    if not urgent_waits or slept_enough(suspended_us, pass_us, bound):
        return "resume"
    return "abort" if memory_is_short else "stay_suspended"
