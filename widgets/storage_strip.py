"""Real storage as a strip of cells, and who holds on to which part of it, step by step."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

_STORAGE = {"label": checking.words, "nbytes": checking.positive}
_VIEW = {**_STORAGE, "storage": checking.whole, "offset_bytes": checking.whole}
_BYTES = checking.shape(
    words=checking.words,
    storages=checking.list_of(checking.shape(**_STORAGE)),
    views=checking.list_of(checking.shape(**_VIEW)),
    live_bytes=checking.whole,
    counted_bytes=checking.whole,
)
_SLOT = checking.shape(
    position=checking.maybe(checking.whole), new=checking.Optional(checking.flag, False)
)
_SLOTS = checking.shape(
    words=checking.words,
    slots=checking.list_of(_SLOT),
    sinks=checking.whole,
    window=checking.positive,
)


class StorageStrip(Picture):
    """Bytes of buffers with a bracket for every tensor into them, or the slots of ring storage.

    A step of bytes is {"words", "storages": [{"label", "nbytes"}], "views": [{"label", "storage":
    index into storages, "offset_bytes", "nbytes"}], "live_bytes", "counted_bytes"}; what is held
    stands beside what is counted. A storage that a later step leaves out is drawn as freed.
    A step of slots is {"words", "slots": [{"position": int or None, "new": bool}], "sinks": int,
    "window": int}: the positions whose K/V lies in each slot. All steps are of one kind.
    Raises: ValueError for no step, a view outside its storage, or other than window + sinks slots.
    """

    steps = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, steps: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        first = checking.items(steps, "steps", at_least=1)[0]
        is_ring = isinstance(first, Mapping) and "slots" in first
        check = _checked_slots if is_ring else _checked_bytes
        super().__init__(steps=checking.list_of(check)(steps, "steps"), title=title, **face)


def _checked_bytes(value: object, what: str) -> dict[str, Any]:
    found = _BYTES(value, what)
    storages = found["storages"]
    checking.differ([each["label"] for each in storages], f"storages of {what} are called")
    for view in found["views"]:
        name = f"view {view['label']!r} of {what}"
        if view["storage"] >= len(storages):
            raise ValueError(
                f"{name} lies in storage {view['storage']}, but there are {len(storages)}"
            )
        end, size = view["offset_bytes"] + view["nbytes"], storages[view["storage"]]["nbytes"]
        if end > size:
            raise ValueError(f"{name} ends at byte {end}, but its storage has {size}")
    return found


def _checked_slots(value: object, what: str) -> dict[str, Any]:
    found = _SLOTS(value, what)
    sinks, window, num_slots = found["sinks"], found["window"], len(found["slots"])
    if num_slots != sinks + window:
        raise ValueError(
            f"{what} has {num_slots} slots; a window of {window} and {sinks} sinks have "
            f"{sinks + window}"
        )
    return found
