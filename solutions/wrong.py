"""What a known wrong answer is. Knows no lesson."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A wrong answer that people really give, and the idea behind it.

    `exercise` is an id such as "l01.plan_step"; `key` is the misconception that the check's report
    must name; `misconception` is the mistaken belief, in the words of somebody who holds it. Two
    wrong answers may share a key when they are two ways to write down one belief.
    """

    exercise: str
    name: str
    key: str
    misconception: str
    function: Callable[..., Any]
