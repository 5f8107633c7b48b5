"""Widgets in one HTML file that needs no server, no kernel and no network.

The same module and style that a notebook gets are inlined once per kind of widget; a small model
that only the page knows stands in for the kernel.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anywidget

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0; padding: 24px 16px 48px; background: #f6f7f9; color: #1b2430;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }}
body.dark {{ background: #0f1216; color: #e7ebf0; }}
@media (prefers-color-scheme: dark) {{
  body:not(.light) {{ background: #0f1216; color: #e7ebf0; }}
}}
main {{ max-width: 1100px; margin: 0 auto; }}
h1 {{ margin: 0 0 20px; font-size: 24px; line-height: 1.25; }}
.widget {{ margin-bottom: 24px; }}
</style>
{styles}
</head>
<body>
<main>
<h1>{title}</h1>
{places}
</main>
{scripts}
</body>
</html>
"""

KERNEL = """function createModel(state) {
  const listeners = new Map();
  const of = (event) => listeners.get(event) ?? listeners.set(event, new Set()).get(event);
  return {
    get: (name) => state[name],
    set: (name, value) => {
      if (state[name] === value) return;
      state[name] = value;
      for (const call of [...of(`change:${name}`)]) call();
    },
    save_changes: () => {},
    on: (event, call) => of(event).add(call),
    off: (event, call) => of(event).delete(call),
  };
}
// Widgets are told their width, and draw, when a frame is laid out: before the next one begins.
async function drawn() {
  for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
}
"""
"""A widget's model that only its page knows: JavaScript that defines `createModel(state)`, and
`drawn()`, which waits until the widgets that are placed have drawn."""

_SCRIPT = (
    KERNEL
    + """const { modules, widgets } = JSON.parse(document.getElementById("widgets").textContent);
const loaded = new Map();
for (const [kind, source] of Object.entries(modules)) {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  loaded.set(kind, (await import(address)).default);
  URL.revokeObjectURL(address);
}
widgets.forEach(({ kind, state }, index) => {
  const el = document.getElementById(`widget-${index}`);
  loaded.get(kind).render({ model: createModel(state), el });
});
await drawn();
document.documentElement.dataset.ready = "true";
"""
)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A widget as plain text and JSON: its kind, that kind's module and style, its own state."""

    kind: str
    module: str
    style: str
    state: dict[str, Any]


def drawing(widget: anywidget.AnyWidget) -> Drawing:
    """What a page needs to draw the widget without the kernel that made it."""
    kind, module, style = type(widget).__name__, _synced(widget, "_esm"), _synced(widget, "_css")
    return Drawing(kind, module, style, state(widget))


def styles(drawings: Sequence[Drawing]) -> str:
    """The styles of all kinds, each once, for the page's head."""
    kinds = {drawing.kind: drawing.style for drawing in drawings}
    return "\n".join(f"<style>\n{style}\n</style>" for style in kinds.values())


def scripts(drawings: Sequence[Drawing]) -> str:
    """What draws the first into the element `widget-0`, the second into `widget-1`, and so on.

    When all are drawn, the page's root gets `data-ready`.
    """
    drawn = [{"kind": drawing.kind, "state": drawing.state} for drawing in drawings]
    modules = {drawing.kind: drawing.module for drawing in drawings}
    data = json.dumps({"modules": modules, "widgets": drawn}, ensure_ascii=False)
    data = data.replace("<", "\\u003c")
    return (
        f'<script type="application/json" id="widgets">{data}</script>\n'
        f'<script type="module">\n{_SCRIPT}\n</script>'
    )


def page(widgets: Sequence[anywidget.AnyWidget], title: str) -> str:
    """The whole page as text: `title` as its heading, then the widgets in order."""
    drawings = [drawing(widget) for widget in widgets]
    places = "\n".join(
        f'<div class="widget" id="widget-{index}"></div>' for index in range(len(widgets))
    )
    return _PAGE.format(
        title=html.escape(title), styles=styles(drawings), places=places, scripts=scripts(drawings)
    )


def state(widget: anywidget.AnyWidget) -> dict[str, Any]:
    """The widget's own synced traits: what the notebook would send to the browser."""
    inherited = set(anywidget.AnyWidget.class_trait_names())
    names = [name for name in widget.trait_names(sync=True) if name not in inherited]
    return {name: getattr(widget, name) for name in sorted(names) if not name.startswith("_")}


def _synced(widget: anywidget.AnyWidget, name: str) -> str:
    """The module or style that anywidget sends: a trait whose name is not ours to choose."""
    return str(getattr(widget, name))
