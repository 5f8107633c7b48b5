"""Whole workloads for plan_step: a check serves them step by step, and shrinks a bad one.

The check holds the state: it sends a snapshot, judges the plan and applies it itself. So an answer
that keeps or changes its arguments cannot change the workload.
"""

import dataclasses
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from course.checks.shrinking import shrink, smaller_numbers
from course.harness import Ask, Check, Failure, Rows
from solutions.l01_chunked_prefill._rules import (
    Broken,
    Pairs,
    Snapshot,
    failure,
    judge_plan,
    plain_plan,
)


@dataclass(frozen=True, slots=True)
class Job:
    """A request of a workload: the step it arrives in, and its lengths in tokens.

    `new` is at least 1. `prompt` 0 is a request that was prefilled before the workload begins; with
    decodes first, there can be more decodes than one budget holds in no other way.
    """

    arrival: int
    prompt: int
    new: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests for one engine; at most `slots` of them run at the same time."""

    budget: int
    slots: int
    jobs: tuple[Job, ...]

    def __str__(self) -> str:
        lines = [f"budget {self.budget}, at most {self.slots} requests at once"]
        for i, job in enumerate(self.jobs):
            prompt = f"prompt {job.prompt}" if job.prompt else "prompt done"
            lines.append(f"request {i}: arrives in step {job.arrival}, {prompt}, new {job.new}")
        return "\n".join(lines)


def random_workload(rng: random.Random, size: int) -> Workload:
    """Long prompts that need several steps, or more decodes than a small budget holds."""
    if rng.random() < 0.5:
        long = rng.choice((20, 2000))
        jobs = [
            Job(rng.randint(0, 6), rng.randint(1, long), rng.randint(1, 6)) for _ in range(size)
        ]
        return Workload(rng.randint(3, 6 * long // 10), rng.randint(1, 6), tuple(jobs))
    jobs = [Job(0, 0, rng.randint(2, 5)) for _ in range(size)]
    jobs += [Job(rng.randint(0, 3), rng.randint(1, 6), rng.randint(1, 3)) for _ in range(2)]
    return Workload(rng.randint(1, 3), size + 2, tuple(jobs))


@dataclass(frozen=True, slots=True)
class BadStep:
    """The first step of a workload in which the plan broke a rule."""

    workload: Workload
    step: int
    snapshot: Snapshot
    plan: Any
    broken: Broken


class Running:
    """The state of a workload: the prompt tokens and new tokens that each request has left."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.prompt = [job.prompt for job in workload.jobs]
        self.new = [job.new for job in workload.jobs]
        self.served = [-1] * len(workload.jobs)  # the step of the latest token; -1: not started
        self.step = 0

    def snapshot(self) -> Snapshot:
        jobs = self.workload.jobs
        here = [i for i, job in enumerate(jobs) if job.arrival <= self.step and self.new[i]]
        here.sort(key=lambda i: (jobs[i].arrival, i))
        started = [i for i in here if self.served[i] >= 0 or not jobs[i].prompt]
        decodes = [i for i in started if not self.prompt[i]]
        decodes.sort(key=lambda i: self.served[i])
        fresh = [i for i in here if i not in started]
        fresh = fresh[: max(0, self.workload.slots - len(started))]
        return Snapshot(
            tuple(decodes),
            tuple((i, self.prompt[i]) for i in started if self.prompt[i]),
            tuple((i, self.prompt[i]) for i in fresh),
            self.workload.budget,
        )

    def apply(self, plan: Pairs) -> None:
        """The last token of a prompt samples the first new one; every decode samples one more."""
        for request_id, n in plan:
            self.served[request_id] = self.step
            self.prompt[request_id] = max(0, self.prompt[request_id] - n)
            if not self.prompt[request_id]:
                self.new[request_id] -= 1


def run_workload(ask: Callable[..., Any], workload: Workload) -> BadStep | None:
    """Serve the workload to its last token. Returns the first bad step, or None.

    It ends, because every step that follows the rules computes a token.
    """
    state = Running(workload)
    while any(state.new):
        snapshot = state.snapshot()
        if snapshot.decodes or snapshot.prompts:
            plan = plain_plan(ask(*snapshot.args))
            broken = judge_plan(snapshot, plan)
            if broken:
                return BadStep(workload, state.step, snapshot, plan, broken)
            state.apply(plan)
        state.step += 1
    return None


# --- smaller ones, to show --------------------------------------------------------------------


def smaller_snapshots(snapshot: Snapshot) -> Iterator[Snapshot]:
    """One entry fewer, a prompt or the budget smaller; at least one entry stays."""
    entries = len(snapshot.decodes) + len(snapshot.prompts)
    for name in ("waiting", "prefilling", "decodes"):
        items = getattr(snapshot, name)
        for i in range(len(items)):
            if entries > 1:
                rest = items[:i] + items[i + 1 :]
                yield dataclasses.replace(snapshot, **{name: rest})
            if name != "decodes":
                request_id, remaining = items[i]
                for less in smaller_numbers(remaining):
                    changed = (*items[:i], (request_id, less), *items[i + 1 :])
                    yield dataclasses.replace(snapshot, **{name: changed})
    for less in smaller_numbers(snapshot.budget):
        yield dataclasses.replace(snapshot, budget=less)


def smaller_workloads(workload: Workload) -> Iterator[Workload]:
    """Everything earlier, one request fewer, one of its numbers smaller, or a smaller budget."""
    jobs = workload.jobs
    first = min(job.arrival for job in jobs)
    if first:
        earlier = tuple(dataclasses.replace(job, arrival=job.arrival - first) for job in jobs)
        yield dataclasses.replace(workload, jobs=earlier)
    for i, job in enumerate(jobs):
        if len(jobs) > 1:
            yield dataclasses.replace(workload, jobs=jobs[:i] + jobs[i + 1 :])
        easier = [dataclasses.replace(job, arrival=0)] if job.arrival else []
        for name in ("arrival", "prompt", "new"):
            for less in smaller_numbers(getattr(job, name)):
                easier.append(dataclasses.replace(job, **{name: less}))
        for one in easier:
            yield dataclasses.replace(workload, jobs=(*jobs[:i], one, *jobs[i + 1 :]))
    for less in smaller_numbers(workload.budget):
        yield dataclasses.replace(workload, budget=less)


# --- checks ---------------------------------------------------------------------------------------


def on(*snapshots: Snapshot) -> Check:
    """The check that asks about these steps."""

    def check(ask: Ask, rng: random.Random) -> Failure | None:
        for snapshot in snapshots:
            plan = ask(*snapshot.args)
            broken = judge_plan(snapshot, plan)
            if broken:
                return failure(snapshot, plan, broken)
        return None

    return check


def any_step(ask: Ask, rng: random.Random) -> Failure | None:
    for size in (*[1] * 55, *[5] * 5):
        snapshot = random_snapshot(rng, size)
        plan = ask(*snapshot.args)
        broken = judge_plan(snapshot, plan)
        if broken:
            return smallest(ask, snapshot, plan, broken)
    return None


def smallest(ask: Ask, snapshot: Snapshot, plan: Any, broken: Broken) -> Failure:
    """The smallest step found in which a plan has the same misconception.

    The plan that is shown is one that was judged: asked again, an answer may give another.
    """
    bad = snapshot, plan, broken

    def breaks(candidate: Snapshot) -> bool:
        nonlocal bad
        plan = ask(*candidate.args)
        found = judge_plan(candidate, plan)
        if found is None or found[0] != broken[0]:
            return False
        bad = candidate, plan, found
        return True

    shrink(snapshot, smaller_snapshots, breaks)
    return failure(*bad)


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


def whole_workloads(ask: Ask, rng: random.Random) -> Failure | None:
    """A wrong plan is shown in the smallest workload found with the same misconception."""
    for size in (2, 3, 5, 7):
        bad = run_workload(ask, random_workload(rng, size))
        if bad is None:
            continue

        def breaks(candidate: Workload) -> bool:
            nonlocal bad
            found = run_workload(ask, candidate)
            if found is None or bad is None or found.broken[0] != bad.broken[0]:
                return False
            bad = found
            return True

        shrink(bad.workload, smaller_workloads, breaks)
        where: Rows = (("workload", str(bad.workload)), ("step", str(bad.step)))
        return failure(bad.snapshot, bad.plan, bad.broken, where)
    return None
