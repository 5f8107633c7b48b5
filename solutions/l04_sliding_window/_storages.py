"""The memory behind tensors."""

from collections.abc import Iterable

from torch import Tensor


def storages(tensors: Iterable[Tensor]) -> dict[int, int]:
    """The size in bytes of every storage that the tensors show, by its address."""
    return {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors
    }


def shown_bytes(tensors: Iterable[Tensor]) -> int:
    """The bytes that the tensors' shapes speak of."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
