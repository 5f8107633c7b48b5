"""Real storage as a strip of cells, and who holds on to which part of it, step by step."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Natural, OneOrMore, Positive, Words, read


class _Storage(Struct):
    label: Words
    nbytes: Positive


class _View(_Storage):
    storage: Natural
    offset_bytes: Natural


class _Bytes(Struct):
    words: Words
    storages: list[_Storage]
    views: list[_View]
    live_bytes: Natural
    counted_bytes: Natural

    def __post_init__(self) -> None:
        for view in self.views:
            if view.storage >= len(self.storages):
                raise ValueError(
                    f"view {view.label!r} lies in storage {view.storage}, but there are "
                    f"{len(self.storages)}"
                )
            end, size = view.offset_bytes + view.nbytes, self.storages[view.storage].nbytes
            if end > size:
                raise ValueError(
                    f"view {view.label!r} ends at byte {end}, but its storage has {size}"
                )


class _Slot(Struct):
    position: Natural | None
    new: bool = False


class _Slots(Struct):
    words: Words
    slots: list[_Slot]
    sinks: Natural
    window: Positive


class StorageStrip(Picture):
    """Bytes of buffers with a bracket for every tensor into them, or the slots of ring storage.

    All steps are of one kind. The bytes held stand beside those counted; a storage that a later
    step leaves out is drawn as freed. Slots show the positions whose K/V lies in them.
    Raises: ValueError for no step, or a view outside its storage.
    """

    steps = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, steps: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        is_ring = any("slots" in step for step in read(steps, list[dict[str, Any]], "the steps"))
        kind = OneOrMore[_Slots] if is_ring else OneOrMore[_Bytes]
        super().__init__(steps=read(steps, kind, "the steps"), title=title, **face)
