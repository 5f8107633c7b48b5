"""A fused batch's mask, built in steps: one matrix for each row of the batch, past before new."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.comparing import compared_names
from widgets.mask_stepper import checked_matrix
from widgets.picture import Face, Picture


class MaskBuild(Picture):
    """The steps in which a mask comes to be; in each, the visible keys of any query.

    Each step is {"name", "words", "num_past": S, "masks": [...]}: the first S columns are past
    keys. Each mask is {"label", "mask": truth values, rows are queries and columns keys}, with an
    optional "key_labels". With "past_len" and "num_new" (both or neither) the row is left-padded:
    only the last `past_len` past columns and the last `num_new` new ones are real. An optional
    "compare" of a step holds one matrix for each of its masks, drawn beside it, differing cells
    marked. `yours` and `names` are the timeline's: nothing is drawn beside the reference itself.
    Plain data: tensors go in as `.tolist()`.
    Raises: ValueError for no step, ragged rows, more past than columns, or counts that do not fit.
    """

    _esm = assets.esm("mask_build")
    _css = assets.css("mask_stepper", "mask_build")
    steps = traitlets.List(traitlets.Dict()).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        steps: Sequence[Mapping[str, Any]],
        title: str = "",
        *,
        yours: bool = False,
        names: tuple[str, str] | None = None,
        **face: Unpack[Face],
    ) -> None:
        found = [_checked_step(each) for each in checking.items(steps, "steps", at_least=1)]
        compares = any(step["compare"] is not None for step in found)
        called = compared_names(names, yours) if compares else []
        if len(called) < 2:
            found = [{**step, "compare": None} for step in found]
        super().__init__(
            steps=found,
            names=called,
            title=checking.text(title, "the title"),
            **face,
        )


def _checked_step(value: object) -> dict[str, Any]:
    found = checking.record(value, "a step", ("name", "words", "num_past", "masks"))
    name = checking.text(found["name"], "the name of a step", empty=False)
    what = f"step {name!r}"
    num_past = checking.whole(found["num_past"], f"num_past of {what}")
    masks = [
        _checked_mask(mask, what, num_past)
        for mask in checking.items(found["masks"], f"the masks of {what}", at_least=1)
    ]
    compare = found.get("compare")
    if compare is not None:
        compare = [
            checked_matrix(matrix, f"a matrix to compare in {what}")
            for matrix in checking.items(compare, f"compare of {what}")
        ]
        if len(compare) != len(masks):
            raise ValueError(f"{what} compares {len(compare)} matrices with {len(masks)} masks")
    words = checking.text(found["words"], f"the words of {what}")
    return {"name": name, "words": words, "num_past": num_past, "masks": masks, "compare": compare}


def _checked_mask(value: object, step: str, num_past: int) -> dict[str, Any]:
    found = checking.record(value, f"a mask of {step}", ("label", "mask"))
    label = checking.text(found["label"], f"the label of a mask of {step}", empty=False)
    what = f"mask {label!r} of {step}"
    mask = checked_matrix(found["mask"], what)
    columns = len(mask[0])
    if num_past > columns:
        raise ValueError(f"{what} has {num_past} past keys but only {columns} columns")
    key_labels = found.get("key_labels")
    if key_labels is not None:
        key_labels = [str(each) for each in checking.items(key_labels, f"key_labels of {what}")]
        if len(key_labels) != columns:
            raise ValueError(f"{what} has {len(key_labels)} labels for {columns} keys")
    past_len, num_new = found.get("past_len"), found.get("num_new")
    if (past_len is None) != (num_new is None):
        raise ValueError(f"{what} has only one of past_len and num_new; it needs both or neither")
    if past_len is not None:
        _at_most(past_len, num_past, f"past_len of {what}")
        _at_most(num_new, columns - num_past, f"num_new of {what}")
    sizes = {"past_len": past_len, "num_new": num_new}
    return {"label": label, "mask": mask, "key_labels": key_labels, **sizes}


def _at_most(value: object, most: int, what: str) -> None:
    if checking.whole(value, what) > most:
        raise ValueError(f"{what} is {value}; there are only {most} such columns")
