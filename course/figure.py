"""A measured curve in a lesson: matplotlib's drawing, with its words and its numbers.

Plain HTML and SVG: it looks the same in marimo, in Jupyter and on a static page, follows the
page's light and dark without a kernel, and scales down to a phone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from course.style import prose, themed
from nanogpt.figures.chart import Chart, Line, Panel
from nanogpt.figures.drawing import panel_svg
from nanogpt.figures.figure_style import DARK, DASHES, LIGHT, MARKERS, Theme
from nanogpt.trace import Trace


def _variables(theme: Theme) -> str:
    return ";".join(f"--fig-{name}:{colour}" for name, colour in theme.named().items())


_CSS = (
    themed("sng-figure", _variables(LIGHT), _variables(DARK))
    + """
.sng-figure{box-sizing:border-box;container-type:inline-size;margin:.25rem 0;padding:16px 18px 14px;
 border:1px solid var(--fig-grid);border-radius:12px;background:var(--fig-card);
 color:var(--fig-ink);font:400 14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif}
.sng-figure *{box-sizing:border-box}
.sng-figure .sng-fig-question{margin:0 0 8px;font-family:var(--text-font,inherit);
 font-size:17px;font-weight:600;line-height:1.4}
.sng-figure figcaption{display:flex;flex-wrap:wrap;justify-content:space-between;gap:4px 16px;
 font-size:16px;font-weight:650;line-height:1.35}
.sng-figure .sng-fig-none{margin:0}
.sng-figure .sng-fig-source{padding:1px 9px;border:1px solid var(--fig-grid);border-radius:999px;
 color:var(--fig-soft);font-size:12px;font-weight:400}
.sng-figure .sng-fig-panels{display:flex;flex-wrap:wrap;gap:4px 16px;margin-top:8px}
.sng-figure .sng-fig-panel{flex:1 1 300px;min-width:0;max-width:680px}
.sng-figure .sng-fig-panel svg{display:block;width:100%;height:auto;overflow:visible;
 stroke-linejoin:round;stroke-linecap:butt}
.sng-figure ul{display:flex;flex-wrap:wrap;gap:4px 18px;margin:8px 0 0;padding:0;list-style:none;
 font-size:13px}
.sng-figure li{display:inline-flex;align-items:center;gap:7px;margin:0}
.sng-figure details{margin-top:8px;font-size:13px}
.sng-figure summary{cursor:pointer;color:var(--fig-soft)}
.sng-figure summary:focus-visible{outline:2.5px solid var(--fig-hue-0);outline-offset:2px}
.sng-figure .sng-fig-numbers{overflow-x:auto}
.sng-figure table{border-collapse:collapse;margin:8px 0;color:inherit;font-size:13px}
.sng-figure :is(th,td){padding:3px 10px;border:0;border-bottom:1px solid var(--fig-grid);
 text-align:right;font-variant-numeric:tabular-nums;background:none}
.sng-figure th{font-weight:600}
.sng-figure :is(tr>:first-child){text-align:left}
@container (max-width:520px){.sng-figure .sng-fig-alone text{font-size:13px!important}}
@container (max-width:360px){.sng-figure .sng-fig-alone text{font-size:14px!important}}
@media (max-width:520px){.sng-figure{padding:12px 10px}}
"""
)
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
    """A chart as a lesson shows it, or the sentence that says why there is none.

    `question` stands above it, with `code` and no other marks.
    """

    chart: Chart | str
    question: str = ""

    def _repr_html_(self) -> str:
        asked = f'<p class="sng-fig-question">{prose(self.question)}</p>' if self.question else ""
        if isinstance(self.chart, str):
            inside = f'<p class="sng-fig-none">{prose(self.chart)}</p>'
        else:
            inside = _drawn(self.chart)
        return f'<style>{_CSS}</style><figure class="sng-figure">{asked}{inside}</figure>'


def _drawn(chart: Chart) -> str:
    source = f'<span class="sng-fig-source">{escape(chart.source)}</span>' if chart.source else ""
    alone = " sng-fig-alone" if len(chart.panels) == 1 else ""
    panels = "".join(
        f'<div class="sng-fig-panel{alone}" role="img" aria-label="{_label(chart, panel)}">'
        f"{panel_svg(chart, index)}</div>"
        for index, panel in enumerate(chart.panels)
    )
    tables = "".join(_table(panel) for panel in chart.panels)
    return (
        f"<figcaption><span>{escape(chart.title)}</span>{source}</figcaption>"
        f'<div class="sng-fig-panels">{panels}</div>{_legend(chart)}<details><summary>The numbers'
        f'</summary><div class="sng-fig-numbers">{tables}</div></details>'
    )


def _label(chart: Chart, panel: Panel) -> str:
    source = f", {chart.source}" if chart.source else ""
    return escape(f"{chart.title}{source}. {panel.said()}")


def _legend(chart: Chart) -> str:
    lines = {line.name: line for panel in chart.panels for line in panel.lines}
    items = "".join(
        f"<li>{_sample(place, lines[name])}{escape(name)}</li>"
        for place, name in enumerate(chart.names())
    )
    return f"<ul>{items}</ul>"


def _sample(place: int, line: Line) -> str:
    """A piece of the curve as it is drawn, 32 by 12 pixels."""
    dashes = " ".join(f"{each * 1.4:g}" for each in DASHES[place]) or "none"
    stroke = f'<path d="M0 6h32" fill="none" stroke-width="2" stroke-dasharray="{dashes}"/>'
    colour = f"var(--fig-hue-{place})"
    mark = _SHAPES[MARKERS[place]] if line.marked else ""
    return (
        f'<svg width="32" height="12" aria-hidden="true" fill="{colour}" stroke="{colour}" '
        f'stroke-width="0">{"" if line.shape == "points" else stroke}{mark}</svg>'
    )


def _table(panel: Panel) -> str:
    heads, *rows = panel.table()
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(each)}</td>" for each in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
