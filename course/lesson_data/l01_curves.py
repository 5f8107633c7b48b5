"""Behind lesson 1's figures: the throughput and the largest ITL that each budget gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nanogpt.experiments.trace_metrics import Summary
from nanogpt.figures.drawing import INK, TEXT_PT, course_style, curve, label_axes, mark, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WHOLE = "whole prompts"


@course_style()
def budget_chart(runs: Mapping[str, Summary]) -> Figure:
    """Throughput against the largest ITL: whole prompts, and chunks by budget."""
    figure = new_figure("Throughput and largest ITL, by budget", 1, "modelled: a large GPU")
    [axes] = figure.axes
    found = {
        name: (run.worst_itl_us / 1000, run.tokens_per_s)
        for name, run in runs.items()
        if run.worst_itl_us is not None
    }
    curve(axes, _WHOLE, [found.pop(_WHOLE)])
    curve(axes, "chunks, by budget", found.values())
    for name, point in found.items():  # below the curve
        axes.annotate(
            name.rpartition(" ")[2], point, xytext=(3, -15), textcoords="offset points",
            color=INK, fontsize=TEXT_PT,
        )  # fmt: skip
    axes.margins(x=0.1)
    label_axes(axes, "largest ITL (ms)", "throughput (tokens/s)", log_x=True)
    return figure


@course_style()
def limit_chart(
    step_us: Callable[[int], int], runs: Mapping[str, Summary], picked: int | None, limit_us: int
) -> Figure:
    """A full step's cost and the largest ITL by budget, the limit, and the learner's budget.

    `picked` is that budget, or None.
    """
    figure = new_figure("Which budget stays within the limit?", 1, "modelled: a large GPU")
    [axes] = figure.axes
    largest = {
        int(name.rpartition(" ")[2]): run.worst_itl_us
        for name, run in runs.items()
        if name != _WHOLE
    }
    steps = [(n, step_us(n) / 1000) for n in range(4, max(largest) + 1, 4)]
    curve(axes, "a full step", steps, marker="none")
    known = [(n, us / 1000) for n, us in largest.items() if us is not None]
    curve(axes, "largest ITL", known, linestyle="none")
    mark(axes, "the limit", y=limit_us / 1000)
    if picked is not None and picked <= max(largest):
        mark(axes, "your budget", x=picked)
    label_axes(axes, "token budget (tokens)", "a full step and the largest ITL (ms)")
    return figure
