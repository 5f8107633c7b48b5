"""A fused batch's mask, built in steps: one matrix for each row of the batch, past before new."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.comparing import compared_names
from widgets.mask_stepper import checked_matrix
from widgets.picture import Face, Picture

_STEP = checking.shape(
    name=checking.words,
    words=checking.text,
    context_columns=checking.whole,
    masks=partial(checking.items, at_least=1),
    compare=checking.Optional(checking.maybe(checking.list_of(checked_matrix)), None),
)
_MASK = checking.shape(
    label=checking.words,
    mask=checked_matrix,
    key_labels=checking.Optional(checking.maybe(checking.items), None),
    context_len=checking.Optional(checking.maybe(checking.whole), None),
    num_scheduled_tokens=checking.Optional(checking.maybe(checking.whole), None),
)


class MaskBuild(Picture, styles=("mask_stepper",)):
    """The steps in which a mask comes to be; in each, the visible keys of any query.

    Each step is {"name", "words", "context_columns": S, "masks": [...]}: the first S columns are
    past keys. Each mask is {"label", "mask": truth values, rows are queries and columns keys}, with
    an optional "key_labels". With "context_len" and "num_scheduled_tokens" (both or neither) the
    row is left-padded: only the last `context_len` past columns and the last `num_scheduled_tokens`
    new ones are real. An optional "compare" of a step holds one matrix for each of its masks, drawn
    beside it, differing cells marked. `yours` and `names` are the timeline's: nothing is drawn
    beside the reference itself.
    Plain data: tensors go in as `.tolist()`.
    Raises: ValueError for no step, ragged rows, more past than columns, or counts that do not fit.
    """

    steps = traitlets.List(traitlets.Dict()).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(
        self,
        steps: Sequence[Mapping[str, Any]],
        title: str = "",
        *,
        yours: bool = False,
        names: tuple[str, str] | None = None,
        **face: Unpack[Face],
    ) -> None:
        found = checking.list_of(_checked_step, at_least=1)(steps, "steps")
        compares = any(step["compare"] is not None for step in found)
        called = compared_names(names, yours) if compares else []
        if len(called) < 2:
            found = [{**step, "compare": None} for step in found]
        super().__init__(steps=found, names=called, title=title, **face)


def _checked_step(value: object, where: str) -> dict[str, Any]:
    step = _STEP(value, where)
    what = f"step {step['name']!r}"
    step["masks"] = [_checked_mask(mask, what, step["context_columns"]) for mask in step["masks"]]
    if step["compare"] is not None:
        num_matrices, num_masks = len(step["compare"]), len(step["masks"])
        if num_matrices != num_masks:
            raise ValueError(f"{what} compares {num_matrices} matrices with {num_masks} masks")
    return step


def _checked_mask(value: object, step: str, context_columns: int) -> dict[str, Any]:
    found = _MASK(value, f"a mask of {step}")
    what = f"mask {found['label']!r} of {step}"
    columns = len(found["mask"][0])
    if context_columns > columns:
        raise ValueError(f"{what} has {context_columns} past keys but only {columns} columns")
    if found["key_labels"] is not None:
        found["key_labels"] = [str(each) for each in found["key_labels"]]
        if len(found["key_labels"]) != columns:
            raise ValueError(f"{what} has {len(found['key_labels'])} labels for {columns} keys")
    if (found["context_len"] is None) != (found["num_scheduled_tokens"] is None):
        both = "context_len and num_scheduled_tokens"
        raise ValueError(f"{what} has only one of {both}; it needs both or neither")
    new = columns - context_columns
    for name, most in (("context_len", context_columns), ("num_scheduled_tokens", new)):
        if found[name] is not None and found[name] > most:
            raise ValueError(
                f"{name} of {what} is {found[name]}; there are only {most} such columns"
            )
    return found
