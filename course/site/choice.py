"""A control on a page: a radio button for each value, and the drawings of all values.

The page's style shows the drawing whose button is checked, so it needs no script.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from course.controls import Beside, Drawn
from course.prediction import Withheld


@dataclass(frozen=True, slots=True)
class Choice:
    """Buttons named `label`, of which number `start` is checked; `name` is unique on the page."""

    name: str
    label: str
    values: Sequence[str]
    start: int
    drawings: Sequence[Drawn]

    def _repr_html_(self) -> str:
        every = range(len(self.values))
        drawn = "".join(
            f'<div class="drawn" data-at="{at}">{_html(self.drawings[at])}</div>' for at in every
        )
        return (
            f'{"".join(_style(at) for at in every)}<div class="choice"><fieldset>'
            f"<legend>{escape(self.label)}</legend>{''.join(self._button(at) for at in every)}"
            f"</fieldset>{drawn}</div>"
        )

    def _button(self, at: int) -> str:
        checked = " checked" if at == self.start else ""
        return (
            f'<label><input type="radio" name="{self.name}" data-at="{at}"{checked}>'
            f"{escape(self.values[at])}</label>"
        )


def choice(name: str, shown: Beside) -> Choice | Withheld:
    """The control and all its drawings, withheld together where a drawing is."""
    label, values = shown.control.declared
    drawings = [shown.draw(value) for value in values]
    start = values.index(shown.control.value)
    whole = Choice(name, label, [str(value) for value in values], start, drawings)
    keys = [each.key for each in drawings if isinstance(each, Withheld)]
    return Withheld(keys[0], whole) if keys else whole


def _style(at: int) -> str:
    """A style of its own for each number, so that the site's one file has each once."""
    place = f'[data-at="{at}"]'
    return f"<style>.choice:not(:has({place}:checked))>.drawn{place}{{display:none}}</style>"


def _html(drawn: Drawn) -> str:
    return drawn._repr_html_()  # pyright: ignore[reportPrivateUsage]
