"""Attention masks, stepped one query row at a time, side by side."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

_MASK = checking.shape(
    name=checking.words,
    context_columns=checking.whole,
    mask=checking.items,
    note=checking.Optional(checking.text, ""),
    labels=checking.Optional(checking.maybe(checking.items), None),
)


class MaskStepper(Picture):
    """Which keys a query may see: rows are queries, columns are keys, past keys before the divider.

    Each mask is {"name": str, "context_columns": int, "mask": T rows of S truth values}, with an
    optional "note" and optional "labels", one for each of the S keys. The first of two masks is
    compared with the second, cell by cell.
    Raises: ValueError for no mask, ragged rows, more past than keys, or labels that do not fit.
    """

    masks = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, masks: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        super().__init__(
            masks=checking.list_of(_checked_mask, at_least=1)(masks, "masks"), title=title, **face
        )


def _checked_mask(value: object, what: str) -> dict[str, Any]:
    name, context_columns, mask, note, labels = _MASK(value, what).values()
    rows = checked_matrix(mask, f"mask {name!r}")
    width = len(rows[0])
    if context_columns > width:
        raise ValueError(f"mask {name!r} has {context_columns} past keys but only {width} columns")
    if labels is not None and len(labels) != width:
        raise ValueError(f"mask {name!r} has {len(labels)} labels for {width} keys")
    labels = labels and [str(label) for label in labels]
    shown = {"name": name, "context_columns": context_columns, "mask": rows}
    return {**shown, "note": note, "labels": labels}


def checked_matrix(value: object, what: str) -> list[list[bool]]:
    """`value` as rows of equally many truth values, at least one of each. Raises: ValueError."""
    rows = checking.list_of(checking.list_of(_cell, at_least=1), at_least=1)(value, what)
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        raise ValueError(f"{what} has rows of {widths} keys; all rows must be equally long")
    return rows


def _cell(value: object, what: str) -> bool:
    if value not in (False, True):
        raise ValueError(f"{what} is {value!r}; every cell must be True or False")
    return bool(value)
