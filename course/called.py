"""What a call of an answer came to, in plain data."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Called:
    """What one call came to. `args_after` are the copies it was given, as it left them.

    `error` says what it raised; `value` and `args_after` are None and () when it did not return.
    """

    value: Any
    args_after: tuple[Any, ...]
    error: "Raised | None"
    timed_out: bool
    stdout: str
    cpu_s: float

    def raised(self, *kinds: type[BaseException]) -> bool:
        """Whether it raised an error of one of these kinds."""
        return self.error is not None and any(kind.__name__ in self.error.kinds for kind in kinds)


@dataclass(frozen=True, slots=True)
class Raised:
    """What a call raised, as data: the names of its class and of those it derives from.

    `told` says it in words, with the line of the function. Where a stub raised it that is not
    written yet, `stub` is that function's name, None for the one that was called itself.
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
        return f"<{with_article(self.type_name)}>"


def with_article(name: str) -> str:
    """The name with "a" or "an" before it."""
    return f"an {name}" if name[:1].lower() in tuple("aeiou") else f"a {name}"
