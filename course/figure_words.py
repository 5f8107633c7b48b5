"""A drawn figure's numbers: a sentence for readers who cannot see it, and a table per panel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nanogpt.figures.drawing import curves, points_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

MOST_ROWS = 14
Points = list[tuple[float, float]]


def sentence(axes: Axes) -> str:
    """The panel's axes, its curves with their numbers, and its marks."""
    y, x = axes.get_title(loc="left"), axes.get_xlabel()
    words = [f"{y[:1].upper()}{y[1:]} against {x}.", *map(_curve_words, curves(axes))]
    for line in axes.lines:
        label = str(line.get_label())
        if label.startswith("_") and not label.startswith("_nolegend"):
            (first_x, y), (last_x, _) = points_of(line)
            words.append(f"{label[1:]}: {number(first_x if first_x == last_x else y)}.")
    return " ".join(words)


def table(axes: Axes) -> list[list[str]]:
    """A row of heads, then a row for each x (about a dozen) or for 50, 90, 99 and 100 percent."""
    lines, x, y = curves(axes), axes.get_xlabel(), axes.get_title(loc="left")
    heads = [str(line.get_label()) for line in lines]
    if _is_distribution(lines[0]):
        return [
            [f"{y}: {x}", *heads],
            *([f"{p} %", *(number(at_share(points_of(line), p)) for line in lines)]
              for p in (50, 90, 99, 100)),
        ]  # fmt: skip
    values = [dict(points_of(line)) for line in lines]
    xs = sorted({x for each in values for x in each})
    rows = [
        [number(x), *(number(each[x]) if x in each else "" for each in values)]
        for x in xs[:: -(-len(xs) // MOST_ROWS)]
    ]
    return [[f"{x}: {y}", *heads], *rows]


def at_share(points: Points, percent: float) -> float:
    """The smallest value of a distribution that at least `percent` of the values do not exceed."""
    return next(value for value, share in points if share >= percent - 1e-9)


def number(value: float) -> str:
    """A value as people write it: 0.125, 8.4, 75, 1,299."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if abs(value) < 100 else 0
    text = f"{value:,.{min(digits, 9)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _is_distribution(line: Line2D) -> bool:
    points = points_of(line)
    return line.get_drawstyle() == "steps-post" and (points[0][1], points[-1][1]) == (0, 100)


def _curve_words(line: Line2D) -> str:
    name, points = line.get_label(), points_of(line)
    if _is_distribution(line):
        return (
            f"{name}: half are at most {number(at_share(points, 50))}, 99 % at most "
            f"{number(at_share(points, 99))}, the longest {number(points[-1][0])}."
        )
    (first_x, first), (last_x, last) = points[0], points[-1]
    words = f"{name}: {number(first)} at {number(first_x)}"
    if len(points) > 1:
        words += f", {number(last)} at {number(last_x)}"
    for what, choose in (("most", max), ("least", min)):
        x, y = choose(points, key=lambda point: point[1])
        if y not in (first, last):
            words += f", {what} {number(y)} at {number(x)}"
    return f"{words}."
