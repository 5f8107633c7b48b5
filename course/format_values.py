"""Values as short text for a report: what was asked, what came back."""

import itertools
import sys
from collections.abc import Callable, Sequence
from reprlib import Repr
from typing import Any, cast

from course.calling.results import with_article

_MAX_TEXT = 600  # characters
_MAX_SIDE = 24  # rows or columns of a drawn matrix
_MAX_ITEMS = 400  # of a list or a tensor, before it is written out
_MAX_BITS = 1000  # of a whole number that is written out


class _Bounded(Repr):
    """`repr` that never takes long: huge numbers by their size, long containers cut."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 20
        self.maxstring = self.maxother = self.maxlong = 2 * _MAX_TEXT
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = _MAX_ITEMS

    def repr_int(self, x: int, level: int) -> str:
        if abs(x).bit_length() <= _MAX_BITS:
            return repr(x)
        return f"{'-' if x < 0 else ''}about 10**{int(abs(x).bit_length() * 0.30103)}"

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """In its own order, which may be what matters."""
        pairs = [
            f"{self.repr1(key, level - 1)}: {self.repr1(item, level - 1)}"
            for key, item in itertools.islice(x.items(), self.maxdict)
        ]
        return "{" + ", ".join([*pairs, *(["..."] if len(x) > len(pairs) else [])]) + "}"

    def repr_instance(self, x: Any, level: int) -> str:
        """As it shows itself; where it cannot, its type, and never where in memory it lies."""
        try:
            return cut(repr(x), self.maxother)
        except Exception:
            return with_article(cut(type(x).__name__, 60))

    def repr_Tensor(self, x: Any, level: int) -> str:
        return _tensor(x)


def show(value: Any) -> str:
    """The value as text; a boolean matrix as rows of 1 and 0, a long value cut in its middle."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return cut(_tensor(value))
    if (
        torch is not None
        and isinstance(value, list | tuple)
        and any(isinstance(item, torch.Tensor) for item in value[:_MAX_ITEMS])
    ):
        return _one_below_the_other(cast("Sequence[Any]", value))
    if isinstance(value, list | tuple) and len(cast("Sequence[Any]", value)) > _MAX_ITEMS:
        items = cast("Sequence[Any]", value)
        half = _MAX_ITEMS // 2
        ends = _BOUNDED.repr(items[:half])[:-1], _BOUNDED.repr(items[-half:])[1:]
        return f"{cut(', ... '.join(ends))} ({len(items)} entries)"
    return cut(_BOUNDED.repr(value))


def show_call(name: str, args: tuple[Any, ...]) -> str:
    """The call as the learner would write it: `plan_step([1, 2], [], [(3, 9)], 8)`."""
    return f"{name}({', '.join(show(arg) for arg in args)})"


def named(*names: str) -> Callable[[str, tuple[Any, ...]], str]:
    """Draws calls with their arguments named, since bare numbers do not say what they are."""

    def draw(function: str, args: tuple[Any, ...]) -> str:
        words = [f"{name}={show(arg)}" for name, arg in zip(names, args, strict=True)]
        return f"{function}({', '.join(words)})"

    return draw


def expected_and_got(
    expected: Any, got: Any, draw: Callable[[Any], str] = show
) -> tuple[tuple[str, str], tuple[str, str]]:
    """The rows expected and got, which never look alike: types are named where the digits agree.

    Strings are taken as they are, cut where they are long.
    """
    wanted = cut(expected) if isinstance(expected, str) else draw(expected)
    came = cut(got) if isinstance(got, str) else draw(got)
    if wanted == came and not isinstance(expected, str):
        wanted, came = show(expected), show(got)  # all digits
    if wanted == came:
        wanted, came = f"{wanted} ({_kind(expected)})", f"{came} ({_kind(got)})"
    return ("expected", wanted), ("got", came)


def _kind(value: Any) -> str:
    """The type's name, for a tensor with the type of its cells."""
    name = type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} tensor" if name == "Tensor" else name


def brief(value: Any, other: Any) -> str:
    """A list of records by their ids where these tell it from `other`; all else as it is.

    Of a tensor of three dimensions or more, the first cell that tells it from `other` is enough.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.dim() > 2:
        is_like = value.shape == getattr(other, "shape", None)
        for place in (value != other).nonzero()[:1].tolist() if is_like else ():
            cell = value[tuple(place)].item()
            return f"{_kind(value)} of shape {tuple(value.shape)}, with {cell} at {place}"
    ids, other_ids = _ids(value), _ids(other)
    if ids is None or other_ids is None or ids == other_ids:
        return show(value)
    return f"the ids {ids}"


def _ids(value: Any) -> list[Any] | None:
    """The ids of the records in a list; None if it holds anything else."""
    if not isinstance(value, list):
        return None
    ids = [getattr(item, "id", None) for item in cast("list[Any]", value)]
    return None if None in ids else ids


def cut(text: str, most: int = _MAX_TEXT) -> str:
    """The text with its middle left out where it is longer than `most` characters."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def _one_below_the_other(items: Sequence[Any]) -> str:
    """The items of a list or a tuple with tensors in it, each from a line of its own on."""
    drawn = [f"[{index}] {cut(show(item), 200)}" for index, item in enumerate(items[:9])]
    return "\n".join(
        [f"a {type(items).__name__} of {len(items)}:", *drawn, *["..."][: len(items) - 9]]
    )


def _tensor(tensor: Any) -> str:
    """Shape and type, and the numbers when there are few of them."""
    kind = f"{str(tensor.dtype).removeprefix('torch.')} tensor of shape {tuple(tensor.shape)}"
    if tensor.numel() == 0:
        return f"{kind}, empty"
    if tensor.numel() > _MAX_ITEMS and (tensor.dim() != 2 or max(tensor.shape) > _MAX_SIDE):
        first = ", ".join(_number(cell).strip() for cell in tensor.flatten()[:8].tolist())
        return f"{kind}, which begins {first}, ..."
    if tensor.dim() != 2 or max(tensor.shape) > _MAX_SIDE:
        return f"{kind}: {_rounded(tensor.tolist())}"
    if str(tensor.dtype) == "torch.bool":
        rows = [" ".join("1" if cell else "0" for cell in row) for row in tensor.tolist()]
    else:
        rows = [" ".join(_number(cell) for cell in row) for row in tensor.tolist()]
    return "\n".join([f"{kind}:", *rows])


def _rounded(numbers: Any) -> str:
    """Nested lists of numbers on one line, with four digits."""
    if isinstance(numbers, list):
        return f"[{', '.join(map(_rounded, cast('list[Any]', numbers)))}]"
    return _number(numbers).strip()


def _number(number: float) -> str:
    return f"{number:7.4g}" if isinstance(number, float) else str(number)


_BOUNDED = _Bounded()
