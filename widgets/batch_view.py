"""The padded batch of one step, cell by cell, and the packed strip that it collapses into."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import traitlets
from msgspec import Struct

from widgets.mask_stepper import Matrix, check_matrix
from widgets.picture import Face, Picture
from widgets.records import Natural, OneOrMore, Positive, Words, read


class _Row(Struct):
    id: Natural
    kind: Literal["decode", "prefill"]
    label: Words


class _Packed(Struct):
    cu_seqlens_q: list[int]
    cu_seqlens_k: list[int]
    mask: Matrix
    key_labels: list[str] | None = None

    def __post_init__(self) -> None:
        num_keys = check_matrix(self.mask)
        if self.key_labels is not None and len(self.key_labels) != num_keys:
            raise ValueError(f"there are {len(self.key_labels)} key labels for {num_keys} keys")


class _Batch(Struct):
    """Whole numbers of any sign: a wrong position is drawn, not refused."""

    tokens: list[OneOrMore[int]]
    positions: list[OneOrMore[int]]
    texts: list[list[str]] | None = None
    packed: _Packed | None = None


class BatchView(Picture, styles=("mask_stepper",)):
    """The cells of a left-padded batch: whose they are, and how few are useful.

    The last `num_scheduled_tokens[i]` cells of row i are its new tokens, the others padding.
    `tokens`, `positions` and `texts` (strings to show instead of token ids) hold a list per row.
    They are drawn as given, rows of unequal length too. `packed` are the same tokens in one flat
    row, and which query sees which key. Differences from the `reference` are marked. Plain data:
    tensors go in as `.tolist()`.
    Raises: ValueError for no row, lists that are not one per row, or anything but whole numbers.
    """

    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    num_scheduled_tokens = traitlets.List(traitlets.Int()).tag(sync=True)
    batch = traitlets.Dict().tag(sync=True)
    reference = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        tokens: Sequence[Sequence[int]],
        positions: Sequence[Sequence[int]],
        num_scheduled_tokens: Sequence[int],
        *,
        texts: Sequence[Sequence[str]] | None = None,
        packed: Mapping[str, Any] | None = None,
        reference: Mapping[str, Any] | None = None,
        title: str = "",
        **face: Unpack[Face],
    ) -> None:
        found = read(rows, OneOrMore[_Row], "rows")
        counts = read(num_scheduled_tokens, list[Positive], "num_scheduled_tokens")
        _check_rows(counts, "num_scheduled_tokens", len(found))
        batch = {"tokens": tokens, "positions": positions, "texts": texts, "packed": packed}
        other = reference and _checked_batch(reference, " of the reference", len(found))
        super().__init__(
            rows=found,
            num_scheduled_tokens=counts,
            batch=_checked_batch(batch, "", len(found)),
            reference=other,
            title=title,
            **face,
        )


def _checked_batch(value: object, whose: str, num_rows: int) -> dict[str, Any]:
    """A batch or its reference; `whose` ends its name in a sentence."""
    found = read(value, _Batch, f"the batch{whose}")
    for name in ("tokens", "positions", "texts"):
        _check_rows(found[name], f"{name}{whose}", num_rows)
    return found


def _check_rows(found: list[Any] | None, what: str, num_rows: int) -> None:
    if found is not None and len(found) != num_rows:
        raise ValueError(f"{what} has {len(found)} entries for {num_rows} rows; it needs one each")
