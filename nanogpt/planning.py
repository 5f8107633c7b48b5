"""Plans: which request computes how many tokens this step. Pure functions of plain data.

A plan is a list of (request id, tokens). It knows no tensors, no clock and no KV cache.
"""

from collections.abc import Sequence

from msgspec import Struct

from nanogpt.validate import show

Plan = list[tuple[int, int]]


class Candidates(Struct, frozen=True):
    """The requests that may run in this step.

    `decodes` are ids, least recently served first; `prefilling` and `waiting` are (id, remaining
    tokens) in their order, `waiting` only those that could be admitted right now.
    """

    decodes: tuple[int, ...]
    prefilling: tuple[tuple[int, int], ...]
    waiting: tuple[tuple[int, int], ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to run."""
        return not (self.decodes or self.prefilling or self.waiting)


def chunk_size(token_budget: int, num_decodes: int, remaining: int) -> int:
    """How many prompt tokens fit into a step after its decodes: never negative."""
    return max(0, min(token_budget - num_decodes, remaining))


def plan_step(
    decodes: Sequence[int],
    prefilling: Sequence[tuple[int, int]],
    waiting: Sequence[tuple[int, int]],
    token_budget: int,
) -> Plan:
    """Decodes first, one token each; then prefills in order, each as large as the rest allows.

    Source: Sarathi-Serve (Agrawal et al., 2024), section 4: stall-free batching.
    """
    plan: Plan = [(request_id, 1) for request_id in decodes[:token_budget]]
    used = len(plan)
    for request_id, remaining in [*prefilling, *waiting]:
        num_tokens = chunk_size(token_budget, used, remaining)
        if num_tokens > 0:
            plan.append((request_id, num_tokens))
            used += num_tokens
    return plan


def chunk_inputs(
    token_ids: Sequence[int], num_computed_tokens: int, num_scheduled_tokens: int
) -> tuple[list[int], list[int], bool]:
    """The next chunk of a request's tokens: ids, positions, and whether to sample after it.

    Only the chunk that holds the last known token samples: its last row predicts the next one.
    """
    start, end = num_computed_tokens, num_computed_tokens + num_scheduled_tokens
    return list(token_ids[start:end]), list(range(start, end)), end == len(token_ids)


def plan_problem(plan: object, candidates: Candidates) -> str | None:
    """The reason why `plan` is illegal, in one sentence, or None.

    The token budget is not judged here: a policy may overrun it on purpose, and pays in time.
    """
    if not isinstance(plan, list | tuple):
        return f"plan_step returned {show(plan)}; it must be a list of (id, tokens) pairs"
    limits = dict.fromkeys(candidates.decodes, 1)
    limits.update(candidates.prefilling)
    limits.update(candidates.waiting)
    planned: set[int] = set()
    for entry in plan:  # pyright: ignore[reportUnknownVariableType]
        problem = _entry_problem(entry, limits, planned)
        if problem:
            return problem
    if not planned and not candidates.is_empty:
        return f"plan_step planned nothing although requests {sorted(limits)} could run"
    return None


def _entry_problem(entry: object, limits: dict[int, int], planned: set[int]) -> str | None:
    """The mistake in one (id, tokens) pair; notes the id in `planned` when there is none."""
    match entry:
        case (request_id, num_tokens) if type(request_id) is int and type(num_tokens) is int:
            pass
        case _:
            return f"plan_step planned {show(entry)}; it must be an (id, tokens) pair of integers"
    if request_id not in limits:
        return f"plan_step planned request {show(request_id)}; only {sorted(limits)} could run"
    if request_id in planned:
        return f"plan_step planned request {request_id} twice"
    if not 1 <= num_tokens <= limits[request_id]:
        return (
            f"plan_step planned {show(num_tokens)} tokens of request {request_id}; "
            f"it has {limits[request_id]} left, and at least 1 must run"
        )
    planned.add(request_id)
    return None
