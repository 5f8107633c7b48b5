"""A small scheduler in plain numbers, with which a check tests decisions in whole workloads.

Its step is the engine's: preempt, admit, compute, sample. It asks for each decision and applies it.
A workload is served up to the first wrong decision.
"""

import dataclasses
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course.checks.comparing import Comparison
from course.harness import Ask, Failure, Rows
from nanogpt.policies import queueing
from nanogpt.views.request_view import RequestView

Way = tuple[list[int], int, int, int]
_TOKEN_BUDGET = 16


@dataclass(frozen=True, slots=True)
class Job:
    """A request of a workload: the step it arrives in, its priority, its lengths in tokens."""

    arrival: int
    priority: int
    prompt: int
    new: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests for one scheduler with its limits.

    `policy` is "fcfs", "priority" or "priority alone", whose keys leave ties.
    """

    policy: str
    max_kv_tokens: int
    slots: int
    jobs: tuple[Job, ...]

    def __str__(self) -> str:
        lines = [
            f"policy {self.policy}, KV budget {self.max_kv_tokens}, at most {self.slots} at once"
        ]
        for i, job in enumerate(self.jobs):
            lines.append(
                f"request {i}: arrives in step {job.arrival}, priority {job.priority}, prompt "
                f"{job.prompt}, new {job.new}"
            )
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Decisions:
    """The two decisions that can be replaced; by default the reference's."""

    choose_victim: Callable[[list[RequestView]], int] = queueing.choose_victim
    requeue: Callable[[RequestView], Way] = queueing.requeue


def start_over(request: RequestView) -> Way:
    """Requeue without the text: only the prompt is computed, no generated token is kept."""
    return list(request.prompt_tokens), 0, request.arrival_time, 0


class Serving:
    """The state of a workload, step by step. `step` is the step that comes next."""

    def __init__(self, workload: Workload, decisions: Decisions) -> None:
        self.workload = workload
        self.decisions = decisions
        self.step = 0
        self.waiting: list[int] = []
        self.prefilling: list[int] = []
        self.active: list[int] = []
        self.unfinished = set(range(len(workload.jobs)))
        self.diary: list[dict[int, str]] = []  # per step, what happened to each request
        count = len(workload.jobs)
        self._arrival = [job.arrival for job in workload.jobs]
        self._admitted_at: list[int | None] = [None] * count
        self._generated = [0] * count
        self._num_computed_tokens = [0] * count

    def run(self, max_steps: int) -> bool:
        """Serve for at most `max_steps` steps; whether all requests finished."""
        while self.unfinished and self.step < max_steps:
            self.next_step()
        return not self.unfinished

    def next_step(self) -> None:
        """Preempt, or else admit; then compute."""
        self.diary.append({})
        jobs = self.workload.jobs
        self.waiting += [i for i, job in enumerate(jobs) if job.arrival == self.step]
        if not self._make_room():
            self._admit_heads()
        self._compute()
        self.step += 1

    def view(self, i: int) -> RequestView:
        """The request as a decision sees it."""
        job = self.workload.jobs[i]
        view = RequestView(
            id=i,
            priority=job.priority,
            arrival_time=self._arrival[i],
            admitted_at=self._admitted_at[i],
            prompt_tokens=tuple(range(10 * i + 1, 10 * i + 1 + job.prompt)),
            generated_tokens=tuple(range(50, 50 + self._generated[i])),
            max_new_tokens=job.new,
            kv_tokens=self._num_computed_tokens[i],
        )
        if self.workload.policy == "priority alone":
            return dataclasses.replace(view, key=(job.priority,))
        return dataclasses.replace(view, key=queueing.sort_key(self.workload.policy, view))

    def _num_tokens(self, i: int) -> int:
        return self.workload.jobs[i].prompt + self._generated[i]

    def _kv_tokens_used(self) -> int:
        """KV tokens in use, with those that this step will compute."""
        return sum(self._num_tokens(i) for i in [*self.active, *self.prefilling])

    def _make_room(self) -> bool:
        """Preempt until the running requests fit; whether any was preempted."""
        found = False
        while self._kv_tokens_used() > self.workload.max_kv_tokens:
            running = [*self.active, *self.prefilling]
            victim = self.decisions.choose_victim([self.view(i) for i in running])
            _, _, arrival, kept = self.decisions.requeue(self.view(victim))
            (self.active if victim in self.active else self.prefilling).remove(victim)
            self._arrival[victim], self._generated[victim] = arrival, kept
            self._num_computed_tokens[victim] = 0
            self.waiting.append(victim)
            self.diary[-1][victim] = "x"
            found = True
        return found

    def _admit_heads(self) -> None:
        while self.waiting and not self.prefilling:
            candidate = min(
                map(self.view, self.waiting), key=lambda r: (r.key, r.arrival_time, r.id)
            )
            limits = self.workload.max_kv_tokens, len(self.active), self.workload.slots
            if queueing.admit(candidate, self._kv_tokens_used(), *limits) != "admit":
                return
            self.waiting.remove(candidate.id)
            self.prefilling.append(candidate.id)
            self._admitted_at[candidate.id] = self.step

    def _compute(self) -> None:
        """One token per decode; the rest of the token budget goes to the prefill."""
        left = _TOKEN_BUDGET - len(self.active)
        decoding = list(self.active)
        for i in [*decoding, *self.prefilling]:
            remaining = self._num_tokens(i) - self._num_computed_tokens[i]
            self._num_computed_tokens[i] += 1 if i in decoding else min(left, remaining)
            if self._num_computed_tokens[i] == self._num_tokens(i):
                self._sample(i)

    def _sample(self, i: int) -> None:
        self._generated[i] += 1
        self.diary[-1][i] = str(self._generated[i])
        if i in self.prefilling:
            self.prefilling.remove(i)
            self.active.append(i)
        if self._generated[i] >= self.workload.jobs[i].new:
            self.active.remove(i)
            self.unfinished.discard(i)


def draw_run(serving: Serving) -> Rows:
    """A run whose preempted requests start over: the workload, and the tokens after each step."""
    columns = serving.diary[:18]
    lines = ["step      " + "".join(f"{step:3}" for step in range(len(columns)))]
    for i in range(len(serving.workload.jobs)):
        lines.append(f"request {i} " + "".join(f"{day.get(i, '.'):>3}" for day in columns))
    preempted = sum(mark == "x" for day in serving.diary for mark in day.values())
    lines.append(f"x: preempted, {preempted} times in {serving.step} steps; not finished yet")
    return (
        ("workload", f"{serving.workload}\na preempted request starts over"),
        ("generated", "\n".join(lines)),
    )


# --- whole workloads ----------------------------------------------------------------------------

MAX_STEPS = 400
TWO_EQUAL = Workload("fcfs", 22, 8, (Job(1, 0, 10, 10), Job(2, 0, 10, 10)))


class WrongDecision(Exception):
    """Ends a workload at the first wrong decision."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.idea)
        self.failure = failure


def judged(judge: Comparison, ask: Ask) -> Callable[..., Any]:
    """The learner's decision, judged before it is applied."""

    def decide(*args: Any) -> Any:
        failure = judge.judge(ask, [args])
        if failure:
            raise WrongDecision(failure)
        return judge.reference(*args)

    return decide


def first_wrong(workload: Workload, decisions: Decisions) -> Failure | None:
    """What is wrong with the first wrong decision; None if all decisions are right."""
    try:
        Serving(workload, decisions).run(MAX_STEPS)
    except WrongDecision as wrong:
        return wrong.failure
    return None


def any_workloads(rng: random.Random) -> list[Workload]:
    """Workloads whose KV budget is short: at most 5 tokens more than the largest job needs."""
    workloads: list[Workload] = []
    for size in (2, 3, 4, 6):
        jobs = tuple(
            Job(rng.randint(0, 4), rng.randrange(3), rng.randint(1, 7), rng.randint(3, 8))
            for _ in range(size)
        )
        needed = max(job.prompt + job.new - 1 for job in jobs)
        policy = rng.choice(("fcfs", "priority", "priority alone"))
        workloads.append(Workload(policy, needed + rng.randint(0, 5), rng.randint(2, 4), jobs))
    return workloads
