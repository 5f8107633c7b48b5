"""The cost of a step and of a copy, as plain data that can be sent; a step's cost is called."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class StepCost:
    """Microseconds of a step by its tokens: `fixed`, and `each` for every `width` of them.

    Begun widths count whole, and a step costs at least `least`. It writes itself down as Python
    does.
    """

    fixed: int
    each: int
    width: int = 1
    least: int | None = None

    def __call__(self, tokens: int) -> int:
        """Microseconds of a step of so many tokens."""
        widths = tokens if self.width == 1 else -(-tokens // self.width)
        cost = self.fixed + self.each * widths
        return cost if self.least is None else max(self.least, cost)

    def __repr__(self) -> str:
        widths = "tokens" if self.width == 1 else f"-(-tokens // {self.width})"
        cost = f"{self.fixed} + {self.each} * {widths}"
        return f"lambda tokens: {cost if self.least is None else f'max({self.least}, {cost})'}"


@dataclass(frozen=True, slots=True)
class Link:
    """A connection between two memories.

    Each transfer takes `latency_us` microseconds, and one more for every `bytes_per_us` bytes.
    """

    latency_us: int
    bytes_per_us: int
