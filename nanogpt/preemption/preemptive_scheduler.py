"""The scheduler of an engine whose passes can be preempted."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from nanogpt.outputs import PrefixHit, Requeue, SchedulerOutput
from nanogpt.planning import Candidates
from nanogpt.preemption.cleanup import admission_problem
from nanogpt.request import Request
from nanogpt.scheduler import Scheduler
from nanogpt.views.scheduler_state import SchedulerState

RollbackStep: TypeAlias = Callable[[SchedulerState, Sequence[int], int | None], SchedulerState]


class PreemptiveScheduler(Scheduler):
    """Lets the request that a pass was left for run next, without other prefills.

    Mutable, beyond a scheduler's: `admit_next`, that request; `previous_step`, the requests of the
    newest step; `suspended`, those of a suspended pass, during which only `admit_next` runs.
    """

    admit_next: int | None = None
    previous_step: frozenset[int] = frozenset()
    suspended: Sequence[Request] = ()

    def schedule(self, step: int, now_us: int) -> SchedulerOutput:
        """Decide what a step does, and record its requests. Raises: as a scheduler's does."""
        scheduled = super().schedule(step, now_us)
        problem = admission_problem(scheduled.admitted, self.previous_step)
        assert problem is None, problem
        self.previous_step = frozenset(row.request_id for row in scheduled.rows)
        if self.admit_next in self.previous_step and not self.suspended:
            self.admit_next = None
        return scheduled

    def select_admissible(
        self, preempted: Sequence[Requeue] = ()
    ) -> tuple[list[Request], str | None]:
        """Choose only the request to admit next, while it waits.

        A request that the suspended pass was to admit counts as running, although it still waits.
        """
        chosen = self._chosen()
        if chosen is None or chosen.status != "waiting" or preempted:
            return super().select_admissible(preempted)
        running = dict.fromkeys([*self.running(), *self.suspended])
        reason = self._blocked(chosen, self.kv.reserve(running), len(self.prefilling))
        return ([], reason) if reason else ([chosen], None)

    def candidates(
        self,
        preempted: Sequence[Requeue],
        admissible: Sequence[Request],
        hits: Mapping[int, PrefixHit],
    ) -> Candidates:
        """What the plan may choose from: of the prefills only the chosen one, if it is there."""
        every = super().candidates(preempted, admissible, hits)
        prefilling = tuple(each for each in every.prefilling if each[0] == self.admit_next)
        waiting = tuple(each for each in every.waiting if each[0] == self.admit_next)
        if self.suspended:
            return Candidates((), prefilling, waiting)
        return Candidates(every.decodes, prefilling, waiting) if prefilling or waiting else every

    def has_room(self) -> bool:
        """Whether the chosen request can run beside the suspended pass."""
        chosen = self._chosen()
        if chosen is None or self.select_victims():
            return chosen is None
        return chosen.status != "waiting" or self.select_admissible()[1] is None

    def roll_back(
        self, rollback_step: RollbackStep, aborted: Sequence[int], candidate: int | None
    ) -> None:
        """Undo an aborted pass: make the state what `rollback_step` returns."""
        cache = self.kv.cache
        before = SchedulerState(
            waiting=tuple(request.id for request in self.waiting),
            running=tuple(request.id for request in self.running()),
            kv=frozenset(cache.holders()),
            previous_step=self.previous_step,
            admit_next=self.admit_next,
        )
        after = rollback_step(before, aborted, candidate)
        for request_id in before.running:
            if request_id not in after.running:
                self.preempt(self.requeue(self.requests[request_id], "its pass was aborted"))
        for request_id in before.kv - after.kv:
            cache.free(request_id)
        self.previous_step, self.admit_next = after.previous_step, after.admit_next

    def abort(self, request: Request) -> None:
        """Take out a request that will not be served any further, wherever it is."""
        super().abort(request)
        self.previous_step -= {request.id}
        if self.admit_next == request.id:
            self.admit_next = None

    def _chosen(self) -> Request | None:
        return None if self.admit_next is None else self.requests.get(self.admit_next)
