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
    `args` and `result` are one case worked by hand, small enough to follow in one's head. Where
    the answer is a generator, `answers` are what is sent into it, in order, and `result` is the
    list of what it yields: its first move, and one more for each answer.
    """

    signature: str
    rules: tuple[str, ...]
    args: tuple[Any, ...]
    result: Any
    answers: tuple[Any, ...] = ()

    def worked(self, function: Any) -> Any:
        """What `function` makes of the case, to be compared with `result`."""
        value = function(*self.args)
        if not self.answers:
            return value
        return [next(value), *map(value.send, self.answers)]
