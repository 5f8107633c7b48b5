"""What a figure shows, as plain data: panels of named curves, their words and their numbers.

Knows neither matplotlib nor where the numbers come from, so that the picture, its text alternative
and its table are made of the same values.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

MOST_LINES = 8
MOST_MARKED = 40
"""A curve of more points is drawn without a mark on each."""
MOST_ROWS = 14
_SHARES = (50, 90, 99, 100)

Shape = Literal["line", "curve", "points", "steps", "share"]


@dataclass(frozen=True, slots=True)
class Line:
    """One named curve. `halves` are half the widths of the points' intervals, `labels` their names.

    `shape`: "line" joins the points, "curve" does without marking them, "points" only marks them,
    "steps" holds each value until the next point, "share" is a cumulative distribution as
    `cumulative` makes one. Raises: ValueError for no point, a value that is no finite number, and
    more or fewer halves or labels than points.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    shape: Shape = "line"
    halves: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError(f"the curve {self.name!r} has no points; it needs at least one")
        for value in (*(value for point in self.points for value in point), *self.halves):
            # A bool is an int, and none that was measured.
            if isinstance(value, bool) or not math.isfinite(value):
                raise ValueError(
                    f"the curve {self.name!r} has the value {value}; each must be a finite number"
                )
        for what, given in (("intervals", self.halves), ("labels", self.labels)):
            if given and len(given) != len(self.points):
                raise ValueError(
                    f"the curve {self.name!r} has {len(given)} {what} for {len(self.points)} points"
                )

    @property
    def marked(self) -> bool:
        """Whether each point is marked."""
        few = len(self.points) <= MOST_MARKED
        return self.shape == "points" or (few and self.shape in ("line", "steps"))


@dataclass(frozen=True, slots=True)
class Mark:
    """A value with a name that a straight line is drawn at: a limit, a budget."""

    axis: Literal["x", "y"]
    value: float
    name: str


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves on two axes; `x` and `y` name what is counted and its unit ("" for none).

    `y_from_0`: the vertical axis begins at 0. Raises: ValueError for no curves, more than 8, two of
    one name, and, with `log_x`, an x of 0 or less.
    """

    x: tuple[str, str]
    y: tuple[str, str]
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    log_x: bool = False
    y_from_0: bool = True

    def __post_init__(self) -> None:
        names = [line.name for line in self.lines]
        if not 0 < len(names) <= MOST_LINES:
            raise ValueError(f"a panel has {len(names)} curves; it can show 1 to {MOST_LINES}")
        if len(set(names)) < len(names):
            raise ValueError(f"two curves have the same name: {', '.join(names)}")
        least = min(x for line in self.lines for x, _ in line.points)
        if self.log_x and least <= 0:
            raise ValueError(f"an x is {least:g}; on a logarithmic axis it must be above 0")

    def said(self) -> str:
        """The panel in a sentence for each curve, with its numbers."""
        (x, x_unit), (y, y_unit) = self.x, self.y
        curves = " ".join(_said(line, x_unit, y_unit) for line in self.lines)
        marks = "".join(f" {each.name}: {number(each.value)}." for each in self.marks)
        return f"{y[:1].upper()}{y[1:]} against {x}. {curves}{marks}"

    def table(self) -> list[list[str]]:
        """The numbers: a row of heads, then a row for each x, or each share of a distribution.

        Of a long run about a dozen rows, evenly spread.
        """
        heads = [line.name for line in self.lines]
        if self.lines[0].shape == "share":
            rows = [
                [f"{p} %", *(number(at_share(line, p)) for line in self.lines)] for p in _SHARES
            ]
            return [[f"{self.y[0]}: {_with_unit(*self.x)}", *heads], *rows]
        values = [dict(line.points) for line in self.lines]
        xs = sorted({x for each in values for x in each})
        step = -(-len(xs) // MOST_ROWS)
        return [
            [f"{_with_unit(*self.x)}: {_with_unit(*self.y)}", *heads],
            *(
                [number(x), *(number(each[x]) if x in each else "" for each in values)]
                for x in xs[::step]
            ),
        ]


@dataclass(frozen=True, slots=True)
class Chart:
    """A whole figure: its title, its panels, and where the numbers come from ("modelled: ...")."""

    title: str
    panels: tuple[Panel, ...]
    source: str = ""

    def __post_init__(self) -> None:
        if not self.panels:
            raise ValueError(f"the figure {self.title!r} has no panels; it needs at least one")

    def names(self) -> list[str]:
        """The curves' names over all panels; a name has one colour, dash and mark."""
        return list(dict.fromkeys(line.name for panel in self.panels for line in panel.lines))

    def said(self) -> str:
        """The figure in words."""
        source = f" ({self.source})" if self.source else ""
        return f"{self.title}{source}. {' '.join(panel.said() for panel in self.panels)}"


def cumulative(name: str, values: Iterable[float]) -> Line:
    """The distribution of measured values: (value, percent of them that do not exceed it)."""
    ranked = sorted(values)
    points = tuple((value, 100 * rank / len(ranked)) for rank, value in enumerate(ranked, start=1))
    return Line(name, points, "share")


def at_share(line: Line, percent: float) -> float:
    """The smallest value of a distribution that at least `percent` of the values do not exceed."""
    return next(value for value, share in line.points if share >= percent - 1e-9)


def number(value: float) -> str:
    """A value as it is read: 0.125, 8.4, 75, 1,299."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if abs(value) < 100 else 0
    text = f"{value:,.{min(digits, 9)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _with_unit(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _said(line: Line, x_unit: str, y_unit: str) -> str:
    y_words, x_words = (f" {unit}" if unit else "" for unit in (y_unit, x_unit))
    if line.shape == "share":
        half, most = at_share(line, 50), line.points[-1][0]
        return (
            f"{line.name}: half are at most {number(half)}{x_words}, 99 % at most "
            f"{number(at_share(line, 99))}{x_words}, the longest {number(most)}{x_words}."
        )
    (first_x, first), (last_x, last) = line.points[0], line.points[-1]
    begin = f"{line.name}: {number(first)}{y_words} at {number(first_x)}{x_words}"
    if len(line.points) == 1:
        return f"{begin}."
    return f"{begin}, {number(last)} at {number(last_x)}{_extremes(line.points)}."


def _extremes(points: Sequence[tuple[float, float]]) -> str:
    """Where a curve is highest and lowest, if that is not at its ends."""
    words = ""
    for name, choose in (("most", max), ("least", min)):
        x, y = choose(points, key=lambda point: point[1])
        if y not in (points[0][1], points[-1][1]):
            words += f", {name} {number(y)} at {number(x)}"
    return words
