"""The padded batch of one step, cell by cell, and the packed strip that it collapses into."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.mask_stepper import checked_matrix
from widgets.picture import Face, Picture

_KINDS = ("decode", "prefill")


class BatchView(Picture):
    """Whose is which cell of a left-padded batch, and how little of it is useful.

    `rows[i]` is {"id", "kind": "decode" | "prefill", "label"}; the last `num_new[i]` cells of row i
    are its new tokens, the others padding. `tokens`, `positions` and `texts` (strings to show
    instead of token ids) hold a list per row. They are drawn as given, rows of unequal length too.
    `packed` is {"cu_q", "cu_k", "mask": N rows of K truth values} with optional "key_labels", K
    strings: the same tokens in one flat row, and what sees what. `reference` is {"tokens",
    "positions"} with optional "texts" and "packed"; what differs from it is marked. Plain data:
    tensors go in as `.tolist()`.
    Raises: ValueError for no row, lists that are not one per row, or anything but whole numbers.
    """

    _esm = assets.esm("batch_view")
    _css = assets.css("mask_stepper", "batch_view")
    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    num_new = traitlets.List(traitlets.Int()).tag(sync=True)
    batch = traitlets.Dict().tag(sync=True)
    reference = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        tokens: Sequence[Sequence[int]],
        positions: Sequence[Sequence[int]],
        num_new: Sequence[int],
        *,
        texts: Sequence[Sequence[str]] | None = None,
        packed: Mapping[str, Any] | None = None,
        reference: Mapping[str, Any] | None = None,
        title: str = "",
        **face: Unpack[Face],
    ) -> None:
        found = [_checked_row(row) for row in checking.items(rows, "rows", at_least=1)]
        batch = {"tokens": tokens, "positions": positions, "texts": texts, "packed": packed}
        counts = _one_per_row(num_new, "num_new", len(found))
        super().__init__(
            rows=found,
            num_new=[checking.whole(count, "an entry of num_new", least=1) for count in counts],
            batch=_checked_batch(batch, "", len(found)),
            reference=None
            if reference is None
            else _checked_batch(reference, " of the reference", len(found)),
            title=checking.text(title, "the title"),
            **face,
        )


def _checked_row(value: object) -> dict[str, Any]:
    found = checking.record(value, "a row", ("id", "kind", "label"))
    label = checking.text(found["label"], "the label of a row", empty=False)
    kind = found["kind"]
    if kind not in _KINDS:
        raise ValueError(
            f"the kind of row {label!r} is {kind!r}; it must be one of decode, prefill"
        )
    number = checking.whole(found["id"], f"the id of row {label!r}")
    return {"id": number, "kind": kind, "label": label}


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
    rows = [checking.items(row, f"a row of {what}") for row in _one_per_row(value, what, num_rows)]
    return [[checking.text(each, f"an entry of {what}") for each in row] for row in rows]


def _checked_packed(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, ("cu_q", "cu_k", "mask"))
    mask = checked_matrix(found["mask"], f"the mask of {what}")
    key_labels = found.get("key_labels")
    if key_labels is not None:
        key_labels = [str(each) for each in checking.items(key_labels, f"key_labels of {what}")]
        if len(key_labels) != len(mask[0]):
            raise ValueError(f"{what} has {len(key_labels)} key labels for {len(mask[0])} keys")
    cumulative = {name: _wholes(found[name], f"{name} of {what}") for name in ("cu_q", "cu_k")}
    return {**cumulative, "mask": mask, "key_labels": key_labels}


def _one_per_row(value: object, what: str, num_rows: int) -> list[Any]:
    found = checking.items(value, what)
    if len(found) != num_rows:
        raise ValueError(f"{what} has {len(found)} entries for {num_rows} rows; it needs one each")
    return found


def _wholes(value: object, what: str, at_least: int = 0) -> list[int]:
    """Whole numbers of any sign: a wrong position is drawn, not refused."""
    found = checking.items(value, what, at_least)
    for each in found:
        if not checking.is_whole(each):
            raise ValueError(f"{what} holds {each!r}; it must hold whole numbers")
    return found
