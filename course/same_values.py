"""When two values say the same, and a value in the form of another.

Both go by the one rule for types (`course.calling.plain_values`), on data that
`course.calling.values.plain` has made plain.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, cast

from course.calling.plain_values import as_items, as_mapping, as_number, as_truth, as_whole
from nanogpt.validate import is_tensor

if TYPE_CHECKING:
    from torch import Tensor

_SCALARS = frozenset((int, str, bool, type(None)))


def same(a: Any, b: Any) -> bool:
    """Whether they say the same: a list may stand for a tuple, 12.0 for 12, nothing for a bool.

    Tensors have the same type, shape and cells; a missing number (NaN) equals itself.
    """
    if type(a) is type(b) and type(a) in _SCALARS:  # nearly all that there is to compare
        return bool(a == b)
    if is_tensor(a) or is_tensor(b):
        return is_tensor(a) and is_tensor(b) and _same_cells(a, b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        pairs = zip(cast("list[Any]", a), cast("list[Any]", b), strict=False)
        return len(a) == len(b) and all(same(x, y) for x, y in pairs)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = cast("dict[Any, Any]", a), cast("dict[Any, Any]", b)
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if dataclasses.is_dataclass(a) and type(a) is type(b):
        names = [field.name for field in dataclasses.fields(a) if field.compare]
        return all(same(getattr(a, name), getattr(b, name)) for name in names)
    return bool(a == b) or bool(a != a and b != b)


def _same_cells(a: "Tensor", b: "Tensor") -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.equal(b):
        return True
    return (
        a.is_floating_point()
        and a.isnan().equal(b.isnan())
        and a.nan_to_num().equal(b.nan_to_num())
    )


def like(value: Any, wanted: Any) -> Any:
    """`value` in the types of `wanted`, as far as the rule lets one stand for the other.

    Whatever may not is left as it is: a form says so in words.
    """
    if type(value) in _SCALARS:  # stands for itself alone, whatever is wanted
        return value
    if isinstance(wanted, bool):
        return _or_itself(as_truth(value), value)
    if isinstance(wanted, int):
        return _or_itself(as_whole(value), value)
    if isinstance(wanted, float):
        return _or_itself(as_number(value), value)
    if isinstance(wanted, list | tuple):
        models = cast("list[Any]", list(wanted))  # pyright: ignore[reportUnknownArgumentType]
        if is_tensor(value) and models and all(isinstance(row, list) for row in models):
            value = value.tolist()
        items = as_items(value)
        if items is None:
            return value
        if len(items) != len(models):
            models = models[:1] * len(items)  # a list of any length holds one kind of item
        if _SCALARS.issuperset(map(type, items)):
            return type(wanted)(items)  # pyright: ignore[reportUnknownVariableType]
        filled = [like(item, model) for item, model in zip(items, models, strict=False)]
        return type(wanted)(filled or items)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(wanted, dict):
        mapping, known = as_mapping(value), cast("dict[Any, Any]", wanted)
        if mapping is None or not known:
            return value if mapping is None else mapping
        key, item = next(iter(known.items()))
        return {like(k, key): like(v, known.get(like(k, key), item)) for k, v in mapping.items()}
    return value


def _or_itself(converted: Any, value: Any) -> Any:
    return value if converted is None else converted
