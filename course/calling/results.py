"""The result of calling an answer, in plain data."""

from dataclasses import dataclass
from typing import Any

PROJECT = ("nanogpt", "course", "widgets", "solutions")
"""The packages whose code is no learner's, and whose dataclasses are plain data."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of one call. `args_after` are the copies it was given, as the call left them.

    `error` says what it raised. `value` and `args_after` are None and () when the call did not
    return. `where` names the line at which a call that timed out was stopped, as a part of a
    sentence, "" where that is not known.
    """

    value: Any
    args_after: tuple[Any, ...]
    error: "Raised | None"
    timed_out: bool
    stdout: str
    cpu_s: float
    where: str = ""

    def raised(self, *kinds: type[BaseException]) -> bool:
        """Whether it raised an error of one of these kinds."""
        return self.error is not None and any(kind.__name__ in self.error.kinds for kind in kinds)


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception as data: the names of its class and of the classes it derives from.

    `told` says it in words, with the line of the function. If an unwritten stub raised it, `stub`
    is that function's name, or None for the function that was called.
    """

    kinds: tuple[str, ...]
    told: str
    is_stub: bool = False
    stub: str | None = None

    @property
    def kind(self) -> str:
        """The name of its class."""
        return self.kinds[0]


@dataclass(frozen=True, slots=True)
class Opaque:
    """Stands for a result that is not plain data (a generator, a class): only its type's name."""

    type_name: str

    def __repr__(self) -> str:
        return with_article(self.type_name)


def with_article(name: str) -> str:
    """The name with "a" or "an" before it."""
    return f"an {name}" if name[:1].lower() in tuple("aeiou") else f"a {name}"
