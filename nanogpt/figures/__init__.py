"""Figures of measured curves: charts made of records, drawn by matplotlib in one style.

A chart is plain data; matplotlib is imported when one is drawn, and by nothing else here.
"""

from nanogpt.figures.chart import Chart, Line, Mark, Panel, cumulative
from nanogpt.figures.contest_curves import contest_scores
from nanogpt.figures.curves import (
    attainment_by_load,
    kv_over_time,
    latencies,
    speedup_by_drafts,
    step_cost,
    throughput_against_latency,
)
from nanogpt.figures.drawing import draw, panel_svg, save
from nanogpt.figures.figure_style import DARK, LIGHT, MARKERS, Theme
from nanogpt.figures.fleet_curves import fleet_run, seeds_in_pairs

__all__ = [
    "DARK",
    "LIGHT",
    "MARKERS",
    "Chart",
    "Line",
    "Mark",
    "Panel",
    "Theme",
    "attainment_by_load",
    "contest_scores",
    "cumulative",
    "draw",
    "fleet_run",
    "kv_over_time",
    "latencies",
    "panel_svg",
    "save",
    "seeds_in_pairs",
    "speedup_by_drafts",
    "step_cost",
    "throughput_against_latency",
]
