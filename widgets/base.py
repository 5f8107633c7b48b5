"""What every widget shares: it can wait, hidden, for a prediction. Knows no widget."""

import anywidget
import traitlets


class Widget(anywidget.AnyWidget):
    """A widget of the course.

    `after` is the key of a `Prediction` of the same page, or "": until that one is committed or
    shown, the widget says so and draws nothing.
    """

    after = traitlets.Unicode().tag(sync=True)
