"""What a learner's `visible` and `rolling_buffer_index` are made of: one call for a whole step."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nanogpt.policies.sliding_window import rolling_buffer_index, visible, window_mask
from nanogpt.policies.validate_policies import whole
from nanogpt.validate import refused

WindowMask = Callable[[Sequence[int], Sequence[int], int | None, int], Tensor]
"""Of the positions of queries and keys, a window and sinks: what each query sees, (T, S) bool."""
IndicesOf = Callable[[Sequence[int], int, int], list[int]]
"""Of positions, a window and sinks: where in the rolling buffer the K/V of each lies."""


def mask_of_pairs(rule: Callable[..., bool]) -> WindowMask:
    """The mask that asks `rule` about every pair; for the reference, the mask in one expression."""
    if rule is visible:
        return window_mask

    def mask(queries: Sequence[int], keys: Sequence[int], window: int | None, sinks: int) -> Tensor:
        def cell(query: int, key: int) -> bool:
            answer: object = rule(query, key, window, sinks)
            if type(answer) is not bool:
                what = f"visible({query}, {key}, {window}, {sinks})"
                raise refused(what, answer, "True or False")
            return answer

        return torch.tensor([[cell(query, key) for key in keys] for query in queries])  # (T, S)

    return mask


def indices_of(rule: Callable[..., int] = rolling_buffer_index) -> IndicesOf:
    """`rule` for every position, its answers validated."""

    def index_of(position: int, window: int, sinks: int) -> int:
        answer = rule(position, window, sinks)
        if not 0 <= whole(answer) < window + sinks:
            what = f"rolling_buffer_index({position}, {window}, {sinks})"
            raise refused(what, answer, f"one of the slots 0..{window + sinks - 1}")
        return whole(answer)

    return lambda positions, window, sinks: [index_of(p, window, sinks) for p in positions]
