"""Predicted prefill times: a polynomial in the number of tokens, fitted to a measured sweep.

A line is enough for one model on one machine. A cubic also follows attention's growth with the
square of the prompt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nanogpt.validate import show

Point = tuple[int, float]
"""(tokens, microseconds) of a measured prefill."""
MOST = 10**12
"""The largest number of tokens or microseconds in a fit."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """A fitted polynomial: `coefficients` in microseconds, from the constant up."""

    coefficients: tuple[float, ...]
    r_squared: float

    def predict_us(self, tokens: int) -> int:
        """The predicted prefill time in microseconds."""
        powers = enumerate(self.coefficients)
        return round(sum(coefficient * tokens**power for power, coefficient in powers))


def fit_ttft(points: Sequence[Point]) -> tuple[float, float]:
    """The line a * tokens + c through the points: (a per token, c), both in microseconds.

    Raises: ValueError for fewer than 2 different prompt lengths.
    """
    c, a = fit_polynomial(points, degree=1).coefficients
    return a, c


def fit_polynomial(points: Sequence[Point], degree: int) -> Predictor:
    """The polynomial of least squared error: 1 for the line, 3 for the cubic.

    Raises: ValueError for too few different prompt lengths, or a point beyond `MOST`.
    """
    import numpy as np  # here, since the simulation starts without it

    for tokens, time_us in points:
        if not (abs(tokens) <= MOST and abs(time_us) <= MOST):
            raise ValueError(
                f"the point ({show(tokens)}, {show(time_us)}) is not a pair of finite numbers up "
                f"to {MOST:,}"
            )
    lengths = len({tokens for tokens, _ in points})
    if lengths <= degree:
        what = "a line" if degree == 1 else f"a polynomial of degree {degree}"
        raise ValueError(
            f"{what} needs {degree + 1} different prompt lengths; the sweep has {lengths}"
        )
    x, y = np.array(points, dtype=float).T
    highest_first = np.polyfit(x, y, degree)
    missed = y - np.polyval(highest_first, x)
    total = float(((y - y.mean()) ** 2).sum())
    r_squared = 1 - float((missed**2).sum()) / total if total else 1.0
    return Predictor(tuple(highest_first[::-1].tolist()), r_squared)


def read_sweep(path: Path) -> list[Point]:
    """Points from a file of lines `tokens,microseconds`; a first line without digits holds names.

    Raises: ValueError naming the first line that is something else.
    """
    points: list[Point] = []
    with path.open(newline="", encoding="utf-8-sig") as file:  # Excel writes a byte-order mark
        for number, line in enumerate(file, start=1):
            if not line.strip() or (number == 1 and not any(map(str.isdigit, line))):
                continue
            said = f"line {number} of {path} is {show(line.strip())}; it must"
            try:
                tokens, time_us = (float(cell.strip().strip('"')) for cell in line.split(","))
            except ValueError:
                raise ValueError(f"{said} be tokens,microseconds") from None
            if not (tokens.is_integer() and 0 < tokens <= MOST and 0 < time_us <= MOST):
                raise ValueError(
                    f"{said} hold a whole number of tokens and a time, both above 0 and at most "
                    f"{MOST:,}"
                )
            points.append((int(tokens), time_us))
    return points
