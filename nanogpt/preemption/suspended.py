"""What becomes of a suspended pass, and whether there is room beside it."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from nanogpt.request import Request
from nanogpt.scheduler import Scheduler
from nanogpt.slo.policy import SLEEP_BOUND, slept_enough

Way: TypeAlias = Literal["sleep", "resume", "abort"]


def resume_or_abort(
    suspended_us: int,
    pass_us: int,
    *,
    urgent_waits: bool,
    memory_is_short: bool,
    bound: float = SLEEP_BOUND,
) -> Way:
    """What becomes of a suspended pass now.

    It sleeps while an urgent request waits, but no longer than `bound` times what the whole pass
    takes: in proportion to its length, so that nothing sleeps for ever. Its K/V is the price of
    sleeping; if that room is needed, the pass is thrown away.
    """
    if not urgent_waits or slept_enough(suspended_us, pass_us, bound):
        return "resume"
    return "abort" if memory_is_short else "sleep"


def has_room(scheduler: Scheduler, step: int, request: Request, asleep: Sequence[Request]) -> bool:
    """Whether a request can run while a pass with the requests `asleep` sleeps.

    A sleeper that the pass was to admit counts as running, although it still waits in the queue.
    """
    scheduler.begin_step(step)  # ranks every request anew
    if scheduler.victims() or request.status != "waiting":
        return not scheduler.victims()
    startable, _ = scheduler.admissible()
    holding = {*scheduler.active, *scheduler.prefilling, *asleep}
    needed = scheduler.kv_tokens_needed([*holding, request])
    limit = scheduler.max_kv_tokens
    fits = limit is None or needed <= limit
    return request in startable and fits and len(holding) < scheduler.max_batch_size
