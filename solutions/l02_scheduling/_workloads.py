"""Whole workloads: a check serves them and shows the first wrong decision in a small one."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from course.checks.comparing import Comparison
from course.checks.shrinking import shrink, smaller_numbers
from course.harness import Ask, Failure, Rows
from solutions.l02_scheduling._serving import Decisions, Job, Serving, Workload

MAX_STEPS = 400
TWO_EQUAL = Workload("fcfs", 22, 8, (Job(1, 0, 10, 10), Job(2, 0, 10, 10)))


class WrongDecision(Exception):
    """Ends a workload at the first wrong decision."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.idea)
        self.failure = failure


def judged(judge: Comparison[Any], ask: Ask) -> Callable[..., Any]:
    """The learner's decision, judged before it is applied."""

    def decide(*args: Any) -> Any:
        failure = judge.judge(ask, [args])
        if failure:
            raise WrongDecision(failure)
        return judge.reference(*args)

    return decide


def first_wrong(workload: Workload, decisions: Decisions) -> tuple[int, Failure] | None:
    """The step of the first wrong decision and what is wrong with it; None if all are right."""
    serving = Serving(workload, decisions)
    try:
        serving.run(MAX_STEPS)
    except WrongDecision as wrong:
        return serving.step, wrong.failure
    return None


def judge_workloads(decisions: Decisions, workloads: Sequence[Workload]) -> Failure | None:
    """The first wrong decision, in the smallest workload that leads to one of the same kind."""
    for workload in workloads:
        found = first_wrong(workload, decisions)
        if found is None:
            continue
        key, bad = found[1].misconception, (workload, *found)

        def breaks(candidate: Workload, key: str | None = key) -> bool:
            nonlocal bad
            found = first_wrong(candidate, decisions)
            if found is None or found[1].misconception != key:
                return False
            bad = (candidate, *found)
            return True

        shrink(workload, smaller_workloads, breaks)
        smallest, step, failure = bad
        rows: Rows = (("workload", str(smallest)), ("step", str(step)))
        return Failure(failure.idea, rows + failure.example, failure.misconception)
    return None


def any_workloads(rng: random.Random, sizes: Sequence[int], slack: int) -> list[Workload]:
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


def smaller_workloads(workload: Workload) -> Iterator[Workload]:
    """The same workload earlier, with a request fewer, or with a smaller number or limit."""
    jobs = workload.jobs
    if first := min(job.arrival for job in jobs):
        earlier = tuple(replace(job, arrival=job.arrival - first) for job in jobs)
        yield replace(workload, jobs=earlier)
    for i in range(len(jobs)):
        if len(jobs) > 1:
            yield replace(workload, jobs=jobs[:i] + jobs[i + 1 :])
    for i, job in enumerate(jobs):
        for field, least in (("arrival", 0), ("priority", 0), ("prompt", 1), ("new", 1)):
            for less in smaller_numbers(getattr(job, field), least):
                easier = replace(job, **{field: less})
                others = (*jobs[:i], easier, *jobs[i + 1 :])
                yield replace(workload, jobs=others)
                if field in ("prompt", "new"):  # a limit that binds shrinks too
                    budget = max(1, workload.max_kv_tokens - getattr(job, field) + less)
                    yield replace(workload, jobs=others, max_kv_tokens=budget)
    for field in ("max_kv_tokens", "slots"):
        for less in smaller_numbers(getattr(workload, field), 1):
            yield replace(workload, **{field: less})
