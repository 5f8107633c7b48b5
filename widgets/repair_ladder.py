"""The repair ladder: how many requests get their first token in time after each fix."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Unpack

import traitlets
from msgspec import Meta, Struct

from widgets.picture import Face, Picture
from widgets.records import (
    Amount,
    Number,
    OneOrMore,
    Share,
    Words,
    read,
)

_Attainment = tuple[Annotated[float, Meta(ge=0, le=100)], Number | None, Number | None]


class _Load(Struct):
    """Attainments are [mean, low, high] in percent; the ends are cut to 0 and 100."""

    urgent: _Attainment
    generous: _Attainment
    wasted_share: Share
    preemptions: Amount

    def __post_init__(self) -> None:
        self.urgent, self.generous = _cut(*self.urgent), _cut(*self.generous)


def _cut(mean: float, low: float | None, high: float | None) -> _Attainment:
    if low is None or high is None:
        return mean, None, None
    return mean, max(0, low), min(100, high)


class _Row(Struct):
    variant: Words
    words: str
    loads: Annotated[dict[str, _Load], Meta(min_length=1)]


class RepairLadder(Picture):
    """SLO attainment of two tiers, variant by variant, one fix at a time, at a load to choose.

    `wasted_share` is the share of the computing time that went into passes thrown away;
    `preemptions` counts them per run. Loads are named by requests per second, in all rows the same.
    `load` is the one to begin with, None the first.
    Raises: ValueError for no row, or a load that is not there.
    """

    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    load = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        title: str = "",
        *,
        load: str | None = None,
        **face: Unpack[Face],
    ) -> None:
        found = read(rows, OneOrMore[_Row], "the rows")
        loads = [*found[0]["loads"]]
        first = loads[0] if load is None else load
        if any({*row["loads"], first} != {*loads} for row in found):
            raise ValueError(f"every row, and the load {first!r}, must be of {', '.join(loads)}")
        super().__init__(
            rows=found,
            title=title,
            load=first,
            **face,
        )
