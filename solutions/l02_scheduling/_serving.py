"""Whole workloads with which a check tests decisions: the engine asks for each and applies it.

A workload is served up to the first wrong decision.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course.checks.comparing import Comparison
from course.harness import Ask, Failure, Rows
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.policies import Policies
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.request import Request
from nanogpt.trace import Trace
from nanogpt.views.request_view import RequestView

Way = tuple[list[int], int, int, int]
MAX_STEPS = 400


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


def start_over(request: RequestView) -> Way:
    """Requeue without the text: only the prompt is computed, no generated token is kept."""
    return list(request.prompt_tokens), 0, request.arrival_time, 0


def serve(workload: Workload, max_steps: int = MAX_STEPS, **decisions: Any) -> Trace:
    """Serve the workload with these policies in the engine; its `error` says if it was cut short.

    Raises: whatever a decision raises.
    """
    prompts = [[10 * i + 1 + n for n in range(job.prompt)] for i, job in enumerate(workload.jobs)]
    texts = {i: [*prompt, *range(50, 65)] for i, prompt in enumerate(prompts)}
    is_alone = workload.policy == "priority alone"
    config = EngineConfig(
        policy=(lambda request: (request.priority,)) if is_alone else workload.policy,
        token_budget=16,
        max_kv_tokens=workload.max_kv_tokens,
        max_batch_size=workload.slots,
        max_prefilling=1,
    )
    arrivals = [
        (job.arrival, Request(i, prompts[i], job.new, priority=job.priority))
        for i, job in enumerate(workload.jobs)
    ]
    return Engine(RecordedTexts(texts), config, Policies(**decisions)).run(arrivals, max_steps)


def draw_run(workload: Workload, trace: Trace) -> Rows:
    """A run whose preempted requests start over: the workload, and the tokens after each step."""
    marks = {i: dict[int, str]() for i in range(len(workload.jobs))}
    for step in trace.steps:
        for work in step.work:
            if work.tokens:
                num_generated = 1 + work.end - workload.jobs[work.request_id].prompt
                marks[work.request_id][step.step] = str(num_generated)
        for i in step.preempted:
            marks[i][step.step] = "x"
    num_steps = 1 + max(step.step for step in trace.steps)
    columns = range(min(18, num_steps))
    lines = ["step      " + "".join(f"{step:3}" for step in columns)]
    for i, of in marks.items():
        lines.append(f"request {i} " + "".join(f"{of.get(step, '.'):>3}" for step in columns))
    preempted = sum(len(step.preempted) for step in trace.steps)
    lines.append(f"x: preempted, {preempted} times in {num_steps} steps; not finished yet")
    return (
        ("workload", f"{workload}\na preempted request starts over"),
        ("generated", "\n".join(lines)),
    )


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


def first_wrong(workload: Workload, **decisions: Any) -> Failure | None:
    """What is wrong with the first wrong decision; None if all decisions are right."""
    try:
        serve(workload, **decisions)
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
