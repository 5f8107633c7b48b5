"""Controls: one declaration, which is marimo's in marimo and ipywidgets' in a Jupyter kernel."""

import re

import pytest

from course import controls
from course.controls import beside, chooser, slider

WINDOWS = (8, 16, 32)


class Shown:
    def __init__(self, value: object) -> None:
        self.value = value

    def _repr_html_(self) -> str:
        return f"<b>W = {self.value}</b>"


def test_in_marimo_controls_are_marimos_own_and_declared():
    import marimo as mo  # takes a second

    window = slider("Window W", WINDOWS, 16)
    assert isinstance(window, mo.ui.slider)
    assert window.value == 16
    assert beside(window, Shown)._repr_html_() == "<b>W = 16</b>"
    machine = chooser("Machine", ["a GPU", "a CPU"], "a CPU")
    assert isinstance(machine, mo.ui.dropdown)
    assert beside(machine, Shown)._repr_html_() == "<b>W = a CPU</b>"
    assert window.declared == ("Window W", WINDOWS)
    assert machine.declared == ("Machine", ("a GPU", "a CPU"))
    assert controls.is_control(window)
    assert not controls.is_control(mo.ui.slider(1, 3))


def test_in_jupyter_they_are_ipywidgets_and_redraw(monkeypatch):
    import ipywidgets

    monkeypatch.setattr(controls, "in_jupyter", lambda: True)
    window = slider("Window W", WINDOWS, 16)
    assert isinstance(window, ipywidgets.SelectionSlider)
    assert (window.options, window.value, window.description) == (WINDOWS, 16, "Window W")
    drawn = beside(window, Shown)
    assert drawn.value == "<b>W = 16</b>"
    window.value = 32
    assert drawn.value == "<b>W = 32</b>"
    assert isinstance(chooser("Machine", ["a GPU", "a CPU"], "a CPU"), ipywidgets.Dropdown)


def test_a_control_without_a_choice_is_refused():
    for declare in (slider, chooser):
        for values, start, sentence in (
            ((1,), 1, "'W' has the values [1]; it needs two or more, all new"),
            ((1, 1), 1, "'W' has the values [1, 1]; it needs two or more, all new"),
            ((1, 2), 3, "'W' starts at 3, which is none of [1, 2]"),
        ):
            with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
                declare("W", values, start)
