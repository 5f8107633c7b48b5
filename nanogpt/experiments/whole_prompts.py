"""Serving without chunks, to compare with."""

from collections.abc import Sequence

from nanogpt.planning import Plan


def plan_whole_prompts(
    decodes: Sequence[int],
    prefilling: Sequence[tuple[int, int]],
    waiting: Sequence[tuple[int, int]],
    budget: int,
) -> Plan:
    """No chunking: a waiting prompt runs whole, at once, beside the decodes. Ignores the budget.

    Source: Orca (Yu et al., 2022): iteration-level batching without chunks.
    """
    return [(request_id, 1) for request_id in decodes] + [*prefilling, *waiting]
