"""Figures in a page, which has no matplotlib: notes what is drawn, and the page draws it."""

import html
import json
from typing import Any

from course import figure
from course.tab.stand_ins import Nothing
from nanogpt.figures import drawing


def _curve(axes: Nothing, name: str, points: Any, **how: Any) -> Nothing:
    axes.curves[name] = {"points": list(points), **how}
    return Nothing()


_STANDS: dict[str, Any] = {
    "course_style": lambda: lambda draws: draws,
    "new_figure": lambda title, panels=1, source="": Nothing(
        title=title, source=source, axes=[Nothing(curves={}, marks=[]) for _ in range(panels)]
    ),
    "curve": _curve,
    "mark": lambda axes, name, x=None, y=None: axes.marks.append([name, x, y]),
    "label_axes": lambda axes, x, y, log_x=False, **_: vars(axes).update(x=x, y=y, log_x=log_x),
}
for _name, _stand in _STANDS.items():
    setattr(drawing, _name, _stand)
figure._html = lambda drawn: f"<p data-figure>{html.escape(json.dumps(drawn, default=vars))}</p>"  # pyright: ignore
