"""Figures: what is drawn is what was measured, can be told apart, and follows the page."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakes import tiny_model
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, run
from tiers import examples, some

from course.figure import Figure, panel_svg, sentence, table
from course.lesson_data.l01_curves import budget_chart
from course.lesson_data.l08_measured import MACHINES, speedup_figure
from nanogpt.clock import SERVER_CPU, CostClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.experiments.paired_statistics import Estimate
from nanogpt.experiments.slo_table import Cell
from nanogpt.experiments.trace_metrics import all_request_metrics, summary
from nanogpt.figures import curves as figures
from nanogpt.figures.drawing import (
    course_style,
    curve,
    distribution,
    label_axes,
    mark,
    named_curves,
    new_figure,
    points_of,
    save,
    set_title,
)
from nanogpt.fleet.__main__ import main as fleet
from nanogpt.fleet.fleet_config import ADAPTIVE, FIFO
from nanogpt.fleet.simulation import simulate
from nanogpt.fleet.workload import make_workload
from nanogpt.request import Request
from nanogpt.slo.__main__ import main as slo
from nanogpt.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PNG = b"\x89PNG\r\n"
VALUES = st.floats(-1e9, 1e9, allow_nan=False)


@course_style()
def losses(first: str = "no sinks", second: str = "4 sinks") -> Drawing:
    figure = new_figure("Loss against window", 1, "modelled: a large GPU")
    [axes] = figure.axes
    curve(axes, first, [(8, 3.0), (16, 2.5), (32, 2.25)])
    curve(axes, second, [(8, 2.5), (16, 2.0), (32, 2.0)])
    mark(axes, "everything", y=1.5)
    label_axes(axes, "window W (tokens)", "loss (nats)")
    return figure


def points(figure: Drawing, name: str, panel: int = 0) -> list[tuple[float, float]]:
    [line] = [each for each in figure.axes[panel].lines if each.get_label() == name]
    return points_of(line)


# ---- what is drawn -------------------------------------------------------------------------------


@examples(0.25)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=50))
def test_any_points_are_drawn_as_they_are(pairs):
    figure = new_figure("A title")
    curve(figure.axes[0], "measured", pairs)
    assert points(figure, "measured") == pairs


def test_a_distribution_says_how_many_do_not_exceed_each_value():
    figure = new_figure("Waits")
    [axes] = figure.axes
    distribution(axes, "waits", [5, 1, 2, 2])
    label_axes(axes, "TTFT (ms)", "requests with at most that (%)")
    assert points(figure, "waits") == [(1, 0), (1, 25), (2, 50), (2, 75), (5, 100)]
    assert table(axes)[1:] == [["50 %", "2"], ["90 %", "5"], ["99 %", "5"], ["100 %", "5"]]
    assert "half are at most 2, 99 % at most 5, the longest 5." in sentence(axes)


def test_a_name_looks_the_same_in_every_panel():
    first, second = new_figure("Two", 2).axes
    curve(first, "a", [(0, 1)])
    ours = curve(first, "b", [(0, 1)])
    again = curve(second, "b", [(0, 1), (1, 1)])
    assert (again.get_color(), again.get_marker()) == (ours.get_color(), ours.get_marker())
    assert curve(second, "c", [(0, 1)]).get_color() != ours.get_color()


def test_what_cannot_be_drawn_is_refused_in_a_sentence():
    [axes] = new_figure("T").axes
    for name, pairs, words in (
        ("x", [], "the curve 'x' has no points; it needs at least one"),
        ("x", [(1, float("nan"))], "the curve 'x' has the value nan; it must be finite"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            curve(axes, name, pairs)
    for number in range(8):
        curve(axes, str(number), [(1, 1)])
    with pytest.raises(ValueError, match="a figure can show at most 8 curves"):
        curve(axes, "8", [(1, 1)])


# ---- as a page and as a file ---------------------------------------------------------------------


def test_a_page_s_svg_takes_the_page_s_colours_keeps_its_words_and_has_names_of_its_own():
    import matplotlib

    with matplotlib.rc_context({"lines.linewidth": 9, "svg.fonttype": "path"}):
        svg = panel_svg(losses(), 0)
        assert matplotlib.rcParams["lines.linewidth"] == 9
    drawn = losses()
    assert svg == panel_svg(drawn, 0) == panel_svg(drawn, 0), "a learner's settings do not show"
    assert not re.search(r"#[0-9a-f]{6}\b(?!\d)(?=[;\" ])", re.sub(r"(href=\"|url\()#\w+", "", svg))
    assert "--fig-hue-1" in svg and ">window W (tokens)</text>" in svg
    assert "<style" not in svg  # which would mean the whole page
    set_title(drawn, "Other")
    other = panel_svg(drawn, 0)
    ids, others = (re.findall(r'\bid="(\w+)"', each) for each in (svg, other))
    assert len(set(ids)) == len(ids) > 0 and not set(ids) & set(others)
    assert set(re.findall(r'(?:href="|url\()#(\w+)', svg)) == set(ids)


@pytest.mark.parametrize("name", some(["figure.svg", "figure.PNG"], 2))
def test_a_saved_figure_is_the_same_every_time_and_has_its_title(tmp_path, name):
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        save(losses(), tmp_path / folder / name)
    one, other = ((tmp_path / folder / name).read_bytes() for folder in ("one", "other"))
    assert one == other
    assert b"Loss against window" in one


def test_a_lesson_s_figure_has_words_and_numbers_and_escapes_them():
    drawn = losses("<i>", "_x$y$")
    set_title(drawn, "a < b", "modelled")
    html = Figure(drawn, "What of `W`?")._repr_html_()
    label = "a &lt; b, modelled. Loss (nats) against window W (tokens). &lt;i&gt;: 3 at 8, 2.25 at"
    assert f'aria-label="{label}' in html and "everything: 1.5." in html
    assert "What of <code>W</code>?" in html and "_x$y$" in html
    assert '<tr><th scope="row">16</th><td>2.5</td><td>2</td></tr>' in html
    assert "<i>" not in html
    stopped = Figure("The run stopped: `plan_step` gave None", "Why?")._repr_html_()
    assert "The run stopped: <code>plan_step</code> gave None" in stopped and "<svg" not in stopped


@pytest.mark.process
def test_only_drawing_loads_matplotlib():
    code = (
        "import sys, nanogpt.figures.curves, course.figure, nanogpt.fleet.__main__\n"
        "assert 'matplotlib' not in sys.modules\n"
        "course.figure.Figure(nanogpt.figures.curves.step_cost([(1, 2)], {}, 'T'))._repr_html_()\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    env = {"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(Path.home())}
    done = run([sys.executable, "-c", code], cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr


# ---- from records --------------------------------------------------------------------------------


def engine() -> Engine:
    config = EngineConfig(token_budget=8, max_kv_tokens=60)
    return Engine(tiny_model(), config, clock=CostClock(SERVER_CPU))


@pytest.fixture(scope="module")
def trace() -> Trace:
    return engine().run([(i, Request(i, list(range(1, 6 + i)), 4)) for i in range(3)])


def test_latencies_are_those_of_every_request_and_every_gap(trace):
    chart = figures.latencies({"mine": trace}, "Waits")
    metrics = all_request_metrics(trace)
    ttfts = sorted(each.ttft_us / 1000 for each in metrics)
    gaps = sorted(gap / 1000 for each in metrics for gap in each.itls_us)
    assert [ms for ms, _ in points(chart, "mine")[1:]] == ttfts
    assert [ms for ms, _ in points(chart, "mine", 1)[1:]] == gaps
    assert chart.get_suptitle() == "Waits\nmodelled: a server CPU (fitted)"
    once = engine().run([(0, Request(0, [1, 2], 1))])
    assert len(figures.latencies({"mine": once}, "Waits").axes) == 1, "one token has no gap"
    with pytest.raises(ValueError, match="no request got a token in these runs"):
        figures.latencies({"mine": engine().run([])}, "Waits")


def test_curves_of_a_run_are_its_records(trace):
    held = figures.kv_over_time({"mine": trace}, "KV")
    assert points(held, "mine") == [(step.step, step.kv_after) for step in trace.steps]
    assert "KV budget: 60." in sentence(held.axes[0])
    costs = figures.step_cost([(8, 500)], {"a line": [(8, 520)]}, "Cost")
    assert [points(costs, name) for name in named_curves(costs)] == [[(8, 0.5)], [(8, 0.52)]]
    mean = summary(trace)
    chart = budget_chart({"whole prompts": mean, "budget 8": mean})
    assert points(chart, "chunks, by budget") == [(mean.worst_itl_us / 1000, mean.tokens_per_s)]
    shorter = engine().run([(0, Request(0, [1, 2], 4))])
    for machine, cost in MACHINES.items():
        without, with_drafts = (
            sum(cost.forward_us(each) for step in run.steps for each in step.forwards)
            for run in (trace, shorter)
        )
        chart = speedup_figure({"mine": {0: trace, 4: shorter}}, machine, "mine").drawing
        assert points(chart, "mine") == [(0, 1), (4, without / with_drafts)]


def test_attainment_has_its_interval_and_none_where_a_tier_has_no_request():
    def cell(rate: float, urgent: Estimate | None) -> Cell:
        return Cell("x", "X", rate, 2, urgent, Estimate(90, None), None, None, 0, 0)

    cells = [cell(2, Estimate(80, 5)), cell(4, None), cell(6, Estimate(40, 10))]
    chart = figures.attainment_by_load(cells, "In time", "modelled")
    assert points(chart, "X") == [(2, 80), (6, 40)]
    [bars] = chart.axes[0].collections
    assert [bar[:, 1].tolist() for bar in bars.get_segments()] == [[75, 85], [30, 50]]
    assert points(chart, "X", 1) == [(2, 90), (4, 90), (6, 90)]


def test_a_fleet_s_waits_and_throughput_are_those_of_its_outcomes():
    load = make_workload("steady", 20, 3, seed=1)
    run = simulate(ADAPTIVE, load)
    chart = figures.fleet_run([("adaptive", run), ("FIFO", simulate(FIFO, load))], "A run")
    waits = [
        (outcome.first_token_us - request.arrival_us) / 1000
        for request, outcome in zip(load.requests, run.outcomes, strict=True)
    ]
    assert [ms for ms, _ in points(chart, "adaptive")[1:]] == sorted(waits)
    rates = [each.throughput_tokens_per_s for each in run.samples]
    assert points(chart, "adaptive", 1) == list(enumerate(rates, start=1))


# ---- saved by the commands -----------------------------------------------------------------------


def test_a_fleet_is_drawn_beside_its_table_or_as_pairs_of_seeds(tmp_path, capsys):
    one, pairs = tmp_path / "run.svg", tmp_path / "seeds.png"
    assert fleet(["--duration", "2", "--compare-fifo", "--plot", str(one)]) == 0
    assert "Throughput" in capsys.readouterr().out
    for name in ("adaptive", "FIFO", "TTFT (ms)"):
        assert f">{name}</text>" in one.read_text()
    command = ["--duration", "2", "--repeats", "2", "--jobs", "1", "--json", "--plot", str(pairs)]
    assert fleet(command) == 0
    assert pairs.read_bytes().startswith(PNG)
    assert not {"json", "plot"} & set(json.loads(capsys.readouterr().out)["arguments"])


def test_the_ladder_and_a_fit_are_drawn(tmp_path, capsys):
    ladder, sweep, fit = (tmp_path / name for name in ("ladder.png", "sweep.csv", "fit.svg"))
    command = ["--rates", "2", "--trials", "2", "--seconds", "10", "--jobs", "1"]
    assert slo([*command, "--plot", str(ladder)]) == 0
    assert ladder.read_bytes().startswith(PNG)
    sweep.write_text("100,900\n200,1300\n400,2500\n")
    assert slo(["fit", str(sweep), "--plot", str(fit)]) == 0
    assert ">a line</text>" in fit.read_text()
    assert "R^2" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_refused_before_the_run(capsys):
    for main, file, words in (
        (fleet, "run.pdf", "'run.pdf' does not end in .png or .svg"),
        (slo, "nowhere/run.png", "there is no folder 'nowhere'"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["--plot", file])
        said = capsys.readouterr()
        assert (ended.value.code, said.out) == (2, "")
        assert said.err.endswith(f"error: argument --plot: {words}\n")
