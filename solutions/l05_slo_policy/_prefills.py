"""A tiny prefill engine for the check of `select_victim`, which applies each decision."""

from collections.abc import Sequence
from dataclasses import dataclass

from nanogpt.slo import policy
from nanogpt.slo.policy import by_urgency
from nanogpt.slo.slo_policies import REFERENCE
from nanogpt.slo.slo_view import SloRequest, SloView
from solutions.l05_slo_policy._views import A, C
from solutions.l05_slo_policy._wrong_victims import SelectVictim

_TICK_US = 20_000


@dataclass(frozen=True, slots=True)
class Job:
    """A request of a workload: its arrival, its prompt, and the time until its deadline."""

    arrival_ms: int
    tokens: int
    slo_ms: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests for one engine that runs at most `slots` of them in one pass."""

    mode: str
    margin: float
    slots: int
    jobs: tuple[Job, ...]

    def __str__(self) -> str:
        lines = [f"{self.mode}, margin {self.margin}, at most {self.slots} in a pass"]
        for i, job in enumerate(self.jobs):
            lines.append(
                f"request {i}: arrives at {job.arrival_ms} ms, {job.tokens} tokens, "
                f"due in {job.slo_ms} ms"
            )
        return "\n".join(lines)


class Prefills:
    """The state of a workload. A pass costs 10 ms and 0.1 ms per token; a preempted one is lost.

    `diary` says what ran when; `lost` how often each request was in a pass that was thrown away.
    """

    def __init__(self, workload: Workload, select_victim: SelectVictim) -> None:
        self.workload = workload
        self.select_victim = select_victim
        self.now_us = 0
        self.diary: list[str] = []
        self.lost = [0] * len(workload.jobs)
        self.unfinished = set(range(len(workload.jobs)))
        self._chosen: int | None = None  # the candidate of the last preemption, which goes first

    def run(self, max_passes: int) -> bool:
        """Run at most `max_passes` passes; return whether all requests are done."""
        while self.unfinished and len(self.diary) < max_passes:
            waiting = self._waiting()
            if waiting:
                waiting.sort(key=lambda each: each.id != self._chosen)
                self._run_pass([each.id for each in waiting[: self.workload.slots]])
            else:
                self.now_us = min(self._arrivals())
        return not self.unfinished

    def _arrivals(self) -> list[int]:
        """The arrival times that are still to come."""
        times_us = (1000 * self.workload.jobs[i].arrival_ms for i in self.unfinished)
        return [time_us for time_us in times_us if time_us > self.now_us]

    def _waiting(self, running: Sequence[int] = ()) -> list[SloView]:
        """The requests that have arrived and are neither done nor running, most urgent first."""
        jobs = self.workload.jobs
        here = [i for i in self.unfinished if 1000 * jobs[i].arrival_ms <= self.now_us]
        return by_urgency([self._view(i) for i in here if i not in running])

    def _view(self, i: int, total: int | None = None, done: int = 0) -> SloView:
        """A request as the policy sees it. In a pass, its work is the rest of the whole pass."""
        job = self.workload.jobs[i]
        tokens, deadline_ms = total or job.tokens, job.arrival_ms + job.slo_ms
        request = SloRequest(i, tokens, done, 1000 * deadline_ms, 1000 * job.slo_ms, self.lost[i])
        return REFERENCE.view(request, self.now_us, A, C)

    def _run_pass(self, ids: list[int]) -> None:
        """Compute until the pass ends or is preempted."""
        self._chosen, start_us = None, self.now_us
        tokens = sum(self.workload.jobs[i].tokens for i in ids)
        finish_us = start_us + policy.predict(tokens, A, C)
        names = " and ".join(str(i) for i in ids)
        while (look_us := self._next_look(ids)) < finish_us:
            self.now_us = int(look_us)
            candidate = self._waiting(ids)[0]
            done = policy.done_in(self.now_us - start_us, tokens, A)
            running = [self._view(i, tokens, done) for i in ids]
            if (
                self.select_victim(candidate, running, self.workload.margin, self.workload.mode)
                is not None
            ):
                for i in ids:
                    self.lost[i] += 1
                self._chosen = candidate.id
                times = f"{start_us // 1000}-{self.now_us // 1000} ms"
                self.diary.append(f"{times}: {names}, thrown away for {candidate.id}")
                return
        self.now_us = finish_us
        self.unfinished -= set(ids)
        self.diary.append(f"{start_us // 1000}-{finish_us // 1000} ms: {names}, done")

    def _next_look(self, running: Sequence[int]) -> float:
        """The time of the next decision: every arrival, and every 20 ms while a request waits."""
        tick_us = (self.now_us // _TICK_US + 1) * _TICK_US
        looks = self._arrivals() + ([tick_us] if self._waiting(running) else [])
        return min(looks, default=float("inf"))
