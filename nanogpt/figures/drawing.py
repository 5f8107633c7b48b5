"""Charts drawn by matplotlib: as a figure, a file, and an SVG that takes its page's colours.

matplotlib is imported here alone, and when something is drawn: that takes 0.4 s and 30 MB, once in
a process, and a panel then 0.03 to 0.1 s. Its pyplot, which knows of windows, is never loaded.
"""

from __future__ import annotations

import hashlib
import io
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanogpt.figures.chart import Chart, Line, Panel
from nanogpt.figures.figure_style import DASHES, LIGHT, MARKERS, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SUFFIXES = (".png", ".svg")
WIDE_IN, NARROW_IN, HEIGHT_IN = 6.4, 4.0, 3.2
"""The width of a panel alone and beside another, and the height of both."""
DPI = 150
_TEXT_PT = 9.5
_ONE_AT_A_TIME = threading.Lock()
"""matplotlib's settings are the process's; the sessions of an app are threads of one."""


def draw(chart: Chart, theme: Theme = LIGHT) -> Figure:
    """The chart as a matplotlib figure, its panels side by side, for a file."""
    with _settings(chart):
        return _figure(chart, theme)


def save(chart: Chart, path: Path) -> None:
    """Draws the chart into a .png or .svg, on a light ground, the same bytes every time.

    Raises: ValueError for another suffix, OSError where nothing can be written.
    """
    kind = suffix_of(path)
    words = {"Title": chart.title, "Description": chart.said()}
    # Else matplotlib notes the time and its version, and no two files would be the same.
    words |= {"Date": None} if kind == "svg" else {"Software": None}
    with _settings(chart):
        _figure(chart, LIGHT).savefig(path, format=kind, dpi=DPI, metadata=words)


def suffix_of(path: Path) -> str:
    """ "png" or "svg". Raises: ValueError for another."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{str(path)!r} does not end in {' or '.join(SUFFIXES)}")
    return path.suffix.lower()[1:]


def panel_svg(chart: Chart, index: int) -> str:
    """One panel as an SVG element without legend and title, to stand in a page.

    Its colours are the page's variables --fig-ink, --fig-soft, --fig-grid, --fig-hue-0 and so on,
    so it follows the page's theme; its text stays text. A screen reader passes over it.
    """
    from matplotlib.figure import Figure

    with _settings(chart, index):
        width = WIDE_IN if len(chart.panels) == 1 else NARROW_IN
        figure = Figure((width, HEIGHT_IN))
        # Fixed margins leave room for the words of a narrow page, which are larger; and matplotlib
        # need not look for better ones, which takes as long as drawing.
        axes = figure.add_axes((0.7 / width, 0.19, 1 - 0.9 / width, 0.69))
        _draw_panel(axes, chart.panels[index], chart.names(), LIGHT)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _for_a_page(text.getvalue())


def _figure(chart: Chart, theme: Theme) -> Figure:
    from matplotlib.figure import Figure

    panels = len(chart.panels)
    width = WIDE_IN if panels == 1 else NARROW_IN * panels
    longest = max(len(name) for name in chart.names())
    columns = max(1, int(72 * width / (5.5 * longest + 50)))
    rows = -(-len(chart.names()) // columns)
    height = HEIGHT_IN + 0.6 + 0.2 * rows
    figure = Figure((width, height), layout="constrained", facecolor=theme.card)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)  # pyright: ignore
    all_axes = figure.subplots(1, panels, squeeze=False)[0]
    handles: dict[str, Line2D] = {}
    for axes, panel in zip(all_axes, chart.panels, strict=True):
        handles = _draw_panel(axes, panel, chart.names(), theme) | handles
    title = f"{chart.title}\n{chart.source}" if chart.source else chart.title
    figure.suptitle(title, color=theme.ink, fontsize=_TEXT_PT + 1)
    legend = figure.legend(
        [handles[name] for name in chart.names()], ["" for _ in handles], loc="outside lower left",
        ncols=columns, frameon=False, labelcolor=theme.ink, fontsize=_TEXT_PT,
    )  # fmt: skip
    for text, name in zip(legend.get_texts(), chart.names(), strict=True):
        text.set_text(name)  # given as labels, those that begin with _ would be left out
    return figure


def _draw_panel(axes: Axes, panel: Panel, names: list[str], theme: Theme) -> dict[str, Line2D]:
    """Draws a panel; what it drew, by the names of the curves."""
    axes.set_facecolor("none")
    drawn = {
        line.name: _draw_line(axes, line, names.index(line.name), theme) for line in panel.lines
    }
    for mark in panel.marks:
        along = axes.axvline if mark.axis == "x" else axes.axhline
        along(mark.value, color=theme.soft, linewidth=1.2, dashes=(4, 3))
        at = (mark.value, 0.98) if mark.axis == "x" else (0.98, mark.value)
        axes.annotate(
            mark.name, at, xytext=(3, -2) if mark.axis == "x" else (-2, 3),
            xycoords=("data", "axes fraction") if mark.axis == "x" else ("axes fraction", "data"),
            textcoords="offset points", color=theme.soft, fontsize=_TEXT_PT,
            ha="left" if mark.axis == "x" else "right", va="top" if mark.axis == "x" else "bottom",
        )  # fmt: skip
    _draw_axes(axes, panel, theme)
    return drawn


def _draw_line(axes: Axes, line: Line, place: int, theme: Theme) -> Line2D:
    xs, ys = zip(*line.points, strict=True)
    colour, dashes = theme.hues[place], DASHES[place] if line.shape != "points" else ()
    if line.shape == "share":  # from 0 % at the smallest value
        xs, ys = (xs[0], *xs), (0.0, *ys)
    [drawn] = axes.plot(
        xs, ys, color=colour, linewidth=1.8,
        drawstyle="steps-post" if line.shape in ("steps", "share") else "default",
        linestyle="none" if line.shape == "points" else (0, dashes) if dashes else "solid",
        marker=MARKERS[place] if line.marked else "none", markersize=5,
        zorder=3 if line.shape == "points" else 2,
    )  # fmt: skip
    for point, words in zip(line.points, line.labels, strict=False):
        axes.annotate(
            words, point, xytext=(-4, 7), textcoords="offset points", color=theme.ink,
            fontsize=_TEXT_PT, ha="right",  # over a curve that rises, as these do
        )  # fmt: skip
    if line.halves:
        axes.errorbar(xs, ys, yerr=line.halves, fmt="none", ecolor=colour, capsize=3)
    return drawn


def _draw_axes(axes: Axes, panel: Panel, theme: Theme) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    (x, x_unit), (y, y_unit) = panel.x, panel.y
    words: dict[str, Any] = {"color": theme.ink, "fontsize": _TEXT_PT}
    axes.set_xlabel(f"{x} ({x_unit})" if x_unit else x, labelpad=7, **words)
    # Above the axis: it reads without turning the head, and takes no room from a narrow page.
    axes.set_title(f"{y} ({y_unit})" if y_unit else y, loc="left", pad=8, **words)
    if panel.log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(LogLocator(base=2, numticks=7))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    plain = FuncFormatter(lambda value, _: f"{value:,.6g}")
    axes.xaxis.set_major_formatter(plain)
    axes.yaxis.set_major_formatter(plain)
    if panel.y_from_0 and all(value >= 0 for line in panel.lines for _, value in line.points):
        axes.set_ylim(bottom=0)
    if y_unit == "%" and axes.get_ylim()[1] > 90:  # an interval may reach beyond what there can be
        axes.set_ylim(top=104)
    labels = any(line.labels for line in panel.lines)
    if labels:
        axes.margins(x=0.1)
    if labels or any(mark.axis == "x" for mark in panel.marks):
        axes.set_ylim(top=1.12 * axes.get_ylim()[1])  # room for the names above the curves
    axes.tick_params(colors=theme.soft, labelsize=_TEXT_PT, length=3, pad=5)
    axes.grid(color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.soft)


@contextmanager
def _settings(chart: Chart, index: int | None = None) -> Generator[None]:
    """matplotlib's own defaults, whatever a learner has set, with text as text in an SVG."""
    import matplotlib

    salt = hashlib.sha256(f"{chart!r} {index}".encode()).hexdigest()
    with _ONE_AT_A_TIME, matplotlib.rc_context():
        matplotlib.rcdefaults()
        # A $ in a name is a $.
        matplotlib.rcParams.update(
            {"svg.fonttype": "none", "svg.hashsalt": salt, "text.parse_math": False}
        )
        yield


def _for_a_page(svg: str) -> str:
    """The element alone, its colours as variables, without the names that pages may use too."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(?<=<svg )[^>]*?(viewBox="[^"]*")[^>]*', r'\1 aria-hidden="true"', svg, count=1)
    svg = re.sub(r"<defs>\s*<style.*?</defs>", "", svg, flags=re.DOTALL)  # it means the whole page
    svg = re.sub(r' id="[a-z][\w.]*_\d+"', "", svg)  # what is referred to has a hash for its name
    svg = re.sub(r"font-family: [^;]*; ", "", svg)
    svg = svg.replace("xlink:href", "href")
    for name, colour in LIGHT.named().items():
        svg = svg.replace(colour, f"var(--fig-{name})")
    return svg
