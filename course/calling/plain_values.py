"""One rule for values in another type: what counts as a number, a truth, a list, a tensor.

A whole number is whatever equals an int and is no bool: `np.int64`, a 0-d tensor, 12.0. A number
and a truth likewise. A list stands for a tuple and back, and so do named tuples, ranges and 1-d
arrays. Subclasses count as what they are, but only base-class methods are asked: their own code
never runs.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from nanogpt.validate import is_tensor

if TYPE_CHECKING:
    from torch import Tensor

_MOST_CELLS = 20_000_000
_MOST_LETTERS = 60  # of a type's name
_DISPATCH = "__torch_dispatch__"


def as_truth(value: Any) -> bool | None:
    """The bool that `value` is: a bool, `np.bool_` or a 0-d bool tensor; else None."""
    value = _scalar(value)
    return value if type(value) is bool else None


def as_number(value: Any) -> int | float | None:
    """The int or float that `value` equals, which is no bool; else None. NaN is a float."""
    if type(value) is int or type(value) is float:  # nearly all that are asked about
        return value
    value = _scalar(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if type(value) is Fraction or type(value) is Decimal:
        return _of_exact(value)
    return None


def as_whole(value: Any) -> int | None:
    """The int that `value` equals and that is no bool; else None."""
    number = as_number(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() else None
    return number


def as_items(value: Any) -> list[Any] | None:
    """The items of a list, a tuple, a range or a 1-d array or tensor, as they are; else None."""
    if isinstance(value, list):
        return list(list.__iter__(cast("list[Any]", value)))
    if isinstance(value, tuple):
        return list(tuple.__iter__(cast("tuple[Any, ...]", value)))
    if isinstance(value, range):
        return list(value) if len(value[:_MOST_CELLS]) < _MOST_CELLS else None
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray:
        return value.tolist() if value.ndim == 1 and value.dtype.kind in "biuf" else None
    if is_tensor(value) and _is_exactly_tensor(value) and value.dim() == 1:
        return value.tolist()
    return None


def as_wholes(value: Any) -> list[int] | None:
    """The items of what `as_items` takes as whole numbers; None if one of them is none."""
    items = as_items(value)
    numbers = [as_whole(item) for item in items or ()]
    wholes = [number for number in numbers if number is not None]
    return wholes if items is not None and len(wholes) == len(numbers) else None


def as_mapping(value: Any) -> dict[Any, Any] | None:
    """The entries of a dict or a subclass of it, as they are; else None."""
    if not isinstance(value, dict):
        return None
    return dict(dict.items(cast("dict[Any, Any]", value)))


def as_tensor(value: Any) -> Tensor | None:
    """`value` as an ordinary tensor, dense and in memory, sharing its cells; None if it is none.

    A subclass is taken for the tensor beneath it; one that computes by a dispatch of its own, and
    sparse, meta, nested and quantised tensors, are none.
    """
    if not is_tensor(value):
        return None
    import torch
    from torch import Tensor

    if type(value) is Tensor:
        plain = value
    elif getattr(type(value), _DISPATCH) is not getattr(Tensor, _DISPATCH):
        return None
    else:
        with torch._C.DisableTorchFunctionSubclass():  # pyright: ignore[reportPrivateUsage]
            plain = Tensor.as_subclass(value, Tensor)
    if plain.layout != torch.strided or plain.device.type != "cpu":
        return None
    if plain.is_nested or plain.is_quantized or plain.numel() > _MOST_CELLS:
        return None
    return plain.detach() if plain.requires_grad else plain


def kind_of(value: Any) -> str:
    """The kind of `value` in a word or three, for a sentence: "int", "float64", "sparse tensor"."""
    if not is_tensor(value) or not _is_exactly_tensor(value):
        name = f"class ({value.__name__})" if isinstance(value, type) else type(value).__name__
        name = "numpy array" if name == "ndarray" else name
        return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"
    if value.numel() > _MOST_CELLS:
        return "tensor of more than 20 million cells"
    if value.is_meta:
        return "meta tensor without any data"
    if value.is_nested:
        return "nested tensor"
    if value.is_quantized:
        return "quantised tensor"
    return "tensor" if str(value.layout) == "torch.strided" else "sparse tensor"


def _is_exactly_tensor(value: Tensor) -> bool:
    return type(value) is sys.modules["torch"].Tensor


def _scalar(value: Any) -> Any:
    """The Python number behind a scalar of numpy or a 0-d array or tensor; others as they are."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value).__module__ == "numpy":
        if isinstance(value, numpy.generic) or (type(value) is numpy.ndarray and value.ndim == 0):
            plain = value.item()
            return float(plain) if isinstance(plain, numpy.floating) else plain
        return value
    if is_tensor(value):
        tensor = as_tensor(value)
        return tensor.item() if tensor is not None and tensor.dim() == 0 else value
    return value


def _of_exact(value: Fraction | Decimal) -> int | float:
    """An exact number as an int where it is whole, else as the nearest float."""
    try:
        whole = int(value)
        return whole if whole == value else float(value)
    except (ValueError, OverflowError):  # Decimal's NaN and infinities
        return float(value)
