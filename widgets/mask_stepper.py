"""Attention masks, stepped one query row at a time, side by side."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.picture import Face, Picture


class MaskStepper(Picture):
    """Which keys a query may see: rows are queries, columns are keys, past keys before the divider.

    Each mask is {"name": str, "num_past": int, "mask": T rows of S truth values}, with an optional
    "note" and optional "labels", one for each of the S keys. The first of two masks is compared
    with the second, cell by cell.
    Raises: ValueError for no mask, ragged rows, more past than keys, or labels that do not fit.
    """

    _esm = assets.esm("mask_stepper")
    _css = assets.css("mask_stepper")
    masks = traitlets.List(traitlets.Dict()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, masks: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        super().__init__(
            masks=[_checked_mask(each) for each in checking.items(masks, "masks", at_least=1)],
            title=checking.text(title, "the title"),
            **face,
        )


def _checked_mask(value: object) -> dict[str, Any]:
    found = checking.record(value, "a mask", ("name", "num_past", "mask"))
    name = checking.text(found["name"], "the name of a mask", empty=False)
    rows = checked_matrix(found["mask"], f"mask {name!r}")
    width = len(rows[0])
    num_past = checking.whole(found["num_past"], f"num_past of mask {name!r}")
    if num_past > width:
        raise ValueError(f"mask {name!r} has {num_past} past keys but only {width} columns")
    labels = found.get("labels")
    if labels is not None:
        labels = [str(label) for label in checking.items(labels, f"the labels of mask {name!r}")]
        if len(labels) != width:
            raise ValueError(f"mask {name!r} has {len(labels)} labels for {width} keys")
    note = checking.text(found.get("note", ""), f"the note of mask {name!r}")
    return {"name": name, "num_past": num_past, "mask": rows, "note": note, "labels": labels}


def checked_matrix(value: object, what: str) -> list[list[bool]]:
    """`value` as rows of equally many truth values, at least one of each. Raises: ValueError."""
    rows = [
        _checked_row(row, f"a row of {what}") for row in checking.items(value, what, at_least=1)
    ]
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        raise ValueError(f"{what} has rows of {widths} keys; all rows must be equally long")
    return rows


def _checked_row(row: object, what: str) -> list[bool]:
    cells = checking.items(row, what, at_least=1)
    for cell in cells:
        if cell not in (False, True):
            raise ValueError(f"{what} holds {cell!r}; every cell must be True or False")
    return [bool(cell) for cell in cells]
