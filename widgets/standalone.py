"""Widgets in one HTML file that needs no server, no kernel and no network.

The same module and style that a notebook gets are inlined once per kind of widget; a small model
that only the page knows stands in for the kernel.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anywidget

_FILES = Path(__file__).parent / "standalone_page"
KERNEL = (_FILES / "kernel.js").read_text(encoding="utf-8")
"""A widget's model that only its page knows: JavaScript that defines `createModel(state)`, and
`drawn()`, which waits until the widgets that are placed have drawn."""
_DRAW = (_FILES / "draw.js").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Drawing:
    """A widget as plain text and JSON.

    `kind` is the name of its file in static/, `module` and `style` that kind's JavaScript and CSS,
    `state` what a notebook would send to the page.
    """

    kind: str
    module: str
    style: str
    state: dict[str, Any]


def drawing(widget: anywidget.AnyWidget) -> Drawing:
    """The data that a page needs to draw the widget without the kernel that made it."""
    kind = type(widget).__module__.rpartition(".")[2]
    # A trait whose name anywidget has chosen.
    module, style = str(getattr(widget, "_esm")), str(getattr(widget, "_css"))  # noqa: B009
    return Drawing(kind, module, style, state(widget))


def styles(drawings: Sequence[Drawing]) -> str:
    """The styles of all kinds, each once, for the page's head."""
    kinds = {drawing.kind: drawing.style for drawing in drawings}
    return "\n".join(f"<style>\n{style}\n</style>" for style in kinds.values())


def scripts(drawings: Sequence[Drawing]) -> str:
    """A script that draws the first into element `widget-0`, the second into `widget-1`, and so on.

    When all are drawn, the page's root gets `data-ready`.
    """
    drawn = [{"kind": drawing.kind, "state": drawing.state} for drawing in drawings]
    modules = {drawing.kind: drawing.module for drawing in drawings}
    data = json.dumps({"modules": modules, "widgets": drawn}, ensure_ascii=False)
    data = data.replace("<", "\\u003c")
    return (
        f'<script type="application/json" id="widgets">{data}</script>\n'
        f'<script type="module">\n{KERNEL}{_DRAW}\n</script>'
    )


def page(widgets: Sequence[anywidget.AnyWidget], title: str) -> str:
    """The whole page as text: `title` as its heading, then the widgets in order."""
    drawings = [drawing(widget) for widget in widgets]
    places = "\n".join(
        f'<div class="widget" id="widget-{index}"></div>' for index in range(len(widgets))
    )
    return (
        (_FILES / "page.html")
        .read_text(encoding="utf-8")
        .format(
            title=html.escape(title),
            styles=styles(drawings),
            places=places,
            scripts=scripts(drawings),
        )
    )


def state(widget: anywidget.AnyWidget) -> dict[str, Any]:
    """The widget's own synced traits: what the notebook would send to the browser."""
    inherited = set(anywidget.AnyWidget.class_trait_names())
    names = [name for name in widget.trait_names(sync=True) if name not in inherited]
    return {name: getattr(widget, name) for name in sorted(names) if not name.startswith("_")}
