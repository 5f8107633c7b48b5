"""Judging how many bytes tensors keep alive: the storages behind them, and the mistakes."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, Comparison, Mistake, a_kind, alike
from course.checks.windowing import draw_tensors, shown_bytes, storages
from nanogpt.parts.plain_values import as_whole


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor with a storage of its own."""
    return torch.zeros(shape, dtype=dtype)


def _bytes_evidence() -> list[Args]:
    """Tensors of all kinds; what an answer says of each tells why it failed on one."""
    whole, other = zeros(2, 10, 4), zeros(2, 10, 4)
    views = [whole[:, :3], other[:, -3:], whole[:, 5:], other]
    kinds = [zeros(6, dtype=torch.float16), zeros(6, dtype=torch.float64), zeros(9)]
    return [(views,), (kinds,), ([whole[:1], zeros(3), other],), ([whole, whole, zeros(7)],)]


def _bytes_form(value: Any) -> tuple[str, str] | None:
    if as_whole(value) is not None:
        return None
    return "not_int", f"The answer is a whole number of bytes (an int), not {a_kind(value)}."


BYTES: Comparison[Callable[[Sequence[Tensor]], int]] = Comparison(
    reference=lambda tensors: sum(storages(tensors).values()),
    mistakes=(
        *alike(
            "shapes",
            "A shape says what a tensor shows, but memory is freed by whole storages: count the "
            "bytes of the storage behind it.",
            shown_bytes,
            lambda tensors: sum({t.data_ptr(): shown_bytes([t]) for t in tensors}.values()),
        ),
        Mistake(
            "counted_twice",
            "Tensors that show one storage share its bytes: count each storage once, by its "
            "address.",
            lambda tensors: sum(tensor.untyped_storage().nbytes() for tensor in tensors),
        ),
        Mistake(
            "counted_twice",
            "Two views may begin at different places of one storage; the address that tells "
            "storages apart is the storage's own, not the tensor's.",
            lambda tensors: sum(
                {t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values()
            ),
        ),
        Mistake(
            "same_size",
            "Two storages of one size are two storages: tell them apart by their addresses, not by "
            "their sizes.",
            lambda tensors: sum({t.untyped_storage().nbytes() for t in tensors}),
        ),
        Mistake(
            "keys_only",
            "All of the tensors count, the values as well as the keys.",
            lambda tensors: sum(storages(tensors[::2]).values()),
        ),
        Mistake(
            "first_only",
            "All of the tensors count, not only the first.",
            lambda tensors: sum(storages(tensors[:1]).values()),
        ),
        Mistake(
            "largest_only",
            "All storages are in memory at once, so their bytes add up.",
            lambda tensors: max(storages(tensors).values(), default=0),
        ),
        Mistake(
            "elements",
            "These are numbers of elements; each of them takes `element_size()` bytes.",
            lambda tensors: sum(
                {
                    t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() // t.element_size()
                    for t in tensors
                }.values()
            ),
        ),
        Mistake(
            "elements",
            "These are numbers of elements; each of them takes `element_size()` bytes.",
            lambda tensors: sum(t.numel() for t in tensors),
        ),
        *alike(
            "four_bytes_each",
            "An element does not always take 4 bytes: float64 takes 8 and float16 takes 2.",
            lambda tensors: sum(4 * t.numel() for t in tensors),
            lambda tensors: sum(
                {
                    t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
                    // t.element_size()
                    * 4
                    for t in tensors
                }.values()
            ),
        ),
    ),
    idea="What counts is the memory that cannot come free as long as these tensors live.",
    form=_bytes_form,
    draw_call=draw_tensors,
    evidence=_bytes_evidence(),
)
