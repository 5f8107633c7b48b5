"""Whole workloads, which a check serves up to the first wrong decision."""

import random
from collections.abc import Callable
from typing import Any

from course.checks.comparing import Comparison
from course.harness import Ask, Failure
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
