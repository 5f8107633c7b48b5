"""Figures: what is drawn is what was measured, can be told apart, and follows the page."""

import re
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, run

from course.figure import Figure, stopped
from nanogpt import figures
from nanogpt.figures import DARK, LIGHT, MARKERS, Chart, Line, Mark, Panel, cumulative
from nanogpt.figures.chart import number
from nanogpt.figures.figure_style import DASHES

X, Y = ("window W", "tokens"), ("loss", "nats")
FULL = Line("no sinks", ((8, 3.0), (16, 2.5), (32, 2.25)))
SINKS = Line("4 sinks", ((8, 2.5), (16, 2.0), (32, 2.0)))
PANEL = Panel(X, Y, (FULL, SINKS), (Mark("y", 1.5, "everything"),))
CHART = Chart("Loss against window", (PANEL,), "modelled: a large GPU")
VALUES = st.floats(-1e9, 1e9, allow_nan=False)


def chart_of(*lines: Line, **more: object) -> Chart:
    return Chart("A chart", (Panel(X, Y, lines, **more),))


# ---- what is drawn -------------------------------------------------------------------------------


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=50))
def test_any_points_are_drawn_as_they_are(points):
    line = Line("measured", tuple(points))
    [drawn] = figures.draw(chart_of(line)).axes[0].lines
    assert [tuple(point) for point in drawn.get_xydata()] == points
    assert chart_of(line).said().startswith("A chart. Loss against window W. measured: ")


@pytest.mark.parametrize("shape", ["line", "curve", "points", "steps"])
def test_a_single_point_of_any_shape_is_drawn(shape):
    [drawn] = figures.draw(chart_of(Line("one", ((3, 4),), shape))).axes[0].lines
    assert drawn.get_xydata().tolist() == [[3, 4]]
    assert (drawn.get_marker() == "o") is (shape != "curve")


def test_steps_hold_their_value_and_points_are_not_joined():
    shapes = [Line(shape, FULL.points, shape) for shape in ("line", "steps", "points")]
    line, steps, points = figures.draw(chart_of(*shapes)).axes[0].lines
    assert (line.get_drawstyle(), steps.get_drawstyle()) == ("default", "steps-post")
    assert points.get_linestyle() == "None"


def test_a_distribution_says_how_many_do_not_exceed_each_value():
    line = cumulative("waits", [5, 1, 2, 2])
    assert line.points == ((1, 25), (2, 50), (2, 75), (5, 100))
    [drawn] = figures.draw(chart_of(line)).axes[0].lines
    assert drawn.get_xydata().tolist() == [[1, 0], [1, 25], [2, 50], [2, 75], [5, 100]]
    panel = Panel(("TTFT", "ms"), ("requests with at most that", "%"), (line,))
    assert panel.table()[1:] == [["50 %", "2"], ["90 %", "5"], ["99 %", "5"], ["100 %", "5"]]
    assert "half are at most 2 ms, 99 % at most 5 ms, the longest 5 ms." in panel.said()


def test_intervals_marks_and_names_of_points_are_drawn():
    line = replace(FULL, halves=(0.5, 0.25, 0.125), labels=("a", "b", "c"))
    axes = figures.draw(chart_of(line, marks=(Mark("x", 20, "yours"),))).axes[0]
    [bars] = axes.containers[0].lines[2]
    assert bars.get_segments()[0].tolist() == [[8, 2.5], [8, 3.5]]
    assert {"a", "b", "c", "yours"} <= {text.get_text() for text in axes.texts}
    assert [20, 20] in [list(each.get_xdata()) for each in axes.lines]


def test_the_name_of_a_mark_stands_above_a_distribution():
    line = cumulative("waits", [5, 20, 60])
    panel = Panel(("TTFT", "ms"), ("requests with at most that", "%"), (line,))
    plain, marked = (
        figures.draw(Chart("Waits", (each,))).axes[0]
        for each in (panel, replace(panel, marks=(Mark("x", 20, "wanted"),)))
    )
    assert plain.get_ylim() == (0, 104)
    [name] = marked.texts
    below = marked.transData.inverted().transform(name.get_window_extent())[0][1]
    assert below > 100


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Line("x", ()), "the curve 'x' has no points; it needs at least one"),
        (lambda: cumulative("x", []), "the curve 'x' has no points; it needs at least one"),
        (
            lambda: Line("x", ((1, float("nan")),)),
            "the curve 'x' has the value nan; each must be a finite number",
        ),
        (
            lambda: Line("x", ((float("inf"), 1),)),
            "the curve 'x' has the value inf; each must be a finite number",
        ),
        (
            lambda: Line("x", ((1, True),)),
            "the curve 'x' has the value True; each must be a finite number",
        ),
        (
            lambda: Line("x", ((1, 2),), halves=(1, 2)),
            "the curve 'x' has 2 intervals for 1 points",
        ),
        (lambda: Line("x", ((1, 2),), labels=("", "")), "the curve 'x' has 2 labels for 1 points"),
        (lambda: Panel(X, Y, ()), "a panel has 0 curves; it can show 1 to 8"),
        (
            lambda: Panel(X, Y, tuple(replace(FULL, name=str(i)) for i in range(9))),
            "a panel has 9 curves; it can show 1 to 8",
        ),
        (
            lambda: Panel(X, Y, (FULL, FULL)),
            "two curves have the same name: no sinks, no sinks",
        ),
        (
            lambda: Panel(X, Y, (Line("x", ((0, 1),)),), log_x=True),
            "an x is 0; on a logarithmic axis it must be above 0",
        ),
        (lambda: Chart("T", ()), "the figure 'T' has no panels; it needs at least one"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        make()


def test_what_a_learner_has_set_in_matplotlib_neither_shows_nor_is_lost():
    import matplotlib

    with matplotlib.rc_context({"lines.linewidth": 9, "svg.fonttype": "path"}):
        drawn = figures.panel_svg(CHART, 0)
        assert matplotlib.rcParams["lines.linewidth"] == 9
    assert drawn == figures.panel_svg(CHART, 0)


# ---- the style -----------------------------------------------------------------------------------


def linear(colour: str) -> list[float]:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """WCAG 2.2's ratio of two colours, 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_contrast_of_black_and_white_is_21():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_stand_out_4_5_to_1_and_curves_3_to_1(theme):
    assert all(contrast(words, theme.card) >= 4.5 for words in (theme.ink, theme.soft))
    assert all(contrast(hue, theme.card) >= 3 for hue in theme.hues)


def test_no_two_curves_are_alike_but_for_their_hue():
    assert len({*MARKERS}) == len({*DASHES}) == len({*LIGHT.hues}) == len({*DARK.hues}) == 8
    assert {len(LIGHT.hues), len(DARK.hues)} == {figures.chart.MOST_LINES}


SEEN_BY = {  # Machado et al. 2009, complete: linear red, green and blue from linear ones
    "protanopia": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "deuteranopia": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
}


def lab(rgb: list[float]) -> list[float]:
    """CIE L*a*b* of linear red, green and blue."""
    to_xyz = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1.0, 1.089)
    x, y, z = (
        sum(a * b for a, b in zip(row, rgb, strict=True)) / w
        for row, w in zip(to_xyz, white, strict=True)
    )
    x, y, z = (
        each ** (1 / 3) if each > 0.008856 else 7.787 * each + 16 / 116 for each in (x, y, z)
    )
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("sight", SEEN_BY)
def test_the_first_hues_differ_for_colour_blind_eyes(sight, theme):
    """Of the four that most figures use: a difference of 10 is seen at a glance."""
    seen = [
        lab([sum(a * b for a, b in zip(row, linear(hue), strict=True)) for row in SEEN_BY[sight]])
        for hue in theme.hues[:4]
    ]
    for one, other in combinations(seen, 2):
        assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5 > 10


# ---- as a page and as a file ---------------------------------------------------------------------


def test_a_page_s_svg_takes_the_page_s_colours_and_keeps_its_words():
    svg = figures.panel_svg(CHART, 0)
    assert not re.search(r"#[0-9a-f]{6}\b(?!\d)(?=[;\" ])", re.sub(r"(href=\"|url\()#\w+", "", svg))
    assert {"--fig-hue-0", "--fig-hue-1", "--fig-ink", "--fig-soft", "--fig-grid"} == set(
        re.findall(r"--fig-[\w-]+", svg)
    )
    assert ">window W (tokens)</text>" in svg
    assert ">loss (nats)</text>" in svg
    assert "<style" not in svg  # which would mean the whole page
    assert svg.startswith("<svg viewBox=")


def test_the_names_in_an_svg_are_its_own():
    one, other = (figures.panel_svg(chart, 0) for chart in (CHART, replace(CHART, title="Other")))
    ids = [re.findall(r'\bid="(\w+)"', svg) for svg in (one, other)]
    assert all(len(set(names)) == len(names) > 0 for names in ids)
    assert not set(ids[0]) & set(ids[1])
    for svg, names in zip((one, other), ids, strict=True):
        assert set(re.findall(r'(?:href="|url\()#(\w+)', svg)) == set(names)


@pytest.mark.parametrize("name", ["figure.svg", "figure.PNG"])
def test_a_saved_figure_is_the_same_every_time_and_says_what_it_shows(tmp_path, name):
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        figures.save(CHART, tmp_path / folder / name)
    one, other = ((tmp_path / folder / name).read_bytes() for folder in ("one", "other"))
    assert one == other
    assert b"Loss against window W. no sinks: 3 nats at 8 tokens, 2.25 at 32." in one


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"figure\.pdf' does not end in \.png or \.svg$"):
        figures.save(CHART, tmp_path / "figure.pdf")


def test_a_dollar_and_an_underscore_in_a_name_stay_what_they_are(tmp_path):
    chart = Chart("cost in $ and $", (Panel(X, ("$a_b$", ""), (replace(FULL, name="_x$y$"),)),))
    assert ">$a_b$</text>" in figures.panel_svg(chart, 0)
    figures.save(chart, tmp_path / "figure.svg")
    assert ">_x$y$</text>" in (tmp_path / "figure.svg").read_text()


def test_a_lesson_s_figure_has_words_and_numbers_and_escapes_them():
    chart = Chart("a < b", (replace(PANEL, lines=(replace(FULL, name="<i>"),)),), "modelled")
    shown = Figure(chart, "What of `W`?")._repr_html_()
    assert shown.count('role="img"') == 1
    label = "a &lt; b, modelled. Loss against window W. &lt;i&gt;: 3 nats at 8 tokens, 2.25 at 32."
    assert f'aria-label="{label} everything: 1.5."' in shown
    assert "What of <code>W</code>?" in shown
    assert '<tr><th scope="row">16</th><td>2.5</td></tr>' in shown
    assert "<i>" not in shown


def test_a_figure_without_a_chart_says_why():
    shown = Figure("The run stopped: `plan_step` gave None", "Why?")._repr_html_()
    assert "The run stopped: <code>plan_step</code> gave None" in shown
    assert "<svg" not in shown
    assert stopped([]) is None


def test_only_drawing_loads_matplotlib():
    code = (
        "import sys, nanogpt.figures, course.figure, nanogpt.fleet.__main__\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from tests.test_figures import CHART\n"
        "course.figure.Figure(CHART)._repr_html_()\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PATH": "", "HOME": str(Path.home())}
    done = run([sys.executable, "-c", code], cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.125, "0.125"), (8.4, "8.4"), (75.0, "75"), (1299.4, "1,299"), (-0.5, "-0.5")],
)
def test_a_number_is_shown_with_the_figures_that_matter(value, text):
    assert number(value) == text
