"""Numbers that are compared to within a rounding."""

import math


class Near(float):
    """A float that equals every number within a millionth of it, or of `scale` if that is more."""

    scale: float

    def __new__(cls, value: float, scale: float = 0.0) -> "Near":
        """`scale` is how large the numbers are that this one was made from."""
        near = super().__new__(cls, value)
        near.scale = scale
        return near

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | float):
            return NotImplemented
        return math.isclose(self, other, rel_tol=1e-6, abs_tol=1e-6 * self.scale)

    def __hash__(self) -> int:
        return super().__hash__()
