"""Exercise 1.4: the plan of a step."""

from collections.abc import Callable
from typing import Any

from course.exercise import Exercise, Misconception, Task
from solutions.l01_chunked_prefill._rules import Pairs, Snapshot, best, fill
from solutions.l01_chunked_prefill._workloads import any_step, on, whole_workloads

# --- right answers ------------------------------------------------------------------------------


def plan_step(
    decodes: list[int],
    prefilling: list[tuple[int, int]],
    waiting: list[tuple[int, int]],
    token_budget: int,
) -> list[tuple[int, int]]:
    """Return the plan of one step, a list of (id, n): request `id` computes `n` tokens."""
    # Decodes cost one token each, so they never wait for a prompt. Prompts get the rest in order of
    # arrival: one finished prompt gives one request its first token, two halves give none.
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


# --- wrong ideas --------------------------------------------------------------------------------


def serving(queue: Callable[[Pairs, Pairs, Pairs], Pairs]) -> Callable[..., Pairs]:
    """Plans that serve another queue of (id, most tokens) pairs, as far as the budget goes."""
    return lambda decodes, prefilling, waiting, budget: fill(
        queue([(request_id, 1) for request_id in decodes], prefilling, waiting), budget
    )


def after_decodes(rule: Callable[[Pairs, int], Pairs]) -> Callable[..., Pairs]:
    """Plans that serve decodes correctly, and prompts by another rule from the rest."""

    def plan(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
        served = best(decodes, [], [], budget)
        return served + rule(prefilling + waiting, budget - len(served))

    return plan


def those_that_fit(prompts: Pairs, left: int) -> Pairs:
    plan: Pairs = []
    for request_id, most in prompts:
        if most <= left:
            plan.append((request_id, most))
            left -= most
    return plan


def eats_the_queue(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    plan: Pairs = []
    while budget > 0 and (decodes or prefilling or waiting):
        queue = prefilling or waiting
        request_id, n = (decodes.pop(0), 1) if decodes else queue.pop(0)
        plan.append((request_id, min(n, budget)))
        budget -= n
    return plan


WRONG: tuple[tuple[str, str, Callable[..., Any]], ...] = (  # key, belief, example
    (
        "beyond_remaining",
        "A prompt takes the whole rest of the budget.",
        after_decodes(lambda prompts, left: [(i, left) for i, _ in prompts[:1] if left]),
    ),
    (
        "whole_prompt",
        "A prompt is computed whole, in one step.",
        after_decodes(lambda prompts, left: prompts[:1]),
    ),
    (
        "over_budget",
        "Each prompt may use all tokens that the decodes leave.",
        after_decodes(lambda prompts, left: [(i, min(n, left)) for i, n in prompts if left]),
    ),
    (
        "decodes_sit_out",
        "A step is either prefill or decode.",
        serving(lambda decodes, prefilling, waiting: prefilling + waiting or decodes),
    ),
    (
        "prefill_first",
        "Prompts go first, because new users are waiting.",
        serving(lambda decodes, prefilling, waiting: prefilling + waiting + decodes),
    ),
    (
        "waiting_first",
        "Waiting requests have waited longest, so they go before the prefilling ones.",
        serving(lambda decodes, prefilling, waiting: decodes + waiting + prefilling),
    ),
    (
        "shortest_first",
        "Short prompts first: more requests get a first token sooner.",
        after_decodes(lambda prompts, left: fill(sorted(prompts, key=lambda p: p[1]), left)),
    ),
    (
        "fixed_chunk",
        "A chunk has a fixed size.",
        after_decodes(lambda prompts, left: fill([(i, min(n, 4)) for i, n in prompts], left)),
    ),
    (
        "whole_or_nothing",
        "A prompt starts only when all of it fits into the budget.",
        after_decodes(those_that_fit),
    ),
    (
        "arrivals_wait",
        "A new request starts only when the engine is idle.",
        serving(lambda decodes, prefilling, waiting: decodes + prefilling or waiting),
    ),
    (
        "one_prefill",
        "A step prefills only one prompt.",
        after_decodes(lambda prompts, left: fill(prompts[:1], left)),
    ),
    ("in_place", "I may remove entries from the lists while I work.", eats_the_queue),
)

# --- the exercise ---------------------------------------------------------------------------------

EXERCISE = Exercise(
    number=4,
    title="The plan of a step",
    minutes=15,
    points=4,
    task=Task(
        rules=(
            "`decodes` are the ids of the requests that generate, least recently served first. "
            "Each can use exactly 1 token.",
            "`prefilling` (prompts that have started) and `waiting` (not started yet) are lists of "
            "`(id, remaining)`. A request can use up to `remaining` tokens.",
            "Returns the plan, a list of `(id, n)`: request `id` computes `n` tokens. Each id is "
            "listed at most once, with n from 1 to the number of tokens that it can use. The order "
            "of the entries does not matter.",
            "The plan computes at most `token_budget` tokens (at least 1), and leaves no token "
            "unused that a request could use.",
            "`decodes` are served before `prefilling`, and `prefilling` before `waiting`. Within a "
            "list, each request gets all that it can use before the next one gets anything.",
            "Do not change the three lists.",
        ),
        args=([0, 3], [(1, 4)], [(2, 9)], 8),
        result=[(0, 1), (3, 1), (1, 4), (2, 2)],
        steps=(
            "Decodes 0 and 3 take one token each: 6 of 8 are left.",
            "Request 1 takes its last 4 prompt tokens: 2 are left.",
            "Request 2 has 9 prompt tokens. It computes 2 of them in this step.",
        ),
    ),
    hints=(
        "Which user notices first that a step left out their request: one who is reading a text, "
        "or one whose prompt is not finished yet?",
        "Keep one number, the rest of the budget, and go through the three lists in order. How "
        "many tokens may each entry use at most, and when do you stop?",
        "A decode and a prompt differ only in how many tokens they can use. Give each one the "
        "smaller of that number and the rest, subtract it, and skip requests that get 0.",
    ),
    right=(plan_step, token_by_token),
    misconceptions=[Misconception(key, belief, examples=[way]) for key, belief, way in WRONG],
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
        "decodes: without repeats": "an id is listed once",
        "token_budget at least 1": "it is at least 1",
        "result: reversed": "the order of the entries does not matter",
    },
)
