"""What an exercise asks for, as a card that stands on the page in every mode.

The lesson's stub keeps a short docstring; the signature, the rules and one worked case stand here.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    """The contract of one exercise, without the rule that the exercise asks for.

    `signature` is the stub's own, on one line: "chunk_size(budget: int, ...) -> int". `rules` are
    sentences, one for each thing that goes in or comes out, with `code` between backquotes.
    `args` and `result` are one case worked by hand, small enough to follow in one's head.
    """

    signature: str
    rules: tuple[str, ...]
    args: tuple[Any, ...]
    result: Any
