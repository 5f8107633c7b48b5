"""Attention masks, stepped one query row at a time, side by side."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Unpack

import traitlets
from msgspec import Meta, Struct

from widgets.picture import Face, Picture
from widgets.records import Natural, OneOrMore, Words, read

Matrix = OneOrMore[OneOrMore[bool | Annotated[int, Meta(ge=0, le=1)]]]
"""Rows of truth values."""


def check_matrix(rows: list[list[Any]]) -> int:
    """The number of keys in each row. Raises: ValueError for rows of unequal length."""
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        raise ValueError(f"there are rows of {widths} keys; all rows must be equally long")
    return widths[0]


class _Mask(Struct):
    name: Words
    context_columns: Natural
    mask: Matrix
    note: str = ""
    labels: list[int | str] | None = None

    def __post_init__(self) -> None:
        width = check_matrix(self.mask)
        if self.context_columns > width:
            raise ValueError(
                f"mask {self.name!r} has {self.context_columns} past keys but only {width} columns"
            )
        if self.labels is not None and len(self.labels) != width:
            raise ValueError(f"mask {self.name!r} has {len(self.labels)} labels for {width} keys")
        self.labels = self.labels and [str(label) for label in self.labels]


class MaskStepper(Picture):
    """Which keys a query may see: rows are queries, columns are keys, past keys before the divider.

    The first of two masks is compared with the second, cell by cell.
    Raises: ValueError for no mask, ragged rows, more past than keys, or labels that do not fit.
    """

    masks = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, masks: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        super().__init__(masks=read(masks, OneOrMore[_Mask], "the masks"), title=title, **face)
