"""Exercise 1.4: the plan of a step."""

import random
from collections import deque
from typing import Any

from course.checks.shrinking import shrink
from course.exercise import Exercise
from course.format_values import show, show_call
from course.harness import Ask, Check, Failure, Rows
from course.task import Task
from solutions.l01_chunked_prefill._plans import Pairs, Snapshot, best
from solutions.l01_chunked_prefill._rules import MISCONCEPTIONS, Broken, judge_plan
from solutions.l01_chunked_prefill._workloads import (
    Workload,
    random_workload,
    run_workload,
    smaller_snapshots,
    smaller_workloads,
)

# --- right answers ------------------------------------------------------------------------------


def plan_step(
    decodes: list[int],
    prefilling: list[tuple[int, int]],
    waiting: list[tuple[int, int]],
    token_budget: int,
) -> list[tuple[int, int]]:
    """Return the plan of one step: a list of (id, n), request `id` computes `n` tokens."""
    # Decodes cost one token each and keep every text flowing, so they are never made to wait for a
    # prompt. Prompts fill up what is left: first come, first served, because finishing one prompt
    # gives one reader a first token, and two halves give none of them any.
    plan = [(request_id, 1) for request_id in decodes[:token_budget]]
    left = token_budget - len(plan)
    for request_id, remaining in prefilling + waiting:
        n = min(left, remaining)
        if n > 0:
            plan.append((request_id, n))
            left -= n
    return plan


def token_by_token(
    decodes: list[int], prefilling: Pairs, waiting: Pairs, token_budget: int
) -> Pairs:
    wishes = list(decodes)
    for request_id, remaining in [*prefilling, *waiting]:
        wishes += [request_id] * remaining
    counts: dict[int, int] = {}
    for request_id in wishes[:token_budget]:
        counts[request_id] = counts.get(request_id, 0) + 1
    return list(counts.items())


def with_queues(decodes: list[int], prefilling: Pairs, waiting: Pairs, token_budget: int) -> Pairs:
    plan: Pairs = []
    decoding, prompts = deque(decodes), deque(prefilling + waiting)  # the lists stay as they are
    while token_budget > 0 and (decoding or prompts):
        if decoding:
            request_id, n = decoding.popleft(), 1
        else:
            request_id, n = prompts.popleft()
        plan.append((request_id, min(n, token_budget)))
        token_budget -= n
    return plan


# --- cases --------------------------------------------------------------------------------------


def rows(snapshot: Snapshot, plan: Any) -> Rows:
    return (
        ("input", show_call("plan_step", snapshot.args)),
        ("expected", f"{best(*snapshot.args)} (in any order)"),
        ("got", show(plan)),
    )


def failure(snapshot: Snapshot, plan: Any, broken: Broken, before: Rows = ()) -> Failure:
    mistake, *values = broken
    return mistake.failure(before + rows(snapshot, plan), *values)


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
    """Shrink as long as the same rule is broken, so that the sentence stays true.

    What is shown is a plan that broke it: asked once more, an answer may give another.
    """
    bad = snapshot, plan, broken

    def breaks(candidate: Snapshot) -> bool:
        nonlocal bad
        plan = ask(*candidate.args)
        found = judge_plan(candidate, plan)
        if found is None or found[0] is not broken[0]:
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
    """A wrong plan is shown in the smallest workload that breaks the same rule."""
    for size in (2, 3, 5, 7):
        bad = run_workload(ask, random_workload(rng, size))
        if bad is None:
            continue

        def breaks(candidate: Workload) -> bool:
            nonlocal bad
            found = run_workload(ask, candidate)
            if found is None or bad is None or found.broken[0] is not bad.broken[0]:
                return False
            bad = found
            return True

        shrink(bad.workload, smaller_workloads, breaks)
        where: Rows = (("workload", str(bad.workload)), ("step", str(bad.step)))
        return failure(bad.snapshot, bad.plan, bad.broken, where)
    return None


EXERCISE = Exercise(
    number=4,
    title="Plan a step",
    minutes=15,
    points=4,
    part="plan_step",
    task=Task(
        signature="plan_step(decodes: list[int], prefilling: list[tuple[int, int]], waiting: "
        "list[tuple[int, int]], token_budget: int) -> list[tuple[int, int]]",
        rules=(
            "`decodes` are the ids of the requests that generate, least recently served first. "
            "Each can use exactly 1 token.",
            "`prefilling` (prompts under way) and `waiting` (not started yet) are lists of `(id, "
            "remaining)`, each in its order. A request can use up to `remaining` tokens.",
            "Returns the plan as a list of `(id, n)`: request `id` computes `n` tokens. Every id "
            "stands in it at most once, with n from 1 to what it can use, and the order of the "
            "entries does not matter.",
            "All together get at most `token_budget` tokens (at least 1), and none of it stays "
            "unused while a request could use it.",
            "Decodes are served before `prefilling`, and that before `waiting`. Within a list the "
            "first in it go first: each gets all that it can use before the next one gets "
            "anything.",
            "Leave the three lists as they are.",
        ),
        args=([0, 3], [(1, 4)], [(2, 9)], 8),
        result=[(0, 1), (3, 1), (1, 4), (2, 2)],
    ),
    hints=(
        "Who notices first when a step leaves them out: a reader in mid-sentence, or one whose "
        "prompt is not done yet?",
        "Keep one number, what is left of the budget, and go through the three lists one after the "
        "other. What may each entry use at most, and when do you stop?",
        "A decode and a prompt differ in one thing only: how much they can use. Give each the "
        "smaller of that and what is left, take it off, and list none that gets nothing.",
    ),
    right=(plan_step, token_by_token, with_queues),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("room for all", on(Snapshot((0,), ((1, 3),), (), 8), Snapshot((4, 2), (), (), 8))),
        (
            "a prompt longer than the budget",
            on(
                Snapshot((0,), ((1, 20),), (), 8),
                Snapshot((), ((1, 20),), (), 8),
                Snapshot((0,), ((1, 400),), (), 32),
                Snapshot((0,), ((1, 5000),), (), 4096),
            ),
        ),
        (
            "several prompts",
            on(
                Snapshot((), ((1, 3), (2, 2)), (), 8),
                Snapshot((), ((1, 6), (2, 3), (3, 4)), (), 4),
                Snapshot((), ((5, 3), (2, 3), (4, 3)), (), 4),
                Snapshot((0,), ((1, 20), (2, 5)), (), 8),
            ),
        ),
        (
            "new arrivals",
            on(
                Snapshot((0,), (), ((1, 4),), 8),
                Snapshot((0,), (), ((1, 20),), 8),
                Snapshot((), ((1, 3),), ((2, 4),), 8),
                Snapshot((0,), ((1, 5),), ((2, 3),), 4),
            ),
        ),
        (
            "more decodes than the budget holds",
            on(
                Snapshot((3, 1, 2), ((4, 5),), (), 3),
                Snapshot((3, 1, 2, 0), ((4, 5),), ((5, 2),), 2),
            ),
        ),
        ("any step", any_step),
        ("whole workloads, to the last token", whole_workloads),
    ),
    equivalent_mutants={
        "decodes: without repeats": "an id is there once",
        "token_budget at least 1": "it is at least 1",
        "result: reversed": "the order of the entries does not matter",
    },
)
