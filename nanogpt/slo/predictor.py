"""Predicted prefill times: a polynomial in the number of tokens, fitted to a measured sweep.

A line is enough for one model on one machine. A cubic also follows attention's growth with the
square of the prompt. Least squares are solved in exact fractions, so that a fit depends neither on
scaling nor on the order of the points.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
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
        return round(_value(self.coefficients, tokens))


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
    exact = [(Fraction(tokens), Fraction(time_us)) for tokens, time_us in points]
    powers = [sum(x**k for x, _ in exact) for k in range(2 * degree + 1)]
    rows = [
        [*powers[k : k + degree + 1], sum(y * x**k for x, y in exact)] for k in range(degree + 1)
    ]
    coefficients = tuple(float(value) for value in _solve(rows))
    return Predictor(coefficients, _r_squared(points, coefficients))


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


def _solve(rows: list[list[Fraction | int]]) -> list[Fraction]:
    """The solution of linear equations, one per row, the right side last: Gauss-Jordan."""
    size = len(rows)
    matrix = [[Fraction(value) for value in row] for row in rows]
    for column in range(size):
        # A Gram matrix of enough different lengths is positive definite: no pivot is zero.
        pivot = matrix[column][column]
        matrix[column] = [value / pivot for value in matrix[column]]
        for other in range(size):
            if other != column:
                factor = matrix[other][column]
                matrix[other] = [
                    value - factor * top
                    for value, top in zip(matrix[other], matrix[column], strict=True)
                ]
    return [row[-1] for row in matrix]


def _value(coefficients: Sequence[float], tokens: int) -> float:
    return sum(coefficient * tokens**power for power, coefficient in enumerate(coefficients))


def _r_squared(points: Sequence[Point], coefficients: Sequence[float]) -> float:
    mean = statistics.fmean(time_us for _, time_us in points)
    total = sum((time_us - mean) ** 2 for _, time_us in points)
    missed = sum((time_us - _value(coefficients, tokens)) ** 2 for tokens, time_us in points)
    return 1 - missed / total if total else 1.0
