"""Controls: one declaration, which is marimo's in marimo and ipywidgets' in a Jupyter kernel."""

import re

import ipywidgets
import marimo as mo
import nbformat
import pytest
from nbclient import NotebookClient

from course import controls
from course.controls import beside, chooser, slider

WINDOWS = (8, 16, 32)


class Shown:
    def __init__(self, value: object) -> None:
        self.value = value

    def _repr_html_(self) -> str:
        return f"<b>W = {self.value}</b>"


def test_in_marimo_controls_are_marimos_own():
    window = slider("Window W", WINDOWS, 16)
    assert isinstance(window, mo.ui.slider)
    assert window.value == 16
    assert beside(window, Shown)._repr_html_() == "<b>W = 16</b>"
    machine = chooser("Machine", ["a GPU", "a CPU"], "a CPU")
    assert isinstance(machine, mo.ui.dropdown)
    assert beside(machine, Shown)._repr_html_() == "<b>W = a CPU</b>"
    for control, label in ((window, "Window W"), (machine, "Machine")):
        assert label in control.text
        assert control.declared.label == label
    assert window.declared.values == WINDOWS
    assert machine.declared.values == ("a GPU", "a CPU")


def test_only_declared_controls_are_controls():
    assert controls.is_control(slider("Window W", WINDOWS, 16))
    assert controls.is_control(chooser("Machine", ["a GPU", "a CPU"], "a CPU"))
    assert not controls.is_control(mo.ui.slider(1, 3))
    assert not controls.is_control(mo.md("words"))


def test_in_jupyter_they_are_ipywidgets_and_redraw(monkeypatch):
    monkeypatch.setattr(controls, "in_jupyter", lambda: True)
    window = slider("Window W", WINDOWS, 16)
    assert isinstance(window, ipywidgets.SelectionSlider)
    assert (window.options, window.value, window.description) == (WINDOWS, 16, "Window W")
    drawn = beside(window, Shown)
    assert drawn.value == "<b>W = 16</b>"
    window.value = 32
    assert drawn.value == "<b>W = 32</b>"
    machine = chooser("Machine", ["a GPU", "a CPU"], "a CPU")
    assert isinstance(machine, ipywidgets.Dropdown)
    drawn = beside(machine, Shown)
    machine.value = "a GPU"
    assert drawn.value == "<b>W = a GPU</b>"


@pytest.mark.parametrize("declare", [slider, chooser])
@pytest.mark.parametrize(
    ("values", "start", "sentence"),
    [
        ((), 1, "'W' has the values []; it needs two or more, all new"),
        ((1,), 1, "'W' has the values [1]; it needs two or more, all new"),
        ((1, 1), 1, "'W' has the values [1, 1]; it needs two or more, all new"),
        ((1, 2), 3, "'W' starts at 3, which is none of [1, 2]"),
    ],
)
def test_a_control_without_a_choice_is_refused(declare, values, start, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        declare("W", values, start)


LESSON = """\
from course.controls import beside, slider
from course.figure import Figure
from nanogpt.figures import Chart, Line, Panel

def drawn(window):
    line = Line("held", ((1, window), (2, window)))
    return Figure(Chart("KV", (Panel(("step", ""), ("tokens", ""), (line,)),)))

window = slider("Window W", (8, 16, 32), 16)
figure = beside(window, drawn)
display(window, figure)
print(type(window).__module__, "8 at 1" in figure.value, "16 at 1" in figure.value)
window.value = 8
print("8 at 1, 8 at 2" in figure.value, figure.value.count("<svg viewBox"))
"""


def test_a_real_jupyter_kernel_shows_an_ipywidget_and_draws_with_matplotlib():
    cells = [
        nbformat.v4.new_code_cell(LESSON),
        nbformat.v4.new_code_cell("import sys\nprint('matplotlib' in sys.modules)"),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    views = [each for each in outputs if "application/vnd.jupyter.widget-view+json" in str(each)]
    said = "".join(each.text for each in outputs if each.output_type == "stream")
    assert len(views) == 2
    assert said.split("\n")[:3] == [
        "ipywidgets.widgets.widget_selection False True",
        "True 1",
        "True",
    ]
