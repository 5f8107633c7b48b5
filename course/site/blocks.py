"""What a lesson shows, from top to bottom, as plain data. Knows neither marimo nor HTML pages."""

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Prose:
    """HTML of words, tables and cards; `withheld` is what a prediction is to be made before."""

    html: str
    withheld: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """A cell that shows its code; `label` says what it is where it is not only to be read."""

    source: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A widget: `kind` is its module's name, `state` what a notebook would send to the page.

    `id` names it in the whole site: "l01-3-timeline" is the third of lesson 1.
    """

    id: str
    kind: str
    state: dict[str, Any]

    @property
    def title(self) -> str:
        """What it is called in a list."""
        said = self.state.get("title") or self.state.get("question")
        return str(said or self.kind.replace("_", " ").capitalize())

    @property
    def after(self) -> str:
        """The prediction that it waits for, or ""."""
        return str(self.state.get("after", ""))

    @property
    def is_stepper(self) -> bool:
        """Whether it is a picture, with a page of its own."""
        return self.kind not in ("prediction", "hints")


@dataclass(frozen=True, slots=True)
class Exercise:
    """Where the notebook would check an answer; `worked` is the worked one, "" where left out."""

    id: str
    worked: str = ""

    @property
    def name(self) -> str:
        """The function's: "plan_step"."""
        return self.id.rpartition(".")[2]


Block: TypeAlias = Prose | Code | Drawing | Exercise
