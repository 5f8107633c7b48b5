"""What a step offers to plan_step, and plans that are wrong in one way or another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Pairs = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one step offers: the arguments of plan_step."""

    decodes: tuple[int, ...]
    prefilling: tuple[tuple[int, int], ...]
    waiting: tuple[tuple[int, int], ...]
    budget: int

    @property
    def args(self) -> tuple[list[int], Pairs, Pairs, int]:
        """As plan_step is called."""
        return list(self.decodes), list(self.prefilling), list(self.waiting), self.budget

    @property
    def prompts(self) -> Pairs:
        """Those under way, then those that wait."""
        return [*self.prefilling, *self.waiting]


def fill(queue: Sequence[tuple[int, int]], left: int) -> Pairs:
    """Serve (id, most tokens) pairs in order from `left` tokens."""
    plan: Pairs = []
    for request_id, most in queue:
        if left > 0:
            plan.append((request_id, min(most, left)))
            left -= min(most, left)
    return plan


def ones(decodes: list[int]) -> Pairs:
    return [(request_id, 1) for request_id in decodes]


def serving(queue: Callable[[Pairs, Pairs, Pairs], Pairs]) -> Callable[..., Pairs]:
    """Plans that serve such a queue of (id, most tokens) pairs, as far as the budget goes."""
    return lambda decodes, prefilling, waiting, budget: fill(
        queue(ones(decodes), prefilling, waiting), budget
    )


def behind_decodes(rule: Callable[[Pairs, int], Pairs]) -> Callable[..., Pairs]:
    """Plans that serve decodes as they should, and prompts by such a rule from what is left."""

    def plan(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
        served = fill(ones(decodes), budget)
        return served + rule(prefilling + waiting, budget - len(served))

    return plan


# The plan that the rules lead to, entries in the order in which they are served.
best = serving(lambda decodes, prefilling, waiting: decodes + prefilling + waiting)


def eats_the_queue(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    plan: Pairs = []
    while budget > 0 and (decodes or prefilling or waiting):
        queue = prefilling or waiting
        request_id, n = (decodes.pop(0), 1) if decodes else queue.pop(0)
        plan.append((request_id, min(n, budget)))
        budget -= n
    return plan


def equal_shares(prompts: Pairs, left: int) -> Pairs:
    shares = dict.fromkeys((request_id for request_id, _ in prompts), 0)
    while left > 0 and any(shares[request_id] < most for request_id, most in prompts):
        for request_id, most in prompts:
            if left > 0 and shares[request_id] < most:
                shares[request_id] += 1
                left -= 1
    return [(request_id, n) for request_id, n in shares.items() if n]


def one_for_the_last(prompts: Pairs, left: int) -> Pairs:
    plan = fill(prompts[:-1], left - 1)
    return plan + fill(prompts[-1:], left - sum(n for _, n in plan))


def those_that_fit(prompts: Pairs, left: int) -> Pairs:
    plan: Pairs = []
    for request_id, most in prompts:
        if most <= left:
            plan.append((request_id, most))
            left -= most
    return plan


def to_the_last(prompts: Pairs, left: int) -> Pairs:
    plan: Pairs = []
    for request_id, most in prompts:
        plan.append((request_id, min(most, left)))
        left -= min(most, left)
    return plan


def remembering() -> Callable[..., Pairs]:
    known: list[int] = []

    def plan(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
        known.extend(request_id for request_id in decodes if request_id not in known)
        return fill(ones(known) + prefilling + waiting, budget)

    return plan
