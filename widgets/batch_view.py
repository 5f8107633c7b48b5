"""The padded batch of one step, cell by cell, and the packed strip that it collapses into."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.mask_stepper import checked_matrix
from widgets.picture import Face, Picture

_ROW = checking.shape(
    id=checking.whole, kind=checking.one_of("decode", "prefill"), label=checking.words
)


class BatchView(Picture, styles=("mask_stepper",)):
    """The cells of a left-padded batch: whose they are, and how few are useful.

    `rows[i]` is {"id", "kind": "decode" | "prefill", "label"}; the last `num_scheduled_tokens[i]`
    cells of row i are its new tokens, the others padding. `tokens`, `positions` and `texts`
    (strings to show instead of token ids) hold a list per row. They are drawn as given, rows of
    unequal length too. `packed` is {"cu_seqlens_q", "cu_seqlens_k", "mask": N rows of K truth
    values} with optional "key_labels", K strings: the same tokens in one flat row, and which query
    sees which key. `reference` is {"tokens",
    "positions"} with optional "texts" and "packed"; what differs from it is marked. Plain data:
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
        found = checking.list_of(_ROW, at_least=1)(rows, "rows")
        batch = {"tokens": tokens, "positions": positions, "texts": texts, "packed": packed}
        counts = _one_per_row(num_scheduled_tokens, "num_scheduled_tokens", len(found))
        super().__init__(
            rows=found,
            num_scheduled_tokens=[
                checking.whole(count, "an entry of num_scheduled_tokens", least=1)
                for count in counts
            ],
            batch=_checked_batch(batch, "", len(found)),
            reference=None
            if reference is None
            else _checked_batch(reference, " of the reference", len(found)),
            title=title,
            **face,
        )


def _checked_batch(value: object, whose: str, num_rows: int) -> dict[str, Any]:
    """What a batch and its reference have in common; `whose` ends the names in a sentence."""
    found = checking.record(value, f"the batch{whose}", ("tokens", "positions"))
    batch: dict[str, Any] = {
        name: [
            _wholes(row, f"a row of {name}{whose}", at_least=1)
            for row in _one_per_row(found[name], f"{name}{whose}", num_rows)
        ]
        for name in ("tokens", "positions")
    }
    texts, packed = found.get("texts"), found.get("packed")
    if texts is not None:
        texts = _checked_texts(texts, f"texts{whose}", num_rows)
    if packed is not None:
        packed = _checked_packed(packed, f"packed{whose}")
    return {**batch, "texts": texts, "packed": packed}


def _checked_texts(value: object, what: str, num_rows: int) -> list[list[str]]:
    check = checking.list_of(checking.text)
    return [check(row, f"a row of {what}") for row in _one_per_row(value, what, num_rows)]


def _checked_packed(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, ("cu_seqlens_q", "cu_seqlens_k", "mask"))
    mask = checked_matrix(found["mask"], f"the mask of {what}")
    key_labels = found.get("key_labels")
    if key_labels is not None:
        key_labels = [str(each) for each in checking.items(key_labels, f"key_labels of {what}")]
        if len(key_labels) != len(mask[0]):
            raise ValueError(f"{what} has {len(key_labels)} key labels for {len(mask[0])} keys")
    cumulative = {
        name: _wholes(found[name], f"{name} of {what}") for name in ("cu_seqlens_q", "cu_seqlens_k")
    }
    return {**cumulative, "mask": mask, "key_labels": key_labels}


def _one_per_row(value: object, what: str, num_rows: int) -> list[Any]:
    found = checking.items(value, what)
    if len(found) != num_rows:
        raise ValueError(f"{what} has {len(found)} entries for {num_rows} rows; it needs one each")
    return found


def _wholes(value: object, what: str, at_least: int = 0) -> list[int]:
    """Whole numbers of any sign: a wrong position is drawn, not refused."""
    return checking.list_of(_integer, at_least)(value, what)


def _integer(value: object, what: str) -> int:
    if not checking.is_whole(value):
        raise ValueError(f"{what} is {value!r}; it must be a whole number")
    return value
