"""A measured curve in a lesson: matplotlib's drawing, with its words and its numbers.

Plain HTML and SVG: it looks the same in marimo, in Jupyter and on a static page, follows the
page's light and dark without a kernel, and scales down to a phone.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from course.style import prose, stylesheet, themed
from nanogpt.figures.drawing import (
    CARD,
    DASHES,
    GRID,
    HEIGHT_IN,
    HUES,
    INK,
    MARKERS,
    NARROW_IN,
    SOFT,
    WIDE_IN,
    course_style,
    curves,
    named_curves,
    points_of,
    set_title,
)
from nanogpt.trace import Trace

if TYPE_CHECKING:
    from matplotlib import figure
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_LIGHT = {"card": CARD, "ink": INK, "soft": SOFT, "grid": GRID} | {
    f"hue-{place}": hue for place, hue in enumerate(HUES)
}
_DARK_HUES = (
    "#63b3f0", "#f0a36b", "#43c9a3", "#e39bcc", "#e0c659", "#a9a8f5", "#f493a2", "#b4c1cd",
)  # fmt: skip
_DARK = {"card": "#171b21", "ink": "#e7ebf0", "soft": "#a5b0bd", "grid": "#343c47"} | {
    f"hue-{place}": hue for place, hue in enumerate(_DARK_HUES)
}


def _variables(theme: dict[str, str]) -> str:
    return ";".join(f"--fig-{name}:{colour}" for name, colour in theme.items())


_CSS = themed("sng-figure", _variables(_LIGHT), _variables(_DARK)) + stylesheet("figure")
_SHAPES = {  # matplotlib's markers, in a legend's sample
    "o": '<circle cx="16" cy="6" r="3.5"/>',
    "s": '<path d="M12.5 2.5h7v7h-7z"/>',
    "^": '<path d="M16 2l4 7.5h-8z"/>',
    "D": '<path d="M16 1.5l4.5 4.5-4.5 4.5-4.5-4.5z"/>',
    "v": '<path d="M16 10l4-7.5h-8z"/>',
    "P": '<path d="M14.5 2h3v2.5H20v3h-2.5V10h-3V7.5H12v-3h2.5z"/>',
    "X": '<path d="M13 2l3 2.5L19 2l1.5 1.5L18 6l2.5 2.5L19 10l-3-2.5L13 10l-1.5-1.5'
    'L14 6l-2.5-2.5z"/>',
    "*": '<path d="M16 1l1.5 3.5 3.5.3-2.700 2.400.9 3.5L16 8.800l-3.200 1.9.9-3.5L11 4.800'
    'l3.5-.3z"/>',
}


def stopped(traces: Iterable[Trace]) -> str | None:
    """Why there is nothing to draw of runs of which one failed; None if all ended well."""
    errors = [trace.error for trace in traces if trace.error is not None]
    return f"The run with your functions stopped: {errors[0]}" if errors else None


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as a lesson shows it, or the sentence that says why there is none.

    `question` stands above it, with `code` and no other marks.
    """

    drawing: figure.Figure | str
    question: str = ""

    def _repr_html_(self) -> str:
        asked = f'<p class="sng-fig-question">{prose(self.question)}</p>' if self.question else ""
        if isinstance(self.drawing, str):
            inside = f'<p class="sng-fig-none">{prose(self.drawing)}</p>'
        else:
            inside = _html(self.drawing)
        return f'<style>{_CSS}</style><figure class="sng-figure">{asked}{inside}</figure>'


def _html(drawn: figure.Figure) -> str:
    title, _, source = drawn.get_suptitle().partition("\n")
    shown = f'<span class="sng-fig-source">{escape(source)}</span>' if source else ""
    whole = f"{title}, {source}" if source else title
    alone = " sng-fig-alone" if len(drawn.axes) == 1 else ""
    panels = "".join(
        f'<div class="sng-fig-panel{alone}" role="img" '
        f'aria-label="{escape(f"{whole}. {sentence(axes)}")}">{panel_svg(drawn, index)}</div>'
        for index, axes in enumerate(drawn.axes)
    )
    tables = "".join(map(_table, drawn.axes))
    return (
        f"<figcaption><span>{escape(title)}</span>{shown}</figcaption>"
        f'<div class="sng-fig-panels">{panels}</div>{_legend(drawn)}<details><summary>The numbers'
        f'</summary><div class="sng-fig-numbers">{tables}</div></details>'
    )


@course_style()
def panel_svg(drawn: figure.Figure, index: int) -> str:
    """One panel as an SVG element, without legend and title, in the page's colours.

    The colours are the variables --fig-ink, --fig-hue-0 and so on. A screen reader passes over it.
    """
    from matplotlib import rcParams

    width = WIDE_IN if len(drawn.axes) == 1 else NARROW_IN
    title = drawn.get_suptitle()
    drawn.suptitle("")
    # Fixed margins: room for a narrow page's larger words, and no search for better ones.
    drawn.set_layout_engine("none")
    drawn.set_size_inches(width, HEIGHT_IN)
    for place, axes in enumerate(drawn.axes):
        axes.set_visible(place == index)
        axes.set_position((0.7 / width, 0.19, 1 - 0.9 / width, 0.69))
    rcParams["svg.hashsalt"] = hashlib.sha256(f"{title} {index}".encode()).hexdigest()
    text = io.StringIO()
    drawn.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    set_title(drawn, *title.split("\n"))
    return _for_a_page(text.getvalue())


def _for_a_page(svg: str) -> str:
    """The element only, its colours as variables, without ids and styles that a page may use."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(?<=<svg )[^>]*?(viewBox="[^"]*")[^>]*', r'\1 aria-hidden="true"', svg, count=1)
    svg = re.sub(r"<defs>\s*<style.*?</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="[a-z][\w.]*_\d+"', "", svg)  # an id that is referred to is a hash
    svg = re.sub(r"font-family: [^;]*; ", "", svg)
    svg = svg.replace("xlink:href", "href")
    for name, colour in _LIGHT.items():
        svg = svg.replace(colour, f"var(--fig-{name})")
    return svg


def _legend(drawn: figure.Figure) -> str:
    items = "".join(
        f"<li>{_sample(place, line)}{escape(name)}</li>"
        for place, (name, line) in enumerate(named_curves(drawn).items())
    )
    return f"<ul>{items}</ul>"


def _sample(place: int, line: Line2D) -> str:
    """A piece of the curve as it is drawn, 32 by 12 pixels."""
    dashes = " ".join(f"{each * 1.4:g}" for each in DASHES[place]) or "none"
    stroke = f'<path d="M0 6h32" fill="none" stroke-width="2" stroke-dasharray="{dashes}"/>'
    colour = f"var(--fig-hue-{place})"
    mark = "" if line.get_marker() == "none" else _SHAPES[MARKERS[place]]
    return (
        f'<svg width="32" height="12" aria-hidden="true" fill="{colour}" stroke="{colour}" '
        f'stroke-width="0">{"" if line.get_linestyle() == "None" else stroke}{mark}</svg>'
    )


def _table(axes: Axes) -> str:
    heads, *rows = table(axes)
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(each)}</td>" for each in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


# --- the numbers in words -----------------------------------------------------------------------

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
