"""Behind lesson 9's figures: paired seeds and two real workers, both recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from course.calling.jobs import RunError, run
from course.lesson_data import recorded
from course.lesson_data.l09_recording import real_workers
from nanogpt.figures.curves import line_chart
from nanogpt.figures.drawing import course_style, curve, label_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_S = 60.0  # of computing in the router, beside which the workers compute


@course_style()
def order_by_seed() -> Figure:
    """Median and 99th percentile of TTFT in ten seeds of the rush: by priority, and by arrival."""
    compared = recorded("fleet")["order"]["by priority"]
    rows = [row for row in compared["rows"] if row["metric"] in ("ttft_p50_ms", "ttft_p99_ms")]
    title = "60 requests per second: by priority against by arrival"
    figure = new_figure(title, len(rows), "modelled; ten paired seeds")
    for axes, row in zip(figure.axes, rows, strict=True):
        for side in ("baseline", "other"):
            points = [(pair["seed"], pair[side]) for pair in row["pairs"]]
            curve(axes, compared[side], points, linestyle="none")
        label_axes(axes, "seed", f"{row['label']} (ms)")
    return figure


def two_workers(now: bool) -> tuple[dict[str, Any], str]:
    """(figures, where they come from): measured if `now`, else recorded."""
    if not now:
        return recorded("fleet")["workers"], "recorded"
    try:
        return run(real_workers, limit_s=_MOST_S), "measured here, just now"
    except RunError as failed:
        return recorded("fleet")["workers"], f"recorded, since it could not be run here: {failed}"


def hit_chart(real: Mapping[str, Any], where_from: str) -> Figure:
    """TTFT of a prompt of 500 tokens by how many of them were a prefix hit."""
    points = [(row["hit"], row["ttft_ms"]) for row in real["by_hit"]]
    title = "TTFT of a prompt of 500 tokens on a real worker"
    return line_chart(
        {"TTFT (ms)": {"one prompt": points}}, "prefix hit (tokens)", title, where_from
    )
