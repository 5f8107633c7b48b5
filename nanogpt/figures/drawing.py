"""matplotlib in the course's style: a colour, dash and mark per name, in files and in pages.

matplotlib takes 0.4 s to import, so it is imported when the first figure is drawn. Its pyplot,
which opens windows, is never loaded. A function that draws is decorated with `@course_style()`.
"""

from __future__ import annotations

import argparse
import math
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

WIDE_IN, NARROW_IN, HEIGHT_IN = 6.4, 4.0, 3.2
"""Inches: the width of a panel alone, the width of one beside another, and the height of both."""
MOST_MARKED = 40
"""A curve of more points has no mark at each of them."""
TEXT_PT = 9.5
_ONE_AT_A_TIME = threading.RLock()
"""matplotlib's settings belong to the process; the sessions of a marimo app are its threads."""


INK, SOFT, GRID, CARD = "#1b2430", "#55606e", "#d8dee6", "#ffffff"
"""Colours of text, of quiet text, of the grid and of the background."""
HUES = (
    "#0b6bb0", "#b04a00", "#00795b", "#96417f", "#7a6200", "#4c4bb5", "#a3293d", "#51606f",
)  # fmt: skip
"""A colour for each curve: Okabe and Ito's, darkened to a contrast of 3 to 1."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[tuple[float, ...], ...] = (
    (), (6, 2), (2, 2), (8, 2, 2, 2), (4, 1.5, 1, 1.5, 1, 1.5), (10, 3), (1, 1.5),
    (6, 2, 6, 2, 1, 2),
)  # fmt: skip
"""Lengths on and off, in points; none for an unbroken line."""


@contextmanager
def course_style() -> Generator[None]:
    """Draw with matplotlib's defaults, whatever a learner has set, and keep text as text."""
    import matplotlib

    with _ONE_AT_A_TIME, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "none", "text.parse_math": False})
        yield


def new_figure(title: str, panels: int = 1, source: str = "") -> Figure:
    """A figure with so many empty axes side by side; `source` says where the numbers come from."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    width = WIDE_IN if panels == 1 else NARROW_IN * panels
    figure = Figure((width, HEIGHT_IN), layout="constrained", facecolor=CARD)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)  # pyright: ignore
    set_title(figure, title, source)
    for axes in figure.subplots(1, panels, squeeze=False)[0]:
        axes.set_facecolor("none")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        axes.tick_params(colors=SOFT, labelsize=TEXT_PT, length=3, pad=5)
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(SOFT)
    return figure


def set_title(figure: Figure, title: str, source: str = "") -> None:
    """Write the title above the figure, and the source on a line of its own below it."""
    text = f"{title}\n{source}" if source else title
    figure.suptitle(text, color=INK, fontsize=TEXT_PT + 1)


def curves(axes: Axes) -> list[Line2D]:
    """The named curves of a panel, without marks and error bars."""
    return [line for line in axes.lines if not str(line.get_label()).startswith("_")]


def points_of(line: Line2D) -> list[tuple[float, float]]:
    """The (x, y) points of a curve."""
    data: Any = line.get_xydata()
    return [(x, y) for x, y in data.tolist()]


def named_curves(figure: Figure) -> dict[str, Line2D]:
    """The first curve of each name; a name has the same colour, dash and mark in every panel."""
    found: dict[str, Line2D] = {}
    for line in (line for axes in figure.axes for line in curves(axes)):
        found.setdefault(str(line.get_label()), line)
    return found


def curve(axes: Axes, name: str, points: Iterable[tuple[float, float]], **how: Any) -> Line2D:
    """Plot (x, y) points in the style of their name; `how` are arguments of `Axes.plot`.

    `linestyle="none"` plots points that no line joins.

    Raises: ValueError for no point, a value that is not finite, or too many curves to tell apart.
    """
    found, name = list(points), f"\u200b{name}" if name.startswith("_") else name
    if not found:
        raise ValueError(f"the curve {name!r} has no points; it needs at least one")
    for value in (value for point in found for value in point):
        if not math.isfinite(value):
            raise ValueError(f"the curve {name!r} has the value {value}; it must be finite")
    figure = axes.get_figure(root=True)
    assert figure is not None
    names = list(named_curves(figure))
    place = names.index(name) if name in names else len(names)
    if place == len(MARKERS):
        raise ValueError(f"the curve {name!r} is number 9; a figure can show at most 8 curves")
    is_joined = how.get("linestyle") != "none"
    style: dict[str, Any] = {
        "color": HUES[place], "linewidth": 1.8, "markersize": 5,
        "marker": "none" if is_joined and len(found) > MOST_MARKED else MARKERS[place],
        "linestyle": (0, DASHES[place]) if DASHES[place] else "solid",
        "zorder": 2 if is_joined else 3,
    }  # fmt: skip
    xs, ys = zip(*found, strict=True)
    [line] = axes.plot(xs, ys, label=name, **style | how)
    return line


def distribution(axes: Axes, name: str, values: Sequence[float]) -> Line2D:
    """Plot the percentage of the values that do not exceed each value."""
    ranked = sorted(values)
    points = [(value, 100 * rank / len(ranked)) for rank, value in enumerate(ranked, start=1)]
    start = [(ranked[0], 0.0)] if ranked else []
    return curve(axes, name, start + points, drawstyle="steps-post", marker="none")


def mark(axes: Axes, name: str, *, x: float | None = None, y: float | None = None) -> None:
    """Draw a named straight line at one value: a limit, a budget."""
    line: dict[str, Any] = {"color": SOFT, "linewidth": 1.2, "dashes": (4, 3), "label": f"_{name}"}
    text: dict[str, Any] = {"textcoords": "offset points", "color": SOFT, "fontsize": TEXT_PT}
    if x is not None:
        axes.axvline(x, **line)
        where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "left", "va": "top"}
        axes.annotate(name, (x, 0.98), xytext=(3, -2), **where, **text)
    if y is not None:
        axes.axhline(y, **line)
        where = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
        axes.annotate(name, (0.98, y), xytext=(-2, 3), **where, **text)


def label_axes(axes: Axes, x: str, y: str, *, log_x: bool = False, from_0: bool = True) -> None:
    """Name both axes, such as "TTFT (ms)", and set their limits; call it after drawing the curves.

    `from_0`: the vertical axis begins at 0 where no value is negative.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xlabel(x, labelpad=7, color=INK, fontsize=TEXT_PT)
    # Above the axis: it is read without turning the head, and takes no width from a narrow page.
    axes.set_title(y, loc="left", pad=8, color=INK, fontsize=TEXT_PT)
    if log_x:
        number = axes.xaxis.get_major_formatter()
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(LogLocator(base=2, numticks=7))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(number)
    if from_0 and all(value >= 0 for line in curves(axes) for _, value in points_of(line)):
        axes.set_ylim(bottom=0)
    if y.endswith("(%)") and axes.get_ylim()[1] > 90:  # an interval may reach beyond 100 %
        axes.set_ylim(top=104)
    if any(text.get_verticalalignment() == "top" for text in axes.texts):  # above the curves
        axes.set_ylim(top=1.12 * axes.get_ylim()[1])


@course_style()
def save(figure: Figure, path: Path) -> None:
    """Write a .png or .svg with a legend, the same bytes every time. Raises: OSError."""
    from matplotlib import rcParams

    kind, lines = path.suffix.lower()[1:], named_curves(figure)
    columns = max(1, int(72 * figure.get_figwidth() / (5.5 * max(map(len, lines)) + 50)))
    figure.set_figheight(HEIGHT_IN + 0.6 + 0.2 * -(-len(lines) // columns))
    figure.legend(
        list(lines.values()), list(lines), loc="outside lower left", ncols=columns,
        frameon=False, labelcolor=INK, fontsize=TEXT_PT,
    )  # fmt: skip
    words: dict[str, Any] = {"Title": figure.get_suptitle()}
    # Otherwise matplotlib notes the time and its version, and no two files are the same.
    words |= {"Date": None} if kind == "svg" else {"Software": None}
    rcParams["svg.hashsalt"] = figure.get_suptitle()
    figure.savefig(path, format=kind, dpi=150, metadata=words)


# ---- `--plot FILE` of a command ------------------------------------------------------------------

PLOT_HELP = "draw what was measured into this .png or .svg file, beside the text"


def plot_file(text: str) -> Path:
    """An argparse type: a .png or .svg in a folder that exists."""
    path = Path(text)
    if path.suffix.lower() not in (".png", ".svg"):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .png or .svg")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(path.parent)!r}")
    return path


def write_plot(path: Path | None, make: Callable[[], Figure]) -> bool:
    """Save a figure if there is a path. False, with a sentence on stderr, if that failed."""
    if path is None:
        return True
    try:
        save(make(), path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        sys.stderr.write(f"{path} was not drawn: {why}.\n")
        return False
    return True
