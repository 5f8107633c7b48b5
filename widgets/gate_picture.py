"""The gate's four cases of slack signs, and the scores of all requests on one axis."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Amount, Natural, Number, OneOrMore, Words, all_differ, read


class _Scored(Struct):
    id: Natural
    slack_us: Number
    edf_score: Number


class _Running(_Scored, kw_only=True):
    immune: bool


class _Decision(Struct):
    candidate: _Scored
    running: list[_Running]
    incumbent: Natural | None
    victim: Natural | None
    margin: Amount
    words: Words
    bar: float | None = None
    """The score that the margin asks for, None without an incumbent."""

    def __post_init__(self) -> None:
        running = {each.id: each for each in self.running}
        all_differ([self.candidate.id, *(each.id for each in self.running)], "requests' ids")
        for name, found in (("incumbent", self.incumbent), ("victim", self.victim)):
            if found is not None and found not in running:
                raise ValueError(f"the {name} is {found}, which does not run")
        incumbent = None if self.incumbent is None else running[self.incumbent]
        if incumbent is not None and incumbent.immune:
            raise ValueError(f"the incumbent is {incumbent.id}, which is immune")
        self.bar = None if incumbent is None else incumbent.edf_score * self.margin


class GatePicture(Picture):
    """Decisions of a gate, one after the other: which of the four cases, which one goes.

    Raises: ValueError for no decision, two requests of one id, or a victim that does not run.
    """

    decisions = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, decisions: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        found = read(decisions, OneOrMore[_Decision], "the decisions")
        super().__init__(decisions=found, title=title, **face)
