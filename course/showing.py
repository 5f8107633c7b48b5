"""Values as short text for a report: what was asked, what came back."""

import sys
from collections.abc import Callable
from typing import Any

_MAX_TEXT = 600  # characters
_MAX_SIDE = 24  # rows or columns of a drawn matrix


def show(value: Any) -> str:
    """The value as text; a boolean matrix as rows of 1 and 0, a long value cut in its middle."""
    torch = sys.modules.get("torch")
    text = _tensor(value) if torch is not None and isinstance(value, torch.Tensor) else repr(value)
    if len(text) <= _MAX_TEXT:
        return text
    half = _MAX_TEXT // 2
    return f"{text[:half]} ... {text[-half:]}"


def show_call(name: str, args: tuple[Any, ...]) -> str:
    """The call as the learner would write it: `plan_step([1, 2], [], [(3, 9)], 8)`."""
    return f"{name}({', '.join(show(arg) for arg in args)})"


def named(*names: str) -> Callable[[str, tuple[Any, ...]], str]:
    """Draws calls with their arguments named, since bare numbers do not say what they are."""

    def draw(function: str, args: tuple[Any, ...]) -> str:
        words = [f"{name}={show(arg)}" for name, arg in zip(names, args, strict=True)]
        return f"{function}({', '.join(words)})"

    return draw


def _tensor(tensor: Any) -> str:
    """Shape and type, and the numbers when there are few of them."""
    kind = f"{str(tensor.dtype).removeprefix('torch.')} tensor of shape {tuple(tensor.shape)}"
    if tensor.numel() == 0:
        return f"{kind}, empty"
    if tensor.dim() != 2 or max(tensor.shape) > _MAX_SIDE:
        return f"{kind}: {tensor.tolist()}"
    if str(tensor.dtype) == "torch.bool":
        rows = [" ".join("1" if cell else "0" for cell in row) for row in tensor.tolist()]
    else:
        rows = [" ".join(_number(cell) for cell in row) for row in tensor.tolist()]
    return "\n".join([f"{kind}:", *rows])


def _number(number: float) -> str:
    return f"{number:7.4g}" if isinstance(number, float) else str(number)
