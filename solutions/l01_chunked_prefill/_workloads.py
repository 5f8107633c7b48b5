"""The steps that plan_step is asked to plan: given ones, drawn ones, and whole workloads.

A workload is served by the check: it asks for a plan, judges it and applies it itself. So an answer
that keeps or changes its arguments cannot change the workload.
"""

import random
from dataclasses import dataclass

from course.harness import Ask, Check, Failure
from solutions.l01_chunked_prefill._rules import Snapshot, judge_step


def on(*snapshots: Snapshot) -> Check:
    """The check that asks about these steps."""
    return lambda ask, rng: next(
        (failure for _, failure in (judge_step(ask, each) for each in snapshots) if failure), None
    )


def any_step(ask: Ask, rng: random.Random) -> Failure | None:
    """Steps drawn at random, those with few requests first."""
    snapshots = [random_snapshot(rng, size) for size in (*[1] * 55, *[5] * 5)]
    snapshots.sort(key=lambda each: len(each.limits))
    return on(*snapshots)(ask, rng)


def random_snapshot(rng: random.Random, size: int) -> Snapshot:
    """`size` times as many requests, longer prompts and a larger budget than in a small step."""
    counts = [rng.randint(0, 5 * size), rng.randint(0, 4 * size), rng.randint(0, 4 * size)]
    counts[rng.randrange(3)] += 1
    ids = rng.sample(range(30 * size), sum(counts))
    queue = [(i, rng.randint(1, 12 * size)) for i in ids[counts[0] :]]
    return Snapshot(
        tuple(ids[: counts[0]]),
        tuple(queue[: counts[1]]),
        tuple(queue[counts[1] :]),
        rng.randint(1, 24 * size * size),
    )


@dataclass(slots=True)
class Job:
    """A request of a workload, whose prompt tokens and new tokens left go down to 0.

    `prompt` 0 is a request that was prefilled before the workload begins. With decodes first, this
    is the only way to have more decodes than the budget holds.
    """

    id: int
    arrival: int
    prompt: int
    new: int
    served: int = -1  # the step of the latest token


def random_jobs(rng: random.Random, size: int) -> tuple[list[Job], int]:
    """Requests and a budget: long prompts, or more decodes than a small budget holds."""
    if rng.random() < 0.5:
        long = rng.choice((20, 2000))
        jobs = [
            Job(i, rng.randint(0, 6), rng.randint(1, long), rng.randint(1, 6)) for i in range(size)
        ]
        return jobs, rng.randint(3, 6 * long // 10)
    jobs = [Job(i, 0, 0, rng.randint(2, 5)) for i in range(size)]
    for i in (size, size + 1):
        jobs.append(Job(i, rng.randint(0, 3), rng.randint(1, 6), rng.randint(1, 3)))
    return jobs, rng.randint(1, 3)


def whole_workloads(ask: Ask, rng: random.Random) -> Failure | None:
    """Workloads of two to seven requests, each served to its last token."""
    for size in (2, 3, 5, 7):
        jobs, budget = random_jobs(rng, size)
        step = 0
        while any(job.new for job in jobs):
            snapshot = snapshot_at(step, jobs, budget)
            plan, failure = judge_step(ask, snapshot) if snapshot.limits else ([], None)
            if failure:
                return failure
            for request_id, n in plan:
                job = jobs[request_id]
                job.served = step
                job.prompt = max(0, job.prompt - n)
                job.new -= not job.prompt  # a prompt's last token samples the first new one
            step += 1
    return None


def snapshot_at(step: int, jobs: list[Job], budget: int) -> Snapshot:
    """The arguments of plan_step in this step."""
    here = sorted((j for j in jobs if j.arrival <= step and j.new), key=lambda j: j.arrival)
    decodes = sorted((j for j in here if not j.prompt), key=lambda j: j.served)
    prompts = [j for j in here if j.prompt]
    return Snapshot(
        tuple(j.id for j in decodes),
        tuple((j.id, j.prompt) for j in prompts if j.served >= 0),
        tuple((j.id, j.prompt) for j in prompts if j.served < 0),
        budget,
    )
