"""A fused batch's mask, built in steps: one matrix for each row of the batch, past before new."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets
from msgspec import Struct

from widgets.comparing import compared_names
from widgets.mask_stepper import Matrix, check_matrix
from widgets.picture import Face, Picture
from widgets.records import Natural, OneOrMore, Words, read


class _Mask(Struct):
    label: Words
    mask: Matrix
    key_labels: list[int | str] | None = None
    context_len: Natural | None = None
    num_scheduled_tokens: Natural | None = None

    def __post_init__(self) -> None:
        columns = check_matrix(self.mask)
        if self.key_labels is not None:
            self.key_labels = [str(each) for each in self.key_labels]
            if len(self.key_labels) != columns:
                raise ValueError(f"there are {len(self.key_labels)} labels for {columns} keys")
        if (self.context_len is None) != (self.num_scheduled_tokens is None):
            both = "context_len and num_scheduled_tokens"
            raise ValueError(f"there is only one of {both}; a mask needs both or neither")


class _Step(Struct):
    name: Words
    words: str
    context_columns: Natural
    masks: OneOrMore[_Mask]
    compare: list[Matrix] | None = None

    def __post_init__(self) -> None:
        for mask in self.masks:
            new = len(mask.mask[0]) - self.context_columns
            if new < 0:
                raise ValueError(
                    f"mask {mask.label!r} has {self.context_columns} past keys but only "
                    f"{len(mask.mask[0])} columns"
                )
            for name, found, most in (
                ("context_len", mask.context_len, self.context_columns),
                ("num_scheduled_tokens", mask.num_scheduled_tokens, new),
            ):
                if found is not None and found > most:
                    raise ValueError(f"{name} is {found}; there are only {most} such columns")
        if self.compare is not None and len(self.compare) != len(self.masks):
            num_matrices, num_masks = len(self.compare), len(self.masks)
            raise ValueError(f"{num_matrices} matrices are compared with {num_masks} masks")
        for matrix in self.compare or ():
            check_matrix(matrix)


class MaskBuild(Picture, styles=("mask_stepper",)):
    """The steps in which a mask comes to be; in each, the visible keys of any query.

    The first `context_columns` columns are past keys. A mask with `context_len` and
    `num_scheduled_tokens` (both or neither) is of a left-padded row: only its last `context_len`
    past columns and the last `num_scheduled_tokens` new ones are real. The matrices of `compare`
    are drawn beside the masks, differing cells marked. `yours` and `names` are the timeline's:
    nothing is drawn beside the reference itself. Plain data: tensors go in as `.tolist()`.
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
        found = read(steps, OneOrMore[_Step], "the steps")
        compares = any(step["compare"] is not None for step in found)
        called = compared_names(names, yours) if compares else []
        if len(called) < 2:
            found = [{**step, "compare": None} for step in found]
        super().__init__(steps=found, names=called, title=title, **face)
